"""Operators that compute each element of the result of one element of each operand.

Operands are broadcast as numpy does. Integers of 32 bits are computed in INT64 and wrap around where the
specification requires that they fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
    value = call.value("input1")
    if not call.is_integer:
        return -value
    low, high = integer_limits(call.result.dtype)
    if value.dtype.itemsize == 8:
        refuse_undefined(call, value == low, f"it does not fit {call.result.dtype}")
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
    value = np.ascontiguousarray(call.raw("input1")).view(unsigned).astype(np.uint64)
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


def _rounded_once(function: Callable[[Array], Array], text: str, name: str = "input1") -> Operation:
    """Return an operation that is computed in FP64 and rounded once."""
    compute: Operation = lambda call: _in_fp64(call, function, name)  # noqa: E731
    return describe(compute, f"{text}, computed in FP64 and rounded once.")


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-x)) in FP64; where exp overflows that is 0."""
    # Of a rank of 0 numpy gives a number, which it cannot compute in place.
    result: Array = np.asarray(np.negative(value), np.float64)
    np.exp(result, out=result)
    result += 1
    return np.reciprocal(result, out=result)


#: -log(1 - erf(x)) / x is nearly this polynomial, whose error weighs as much as it changes erf(x),
#: relative to erf(x). Beyond 4, where erf(x) is 1 in FP32, it stays large enough.
_ERF_COEFFICIENTS_FP32: Final = (
    *(1.1283792, 0.63661653, 0.1028144, -0.01932168, 0.00020566820, 0.00125178),
    *(-0.00038101216, 0.00004070946),
)


#: The bit of the sign of FP32.
_SIGN_FP32: Final = np.uint32(1 << 31)


def error_function_fp32(value: Array) -> Array:
    """Return erf(x) of an FP32 array, with an error of at most 3 units in the last place."""
    size = np.asarray(np.abs(value))
    coefficients = np.array(_ERF_COEFFICIENTS_FP32, np.float32)
    result = np.asarray(size * coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result += coefficient
        result *= size
    # 1 - exp(-result), which expm1 gives exactly for small numbers.
    np.expm1(np.negative(result, out=result), out=result)
    bits = result.view(np.uint32)
    bits &= ~_SIGN_FP32
    bits |= value.view(np.uint32) & _SIGN_FP32
    return result


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
    """Return erf(x) of an FP64 array, with an error of at most 4e-15; see `error_function_fp32`."""
    if value.dtype == np.float32:
        return error_function_fp32(value)
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
    "ERF": _of(
        error_function, "Return the error function, within 3 units in the last place.", "input"
    ),
    "EXP": _rounded_once(np.exp, "Return e to the power of the operand"),
    "FLOOR": _of(np.floor, "Return the greatest integer that is not greater.", "input1"),
    "GREATER": _of(np.greater, "Return whether input1 > input2; false for NaN.", *BINARY),
    "GREATER_EQUAL": _of(
        np.greater_equal, "Return whether input1 >= input2; false for NaN.", *BINARY
    ),
    "IDENTITY": describe(lambda call: call.raw("input1"), "Return the operand."),
    "INTDIV": compute_divide,
    "LOG": _rounded_once(np.log, "Return the natural logarithm; NaN for negative operands"),
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
    "SIGMOID": _of(
        sigmoid, "Return 1 / (1 + exp(-x)), computed in FP64 and rounded once.", "input"
    ),
    "SIN": _of(
        np.sin,
        "Return the sine of an angle in radians, within 2 units in the last place.",
        "input1",
    ),
    "SUB": compute_subtract,
    "TANH": _rounded_once(np.tanh, "Return the hyperbolic tangent", "input"),
}
