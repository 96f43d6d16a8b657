"""Operators of one element, or of a pair, without scales; those of quantised elements are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import activations, arithmetic, functions, movement
from tosa_convert.frontends.lowering.arithmetic import computed, divided
from tosa_convert.frontends.lowering.conversion import bitcast, converted
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import (
    FLOAT32,
    INT32,
    carrier,
    is_float,
    is_small,
    is_unsigned,
)
from tosa_convert.frontends.tflite.node import Node, Rule, element_of, elementwise
from tosa_convert.frontends.tflite.scales import rounded, single

#: Bits of an exponent of a number above 1 whose power is one of INT32.
_EXPONENT_BITS: Final = 5
_FAR: Final = 31


def operator(name: str) -> Rule:
    return elementwise(lambda s, *arrays: s.elementwise(name, *arrays))


def in_fp32(function: Callable[..., Array]) -> Rule:
    return elementwise(functions.in_fp32(function))


# -- arithmetic ------------------------------------------------------------------------------------


def added(s: Scope, name: str, x: Array, y: Array) -> Array:
    """Add, subtract or multiply; sums of INT32 that do not fit are not defined in TFLite either."""
    if is_small(x.dtype) or is_unsigned(x.dtype):
        return computed(s, name, x, y)
    return s.elementwise(name, x, y)


def arithmetic_of(name: str) -> Rule:
    return lambda n: n.activated(added(n.scope, name, n.plain(0), n.plain(1)), 0)


def _divided(n: Node) -> Array:
    s, (x, y) = n.scope, n.pair()
    if is_float(x.dtype):
        return n.activated(divided(s, x, y), 0)
    if is_small(x.dtype) or is_unsigned(x.dtype):
        raise NotLowered(f"TOSA does not divide {n.tensor(0).dtype}", "dequantise the operands")
    return n.activated(s.elementwise("intdiv", x, y), 0)


def _floor_div(n: Node) -> Array:
    """Round the quotient down. INTDIV rounds it towards zero, one too large if the signs differ."""
    s, (x, y) = n.scope, n.pair()
    if is_float(x.dtype):
        return _floor_of_quotient(s, x, y)
    wide, rest, by = _integer_rest(s, x, y)
    down = s.sub(wide, s.select(_is_past(s, rest, by), 1, 0, wide.dtype))
    if not is_small(x.dtype):
        return down
    return s.narrowed(s.minimum(down, int(np.iinfo(x.dtype).max)), x.dtype)


def _floor_of_quotient(s: Scope, x: Array, y: Array) -> Array:
    """Divide what a multiple of the divisor, of which the exact rest is taken."""
    rest = arithmetic.floor_remainder(s, x, y)
    inverse = s.elementwise("reciprocal", y)
    whole = functions.round_to_even(s, s.mul(s.sub(x, rest), inverse))
    usual = s.elementwise("floor", s.mul(x, inverse))
    sizes = [s.elementwise("abs", one) for one in (x, y)]
    is_usual = s.both(s.greater(np.inf, s.maximum(*sizes)), s.greater(sizes[1], 0))
    return s.select(is_usual, whole, usual)


def _floor_mod(n: Node) -> Array:
    """Return the rest that has the sign of the divisor."""
    s, (x, y) = n.scope, n.pair()
    if is_float(x.dtype):
        return arithmetic.floor_remainder(s, x, y)
    _, rest, by = _integer_rest(s, x, y)
    # Elsewhere the sum may not fit.
    made = s.add(rest, s.select(_is_past(s, rest, by), by, 0))
    return s.narrowed(made, x.dtype) if is_small(x.dtype) else made


def _integer_rest(s: Scope, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return the quotient rounded towards zero, the rest, and the divisor, of wide integers."""
    if is_unsigned(x.dtype) and not is_small(x.dtype):
        raise NotLowered(f"TOSA does not divide {x.dtype}", "cast to int32")
    wide, by = (s.widened(one) if is_small(one.dtype) else one for one in (x, y))
    quotient = s.elementwise("intdiv", wide, by)
    return quotient, s.sub(wide, s.mul(quotient, by)), by


def _is_past(s: Scope, rest: Array, by: Array) -> Array:
    """Return where a rest has another sign than the divisor."""
    differ = s.elementwise("logical_xor", s.greater(0, rest), s.greater(0, by))
    return s.both(differ, s.negation(s.equal(rest, 0)))


