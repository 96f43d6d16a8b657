"""Operators on numbers, computed by numpy with the bits that the reference model gives.

Results are exact or correctly rounded; RSQRT is the reciprocal of the correctly rounded root. Sums of
floating-point numbers over an axis are not among them, because the order of additions matters, and
neither are functions such as EXP. Where TOSA leaves a result unpredictable, such as an integer that does
not fit or a division by zero, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.graph.dtypes import DType, NanPropagationMode

Array = npt.NDArray[Any]
#: Computes a result of operands and attributes; None if it is not defined. Integers are INT64 arrays, or
#: Python's if the operand is INT64, and floating-point numbers FP32 arrays.
Arithmetic = Callable[[Sequence[Array], Mapping[str, Any]], Array | None]


def _mul(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    one, other, shift = operands
    return None if shift.any() else one * other


def _maximum(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    ignores = attributes["nan_mode"] == NanPropagationMode.IGNORE
    return _without_equal_zeros(np.fmax if ignores else np.maximum, operands)


def _minimum(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    ignores = attributes["nan_mode"] == NanPropagationMode.IGNORE
    return _without_equal_zeros(np.fmin if ignores else np.minimum, operands)


def _without_equal_zeros(
    function: Callable[[Array, Array], Array], operands: Sequence[Array]
) -> Array | None:
    """Return a maximum or minimum; None where 0 and -0 meet, of which either may be the result."""
    one, other = operands
    if one.dtype.kind == "f":
        zeros = (one == 0) & (other == 0)
        if (zeros & (np.signbit(one) != np.signbit(other))).any():
            return None
    return function(one, other)


def _clamp(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    (value,) = operands
    if value.dtype.kind == "f" and np.isnan(value).any():
        return None
    low, high = (np.array(attributes[name], value.dtype) for name in ("min_val", "max_val"))
    raised = _without_equal_zeros(np.maximum, (value, low))
    return None if raised is None else _without_equal_zeros(np.minimum, (raised, high))


def _negate(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    value, *zero_points = operands
    return None if any(point.any() for point in zero_points) else -value


def _intdiv(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    one, other = operands
    if (other == 0).any():
        return None
    quotient = np.abs(one) // np.abs(other)
    return np.where((one < 0) == (other < 0), quotient, -quotient)


def _reduce(function: Any) -> Arithmetic:
    def compute(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
        if operands[0].dtype.kind == "f":
            return None
        result: Array = function.reduce(operands[0], axis=attributes["axis"], keepdims=True)
        return result

    return compute


def _reduce_sum(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    (value,) = operands
    if value.dtype.kind == "f" or np.abs(value).sum() > np.iinfo(np.int32).max:
        return None  # the order of additions could matter
    result: Array = np.add.reduce(value, axis=attributes["axis"], keepdims=True)
    return result


def _of(function: Callable[..., Array]) -> Arithmetic:
    return lambda operands, attributes: function(*operands)


ARITHMETIC: Final[dict[str, Arithmetic]] = {
    "ABS": _of(np.abs),
    "ADD": _of(np.add),
    "BITWISE_AND": _of(np.bitwise_and),
    "BITWISE_NOT": _of(np.invert),
    "BITWISE_OR": _of(np.bitwise_or),
    "BITWISE_XOR": _of(np.bitwise_xor),
    "CEIL": _of(np.ceil),
    "CLAMP": _clamp,
    "EQUAL": _of(np.equal),
    "FLOOR": _of(np.floor),
    "GREATER": _of(np.greater),
    "GREATER_EQUAL": _of(np.greater_equal),
    "INTDIV": _intdiv,
    "LOGICAL_AND": _of(np.logical_and),
    "LOGICAL_NOT": _of(np.logical_not),
    "LOGICAL_OR": _of(np.logical_or),
    "LOGICAL_XOR": _of(np.logical_xor),
    "MAXIMUM": _maximum,
    "MINIMUM": _minimum,
    "MUL": _mul,
    "NEGATE": _negate,
    "REDUCE_ALL": _reduce(np.logical_and),
    "REDUCE_ANY": _reduce(np.logical_or),
    "REDUCE_MAX": _reduce(np.maximum),
    "REDUCE_MIN": _reduce(np.minimum),
    "REDUCE_SUM": _reduce_sum,
    "RECIPROCAL": _of(np.reciprocal),
    "RSQRT": _of(lambda value: np.reciprocal(np.sqrt(value))),
    "SUB": _of(np.subtract),
    "CAST": lambda operands, attributes: operands[0],
}


def compute(
    kind: str, operands: Sequence[Array], attributes: Mapping[str, Any], element: DType
) -> Array | None:
    """Compute an operator of `ARITHMETIC` as an array of its result's element type.

    Args:
        kind: the operator.
        operands: its operands, of any of numpy's and ml_dtypes' types.
        attributes: its attributes; those of one element as numbers.
        element: the element type of the result.

    Returns:
        The result; None if TOSA does not define it, or leaves it to the implementation.
    """
    wide = [_widened(array) for array in operands]
    with np.errstate(all="ignore"):
        result = ARITHMETIC[kind](wide, attributes)
        # numpy returns a number, and not an array, for operands of rank 0.
        return None if result is None else _converted(np.asarray(result), element)


def _widened(array: Array) -> Array:
    """Integers as INT64 and floating-point numbers as FP32, which hold every value; BOOL stays."""
    if array.dtype.kind in "iu":
        return array.astype(object if array.dtype.itemsize == 8 else np.int64)
    return array if array.dtype.kind == "b" else array.astype(np.float32)


def _converted(result: Array, element: DType) -> Array | None:
    """Convert a result to an array of its element type; return None if a value does not fit."""
    if element.name == "BOOL":
        return result.astype(bool)
    if element.is_float:
        if result.dtype.kind != "f":
            # Exact, so that the number is rounded once.
            result = result.astype(np.float64)
        return result.astype(element.numpy)
    if result.dtype.kind == "f":
        # CAST rounds to the nearest, and halves to even. What does not fit is left to the run.
        result = np.rint(result)
        if not np.isfinite(result).all():
            return None
        result = result.astype(np.int64)
    low, high = -(1 << element.bits - 1), (1 << element.bits - 1) - 1
    if ((result < low) | (result > high)).any():
        return None
    return result.astype(element.numpy)
