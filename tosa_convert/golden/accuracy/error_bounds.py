"""TOSA's accuracy rules: how far an operator's result may be from the exact one.

The specification gives each floating-point operator a bound on its error in terms of the exact
result, which the reference model computes in FP64 (precise mode), and for some of a second tensor,
the bounds, which it computes from the absolute values of the operands (bounds mode). The bounds were
checked against the official verifier (tests/golden/test_accuracy.py). A rule is about one operator
whose operands were exact: it says nothing about a network in which errors add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.records import dataclass
from tosa_convert.reference.parts import slices

#: Element type -> bits of the fraction, smallest normal, largest finite, whether it has infinity.
FLOATS: Final[dict[str, tuple[int, float, float, bool]]] = {
    "FP32": (23, 2.0**-126, (2 - 2.0**-23) * 2.0**127, True),
    "FP16": (10, 2.0**-14, 65504.0, True),
    "BF16": (7, 2.0**-126, (2 - 2.0**-7) * 2.0**127, True),
    "FP8E4M3": (3, 2.0**-6, 448.0, False),
    "FP8E5M2": (2, 2.0**-14, 57344.0, True),
    "FP6E2M3": (3, 1.0, 7.5, False),
    "FP6E3M2": (2, 0.25, 28.0, False),
    "FP4E2M1": (1, 1.0, 6.0, False),
    # Fixed point: everywhere the distance that floats of six bits have below 1.
    "MXINT8": (6, 1.0, 127 / 64, False),
}
#: The number that the MXINT8 code 1 encodes.
MXINT8_UNIT: Final = 1 / 64
#: Elements that are looked at together.
_PART: Final = 1 << 14
#: Types whose subnormal numbers may become zero.
_FLUSHED: Final = frozenset(("FP32", "FP16", "BF16"))


@dataclass(frozen=True, slots=True)
class Rule:
    """The largest allowed distance of a result from the exact one.

    kind: "exact", "ulp", "dot-product", "abs-error", "reduce-product", "max-relative", "steps",
        "bounds" (the bounds tensor is the bound), "from-block" (it is the scales).
    amount: units in the last place (away from zero; towards zero `lower`, if given), the multiple of
        the dot product's unit, the number of factors, or integer steps.
    base, lower, divisor, magnitude, floor: the terms of "abs-error", as the official descriptors
        name them. base: for "max-relative" the fraction of the largest operand, of which `amount`
        units in the last place of 1 are the least; for "steps" a fraction of the result, in addition.
    largest: for "max-relative" the size of the largest operand.
    in_any_order: for "reduce-product" whether the bounds tensor is what the products on the way to a
        result may add to its error, as `products_on_the_way` returns it.
    """

    kind: str
    amount: float = 0.0
    base: float = 0.0
    lower: float = 0.0
    divisor: float = 1.0
    magnitude: bool = False
    floor: float = 0.0
    largest: float | None = None
    in_any_order: bool = False

    @property
    def needs_bounds(self) -> bool:
        """Return whether the bound needs the bounds tensor."""
        return self.kind in ("dot-product", "abs-error", "bounds", "from-block")

    def __str__(self) -> str:
        plain = self.kind in ("exact", "abs-error", "bounds")
        if self.kind == "steps" and self.base:
            return f"steps {self.amount:g} + {self.base:.2g} of the value"
        return self.kind if plain else f"{self.kind} {self.amount:g}"

    def limits(
        self, reference: Array, bounds: Array | None, dtype: DType
    ) -> tuple[Array, Array, Array]:
        """Return the lowest and the highest result allowed, and the bound on the error, by element.

        reference, bounds: float64, from the precise run. Where the bound is infinite every result is
        allowed; where it is NaN none is. Where the reference is NaN so are the limits.
        """
        _, _, most, _ = FLOATS[dtype.name]
        with np.errstate(all="ignore"):
            error = self._error(reference, bounds, dtype)
            inner = error * self.lower / self.amount if self.kind == "ulp" and self.lower else error
            negative = reference < 0
            low = reference - np.where(negative, error, inner)
            high = reference + np.where(negative, inner, error)
            unbounded = np.isposinf(error) & ~np.isnan(reference)
            high = np.where(high > most, np.inf, high)
            low = np.where(low > most, np.inf, low)
            low = np.where(low < -most, -np.inf, low)
            high = np.where(high < -most, -np.inf, high)
            low, high = np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)
        return low, high, error

    def _error(self, reference: Array, bounds: Array | None, dtype: DType) -> Array:
        """Return the bound on the error for each element."""
        frac, least, _, _ = FLOATS[dtype.name]
        size = np.abs(reference)
        if self.kind == "ulp":
            return np.asarray(_ulp(size, frac, least) * self.amount)
        if self.kind == "reduce-product":
            factor = math.expm1(self.amount * math.log1p(2.0 ** (-frac - 1)))
            error = np.maximum(size, least) * factor
            return np.asarray(error if bounds is None or not self.in_any_order else error + bounds)
        if self.kind == "max-relative":
            largest = self.largest
            if largest is None:
                largest = float(np.nanmax(size, initial=0.0, where=np.isfinite(size)))
            relative = max(self.base, self.amount * 2.0**-frac)
            return np.full(size.shape, relative * largest)
        if not self.needs_bounds:
            return np.zeros(reference.shape)
        assert bounds is not None
        if self.kind == "dot-product":
            unit = np.maximum(bounds * 2.0 ** (-1 - frac), least)
            error = np.where(bounds == 0, 0.0, unit * self.amount)
            unlimited = self.may_overflow(bounds, dtype) | np.isnan(bounds)
            return np.where(unlimited, np.inf, error)
        if self.kind == "abs-error":
            scale = bounds if self.magnitude else reference
            value = np.full_like(bounds, self.base) if self.magnitude else bounds + self.base
            scaled = np.maximum(np.abs(scale), least)
            if self.lower:
                scaled = np.maximum(self.lower / value, scaled)
            error = 2.0 ** (-frac / self.divisor) * scaled * value
            if not self.magnitude:
                # A result of 0 has no error if the operand has no finite bound, as SIGMOID(-inf).
                error = np.where((reference == 0) & ~np.isfinite(bounds), 0.0, error)
            return np.asarray(np.maximum(error, self.floor))
        if self.kind == "from-block":
            error = np.maximum(_ulp(size, frac, least), bounds * (least * 2.0**-frac))
            return np.where(size == 0, 0.0, np.maximum(error, least))
        return bounds

    def may_overflow(self, bounds: Array, dtype: DType) -> Array:
        """Return for each element of a "dot-product" whether a sum of some terms may overflow."""
        frac = FLOATS[dtype.name][0]
        return overflows(bounds * (1 + self.amount * 2.0 ** (-1 - frac)), dtype)

    def accepts(self, actual: Array, reference: Array, bounds: Array | None, dtype: DType) -> Array:
        """Return for each element whether the result is allowed. actual: in the type's numpy type."""
        _, least, _, has_infinity = FLOATS[dtype.name]
        result = numbers(actual, dtype)
        low, high, error = self.limits(reference, bounds, dtype)
        with np.errstate(invalid="ignore"):
            good = (result >= low) & (result <= high)
            if may_flush(dtype):
                # A result that may be subnormal may be flushed to zero.
                nearest = np.minimum(np.abs(low), np.abs(high))
                nearest = np.where((low <= 0) & (high >= 0), 0.0, nearest)
                good |= (result == 0) & (nearest < least) & ~np.isnan(error)
                if self.in_any_order and bounds is not None:
                    # So may a subnormal product on the way.
                    good |= (result == 0) & (bounds > 0)
            unbounded = np.isposinf(error)
            if not has_infinity:
                unbounded |= np.isinf(low) | np.isinf(high)
            good |= np.isnan(result) & unbounded
        return np.asarray(np.where(np.isnan(reference), np.isnan(result), good))


