"""Judge results by the rules of the official verifier.

A row of `meta.compliance.tensors` has a mode and its numbers. DOT_PRODUCT also limits the variance of
all errors and, for some data sets, their sum; FP_SPECIAL compares only the kind of each number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.accuracy.criteria import is_integer
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    FLOATS,
    Rule,
    may_flush,
    numbers,
    overflows,
)
from tosa_convert.golden.arrays import (
    Array,
)
from tosa_convert.graph.dtypes import DType, dtype

#: Data sets of the official dot product tests whose errors have no preferred sign.
_UNBIASED_SETS: Final = (3, 4, 5)
#: Default limits of DOT_PRODUCT for each term of its sums: of an element's error in units, and of the
#: mean of the squared errors.
_ABSOLUTE_PER_TERM: Final = 2.0
_VARIANCE_PER_TERM: Final = 1.6
#: The limit of the sum of errors is the root of this multiple of the limit of the squared errors.
_BIAS: Final = 10.0


@dataclass(frozen=True, slots=True)
class DotProduct:
    """Hold the numbers of DOT_PRODUCT.

    absolute: largest error of an element in units. variance: largest mean of the squared errors.
        is_unbiased: whether the sum of errors is limited, too.
    """

    absolute: float
    variance: float
    is_unbiased: bool


@dataclass(frozen=True, slots=True)
class Compliance:
    """Hold the official rule for one tensor.

    mode: as the descriptor names it, with " unsigned" for unsigned data. rule: for the modes about
        single elements that refer to a result in FP64. dot_product: for that mode.
    """

    mode: str
    dtype: DType
    rule: Rule | None = None
    dot_product: DotProduct | None = None

    def problem(self, reference: Array, bounds: Array | None, actual: Array) -> str:
        """Return why the official verifier refuses an array, or ""."""
        if actual.shape != reference.shape:
            return f"expected shape {list(reference.shape)}, found {list(actual.shape)}"
        if actual.dtype != self.dtype.numpy:
            return f"expected {self.dtype.numpy}, found {actual.dtype}"
        if self.dot_product is not None:
            assert bounds is not None
            return _dot_product_problem(self.dot_product, reference, bounds, actual, self.dtype)
        if self.rule is not None:
            accepted = self.rule.accepts(actual, reference, bounds, self.dtype)
        else:
            accepted = _MODES[self.mode](reference, bounds, actual, self.dtype)
        return _first_refused(accepted, reference, actual)


def parse_compliance(row: Mapping[str, Any]) -> Compliance:
    """Parse a row of `meta.compliance.tensors` into its rule.

    Raises TosaConvertError("unsupported-operator") for a mode that is not known here.

    Example:
        >>> row = {"mode": "ULP", "data_type": "FP32", "ulp_info": {"ulp": 0.5}}
        >>> parse_compliance(row).problem(np.array([1.0]), None, np.array([1.5], np.float32))
        '1 of 1 elements are refused, the first at [0]: expected 1.0, found 1.5'
    """
    mode, kind = str(row["mode"]), dtype(str(row["data_type"]))
    if mode == "DOT_PRODUCT":
        info = row["dot_product_info"]
        terms = float(info["ksb"])
        limits = DotProduct(
            float(info.get("abs_bound", _ABSOLUTE_PER_TERM * terms)),
            float(info.get("variance_error_bound", _VARIANCE_PER_TERM * terms)),
            info["s"] in _UNBIASED_SETS,
        )
        return Compliance(mode, kind, dot_product=limits)
    if mode in _RULES:
        return Compliance(mode, kind, rule=_RULES[mode](row))
    if mode == "RESCALE_INEXACT" and row["rescale_inexact_info"]["unsigned_data"]:
        mode += " unsigned"
    if mode not in _MODES:
        known = ", ".join(sorted((*_RULES, *_MODES, "DOT_PRODUCT")))
        raise fail("unsupported-operator", f"mode {mode}", f"expected one of {known}")
    return Compliance(mode, kind)


def _ulp(row: Mapping[str, Any]) -> Rule:
    info = row["ulp_info"]
    return Rule("ulp", float(info["ulp"]), lower=float(info.get("ulp_lower", 0.0)))


def _abs_error(row: Mapping[str, Any]) -> Rule:
    info = row.get("abs_error_info", {})
    return Rule(
        "abs-error",
        base=float(info.get("base_bound", 0.0)),
        lower=float(info.get("lower_bound", 0.0)),
        divisor=float(info.get("normal_divisor", 1.0)),
        magnitude=bool(info.get("bound_as_magnitude", False)),
        floor=float(info.get("max_compare", 0.0)),
    )


def _max_relative(row: Mapping[str, Any]) -> Rule:
    info = row["max_relative_info"]
    return Rule(
        "max-relative",
        float(info["ulp_bound"]),
        base=float(info["scale"]),
        largest=float(info["max"]),
    )


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], Rule]]] = {
    "ULP": _ulp,
    "ABS_ERROR": _abs_error,
    "REDUCE_PRODUCT": lambda row: Rule("reduce-product", float(row["reduce_product_info"]["n"])),
    "MAX_RELATIVE": _max_relative,
    "PRECOMPUTED": lambda row: Rule("bounds"),
    "FROM_BLOCK": lambda row: Rule("from-block"),
}


def _exact(reference: Array, bounds: Array | None, actual: Array, kind: DType) -> Array:
    """Compare numbers; 0 equals -0 and a subnormal number, and NaN equals NaN.

    Types of more than 8 bits have a result that is too large as an infinity.
    """
    if kind.name not in FLOATS or not may_flush(kind):
        # FP8UE8M0 has a NaN, too, which differs from itself.
        both_nan = (actual != actual) & (reference != reference)
        with np.errstate(invalid="ignore"):
            # The elements of MXINT8 are 64 times the numbers that they stand for.
            found = numbers(actual, kind) if kind.name in FLOATS else _values(actual)
            return np.asarray((found == _values(reference)) | both_nan)
    return EXACT.accepts(actual, reference, bounds, kind)


def _values(array: Array) -> Array:
    """Return numbers that compare with FP64; integers stay as they are."""
    return array if is_integer(array.dtype) else array.astype(np.float64)


def _special(reference: Array, bounds: Array | None, actual: Array, kind: DType) -> Array:
    """Compare the class of each number: NaN, an infinity and its sign, or finite and its sign.

    Zeros have no sign, but only beside another zero. A NaN is allowed where the bound is NaN.
    """
    found = numbers(actual, kind)
    sign = np.signbit(found) == np.signbit(reference)
    both_zero = (found == 0) & (reference == 0)
    finite = np.isfinite(found) & np.isfinite(reference)
    nan = np.isnan(found) & np.isnan(reference)
    infinite = np.isinf(found) & np.isinf(reference)
    if bounds is not None:
        nan = np.isnan(found) & (np.isnan(reference) | np.isnan(bounds))
    return np.asarray(nan | ((infinite | finite) & (sign | both_zero)))


def _between(reference: Array, bounds: Array | None, actual: Array, kind: DType) -> Array:
    assert bounds is not None
    return np.asarray((actual >= reference) & (actual <= bounds.astype(reference.dtype)))


def _unsigned_between(reference: Array, bounds: Array | None, actual: Array, kind: DType) -> Array:
    """Check that the bytes of unsigned integers lie between the reference and the bounds."""
    assert bounds is not None
    unsigned = f"u{actual.dtype.itemsize}"
    low, high, found = (
        np.ascontiguousarray(array).view(unsigned) for array in (reference, bounds, actual)
    )
    return np.asarray((found >= low) & (found <= high))


_MODES: Final[Mapping[str, Callable[[Array, Array | None, Array, DType], Array]]] = {
    "EXACT": _exact,
    "FP_SPECIAL": _special,
    "RESCALE_INEXACT": _between,
    "RESCALE_INEXACT unsigned": _unsigned_between,
}


def _dot_product_problem(
    limits: DotProduct, reference: Array, bounds: Array, actual: Array, kind: DType
) -> str:
    frac, least, _, _ = FLOATS[kind.name]
    found = numbers(actual, kind)
    with np.errstate(all="ignore"):
        unit = np.maximum(bounds * 2.0 ** (-1 - frac), least)
        errors = (found - reference) / unit
        overflow = overflows(bounds * (1 + limits.absolute * 2.0 ** (-1 - frac)), kind)
    is_nan, is_zero = np.isnan(reference), bounds == 0
    unlimited = overflow | np.isnan(bounds)
    with np.errstate(invalid="ignore"):
        accepted = np.abs(errors) <= limits.absolute
    accepted = np.where(is_zero, (reference == 0) & (found == 0), accepted | unlimited)
    accepted = np.where(is_nan, np.isnan(found), accepted)
    if problem := _first_refused(accepted, reference, actual):
        return problem
    errors = np.where(is_nan | is_zero | unlimited, 0.0, errors)
    total, squares = _sum(errors), _sum(np.square(errors))
    most_squares = limits.variance * errors.size
    most_total = math.sqrt(_BIAS * most_squares)
    if limits.is_unbiased and abs(total) > most_total:
        return f"the sum of the errors is {total:.6g} units, expected at most {most_total:.6g}"
    if squares > most_squares:
        return (
            f"the sum of the squared errors is {squares:.6g}, expected at most {most_squares:.6g}"
        )
    return ""


def _sum(values: Array) -> float:
    """Sum in the order of the elements, as the verifier does."""
    return float(np.cumsum(values.reshape(-1))[-1]) if values.size else 0.0


def _first_refused(accepted: Array, reference: Array, actual: Array) -> str:
    if accepted.all():
        return ""
    index = tuple(int(i) for i in np.argwhere(~accepted)[0])
    count = int(np.count_nonzero(~accepted))
    return (
        f"{count} of {accepted.size} elements are refused, the first at {list(index)}: "
        f"expected {reference[index]}, found {actual[index]}"
    )