def _power(n: Node) -> Array:
    s, (x, y) = n.scope, n.pair()
    if is_float(x.dtype):
        return functions.power(s, x, y)
    if x.dtype != INT32:
        raise NotLowered(f"TOSA does not have powers of {x.dtype}", "cast to int32 or float32")
    # Of 0, 1 and -1 a large exponent is as good as a small one that is even or odd.
    small = s.elementwise("bitwise_or", s.elementwise("bitwise_and", y, 1), 2)
    left = s.select(s.greater(y, _FAR), small, y)
    square, result = x, _if_odd(s, left, x)
    for _ in range(1, _EXPONENT_BITS):
        left = s.elementwise("arithmetic_right_shift", left, 1, round=False)
        square = s.select(s.greater(left, 0), square, 1)
        square = s.mul(square, square)
        result = s.mul(result, _if_odd(s, left, square))
    return result


def _if_odd(s: Scope, number: Array, factor: Array) -> Array:
    """Return a factor where a number is odd, else 1."""
    return s.select(s.equal(s.elementwise("bitwise_and", number, 1), 1), factor, 1)


def _sum_of_many(n: Node) -> Array:
    made, *others = (n.plain(index) for index in range(len(n.given)))
    for other in others:
        made = added(n.scope, "add", made, other)
    return made


def _squared_difference(s: Scope, x: Array, y: Array) -> Array:
    less = added(s, "sub", x, y)
    return added(s, "mul", less, less)


# -- comparisons and bits --------------------------------------------------------------------------


COMPARISONS: Final[dict[str, Callable[[Scope, Array, Array], Array]]] = {
    "EQUAL": arithmetic.equals,
    "NOT_EQUAL": arithmetic.ne,
    "GREATER": partial(arithmetic.compared, name="greater"),
    "GREATER_EQUAL": partial(arithmetic.compared, name="greater_equal"),
    "LESS": partial(arithmetic.compared, name="greater", is_flipped=True),
    "LESS_EQUAL": partial(arithmetic.compared, name="greater_equal", is_flipped=True),
}


def _right_shift(n: Node) -> Array:
    """Shift by at most the bits of the type; of a negative count the lower five bits count."""
    s, x, places = n.scope, n.plain(0), n.plain(1)
    last = 8 * x.dtype.itemsize - 1
    wide, by = (s.viewed(a, INT32) if a.dtype.itemsize == 4 else s.widened(a) for a in (x, places))
    is_large = x.dtype == np.uint32
    if not is_unsigned(x.dtype) or is_large:
        masked = _FAR if is_large else s.elementwise("bitwise_and", by, _FAR)
        by = s.select(s.greater(0, by), masked, by)
    by = s.minimum(by, last)
    if is_large:
        return s.viewed(s.elementwise("logical_right_shift", wide, by), x.dtype)
    made = s.elementwise("arithmetic_right_shift", wide, by, round=False)
    return made if x.dtype == INT32 else s.narrowed(made, x.dtype)


# -- conversions -----------------------------------------------------------------------------------


def _buckets(n: Node) -> Array:
    """Count the boundaries that are not above each element; none is above NaN."""
    s, x, bounds = n.scope, n.array(0), n.operator.options.numbers(0, "f")
    if not bounds:
        return Array(INT32, x.shape, np.zeros((1,) * x.rank, np.int32))
    each = movement.reshape(s, converted(s, x, FLOAT32), (*x.shape, 1))
    is_below = s.greater(constant(np.array(bounds, np.float32)), each)
    passed = s.cast(s.elementwise("logical_not", is_below), INT32)
    return by_operator(s, passed, (x.rank,), "reduce_sum")


def _cast(n: Node) -> Array:
    """Round to zero, within the limits of the type; NaN becomes the largest number."""
    s, x, target = n.scope, n.plain(0), np.dtype(n.result.dtype)
    held = carrier(target)
    made = converted(s, x, target)
    if not is_float(x.dtype) or target.kind not in "iu" or x.data is not None:
        return made
    most = int(np.iinfo(np.int32 if s.narrows and target.itemsize == 8 else target).max)
    limit = constant(np.full((1,) * x.rank, most, target).view(held))
    return s.viewed(s.select(s.equal(x, x), s.viewed(made, held), limit), target)