@np.errstate(all="ignore")
def products_on_the_way(factors: Array, axis: int, dtype: DType) -> Array:
    """Return what the products on the way to those along an axis may add to the error of each.

    The order of the factors is free. 0 where every product of some of them is a normal number; infinite
    where one overflows, as then the result may be anything. A product that is subnormal is rounded to a
    multiple of the least number, and the factors that are left multiply this error.
    """
    frac, least, most, _ = FLOATS[dtype.name]
    size = np.abs(factors.astype(np.float64))
    finite = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    count = size.shape[axis]
    growth = 1 + math.expm1(count * math.log1p(2.0 ** (-frac - 1)))
    largest = np.prod(np.maximum(finite, 1.0), axis=axis, keepdims=True) * growth
    smallest = np.prod(np.minimum(finite, 1.0), axis=axis, keepdims=True)
    product = np.prod(size, axis=axis, keepdims=True)
    rounding = least * 2.0 ** (-frac - 1)
    relative = np.expm1(count * np.log1p(np.minimum(rounding / smallest, 1.0)))
    added = np.where(
        product == 0, 0.0, np.minimum((count - 1) * rounding * largest, product * relative)
    )
    is_small = smallest < least
    # An infinite factor times a product that is 0 is NaN.
    unlimited = (largest > most) | (is_small & np.isinf(product))
    return np.where(unlimited, np.inf, np.where(is_small, added, 0.0))


