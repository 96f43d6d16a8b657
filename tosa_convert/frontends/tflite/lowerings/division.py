"""Division with a remainder, and powers, whose lowerings are wrong or undefined for some numbers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import RANGES
from tosa_convert.frontends.tflite.lowerings.lowering import Decomposition, Given, between, ranked
from tosa_convert.frontends.tflite.read import Operator, TfliteFile

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

_INTEGERS: Final = ("int8", "int16", "int32")
#: Bits of a part of a quotient of FP32, and how many parts the largest quotient has. Products of such a
#: part and half of a divisor's bits are exact.
_PART_BITS: Final = 11
_PARTS: Final = 24
#: Splits a number of FP32 into its 12 upper and 12 lower bits.
_SPLIT: Final = 4097.0
_LARGEST: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
#: From here on, divisors are made smaller, so that their reciprocals are not subnormal.
_LARGE: Final = 2.0**64
#: The exponents that POW by a constant has rewrites for.
_CONSTANT_POWERS: Final = (1, 2, 3, 4, 0.5, -0.5, -1, -2)
#: Bits of an exponent of a number above 1 whose power is one of INT32.
_EXPONENT_BITS: Final = 5


def _find_division(model: TfliteFile, operator: Operator) -> bool:
    types = {one.dtype for one in model.operands(operator, 2)}
    return len(types) == 1 and types <= {"float32", *_INTEGERS}


def _operands(b: Builder, given: Given) -> list[Value]:
    """Return both operands with the rank of the result, integers as INT32."""
    values = [ranked(b, one, len(given.shape)) for one in given.operands]
    if given.dtype == "float32":
        return values
    return [one if str(one.dtype) == "INT32" else b.cast(one, dtype="int32") for one in values]


def _narrowed(b: Builder, value: Value, given: Given) -> list[Value]:
    same = str(value.dtype) == given.operands[0].dtype.name
    return [value if same else b.cast(value, dtype=given.operands[0].dtype)]


def _signs_differ(b: Builder, x: Value, y: Value) -> Value:
    zero = 0 if str(x.dtype) == "INT32" else 0.0
    return b.logical_xor(b.greater(zero, x), b.greater(zero, y))


def _lower_floor_div(b: Builder, given: Given, facts: bool) -> list[Value]:
    """Round the quotient down: INTDIV rounds it towards zero, one too large if the signs differ."""
    x, y = _operands(b, given)
    if given.dtype == "float32":
        return [_floor_of_quotient(b, x, y)]
    quotient = b.intdiv(x, y)
    rest = b.sub(x, b.mul(quotient, y))
    is_above = b.logical_and(_signs_differ(b, rest, y), b.logical_not(b.equal(rest, 0)))
    quotient = b.sub(quotient, b.cast(is_above, dtype="int32"))
    if given.dtype in RANGES:
        quotient = b.minimum(quotient, RANGES[given.dtype][1])
    return _narrowed(b, quotient, given)


def _lower_floor_mod(b: Builder, given: Given, facts: bool) -> list[Value]:
    """Compute the rest of x / y that has the sign of y."""
    x, y = _operands(b, given)
    if given.dtype == "float32":
        _, size = _divided(b, x, y)
        rest = b.select(b.greater(0.0, x), b.negate(size), size)
        zero: float = 0.0
    else:
        rest = b.sub(x, b.mul(b.intdiv(x, y), y))
        zero = 0
    is_other = b.logical_and(_signs_differ(b, rest, y), b.logical_not(b.equal(rest, zero)))
    # Elsewhere the sum may not fit.
    return _narrowed(b, b.add(rest, b.select(is_other, y, zero)), given)


def _floor_of_quotient(b: Builder, x: Value, y: Value) -> Value:
    """Round x / y of FP32 down, which is exact below 2 ** 24."""
    size, rest = _divided(b, x, y)
    up = b.cast(b.cast(b.greater(rest, 0.0), dtype="int8"), dtype="fp32")
    whole = b.select(_signs_differ(b, x, y), b.negate(b.add(size, up)), size)
    both = b.maximum(b.abs(x), b.abs(y))
    usual = b.floor(b.mul(x, b.reciprocal(y)))
    return b.select(b.greater(b.const(_number(b, both, float("inf"))), both), whole, usual)


def _number(b: Builder, like: Value, number: float) -> Any:
    import numpy as np

    return np.full((1,) * len(like.shape or ()), number, np.float32)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the whole part of |x| / |y| of FP32, and the exact remainder.

    The quotient is found in parts of a few bits, from the upper ones: each is a rounded product with the
    reciprocal, and its product with the divisor is subtracted exactly, in halves of the divisor's bits.
    """
    whole, divisor = b.abs(x), b.minimum(b.abs(y), _LARGEST)
    is_large = b.greater_equal(divisor, _LARGE)
    factor = b.select(is_large, 1 / _LARGE, b.const(_number(b, y, 1.0)))
    rest, divisor = b.mul(whole, factor), b.mul(divisor, factor)
    shifted = b.mul(divisor, _SPLIT)
    upper = b.sub(shifted, b.sub(shifted, divisor))
    scales = [(upper, b.sub(divisor, upper), b.reciprocal(divisor))]
    for _ in range(_PARTS - 1):
        *halves, inverse = scales[-1]
        larger = [
            between(b, b.mul(half, 2.0**_PART_BITS), (-_LARGEST, _LARGEST)) for half in halves
        ]
        scales.append((larger[0], larger[1], b.mul(inverse, 2.0**-_PART_BITS)))
    quotient: Value | None = None
    for high, low, inverse in reversed(scales):
        part = b.floor(b.mul(rest, inverse))
        rest = b.sub(b.sub(rest, b.mul(part, high)), b.mul(part, low))
        quotient = part if quotient is None else b.add(b.mul(quotient, 2.0**_PART_BITS), part)
    assert quotient is not None
    is_less, is_more = b.greater(0.0, rest), b.greater_equal(rest, divisor)
    step = b.select(is_less, -1.0, b.select(is_more, b.const(_number(b, y, 1.0)), 0.0))
    rest = b.sub(rest, b.mul(step, divisor))
    rest = b.mul(rest, b.select(is_large, _LARGE, b.const(_number(b, y, 1.0))))
    is_small = b.greater(b.abs(y), whole)
    return b.select(is_small, 0.0, b.add(quotient, step)), b.select(is_small, whole, rest)


