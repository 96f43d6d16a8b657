"""The values of a JAX function while it is lowered, and the element types that hold them in TOSA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tosa_convert.builder.values import Value

Data = npt.NDArray[Any]

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
}
_ADVICE: Final = {
    "float64": "compute in float32: leave jax_enable_x64 off, or cast the arguments",
    "complex64": "compute with real and imaginary parts as two float32 arrays",
    "complex128": "compute with real and imaginary parts as two float32 arrays",
}
RANDOM_ADVICE: Final = "draw random numbers outside and pass them as an argument"

INT32: Final = np.dtype(np.int32)
BOOL: Final = np.dtype(np.bool_)
FLOAT32: Final = np.dtype(np.float32)


class NotLowered(Exception):
    """A primitive, or what it is used for, that does not lower.

    reason: what TOSA does not have. advice: what would help.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def carrier(dtype: Any) -> np.dtype[Any]:
    """Return the numpy type whose TOSA counterpart holds the bits of an element type of JAX.

    Raises:
        NotLowered: TOSA has none.

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


_EXTENDED_FLOATS: Final = {
    np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
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
    limits = np.iinfo(dtype)
    return limits.min if word == "max" else limits.max


@dataclass(slots=True, eq=False)
class Array:
    """A value of a JAX function.

    dtype: its element type in JAX.
    shape: its shape in JAX.
    data: its elements if it is a constant. A dimension along which all elements are equal can have
        size 1; otherwise its shape is `shape`.
    value: the value of the program that holds it, with sizes of 1 as in `data`. Neither data nor value:
        it could not be lowered.
    """

    dtype: Any
    shape: tuple[int, ...]
    data: Data | None = None
    value: Value | None = None

    @property
    def stored(self) -> tuple[int, ...]:
        """Return the shape that is stored: that of `data` or of `value`."""
        if self.data is not None:
            return tuple(self.data.shape)
        assert self.value is not None
        return self.value.shape or ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_lowered(self) -> bool:
        return self.data is not None or self.value is not None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def number(self) -> Any:
        """Return the element that a constant has everywhere; None for others."""
        if self.data is None or self.data.size != 1 or not isinstance(self.data, np.ndarray):
            return None
        return self.data.reshape(())[()]


def constant(data: Any, dtype: Any = None) -> Array:
    """Make a constant; data without an element type needs `dtype`."""
    made = np.asarray(data) if dtype is None else np.asarray(data, dtype)
    return Array(made.dtype, tuple(made.shape), made)


def whole_data(array: Array) -> Data:
    """Return the elements of a constant in its shape; a view if some are stored once."""
    assert array.data is not None
    return np.broadcast_to(array.data, array.shape)