@np.errstate(over="ignore")
def overflows(values: Array, dtype: DType) -> Array:
    """Return whether numbers become infinite in an element type, by way of FP32."""
    has_infinity = FLOATS[dtype.name][3]
    return np.asarray(np.isinf(values.astype(np.float32).astype(dtype.numpy)) & has_infinity)


def may_flush(dtype: DType) -> bool:
    """Return whether a subnormal number of an element type may become zero."""
    return dtype.name in _FLUSHED


@np.errstate(all="ignore")
def is_subnormal(array: Array, dtype: DType) -> Array:
    """Return which numbers of an element type are subnormal and may become zero."""
    found = np.zeros(array.shape, np.bool_)
    if may_flush(dtype):
        least = FLOATS[dtype.name][1]
        for part in parts_of(array.shape):
            size = np.abs(array[part].astype(np.float64, copy=False))
            if not size.min() >= least:
                found[part] = (size < least) & (size > 0)
    return found


def parts_of(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Iterate over parts of an array that stay in the cache while several runs are compared."""
    return slices(shape, _PART) if shape else iter(((...,),))


def same_values(one: Array, other: Array) -> Array:
    """Return whether elements are equal; NaN equals NaN, and 0 equals -0."""
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def kinds_of(array: Array) -> Array:
    """Return for each number the bit of its kind: finite 1, infinity 2, minus infinity 4, NaN 8."""
    infinite = np.where(np.signbit(array), np.uint8(4), np.uint8(2))
    return np.where(
        np.isfinite(array), np.uint8(1), np.where(np.isnan(array), np.uint8(8), infinite)
    )


def numbers(array: Array, dtype: DType) -> Array:
    """Return the values that elements encode, in float64."""
    values = array.astype(np.float64)
    return values * MXINT8_UNIT if dtype.name == "MXINT8" else values


def _ulp(size: Array, frac: int, least: float) -> Array:
    """Return the unit in the last place of each value: at least that of the smallest normal; 0 for 0."""
    finite = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    exponent = np.frexp(finite)[1] - 1
    power = np.maximum(np.ldexp(1.0, exponent), least)
    return np.where(np.isfinite(size) & (size > 0), power * 2.0**-frac, 0.0)


EXACT: Final = Rule("exact")
