"""The arrays of a model while it is lowered, and the block that gets their operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.lowering import folding
from tosa_convert.frontends.lowering.types import BOOL, INT32, carrier, is_unsigned, refuse_empty
from tosa_convert.frontends.lowering.types import NotLowered as NotLowered

Data = npt.NDArray[Any]


@dataclass(slots=True, eq=False)
class Array:
    """A value of a model.

    dtype: its element type in the framework.
    shape: its shape in the framework.
    data: its elements if it is a constant. A dimension along which all elements are equal can have
        size 1; otherwise its shape is `shape`.
    value: the value of the program that holds it, with sizes of 1 as in `data`.
    parts: the real and the imaginary part of complex numbers, which have neither data nor value. None of
        the three: it could not be lowered.
    limits: the least and the greatest of its integers, if they are known.
    origin: how it was made of another array by numbers, which later operations use: ("sum", x, (c,)) for
        x + c that wraps around and ("negative", x, ()) for x < 0, of INT32; ("bounded", x, (low, high))
        for a CLAMP; ("scaled", x, (factor,)); ("reshaped", x, ()).
    """

    dtype: Any
    shape: tuple[int, ...]
    data: Data | None = None
    value: Value | None = None
    parts: tuple[Array, Array] | None = None
    limits: tuple[int, int] | None = None
    origin: tuple[str, Array, tuple[float, ...]] | None = None

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
        if self.parts is not None:
            return all(part.is_lowered for part in self.parts)
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


#: An operand: an array, or a number of the type of the other operands.
Operand = Array | float | bool
#: Constants up to this size are equal if their bytes are; larger ones if they are one object.
_SMALL: Final = 256
#: From this size on, a constant with equal elements is stored once and repeated by TILE.
_REPEATED: Final = 4096


def _binary(name: str, dtype: Any = None) -> Callable[[Scope, Operand, Operand], Array]:
    """Return the method that adds an elementwise operator of two operands."""
    return lambda scope, a, b: scope.elementwise(name, a, b, dtype=dtype)


class Scope:
    """A block of the program.

    Elementwise functions take arrays whose shapes broadcast, and numbers. They keep sizes of 1 where
    elements are equal, because TOSA broadcasts them; other operators get whole arrays.

    narrows: INT64 becomes INT32 when the program is read.
    """

    def __init__(self, builder: Builder, narrows: bool = False) -> None:
        self.builder = builder
        self.narrows = narrows
        self._constants: dict[object, tuple[Data, Value]] = {}
        self._whole: dict[tuple[str, tuple[int, ...]], Value] = {}

    # -- values ----------------------------------------------------------------------------------

    def value(self, array: Array) -> Value:
        """Return the value of the program that stores an array. Sizes are 1 where elements are equal."""
        if array.value is not None:
            return array.value
        assert array.data is not None
        kind = carrier(array.dtype)
        is_few_bits = np.dtype(array.dtype).kind == "V" and kind == np.int8
        data = np.asarray(array.data)  # numpy's functions make numbers of arrays of rank 0
        return self._constant(data.astype(kind) if is_few_bits else data.view(kind))

    def whole(self, array: Array) -> Value:
        """Return the value of the program that has all elements of an array."""
        if array.data is not None and array.data.shape != array.shape:
            full = whole_data(array)
            if full.nbytes < _REPEATED:
                return self.value(Array(array.dtype, array.shape, np.ascontiguousarray(full)))
        stored = self.value(array)
        if stored.shape == array.shape:
            return stored
        key = (stored.name, array.shape)
        if key not in self._whole:
            multiples = [n // m for n, m in zip(array.shape, stored.shape or (), strict=True)]
            self._whole[key] = self.builder.tile(stored, multiples)
        return self._whole[key]

    def _constant(self, data: Data) -> Value:
        # Equal bytes, or the same memory, which the entry keeps alive.
        key: tuple[object, ...] = (str(data.dtype), data.shape, data.strides, data.ctypes.data)
        if data.nbytes <= _SMALL:
            key = (str(data.dtype), data.shape, data.tobytes())
        found = self._constants.get(key)
        if found is None:
            refuse_empty(data.shape)
            shared = data.view()
            shared.flags.writeable = False
            found = self._constants[key] = (data, self.builder.const(shared))
        return found[1]

    def array(self, value: Value, dtype: Any, shape: Sequence[int] | None = None) -> Array:
        return Array(
            np.dtype(dtype), tuple(value.shape or () if shape is None else shape), None, value
        )

    def apply(self, name: str, operands: Sequence[Array], kind: Any, **attributes: Any) -> Array:
        """Add an operator of whole arrays."""
        function = getattr(self.builder, name)
        return self.array(function(*map(self.whole, operands), **attributes), kind)

    # -- elementwise operators -------------------------------------------------------------------

    def aligned(self, operands: Sequence[Operand], dtype: Any = None) -> list[Array]:
        """Return operands as arrays of one rank; numbers get the type of the arrays."""
        arrays = [item for item in operands if isinstance(item, Array)]
        rank = max((item.rank for item in arrays), default=0)
        kind = dtype
        if kind is None:
            kind = next((item.dtype for item in arrays if item.dtype != BOOL), BOOL)
        found = []
        for item in operands:
            if not isinstance(item, Array):
                item = constant(np.asarray(item).astype(kind))
            found.append(item if item.rank == rank else self._ranked(item, rank))
        return found

    def _ranked(self, array: Array, rank: int) -> Array:
        """Reshape an array to a higher rank: dimensions of size 1 are put before its own."""
        ones = (1,) * (rank - array.rank)
        shape, stored = ones + array.shape, ones + array.stored
        if array.data is not None:
            return Array(array.dtype, shape, array.data.reshape(stored))
        return Array(array.dtype, shape, None, self.builder.reshape(self.value(array), stored))

    def elementwise(
        self, name: str, *operands: Operand, dtype: Any = None, **attributes: Any
    ) -> Array:
        """Add an elementwise operator. dtype: of the result in the framework, if not the operands'."""
        arrays = self.aligned(operands)
        kind = np.dtype(arrays[-1].dtype if dtype is None else dtype)
        shape = np.broadcast_shapes(*(item.shape for item in arrays))
        known = [item.data for item in arrays if item.data is not None]
        if len(known) == len(arrays) and folding.is_folded(name, attributes):
            return Array(kind, shape, folding.fold(name, known, kind))
        before = self._before_reshape(arrays, shape)
        if before is not None:
            return self.reshaped(self.elementwise(name, *before, dtype=dtype, **attributes), shape)
        function = getattr(self.builder, name)
        made = function(*map(self.value, arrays), **attributes)
        return Array(kind, shape, None, made)

    def reshaped(self, a: Array, shape: Sequence[int]) -> Array:
        """Add RESHAPE. Elementwise operators are put before it, so that it meets the next one."""
        sizes = tuple(shape)
        if a.origin is not None and a.origin[0] == "reshaped":
            a = a.origin[1]
        if a.shape == sizes:
            return a
        made = self.builder.reshape(self.whole(a), sizes)
        return Array(a.dtype, sizes, None, made, origin=("reshaped", a, ()))

    def _before_reshape(
        self, arrays: Sequence[Array], shape: tuple[int, ...]
    ) -> list[Array] | None:
        """Return the operands of the RESHAPEs that made these, if the other operands are constants.

        These differ along the last dimensions only, which the RESHAPE keeps.
        """
        bases = [a.origin[1] if a.origin and a.origin[0] == "reshaped" else None for a in arrays]
        inner = next((base.shape for base in bases if base is not None), None)
        if inner is None:
            return None
        same = 0
        while same < min(len(inner), len(shape)) and inner[-same - 1] == shape[-same - 1]:
            same += 1
        found = []
        for item, base in zip(arrays, bases, strict=True):
            if base is not None and base.shape == inner and item.shape == shape:
                found.append(base)
            elif item.data is not None and math.prod(item.data.shape[: item.rank - same]) == 1:
                last = item.data.shape[item.rank - same :]
                data = item.data.reshape((1,) * (len(inner) - same) + last)
                found.append(Array(item.dtype, tuple(data.shape), data))
            else:
                return None
        return found

    add = _binary("add")
    sub = _binary("sub")
    mul = _binary("mul")
    maximum = _binary("maximum")
    minimum = _binary("minimum")
    greater = _binary("greater", dtype=BOOL)
    greater_equal = _binary("greater_equal", dtype=BOOL)
    equal = _binary("equal", dtype=BOOL)
    both = _binary("logical_and")
    either = _binary("logical_or")

    def negation(self, a: Array) -> Array:
        return self.elementwise("logical_not", a)

    def select(self, condition: Array, yes: Operand, no: Operand, dtype: Any = None) -> Array:
        """Return `yes` where the condition is true, else `no`. dtype: that of two numbers."""
        kind = dtype
        for item in (yes, no):
            kind = item.dtype if isinstance(item, Array) else kind
        numbers = [
            item if isinstance(item, Array) else constant(np.asarray(item).astype(kind))
            for item in (yes, no)
        ]
        return self.elementwise("select", condition, *numbers, dtype=kind)

    def is_nan(self, a: Array) -> Array:
        return self.negation(self.equal(a, a))

    # -- element types ---------------------------------------------------------------------------

    def cast(self, a: Array, dtype: Any) -> Array:
        """Cast by TOSA's CAST between types that it converts, or return a constant of another type."""
        if a.dtype == np.dtype(dtype):
            return a
        if a.data is not None:
            return Array(np.dtype(dtype), a.shape, folding.cast(a.data, dtype))
        made = self.builder.cast(self.value(a), dtype=carrier(dtype))
        return Array(np.dtype(dtype), a.shape, None, made)

    def viewed(self, a: Array, dtype: Any) -> Array:
        """View the same bits as another type with the same carrier."""
        if a.data is not None:
            return Array(np.dtype(dtype), a.shape, a.data.view(dtype))
        assert carrier(a.dtype) == carrier(dtype)
        return Array(np.dtype(dtype), a.shape, None, a.value)

    def widened(self, a: Array) -> Array:
        """Return integers of 8 or 16 bits, or truth values, as INT32 of the same numbers."""
        if a.dtype == INT32 or a.data is not None:
            return self.cast(a, INT32)
        if not is_unsigned(a.dtype):
            return self.cast(a, INT32)
        signed = self.cast(self.viewed(a, carrier(a.dtype)), INT32)
        mask = (1 << 8 * np.dtype(a.dtype).itemsize) - 1
        return self.elementwise("bitwise_and", signed, mask)

    def narrowed(self, a: Array, dtype: Any) -> Array:
        """Return the low bits of INT32 as integers of 8 or 16 bits."""
        if a.data is not None:
            return Array(np.dtype(dtype), a.shape, a.data.astype(dtype))
        if carrier(dtype) == INT32:
            return self.viewed(a, dtype)
        return self.viewed(self.cast(a, carrier(dtype)), dtype)
