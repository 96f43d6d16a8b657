"""Operators that compute each element of one element of each operand, broadcast as in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly

from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    describe,
    integer_limits,
    refuse_undefined,
)
from tosa_convert.reference.parts import LOOKED_UP_IN_FP32, slices

# -- functions of FP32 from tables in FP64, which numpy computes one by one ------------------------
# The table has the node nearest to the operand; a formula corrects the distance, which is exact.
# `tests/reference/test_tabled_functions.py` has the largest errors; see `parts.LOOKED_UP_IN_FP32`.

#: Bits of the fraction of an FP32 number.
_FRACTION: Final = 23
#: Elements that are computed at a time. Their intermediate values fit the third cache; the second one
#: would hold fewer, for which numpy takes longer to start than that saves.
_PART: Final = 1 << 17
#: Elements that are worth no smaller parts.
_LEAST: Final = 1 << 10


class _Block:
    """Memory for some elements, which stays in the cache.

    near, rest: FP32 numbers that are added up to the operand; near is the memory of the results.
    index: of the nodes. is_inside: whether all indices are those of nodes.
    one, two: FP64 numbers. late: FP64 numbers in the memory of the index, once that is not needed.
    """

    def __init__(self, size: int) -> None:
        self.near = self.rest = np.empty(size, np.float32)
        self.one, self.two, self.late = np.empty((3, size), np.float64)
        self.index = self.late.view(np.int64)
        self.is_inside = False


@dataclass(frozen=True)
class Tabled:
    """A function of FP32.

    exact: computes it in FP64, for the table and where the formula does not hold.
    holds: returns whether the formula holds for all elements of a block, which may err on the safe side.
        It does if all of them are inside of the table.
    except_at: returns where it does not.
    formula: writes the results of a block, with intermediate values in a `_Block`.
    """

    exact: Callable[[Array], Array]
    holds: Callable[[Array], bool]
    except_at: Callable[[Array], Array]
    formula: Callable[[Array, Array, _Block], None]

    def __call__(self, value: Array) -> Array:
        """Return the function of each element of an FP32 array."""
        result = np.empty(value.shape, np.float32)
        # Less memory than that of operand and result.
        size = min(_PART, max(_LEAST, value.size // 8))
        block = _Block(min(size, value.size))
        for part in slices((1, *value.shape), size) if value.size else ():
            source = np.ascontiguousarray(value[None][part]).reshape(-1)
            target = result[None][part].reshape(-1)
            if source.size != len(block.rest):
                block = _Block(source.size)
            block.near = target
            self.formula(source, target, block)
            if not block.is_inside and not self.holds(source):
                places = self.except_at(source)
                target[places] = self.exact(source[places].astype(np.float64))
        return result


@dataclass(frozen=True)
class _Nodes:
    """Multiples of 2^-bits from `low` to `high`, the nearest of which stand for numbers beyond."""

    bits: int
    low: int
    high: int

    @property
    def count(self) -> int:
        return ((self.high - self.low) << self.bits) + 1

    def all(self) -> Array:
        return (np.arange(self.count) + (self.low << self.bits)) / 2.0**self.bits

    def find(self, value: Array, block: _Block) -> None:
        """Split numbers into the nearest multiple and an exact rest, and find the index of the former.

        Rounding to a multiple is adding a number so large that the sum has no smaller bits.
        """
        large = np.float32(1.5 * 2 ** (_FRACTION - self.bits))
        first = large.view(np.int32) + np.int32(self.low << self.bits)
        np.add(value, large, out=block.near)
        codes = block.rest.view(np.int32)
        np.subtract(block.near.view(np.int32), first, out=codes)
        # Codes below the first one, and those of NaN, are the largest unsigned numbers.
        block.is_inside = bool(np.maximum.reduce(codes.view(np.uint32)) < self.count)
        block.index[...] = codes
        np.subtract(block.near, large, out=block.near)
        np.subtract(value, block.near, out=block.rest)

    @property
    def limit(self) -> float:
        """Return how large an operand may be, so that codes of sums are in the order of the sums."""
        return float(2 ** (_FRACTION - self.bits))

    def hold(self, value: Array) -> bool:
        """Return whether no number is NaN or as large as the limit; False if that is not certain."""
        # BLAS adds squares faster than numpy finds the largest number.
        return bool(np.dot(value, value) < self.limit**2)

    def except_at(self, value: Array) -> Array:
        """Return where numbers are NaN, or as large as the limit."""
        return ~(np.abs(value) < self.limit)


def _tabled(
    exact: Callable[[Array], Array], nodes: _Nodes, formula: Callable[[Array, Array, _Block], None]
) -> Tabled:
    return Tabled(exact, nodes.hold, nodes.except_at, formula)


def _look_up(table: Array, block: _Block, out: Array) -> Array:
    # Indices that need not be changed are looked up faster with "wrap".
    return table.take(block.index, out=out, mode="wrap" if block.is_inside else "clip")


_EXP_NODES: Final = _Nodes(10, -105, 90)


@cache
def _exp_table() -> Array:
    """Return half of exp(a) of the nodes; that of the first and the last one is rounded as FP32."""
    table = np.exp(_EXP_NODES.all()) / 2
    table[[0, -1]] = 0, np.inf
    return table


def _exp(value: Array, result: Array, block: _Block) -> None:
    """Write exp(a + r) = exp(a) (1 + r + r^2 / 2) = exp(a) / 2 ((r + 2) r + 2)."""
    _EXP_NODES.find(value, block)
    half = _look_up(_exp_table(), block, block.one)
    short = np.add(block.rest, np.float32(2), out=block.near)
    short *= block.rest
    wide = block.late
    wide[...] = short
    wide += 2
    wide *= half
    result[...] = wide


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-x)) in FP64; where exp overflows that is 0."""
    # Of a rank of 0 numpy gives a number, which it cannot compute in place.
    result: Array = np.asarray(np.negative(value), np.float64)
    np.exp(result, out=result)
    result += 1
    return np.reciprocal(result, out=result)