def _fake_quant(n: Node) -> Array:
    """Round to the nearest of the values that integers stand for, whose range has a zero."""
    s, x = n.scope, n.array(0)
    low, high, bits = n.real(0), n.real(1), n.option(2)
    if n.flag(3):
        raise NotLowered("TFLite does not run the narrow range", "leave the option out")
    if not 2 <= bits <= 16 or low >= high:
        raise ValueError("no range")
    most = (1 << bits) - 1
    scale = single((high - low) / most)
    zero = rounded(max(0, min(most, single(-low / scale))))
    least, largest = (single((limit - zero) * scale) for limit in (0, most))
    steps = s.mul(s.sub(arithmetic.clip(s, x, least, largest), least), single(1 / scale))
    return s.add(s.mul(s.elementwise("floor", s.add(steps, 0.5)), scale), least)


# -- functions -------------------------------------------------------------------------------------


def zeros(n: Node) -> Array:
    a = n.array(0)
    return Array(a.dtype, a.shape, np.zeros((1,) * a.rank, a.dtype))


def _leaky_relu(n: Node) -> Array:
    return activations.leaky_relu(n.scope, n.array(0), single(n.real(0)))


def _gelu(n: Node) -> Array:
    function = activations.gelu_tanh if n.flag(0) else activations.gelu
    return functions.in_fp32(function)(n.scope, n.array(0))


def _clipped(low: float, high: float) -> Rule:
    return lambda n: n.bounded(n.array(0), low, high)


RULES: Final[dict[str, Rule]] = {
    "ABS": elementwise(arithmetic.abs_),
    "ADD": arithmetic_of("add"),
    "ADD_N": _sum_of_many,
    "ATAN2": in_fp32(functions.atan2),
    "BITCAST": lambda n: bitcast(n.scope, n.plain(0), element_of(n.result)),
    "BUCKETIZE": _buckets,
    "BITWISE_XOR": elementwise(lambda s, x, y: arithmetic.bitwise(s, x, y, "xor")),
    "CAST": _cast,
    "CEIL": operator("ceil"),
    "COS": operator("cos"),
    "DIV": _divided,
    "ELU": elementwise(activations.elu),
    "EXP": operator("exp"),
    "FAKE_QUANT": _fake_quant,
    "FLOOR": operator("floor"),
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "GELU": _gelu,
    "HARD_SWISH": elementwise(activations.hard_swish),
    "LEAKY_RELU": _leaky_relu,
    "LOG": operator("log"),
    "LOGICAL_AND": operator("logical_and"),
    "LOGICAL_NOT": operator("logical_not"),
    "LOGICAL_OR": operator("logical_or"),
    "LOGISTIC": operator("sigmoid"),
    "MAXIMUM": elementwise(lambda s, x, y: arithmetic.extremum(s, "maximum", *s.aligned([x, y]))),
    "MINIMUM": elementwise(lambda s, x, y: arithmetic.extremum(s, "minimum", *s.aligned([x, y]))),
    "MUL": arithmetic_of("mul"),
    "NEG": elementwise(arithmetic.neg),
    "POW": _power,
    "PRELU": elementwise(activations.leaky_relu),
    "RELU": lambda n: n.bounded(n.array(0), 0.0, None),
    "RELU6": _clipped(0.0, 6.0),
    "RELU_0_TO_1": _clipped(0.0, 1.0),
    "RELU_N1_TO_1": _clipped(-1.0, 1.0),
    "RIGHT_SHIFT": _right_shift,
    "ROUND": elementwise(functions.round_to_even),
    "RSQRT": operator("rsqrt"),
    "SIGN": elementwise(arithmetic.sign),
    "SIN": operator("sin"),
    "SQRT": elementwise(functions.sqrt),
    "SQUARE": elementwise(lambda s, x: added(s, "mul", x, x)),
    "SQUARED_DIFFERENCE": elementwise(_squared_difference),
    "SUB": arithmetic_of("sub"),
    "TANH": operator("tanh"),
    "ZEROS_LIKE": zeros,
    **{name: elementwise(function) for name, function in COMPARISONS.items()},
}
