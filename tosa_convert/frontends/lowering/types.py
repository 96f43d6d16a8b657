"""The element types of a model's arrays, and what TOSA has for them."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

#: Element type of JAX -> the type of numpy whose TOSA counterpart holds its bits.
_CARRIERS: Final = {
    **{
        name: np.dtype(name)
        for name in ("bool", "int8", "int16", "int32", "int64", "float16", "float32")
    },
    "uint8": np.dtype(np.int8),
    "uint16": np.dtype(np.int16),
    "uint32": np.dtype(np.int32),
    "uint64": np.dtype(np.int64),
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    },
    # TOSA's CAST takes no integers of fewer bits than 8.
    **{name: np.dtype(np.int8) for name in ("int2", "int4", "uint2", "uint4")},
}
_ADVICE: Final = {
    "float64": "compute in float32",
    "complex64": "compute with real and imaginary parts as two float32 arrays",
    "complex128": "compute with real and imaginary parts as two float32 arrays",
}
RANDOM_ADVICE: Final = "draw random numbers outside and pass them as an argument"

INT32: Final = np.dtype(np.int32)
INT64: Final = np.dtype(np.int64)
BOOL: Final = np.dtype(np.bool_)
FLOAT32: Final = np.dtype(np.float32)


class NotLowered(Exception):
    """Say what does not lower. reason: what TOSA does not have. advice: what would help."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def carrier(dtype: Any) -> np.dtype[Any]:
    """Return the numpy type whose TOSA counterpart holds the bits of an element type of JAX.

    Example:
        >>> carrier(np.dtype("uint8")), carrier(np.dtype("float32"))
        (dtype('int8'), dtype('float32'))
    """
    name = np.dtype(dtype).name if isinstance(dtype, type) else str(dtype)
    found = _CARRIERS.get(name)
    if found is None:
        advice = (
            RANDOM_ADVICE if name.startswith("key<") else _ADVICE.get(name, "cast to another type")
        )
        raise NotLowered(f"TOSA does not have the element type {name}", advice)
    return found


def refuse_empty(shape: tuple[int, ...]) -> None:
    """Raise NotLowered for the shape of an array without elements."""
    if 0 in shape:
        advice = "remove the dimension of size 0"
        raise NotLowered(f"TOSA does not have empty tensors, such as {list(shape)}", advice)


def is_float(dtype: Any) -> bool:
    """Return whether elements are floating-point numbers, bfloat16 included."""
    return np.dtype(dtype).kind == "f" or np.dtype(dtype) in _EXTENDED_FLOATS


#: TOSA has no tensors of some of these, but constants of them are computed with.
_EXTENDED_FLOATS: Final = {
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
        *("float8_e8m0fnu", "float4_e2m1fn"),
    )
}


def is_unsigned(dtype: Any) -> bool:
    return np.dtype(dtype).kind == "u"


def is_small(dtype: Any) -> bool:
    """Return whether elements are integers of 8 or 16 bits, which TOSA computes with as INT32."""
    return np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 4


def neutral(word: str, dtype: Any) -> float:
    """Return the number that changes no other by "add", "sub", "mul", "max" or "min"."""
    if word not in ("max", "min"):
        return 1 if word == "mul" else 0
    if is_float(dtype):
        return -np.inf if word == "max" else np.inf
    if dtype == BOOL:
        return word == "min"
    limits: Any = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min if word == "max" else limits.max)
