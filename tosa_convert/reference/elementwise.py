"""Operators that compute each element of the result of one element of each operand.

Operands are broadcast as numpy does. Integers of 32 bits are computed in INT64 and wrap around where the
specification requires that they fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    describe,
    integer_limits,
    refuse_undefined,
)
from tosa_convert.reference.parts import LOOKED_UP_IN_FP32
from tosa_convert.reference.tabled_functions import TABLED


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


def _tabled(name: str, text: str, error: float, operand: str = "input1") -> Operation:
    """Return an operation that is computed in FP64, but for FP32 where a table is faster.

    error: of results in FP32, in units in the last place.
    """
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
    "ERF": _tabled("ERF", "Return the error function", 0.75, "input"),
    "EXP": _tabled("EXP", "Return e to the power of the operand", 0.501),
    "FLOOR": _of(np.floor, "Return the greatest integer that is not greater.", "input1"),
    "GREATER": _of(np.greater, "Return whether input1 > input2; false for NaN.", *BINARY),
    "GREATER_EQUAL": _of(
        np.greater_equal, "Return whether input1 >= input2; false for NaN.", *BINARY
    ),
    "IDENTITY": describe(lambda call: call.raw("input1"), "Return the operand."),
    "INTDIV": compute_divide,
    "LOG": _tabled("LOG", "Return the natural logarithm, which is NaN for negative operands", 0.82),
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
    "SIGMOID": _tabled("SIGMOID", "Return 1 / (1 + exp(-x))", 0.501, "input"),
    "SIN": _of(
        np.sin,
        "Return the sine of an angle in radians, within 2 units in the last place.",
        "input1",
    ),
    "SUB": compute_subtract,
    "TANH": _tabled("TANH", "Return the hyperbolic tangent", 0.52, "input"),
}
