"""Arithmetic of quantised elements, with the integers of TFLite's reference kernels."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.lowering import arithmetic, movement
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.quantisation import centred
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32, is_float, is_unsigned
from tosa_convert.frontends.tflite.integer_functions import quotients
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import (
    ONE,
    every,
    gathered,
    is_near_sum,
    rescaled,
    shifted,
)
from tosa_convert.frontends.tflite.rules import elementwise
from tosa_convert.frontends.tflite.scales import RANGES, rescale_of, single

#: How far operands are shifted before they are scaled.
_LEFT_OF_SUM, _LEFT_OF_SUM_OF_16 = 20, 15
_LEFT_OF_SQUARE, _LEFT_OF_COMPARISON = 7, 8
#: How close the logarithm of a scale is to an integer that is a power of 2.
_POWER_OF_TWO: Final = 1e-3
#: The largest number of FP32 below 1/2: the sum with it is rounded to an integer from each half on.
_BELOW_HALF: Final = 0.5 - 2.0**-25


def either(quantised: Rule, plain: Rule) -> Rule:
    """Return the rule that is one of two, by whether the first operand is quantised."""
    return lambda n: quantised(n) if n.is_quantised else plain(n)


def refuse_wide(n: Node) -> None:
    """Refuse types of which TFLite has no quantised kernel."""
    if n.tensor(0).dtype not in RANGES:
        raise NotLowered(f"TFLite has no kernel of quantised {n.tensor(0).dtype}")


# -- sums and products -----------------------------------------------------------------------------


def _sum(sign: int) -> Rule:
    name = {1: "add", -1: "sub"}[sign]

    def rule(n: Node) -> Array:
        refuse_wide(n)
        s, (x, y) = n.scope, n.pair()
        scales = n.scale(0), n.scale(1)
        is_short = x.dtype == np.int16
        if is_short and n.flag(1, True):
            found = (power_of_two(one) for one in (*scales, n.result_scale))
            powers = [power for power in found if power is not None]
            if len(powers) == 3:
                return n.activated(_sum_of_powers(n, name, powers), 0)
        left = _LEFT_OF_SUM_OF_16 if is_short else _LEFT_OF_SUM
        twice = 2 * max(scales)
        shares = scales[0] / twice, scales[1] / twice
        result = rescale_of(twice / ((1 << left) * n.result_scale))
        zeros = n.zero(0), n.zero(1)
        is_near = is_near_sum(x.dtype, zeros, left, shares, result, sign)
        parts = [
            shifted(s, one, zero, left, share, is_near)
            for one, zero, share in zip((x, y), zeros, shares, strict=True)
        ]
        made = rescaled(s, s.elementwise(name, *parts), result, x.dtype, zero=n.result_zero)
        return n.activated(made, 0)

    return rule


def power_of_two(scale: float) -> int | None:
    """Return the logarithm of a scale that TFLite takes for a power of 2; None for others."""
    exact = math.log2(scale)
    return round(exact) if abs(exact - round(exact)) < _POWER_OF_TWO else None


def _sum_of_powers(n: Node, name: str, powers: list[int]) -> Array:
    """Shift one operand to the scale of the other and of the result, and saturate the sum."""
    s, arrays = n.scope, n.pair()
    places = [powers[2] - powers[0], powers[2] - powers[1]]
    if 0 not in places or min(places) < 0:
        raise NotLowered("TFLite wants one operand with the scale of the result, which is larger")
    parts = [
        halved(s, rescaled(s, one, ONE, INT32), by) if by else rescaled(s, one, ONE, INT32)
        for one, by in zip(arrays, places, strict=True)
    ]
    return rescaled(s, s.elementwise(name, *parts), ONE, arrays[0].dtype)


def halved(s: Scope, x: Array, bits: int) -> Array:
    """Divide INT32 by a power of 2, rounding halves away from zero."""
    is_negative = s.elementwise("arithmetic_right_shift", x, 31, round=False)
    return s.elementwise("arithmetic_right_shift", s.add(x, is_negative), bits, round=True)


def wide(n: Node, x: Array, index: int) -> Array:
    """Return an operand less its zero point, as INT32."""
    return rescaled(n.scope, x, ONE, INT32, given=n.zero(index))


def _product(n: Node) -> Array:
    refuse_wide(n)
    s, (x, y) = n.scope, n.pair()
    scale = single(single(n.scale(0) * n.scale(1)) / n.result_scale)
    product = s.mul(wide(n, x, 0), wide(n, y, 1))
    return n.activated(rescaled(s, product, rescale_of(scale), x.dtype, zero=n.result_zero), 0)


def _squared_difference(n: Node) -> Array:
    refuse_wide(n)
    s, (x, y) = n.scope, n.pair()
    scales = n.scale(0), n.scale(1)
    twice = 2 * max(scales)
    parts = [
        shifted(s, one, n.zero(index), _LEFT_OF_SQUARE, scales[index] / twice)
        for index, one in enumerate((x, y))
    ]
    less = s.sub(*parts)
    result = twice * twice / ((1 << 2 * _LEFT_OF_SQUARE) * n.result_scale)
    return rescaled(s, s.mul(less, less), rescale_of(result), x.dtype, zero=n.result_zero)


def _extremum(name: str) -> Rule:
    def rule(n: Node) -> Array:
        s, (x, y) = n.scope, n.pair()
        wide = (rescaled(s, one, ONE, INT32) for one in (x, y))
        return rescaled(s, s.elementwise(name, *wide), ONE, x.dtype)

    return rule


def _compared(name: str) -> Rule:
    """Compare 256 times the numbers, rounded to integers."""

    def rule(n: Node) -> Array:
        s, arrays = n.scope, n.pair()
        refuse_wide(n)
        if arrays[0].dtype == np.int16 and name not in ("EQUAL", "NOT_EQUAL"):
            # TFLite compares the integers, whatever their scales.
            if n.scale(0) != n.scale(1):
                raise NotLowered("TFLite compares int16 of two scales as if they had one")
            return elementwise.COMPARISONS[name](s, *arrays)
        if max(n.scale(0), n.scale(1)) >= 1:
            raise NotLowered("TFLite compares numbers of scales below 1")
        parts = [
            shifted(s, one, n.zero(index), _LEFT_OF_COMPARISON, n.scale(index))
            for index, one in enumerate(arrays)
        ]
        return elementwise.COMPARISONS[name](s, *parts)

    return rule


def _quotient(n: Node) -> Array:
    """Look up the quotient of each pair of bytes."""
    s, (x, y) = n.scope, n.pair()
    if x.dtype != np.int8:
        raise NotLowered(f"TFLite has no kernel of quantised {n.tensor(0).dtype}")
    scale = single(n.scale(0) / single(n.scale(1) * n.result_scale))
    given, by = every(x.dtype, n.zero(0)), every(y.dtype, n.zero(1))
    rows = np.stack([quotients(given, int(one), fixed_point(scale)) for one in by], 1)
    table = np.clip(rows + n.result_zero, -128, 127).astype(np.int8)
    places = s.add(s.mul(rescaled(s, x, ONE, INT32), 256), rescaled(s, y, ONE, INT32))
    made = gathered(s, s.add(places, 128 * 257), constant(table.ravel()))
    return n.activated(made, 0)


# -- bounds and slopes -----------------------------------------------------------------------------


def at_result(n: Node, x: Array, scale: float) -> Array:
    """Return the first operand at the scale of the result, from which it has this quotient."""
    return rescaled(n.scope, x, rescale_of(scale), x.dtype, given=n.zero(0), zero=n.result_zero)


def _bounded(low: float, high: float | None) -> Rule:
    def rule(n: Node) -> Array:
        refuse_wide(n)
        made = at_result(n, n.array(0), single(n.scale(0) / n.result_scale))
        return n.bounded(made, low, high)

    return rule


def slopes_of(n: Node) -> tuple[float, float]:
    """Return the quotients of LEAKY_RELU above and below zero."""
    below = single(single(n.scale(0) * single(n.real(0))) / n.result_scale)
    return single(n.scale(0) / n.result_scale), below


def _prelu(n: Node) -> Array:
    """Choose one of two products by the sign of the number."""
    s, (x, slope) = n.scope, n.pair()
    if x.dtype != np.int8:
        raise NotLowered(f"TFLite has no kernel of quantised {n.tensor(0).dtype}")
    number = wide(n, x, 0)
    below = single(single(n.scale(0) * n.scale(1)) / n.result_scale)
    products = [
        rescaled(s, one, rescale_of(scale), x.dtype, zero=n.result_zero)
        for one, scale in (
            (number, single(n.scale(0) / n.result_scale)),
            (s.mul(number, wide(n, slope, 1)), below),
        )
    ]
    return s.select(s.greater(number, 0), *products)


# -- conversions -----------------------------------------------------------------------------------


def _quantized(n: Node) -> Array:
    """Bound numbers before they become integers, and round halves away from zero."""
    s, x = n.scope, n.array(0)
    result = n.result
    if is_unsigned(x.dtype) or not result.scale:
        raise NotLowered("TFLite quantises to one scale")
    if not is_float(x.dtype):
        scale = rescale_of(n.scale(0) / n.result_scale)
        target = np.dtype(np.int8 if result.dtype == "uint8" else result.dtype)
        return rescaled(s, x, scale, target, given=n.zero(0), zero=n.result_zero)
    refuse_result(n)
    zero = n.result_zero
    dtype: np.dtype[Any] = np.dtype(np.int16 if result.dtype == "int16" else np.int8)
    limits = np.iinfo(dtype)
    steps = s.mul(converted(s, x, FLOAT32), single(1 / n.result_scale))
    steps = arithmetic.clip(s, steps, float(limits.min - zero), float(limits.max - zero))
    size = s.elementwise("floor", s.add(s.elementwise("abs", steps), _BELOW_HALF))
    whole = s.select(s.greater(0, steps), s.elementwise("negate", size), size)
    if not zero:
        return s.cast(whole, dtype)
    return rescaled(s, s.cast(whole, INT32), ONE, dtype, zero=zero)


def refuse_result(n: Node) -> None:
    """Refuse a result that is not quantised to 8 or 16 bits."""
    if n.result.dtype not in RANGES:
        raise NotLowered(f"TFLite does not quantise to {n.result.dtype}")


def _dequantized(n: Node) -> Array:
    s, x, tensor = n.scope, n.array(0), n.tensor(0)
    if is_float(x.dtype):
        return converted(s, x, FLOAT32)
    if len(tensor.scales) <= 1:
        real = centred(s, x, constant(np.array(n.zero(0), x.dtype)) if n.zero(0) else None)
        return s.mul(real, n.scale(0))
    if x.data is None:
        raise NotLowered("several scales of what is computed", "dequantise with one scale")
    shape = [1] * x.rank
    shape[tensor.axis] = -1
    factors = constant(np.array(tensor.scales, np.float32).reshape(shape))
    return s.mul(centred(s, x, None), factors)


def select(n: Node) -> Array:
    """Choose elements, which TFLite wants in one scale; SELECT takes a condition for each row, too."""
    s, condition = n.scope, n.array(0)
    yes, no = n.array(1), n.like(2, 1)
    rank = max(yes.rank, no.rank)
    if n.kind == "SELECT" and condition.rank == 1 and rank > 1:
        condition = movement.reshape(s, condition, (condition.size, *(1,) * (rank - 1)))
    if condition.dtype != BOOL or yes.dtype != no.dtype:
        raise ValueError("other types")
    return arithmetic.select_n(s, *s.aligned([condition, no, yes]))


RULES: Final[dict[str, Rule]] = {
    "ADD": either(_sum(1), elementwise.RULES["ADD"]),
    "SUB": either(_sum(-1), elementwise.RULES["SUB"]),
    "MUL": either(_product, elementwise.RULES["MUL"]),
    "DIV": either(_quotient, elementwise.RULES["DIV"]),
    "SQUARED_DIFFERENCE": either(_squared_difference, elementwise.RULES["SQUARED_DIFFERENCE"]),
    "MAXIMUM": either(_extremum("maximum"), elementwise.RULES["MAXIMUM"]),
    "MINIMUM": either(_extremum("minimum"), elementwise.RULES["MINIMUM"]),
    "PRELU": either(_prelu, elementwise.RULES["PRELU"]),
    "RELU": either(_bounded(0.0, None), elementwise.RULES["RELU"]),
    "RELU6": either(_bounded(0.0, 6.0), elementwise.RULES["RELU6"]),
    "RELU_N1_TO_1": either(_bounded(-1.0, 1.0), elementwise.RULES["RELU_N1_TO_1"]),
    "RELU_0_TO_1": either(_bounded(0.0, 1.0), elementwise.RULES["RELU_0_TO_1"]),
    "QUANTIZE": _quantized,
    "DEQUANTIZE": _dequantized,
    "SELECT": select,
    "SELECT_V2": select,
    **{name: either(_compared(name), elementwise.RULES[name]) for name in elementwise.COMPARISONS},
}