def _find_power(model: TfliteFile, operator: Operator) -> str | None:
    """Find the type of powers that the rewrite of constant exponents does not make."""
    x, y = model.operands(operator, 2)
    if x.dtype != y.dtype or x.dtype not in ("float32", "int32"):
        return None
    if x.dtype == "float32" and len(y.data) == 4:
        (exponent,) = struct.unpack("<f", y.data)
        if exponent in _CONSTANT_POWERS:
            return None
    return x.dtype


def _lower_power(b: Builder, given: Given, dtype: str) -> list[Value]:
    x, y = _operands(b, given)
    return [_integer_power(b, x, y) if dtype == "int32" else _float_power(b, x, y)]


def _integer_power(b: Builder, x: Value, y: Value) -> Value:
    """Multiply the squares that the bits of the exponent say; others might not fit."""
    # Of 0, 1 and -1 a large exponent is as good as a small one that is even or odd.
    small = b.bitwise_or(b.bitwise_and(y, 1), 2)
    left = b.select(b.greater(y, 31), small, y)
    result, square = None, x
    for bit in range(_EXPONENT_BITS):
        is_set = b.equal(b.bitwise_and(left, 1), 1)
        factor = b.select(is_set, square, 1)
        result = factor if result is None else b.mul(result, factor)
        left = b.arithmetic_right_shift(left, 1, round=False)
        if bit < _EXPONENT_BITS - 1:
            square = b.select(b.greater(left, 0), square, 1)
            square = b.mul(square, square)
    assert result is not None
    return result


def _float_power(b: Builder, x: Value, y: Value) -> Value:
    """POW of what it is defined for; its sign and its limits by comparisons."""
    infinity, one = (b.const(_number(b, x, number)) for number in (float("inf"), 1.0))
    size, extent = b.abs(x), b.abs(y)
    is_usual = b.logical_and(b.greater(size, 0.0), b.greater(infinity, size))
    is_finite = b.greater(infinity, extent)
    power = b.pow(b.select(is_usual, size, one), b.select(is_finite, y, one))
    # Of 0, infinities, and with infinite exponents: 0, 1 or infinity.
    grows = b.logical_xor(b.greater(one, size), b.greater(0.0, y))
    limit = b.select(grows, b.const(_number(b, x, 0.0)), infinity)
    power = b.select(b.logical_and(is_usual, is_finite), power, limit)
    whole = b.equal(b.floor(y), y)
    half = b.mul(y, 0.5)
    is_odd = b.logical_and(
        b.logical_and(whole, is_finite), b.logical_not(b.equal(b.floor(half), half))
    )
    # The reciprocal tells the two zeros apart.
    is_below = b.greater(0.0, x)
    is_negative = b.logical_or(is_below, b.greater(0.0, b.reciprocal(x)))
    power = b.select(b.logical_and(is_negative, is_odd), b.negate(power), power)
    is_none = b.logical_and(
        b.logical_and(is_below, b.logical_not(whole)), b.greater(infinity, size)
    )
    nan = b.const(_number(b, x, float("nan")))
    power = b.select(is_none, nan, power)
    is_number = b.logical_and(b.equal(x, x), b.equal(y, y))
    power = b.select(is_number, power, nan)
    is_one = b.logical_or(b.equal(y, 0.0), b.equal(x, one))
    is_one = b.logical_or(is_one, b.logical_and(b.equal(size, one), b.equal(extent, infinity)))
    return b.select(is_one, one, power)


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "FLOOR_DIV": Decomposition(
        _find_division, _lower_floor_div, "the converter rounds the quotient, or its sign overflows"
    ),
    "FLOOR_MOD": Decomposition(
        _find_division, _lower_floor_mod, "the converter writes x/y - floor(x/y), in any type"
    ),
    "POW": Decomposition(
        _find_power, _lower_power, "the converter writes POW, which TOSA defines for positive bases"
    ),
}