_SIGMOID_NODES: Final = _Nodes(10, -110, 20)


@cache
def _sigmoid_table() -> Array:
    """Return 2 exp(a) of the nodes."""
    table = 2 * np.exp(_SIGMOID_NODES.all())
    table[[0, -1]] = 0, 2.0**60
    return table


def _sigmoid(value: Array, result: Array, block: _Block) -> None:
    """Write 1 / (1 + exp(-a - r)) = 2 exp(a) / (2 exp(a) + (r - 2) r + 2); see `_exp`."""
    _SIGMOID_NODES.find(value, block)
    twice = _look_up(_sigmoid_table(), block, block.one)
    short = np.subtract(block.rest, np.float32(2), out=block.near)
    short *= block.rest
    wide = block.late
    wide[...] = short
    wide += 2
    wide += twice
    np.divide(twice, wide, out=wide)
    result[...] = wide


_TANH_NODES: Final = _Nodes(12, -10, 10)


@cache
def _tanh_table() -> Array:
    """Return tanh(a) of the nodes; 0 is negative, so that adding a distance keeps its sign."""
    table = np.tanh(_TANH_NODES.all())
    table[[0, len(table) // 2, -1]] = -1, -0.0, 1
    return table


def _tanh(value: Array, result: Array, block: _Block) -> None:
    """Write tanh(a + r) = (tanh(a) + r) / (1 + tanh(a) r), for tanh(r) is nearly r."""
    _TANH_NODES.find(value, block)
    near = _look_up(_tanh_table(), block, block.one)
    below = block.two
    below[...] = block.rest
    above = np.add(near, below, out=block.late)
    below *= near
    below += 1
    above /= below
    result[...] = above


_ERF_NODES: Final = _Nodes(12, -5, 5)


#: erf(x) / x is a polynomial of this degree on each of so many pieces from 0 to _ERF_END, beyond which
#: erf(x) is 1 in FP64.
_ERF_END: Final = 6.0
_ERF_PIECES: Final = 256
_ERF_DEGREE: Final = 6


@cache
def _erf_coefficients() -> Array:
    """Return the coefficients of erf(x) / x for each piece, the constant first, from `math.erf`."""
    count = _ERF_DEGREE + 1
    angles = np.pi * (np.arange(count) + 0.5) / count
    nodes = np.cos(angles)
    width = _ERF_END / _ERF_PIECES
    x = (np.arange(_ERF_PIECES)[:, None] + (nodes + 1) / 2) * width
    values = np.vectorize(math.erf)(x) / x
    basis = np.cos(np.arange(count)[:, None] * angles)
    coefficients: Array = 2 / count * values @ basis.T
    coefficients[:, 0] /= 2
    powers = [cheb2poly(row) for row in coefficients]
    return np.ascontiguousarray(np.array(powers).T)


def error_function(value: Array) -> Array:
    """Return erf(x) of an FP64 array, with an error of at most 4e-15."""
    coefficients = _erf_coefficients()
    size = np.minimum(np.abs(value), _ERF_END)
    scaled = np.where(np.isnan(size), 0.0, size) * (_ERF_PIECES / _ERF_END)
    piece = np.minimum(scaled.astype(np.intp), _ERF_PIECES - 1)
    t = 2 * (scaled - piece) - 1
    quotient = coefficients[-1].take(piece)
    for row in coefficients[-2::-1]:
        quotient *= t
        quotient += row.take(piece)
    return np.where(size < _ERF_END, value * quotient, np.sign(value))


@cache
def _erf_tables() -> tuple[Array, Array]:
    """Return erf(a) and its derivative at the nodes; 0 is negative, see `_tanh_table`."""
    nodes = _ERF_NODES.all()
    slope = 2 / np.sqrt(np.pi) * np.exp(-nodes * nodes)
    table = error_function(nodes)
    table[[0, len(table) // 2, -1]] = -1, -0.0, 1
    slope[[0, -1]] = 0
    return table, slope


def _erf(value: Array, result: Array, block: _Block) -> None:
    """Write erf(a + r) = erf(a) + erf'(a) r / (1 + a r), for the quotient is nearly r - a r^2."""
    _ERF_NODES.find(value, block)
    table, slope = _erf_tables()
    change = _look_up(slope, block, block.one)
    near = _look_up(table, block, block.two)
    short = block.near
    short *= block.rest
    short += 1
    np.divide(block.rest, short, out=short)
    wide = block.late
    wide[...] = short
    change *= wide
    change += near
    result[...] = change


#: Bits of the fraction of the nodes of the logarithm, which are FP32 numbers.
_LOG_BITS: Final = 11
_LOG_SHIFT: Final = _FRACTION - _LOG_BITS
#: The least normal number, and one whose nearest node is finite.
_LOG_LOW, _LOG_HIGH = (np.float32(2.0**exponent) for exponent in (-126, 127))


@cache
def _log_table() -> Array:
    """Return the logarithms of the nodes, by the upper bits of their codes."""
    codes = np.arange(1 << (8 + _LOG_BITS), dtype=np.uint32) << np.uint32(_LOG_SHIFT)
    return np.log(codes.view(np.float32).astype(np.float64))


def _log(value: Array, result: Array, block: _Block) -> None:
    """Write log(a + r) = log(a) + w - w^2 / 2, where w = r / a."""
    block.is_inside = _log_holds(value)
    half = np.int32(1 << (_LOG_SHIFT - 1))
    codes = np.add(value.view(np.int32), half, out=block.near.view(np.int32))
    numbers = np.right_shift(codes, np.int32(_LOG_SHIFT), out=block.rest.view(np.int32))
    block.index[...] = numbers
    codes &= np.int32(-1 << _LOG_SHIFT)
    short = np.subtract(value, block.near, out=block.rest)
    short /= block.near
    square = np.multiply(short, short, out=block.near)
    square *= np.float32(0.5)
    short -= square
    wide = block.two
    wide[...] = short
    wide += _look_up(_log_table(), block, block.one)
    result[...] = wide


def _log_holds(value: Array) -> bool:
    return bool(value.min() >= _LOG_LOW and np.dot(value, value) < _LOG_HIGH)


def _log_except_at(value: Array) -> Array:
    return ~((value >= _LOG_LOW) & (value < _LOG_HIGH))


TABLED: Final[dict[str, Tabled]] = {
    "ERF": _tabled(error_function, _ERF_NODES, _erf),
    "EXP": _tabled(np.exp, _EXP_NODES, _exp),
    "LOG": Tabled(np.log, _log_holds, _log_except_at, _log),
    "SIGMOID": _tabled(sigmoid, _SIGMOID_NODES, _sigmoid),
    "TANH": _tabled(np.tanh, _TANH_NODES, _tanh),
}


def compute_abs(call: Call) -> Array:
    """Return the absolute value. That of the least integer is not defined."""
    value = call.value("input1")
    if call.is_integer:
        low, _ = integer_limits(call.result.dtype)
        refuse_undefined(call, value == low, f"it does not fit {call.result.dtype}")
    return np.abs(value)


def compute_add(call: Call) -> Array:
    """Return input1 + input2."""
    return call.value("input1") + call.value("input2")


def compute_subtract(call: Call) -> Array:
    """Return input1 - input2."""
    return call.value("input1") - call.value("input2")


#: Bits by which the product of INT32 operands is shifted at most. Other products are not shifted.
_MOST_MUL_SHIFT: Final = 63


def compute_multiply(call: Call) -> Array:
    """Return input1 * input2.

    The product of INT32 operands has 64 bits and is shifted right by `shift`, of 0 to 63, with rounding
    half up. Products of narrower integers are exact as INT32.
    """
    left, right = call.value("input1"), call.value("input2")
    product = left * right
    shift = call.number("shift")
    most = _MOST_MUL_SHIFT if call.raw("input1").dtype == np.int32 else 0
    refuse_undefined(call, not 0 <= shift <= most, f"a shift that is not from 0 to {most}")
    if shift:
        half = np.int64(1) << np.int64(shift - 1)
        product = (product + half) >> np.int64(shift)
    return product


def compute_divide(call: Call) -> Array:
    """Return the quotient of integers, rounded toward zero. A division by zero is not defined."""
    left, right = call.raw("input1"), call.raw("input2")
    refuse_undefined(call, right == 0, "a division by zero")
    if call.raw("input1").dtype == np.int32:
        # The quotient is at least 1 / right from the next integer, and FP64 errs by far less.
        return np.asarray(np.trunc(np.true_divide(left, right)))
    quotient = left // right
    is_negative_fraction = (left != quotient * right) & ((left < 0) != (right < 0))
    return np.asarray(quotient + is_negative_fraction)


def compute_power(call: Call) -> Array:
    """Return input1 to the power of input2.

    A negative base, 0 to a power of at most 0, infinities and NaN are not defined.
    """
    base, exponent = call.value("input1"), call.value("input2")
    wrong = (base < 0) | ((base == 0) & (exponent <= 0))
    refuse_undefined(call, wrong, "a negative base, or 0 to a power of at most 0")
    wrong = ~(np.isfinite(base) & np.isfinite(exponent))
    refuse_undefined(call, wrong, "an infinity or NaN")
    return _in_fp64(call, np.power, "input1", "input2")


def compute_negate(call: Call) -> Array:
    """Return output_zp - (input1 - input1_zp), saturated; floats change the sign.

    The negative of the least INT32 or INT64 is not defined.
    """
    if not call.is_integer:
        return np.negative(call.value("input1"))
    value = call.raw("input1")
    low, high = integer_limits(call.result.dtype)
    if value.dtype.itemsize >= 4:  # these have no zero points
        refuse_undefined(call, value == low, f"it does not fit {call.result.dtype}")
        return np.negative(value)
    wide = value.astype(np.int64)
    negated = call.number("output_zp") - (wide - call.number("input1_zp"))
    return np.clip(negated, low, high)


def compute_maximum(call: Call) -> Array:
    """Return the greater element; NaN if one is NaN, or the other one if nan_mode is IGNORE."""
    function = np.fmax if ignores_nan(call) else np.maximum
    return function(call.value("input1"), call.value("input2"))


def compute_minimum(call: Call) -> Array:
    """Return the lesser element; NaN if one is NaN, or the other one if nan_mode is IGNORE."""
    function = np.fmin if ignores_nan(call) else np.minimum
    return function(call.value("input1"), call.value("input2"))


def compute_clamp(call: Call) -> Array:
    """Return the element within min_val and max_val; NaN stays, or is min_val if nan_mode is IGNORE."""
    value = call.raw("input") if call.is_integer else call.value("input")
    low, high = (np.asarray(call.attributes[name], value.dtype) for name in ("min_val", "max_val"))
    if ignores_nan(call):
        return np.fmin(np.fmax(value, low), high)
    return np.clip(value, low, high)


def ignores_nan(call: Call) -> bool:
    """Return whether an operator of floating point passes over NaN."""
    mode = call.attributes.get("nan_mode", NanPropagationMode.PROPAGATE)
    return bool(mode == NanPropagationMode.IGNORE)


def compute_right_shift(call: Call) -> Array:
    """Return input1 >> input2 with its sign; with `round`, the last bit shifted out is added."""
    value, shift = call.value("input1"), _shift(call)
    result = value >> shift
    if call.attributes["round"]:
        last = (value >> np.maximum(shift - 1, 0)) & 1
        result = result + np.where(shift > 0, last, 0)
    return result


def _shift(call: Call) -> Array:
    """Return the amounts of a shift, which are below the bits of the element type."""
    shift = call.value("input2")
    most = 8 * call.raw("input1").dtype.itemsize - 1
    refuse_undefined(call, (shift < 0) | (shift > most), f"a shift that is not from 0 to {most}")
    return shift


def compute_logical_right_shift(call: Call) -> Array:
    """Return the bits of input1 shifted right by input2, with zeros from the left."""
    element = call.result.dtype
    assert element is not None
    unsigned = np.dtype(f"u{element.element_bytes}")
    value = np.asarray(call.raw("input1"), order="C").view(unsigned).astype(np.uint64)
    return (value >> _shift(call).astype(np.uint64)).astype(unsigned)


def compute_left_shift(call: Call) -> Array:
    """Return the bits of input1 shifted left by input2, with zeros from the right."""
    return call.value("input1").astype(np.int64) << _shift(call).astype(np.int64)


def count_leading_zeros(call: Call) -> Array:
    """Return the number of zero bits before the first one; the bits of the type for 0."""
    value = call.raw("input1")
    words = np.ascontiguousarray(value).view("<u4").reshape(*value.shape, -1)
    # The exponent of an FP64 number is the position of its first bit; 32 bits are exact.
    _, exponent = np.frexp(words.astype(np.float64))
    result = 32 - exponent[..., 0]
    if words.shape[-1] == 2:
        upper = 32 - exponent[..., 1]
        result = np.where(upper < 32, upper, 32 + result)
    return np.asarray(result)


def select(call: Call) -> Array:
    """Return the element of input2 where input1 is true, and of input3 elsewhere."""
    return np.where(call.raw("input1"), call.raw("input2"), call.raw("input3"))


def _in_fp64(call: Call, function: Callable[..., Any], *names: str) -> Array:
    """Compute a function in FP64, so that the result is rounded once."""
    result: Array = function(*(call.value(name).astype(np.float64) for name in names))
    return result


def _of(function: Callable[..., Any], text: str, *names: str) -> Operation:
    """Return an operation on the operands of these names, in the type that they are computed in."""
    return describe(lambda call: function(*(call.value(name) for name in names)), text)


def _tabled_operation(name: str, text: str, error: float, operand: str = "input1") -> Operation:
    """Return an operation in FP64, or with a table for FP32, whose error is in last places."""
    function = TABLED[name]

    def compute(call: Call) -> Array:
        value = call.raw(operand)
        if value.dtype == np.float32 and name in LOOKED_UP_IN_FP32:
            return function(value)
        return _in_fp64(call, function.exact, operand)

    text += f", computed in FP64 and rounded once; of FP32 within {error} units in the last place."
    return describe(compute, text)


BINARY: Final = ("input1", "input2")

OPERATIONS: Final[dict[str, Operation]] = {
    "ABS": compute_abs,
    "ADD": compute_add,
    "ARITHMETIC_RIGHT_SHIFT": compute_right_shift,
    "BITWISE_AND": _of(np.bitwise_and, "Return the bits that both have.", *BINARY),
    "BITWISE_NOT": _of(np.invert, "Return each bit inverted.", "input1"),
    "BITWISE_OR": _of(np.bitwise_or, "Return the bits that one or both have.", *BINARY),
    "BITWISE_XOR": _of(np.bitwise_xor, "Return the bits that only one has.", *BINARY),
    "CEIL": _of(np.ceil, "Return the least integer that is not less.", "input1"),
    "CLAMP": compute_clamp,
    "CLZ": count_leading_zeros,
    "COS": _of(
        np.cos,
        "Return the cosine of an angle in radians, within 2 units in the last place.",
        "input1",
    ),
    "EQUAL": _of(np.equal, "Return whether both are equal; NaN equals nothing.", *BINARY),
    "ERF": _tabled_operation("ERF", "Return the error function", 0.75, "input"),
    "EXP": _tabled_operation("EXP", "Return e to the power of the operand", 0.501),
    "FLOOR": _of(np.floor, "Return the greatest integer that is not greater.", "input1"),
    "GREATER": _of(np.greater, "Return whether input1 > input2; false for NaN.", *BINARY),
    "GREATER_EQUAL": _of(
        np.greater_equal, "Return whether input1 >= input2; false for NaN.", *BINARY
    ),
    "IDENTITY": describe(lambda call: call.raw("input1"), "Return the operand."),
    "INTDIV": compute_divide,
    "LOG": _tabled_operation(
        "LOG", "Return the natural logarithm, which is NaN for negative operands", 0.82
    ),
    "LOGICAL_AND": _of(np.logical_and, "Return whether both are true.", *BINARY),
    "LOGICAL_LEFT_SHIFT": compute_left_shift,
    "LOGICAL_NOT": _of(np.logical_not, "Return whether the operand is false.", "input1"),
    "LOGICAL_OR": _of(np.logical_or, "Return whether one or both are true.", *BINARY),
    "LOGICAL_RIGHT_SHIFT": compute_logical_right_shift,
    "LOGICAL_XOR": _of(np.logical_xor, "Return whether only one is true.", *BINARY),
    "MAXIMUM": compute_maximum,
    "MINIMUM": compute_minimum,
    "MUL": compute_multiply,
    "NEGATE": compute_negate,
    "POW": compute_power,
    "RECIPROCAL": _of(np.reciprocal, "Return 1 / x, correctly rounded.", "input1"),
    "RSQRT": _of(
        lambda value: np.reciprocal(np.sqrt(value)),
        "Return the reciprocal of the correctly rounded root; NaN for negative operands.",
        "input1",
    ),
    "SELECT": select,
    "SIGMOID": _tabled_operation("SIGMOID", "Return 1 / (1 + exp(-x))", 0.501, "input"),
    "SIN": _of(
        np.sin,
        "Return the sine of an angle in radians, within 2 units in the last place.",
        "input1",
    ),
    "SUB": compute_subtract,
    "TANH": _tabled_operation("TANH", "Return the hyperbolic tangent", 0.52, "input"),
}
