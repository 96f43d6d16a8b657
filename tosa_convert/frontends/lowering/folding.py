"""Elementwise operators of constants by numpy; functions such as EXP in float64, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Data = npt.NDArray[Any]

_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])


def _rounded(function: Callable[..., Any]) -> Callable[..., Data]:
    def computed(*operands: Data) -> Data:
        made = np.asarray(function(*(item.astype(np.float64) for item in operands)))
        return made.astype(operands[0].dtype)

    return computed


def quotient(a: Data, b: Data) -> Data:
    """Divide integers, rounded to 0."""
    down = np.floor_divide(a, b)
    is_below = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return np.asarray(down + is_below.astype(down.dtype))


def _logical_right_shift(a: Data, by: Data) -> Data:
    unsigned = np.dtype(f"u{a.dtype.name.removeprefix('u')}")
    return np.right_shift(a.view(unsigned), by.astype(unsigned)).view(a.dtype)


def _leading_zeros(a: Data) -> Data:
    """Count the zero bits above the highest one of integers of at most 32 bits."""
    bits = 8 * a.dtype.itemsize
    unsigned = a.astype(np.int64) & ((1 << bits) - 1)
    return np.asarray(bits - np.frexp(unsigned.astype(np.float64))[1]).astype(a.dtype)


_FUNCTIONS: Final[dict[str, Callable[..., Data]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "select": np.where,
    "abs": np.abs,
    "negate": np.negative,
    "ceil": np.ceil,
    "floor": np.floor,
    "cos": _rounded(np.cos),
    "erf": _rounded(lambda x: _ERF(x) if x.size else x),
    "exp": _rounded(np.exp),
    "log": _rounded(np.log),
    "pow": _rounded(np.power),
    "reciprocal": _rounded(lambda x: 1 / x),
    "rsqrt": _rounded(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _rounded(lambda x: 1 / (1 + np.exp(-x))),
    "sin": _rounded(np.sin),
    "tanh": _rounded(np.tanh),
    "intdiv": quotient,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not,
    "clz": _leading_zeros,
    "logical_left_shift": np.left_shift,
    "logical_right_shift": _logical_right_shift,
    "arithmetic_right_shift": np.right_shift,
}


def is_folded(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether numpy computes what an operator with these attributes does."""
    return name in _FUNCTIONS and not any(attributes.values())


def fold(name: str, operands: list[Data], dtype: Any) -> Data:
    with np.errstate(all="ignore"):
        return np.asarray(_FUNCTIONS[name](*operands)).astype(dtype, copy=False)


def cast(data: Data, dtype: Any) -> Data:
    """Convert elements as CAST does: to the nearest integer in the range, the even one of two."""
    kind = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if data.dtype.kind in "iub" or kind.kind not in "iu":
            return data.astype(kind)
        return to_integers(np.rint(data.astype(np.float64)), kind)


def to_integers(whole: Data, dtype: Any) -> Data:
    """Convert whole numbers in float64 to integers, the nearest in the range; NaN becomes 0."""
    limits = np.iinfo(dtype)
    number = np.nan_to_num(whole, nan=0.0, posinf=np.inf, neginf=-np.inf)
    is_above, is_below = number >= float(limits.max), number <= float(limits.min)
    inside = np.where(is_above | is_below, 0, number).astype(dtype)
    made = np.where(is_above, limits.max, np.where(is_below, limits.min, inside))
    return made.astype(dtype)
