"""The errors that correct implementations of one operator have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.bounds_of_operators import (
    accumulator,
    has_narrow_units,
    rule_of,
    terms_of_sum,
)
from tosa_convert.golden.accuracy.criteria import half_units
from tosa_convert.golden.accuracy.error_bounds import FLOATS, MXINT8_UNIT, Rule, may_flush, numbers
from tosa_convert.golden.accuracy.products_of_runs import SUMS_OF_PRODUCTS
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator
from tosa_convert.records import NamedTuple, replace
from tosa_convert.reference.block_scaled import Value, plain, with_numbers
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.evaluate import call_of

#: Bits of the element types in which nothing is computed: what is stored in them is rounded.
_NARROW: Final = 8
#: Where the results of functions are.
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(("COS", "ERF", "SIN", "TANH"), (-1.0, 1.0)),
    **dict.fromkeys(("EXP", "POW"), (0.0, math.inf)),
    "SIGMOID": (0.0, 1.0),
}
#: Functions that approach 1 as e^(-rate * x) does, with this rate; and their bounds: a constant, and a
#: multiple of the operand, as in `reference.bounds`.
_SATURATING: Final = {"SIGMOID": (1.0, 2.0, 2.0), "TANH": (2.0, 0.0, 8.0)}
#: Units that multiply FP8 and block-scaled data, and add so many products at once: they keep 14 bits, as
#: TOSA allows, and cut off the others, so that the errors of all additions have one sign.
_NARROW_ERROR: Final = 2.0**10
_NARROW_TERMS: Final = 32
#: Units in the last place that rounding to nearest needs.
_NEAREST: Final = 0.5


class Errors(NamedTuple):
    """The largest errors that are added to a result.

    of_function: what TOSA allows the operator, downwards and upwards, or None; NaN where the exact
        result is not finite. unit: one in the last place of 1.
    of_rounding: of sums and of rounding.
    least, most: the smallest normal number and the largest one; what is smaller may become zero, and
        what is larger infinite.
    stored: the element type, if it has so few bits that a number is always rounded to it.
    is_of_sum: whether the result is a sum of products, which is not stored in so few bits.
    """

    of_function: tuple[Array, Array] | None
    of_rounding: Array
    least: float
    most: float
    stored: DType | None = None
    is_of_sum: bool = False
    unit: float = 0.0

    @property
    def is_any(self) -> bool:
        """Return whether there is an error."""
        return self.of_function is not None or self.least > 0 or bool(self.of_rounding.any())


def errors_of(
    block: Block,
    operator: Operator,
    operands: Sequence[Value],
    results: Mapping[str, Value],
    is_certain: bool = False,
) -> dict[str, Errors]:
    """Return the errors that implementations of an operator have; nothing for what is exact.

    is_certain: no run has errors in the operands. Then an operator that is correctly rounded has the
        same result in all implementations, or is not rounded; else only what is rounded errs.
    """
    errors = {}
    for name, result in results.items():
        tensor = block.tensors.get(name)
        if tensor is None or tensor.dtype.name not in FLOATS:
            continue
        rule = rule_of(block, operator, name)
        if rule is not None and rule.kind == "exact":
            continue
        value = plain(result)
        half = half_units(value, tensor.dtype)
        _, least, most, _ = FLOATS[tensor.dtype.name]
        if tensor.dtype.bits <= _NARROW:
            # Of the units that are allowed, rounding to nearest needs a half.
            units = rule.amount if rule is not None else 1.0
            more = half * (2 * units - 1) if units >= 1 else np.zeros(value.shape)
            errors[name] = Errors(None, more, 0.0, most, tensor.dtype)
            continue
        of_function, is_of_sum = None, rule is not None and rule.kind == "dot-product"
        with np.errstate(all="ignore"):
            if is_of_sum:
                frac, smallest, _, _ = FLOATS[accumulator(operator, tensor.dtype.name)]
                half_unit, terms = 2.0 ** (-1 - frac), terms_of_sum(block, operator)
                if has_narrow_units(block, operator, tensor.dtype.name):
                    half_unit *= _NARROW_ERROR * max(1.0, terms / _NARROW_TERMS)
                bounds = _bounds(block, operator, operands, name, value)
                # Errors of additions grow with the partial sums: as the sum of the terms' sizes if
                # their signs vary, and with the root of their number if they do not.
                half = half + half_unit * (bounds + math.sqrt(terms) / 2 * np.abs(value))
                if operator.spec.family == "reduction":
                    half += _of_sum_in_order(block, operator, plain(operands[0]), value)
                half = half + late_bias_error(operator, operands, value, tensor.dtype)
                # Products that are subnormal may be flushed to zero.
                half += np.minimum(bounds, smallest * math.sqrt(terms))
            elif rule is not None and (rule.kind != "ulp" or rule.amount > _NEAREST):
                bounds = None
                if rule.needs_bounds:
                    bounds = _bounds(block, operator, operands, name, value)
                of_function = function_errors(operator, rule, value, bounds, tensor.dtype)
            if not operator.spec.is_inexact or operator.spec.name == "MUL":
                # What needs no rounding has no error; a product that is fused is not rounded either.
                away = np.abs(value - rounded(value, tensor.dtype))
                half = np.nan_to_num(away) if is_certain else half * (away != 0)
                if of_function is not None:
                    of_function = of_function[0] * (away != 0), of_function[1] * (away != 0)
        least = least if may_flush(tensor.dtype) else 0.0
        unit = 2.0 ** -FLOATS[tensor.dtype.name][0]
        errors[name] = Errors(of_function, half, least, most, is_of_sum=is_of_sum, unit=unit)
    return errors


def function_errors(
    operator: Operator, rule: Rule, exact: Array, bounds: Array | None, dtype: DType
) -> tuple[Array, Array]:
    """Return how far below and above the exact result a function may be, without leaving its range.

    NaN where the exact result is not finite.

    Some bounds of TOSA grow with the operand: SIN of 60 in FP16 may be 3, and TANH of 60,000 may be -1,
    which no implementation gives. Where a function is 1 it may err as much as where it becomes 1.
    """
    kind = operator.spec.name
    with np.errstate(all="ignore"):
        if bounds is not None and kind in _SATURATING:
            rate, constant, multiple = _SATURATING[kind]
            # From here on the distance to 1 is less than a quarter of a unit.
            end = (FLOATS[dtype.name][0] + 2) * math.log(2) / rate
            most = np.where(np.abs(exact) > 0.5, constant + multiple * end, np.inf)
            bounds = np.minimum(bounds, most)
        error = rule.limits(exact, bounds, dtype)[2]
        low, high = np.clip((exact - error, exact + error), *_RANGES.get(kind, (-np.inf, np.inf)))
        ends = (np.nan_to_num(np.abs(end - exact), posinf=0.0) for end in (low, high))
        down, up = (np.where(np.isfinite(exact), end, np.nan) for end in ends)
    return down, up


def _of_sum_in_order(block: Block, operator: Operator, terms: Array, exact: Array) -> Array:
    """Return the error of a sum in the order of its terms: the errors of equal terms have one sign."""
    axis = operator.attributes["axis"]
    assert isinstance(axis, int)
    name = accumulator(operator, block.tensors[operator.outputs[0]].dtype.name)
    kind = np.float16 if name == "FP16" else np.float32
    sums = np.add.accumulate(terms.astype(kind), axis=axis, dtype=kind)
    last = np.take(sums, [terms.shape[axis] - 1], axis=axis).astype(np.float64)
    return np.asarray(np.nan_to_num(np.abs(last - exact), posinf=0.0))


def late_bias_error(
    operator: Operator, operands: Sequence[Value], exact: Array, dtype: DType
) -> Array | float:
    """Return the error of a sum that is rounded to the result's type before the bias is added.

    The reference model does so in its convolutions of FP16 and BF16, whatever `acc_type` says: its
    results were those of rounding twice, bit for bit. A bias of zero changes no rounded sum.
    """
    count = len(operator.inputs)
    rows = [operator.spec.operand(index, count).name for index in range(count)]
    if "bias" not in rows or dtype.name not in ("FP16", "BF16"):
        return 0.0
    bias = plain(operands[rows.index("bias")])
    return np.where(bias == 0, 0.0, half_units(exact - bias, dtype))


def rounded(value: Array, row: DType) -> Array:
    """Return numbers rounded to an element type, in FP64; types without infinity saturate."""
    _, _, most, has_infinity = FLOATS[row.name]
    if row.bits <= _NARROW and not has_infinity:
        value = np.clip(value, -most, most)
    code = np.rint(value / MXINT8_UNIT) if row.name == "MXINT8" else value
    return numbers(code.astype(row.numpy), row)


def _bounds(
    block: Block, operator: Operator, operands: Sequence[Value], name: str, value: Array
) -> Array:
    """Return the bounds of a result whose operands are exact, as `reference.bounds` defines them."""
    if operator.spec.family == "fft":
        # Sines and cosines have errors, also where they are 0.
        parts = [np.abs(plain(part)).sum(axis=(1, 2), keepdims=True) for part in operands]
        return np.asarray(np.broadcast_to(sum(parts), value.shape))
    function = BOUNDS.get(operator.spec.name)
    if function is None:
        return np.abs(value)
    call = with_numbers(call_of(block, operator, operands, "wide"), operands)
    if "local_bound" in call.attributes:
        call = replace(call, attributes={**call.attributes, "local_bound": True})
    found = None
    if operator.spec.name in SUMS_OF_PRODUCTS:
        # FP32 has more than enough bits, but not for numbers of any size.
        found = np.asarray(function(replace(call, precision="own")), np.float64)
    if found is None or not np.isfinite(found.max(initial=0.0)):
        found = function(call)
    if isinstance(found, tuple):
        found = found[operator.outputs.index(name)]
    return np.asarray(found).reshape(value.shape)
