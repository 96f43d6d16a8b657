"""A block of the program that is being lowered, and the operation of JAX that is lowered into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.jax.arrays import (
    BOOL,
    INT32,
    Array,
    Data,
    carrier,
    constant,
    is_unsigned,
    refuse_empty,
    whole_data,
)

#: An operand: an array, or a number of the type of the other operands.
Operand = Array | float | bool
#: Constants up to this size are equal if their bytes are; larger ones if they are one object.
_SMALL: Final = 256
#: From this size on, a constant with equal elements is stored once and repeated by TILE.
_REPEATED: Final = 4096

#: Operators that are computed at once if their operands are constants.
_FOLDED: Final[dict[str, Callable[..., Data]]] = {
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
}


def _binary(name: str, dtype: Any = None) -> Callable[[Scope, Operand, Operand], Array]:
    """Return the method that adds an elementwise operator of two operands."""
    return lambda scope, a, b: scope.elementwise(name, a, b, dtype=dtype)


class Scope:
    """A block of the program.

    Elementwise functions take arrays of one shape or of rank 0, and numbers. They keep sizes of 1 where
    elements are equal, because TOSA broadcasts them; other operators get whole arrays.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._constants: dict[object, tuple[Data, Value]] = {}
        self._whole: dict[tuple[str, tuple[int, ...]], Value] = {}

    # -- values ----------------------------------------------------------------------------------

    def value(self, array: Array) -> Value:
        """Return the value of the program that stores an array. Sizes are 1 where elements are equal."""
        if array.value is not None:
            return array.value
        assert array.data is not None
        return self._constant(array.data.view(carrier(array.dtype)))

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
            found = self._constants[key] = (data, self.builder.const(data))
        return found[1]

    def array(self, value: Value, dtype: Any, shape: Sequence[int] | None = None) -> Array:
        """Return the array that a value of the program holds."""
        return Array(
            np.dtype(dtype), tuple(value.shape or () if shape is None else shape), None, value
        )

    def apply(self, name: str, operands: Sequence[Array], kind: Any, **attributes: Any) -> Array:
        """Add an operator of whole arrays.

        Args:
            name: The function of the builder.
            operands: Its tensors.
            kind: The element type of the result in JAX.
            attributes: Its attributes, and operands that are shapes.
        """
        function = getattr(self.builder, name)
        return self.array(function(*map(self.whole, operands), **attributes), kind)

    # -- elementwise operators -------------------------------------------------------------------

    def aligned(self, operands: Sequence[Operand], dtype: Any = None) -> list[Array]:
        """Operands as arrays of one rank; numbers get the type of the arrays."""
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
        """Reshape an array of rank 0 to another rank."""
        assert array.rank == 0, array.shape
        ones = (1,) * rank
        if array.data is not None:
            return Array(array.dtype, ones, array.data.reshape(ones))
        return self.array(self.builder.reshape(self.value(array), ones), array.dtype)

    def elementwise(
        self, name: str, *operands: Operand, dtype: Any = None, **attributes: Any
    ) -> Array:
        """Add an elementwise operator.

        dtype: the type of the result in JAX, if it is not the operands'.
        """
        arrays = self.aligned(operands)
        kind = np.dtype(arrays[-1].dtype if dtype is None else dtype)
        shape = np.broadcast_shapes(*(item.shape for item in arrays))
        if name in _FOLDED and not attributes and all(item.is_constant for item in arrays):
            with np.errstate(all="ignore"):
                data = _FOLDED[name](*(item.data for item in arrays))
            return Array(kind, shape, np.asarray(data, kind))
        function = getattr(self.builder, name)
        made = function(*map(self.value, arrays), **attributes)
        return Array(kind, shape, None, made)

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
        """Return the other truth value."""
        return self.elementwise("logical_not", a)

    def select(self, condition: Array, yes: Operand, no: Operand, dtype: Any = None) -> Array:
        """Elements of `yes` where the condition is true, else of `no`. dtype: that of two numbers."""
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
        """TOSA's CAST between types that it converts, or a constant of another type."""
        if a.dtype == np.dtype(dtype):
            return a
        if a.data is not None:
            with np.errstate(all="ignore"):
                return Array(np.dtype(dtype), a.shape, a.data.astype(dtype))
        made = self.builder.cast(self.value(a), dtype=carrier(dtype))
        return Array(np.dtype(dtype), a.shape, None, made)

    def viewed(self, a: Array, dtype: Any) -> Array:
        """View the same bits as another type with the same carrier."""
        if a.data is not None:
            return Array(np.dtype(dtype), a.shape, a.data.view(dtype))
        assert carrier(a.dtype) == carrier(dtype)
        return Array(np.dtype(dtype), a.shape, None, a.value)

    def widened(self, a: Array) -> Array:
        """Integers of 8 or 16 bits, or truth values, as INT32 of the same numbers."""
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


#: Lowers a function of its own, such as the body of a loop: the block, the function, its arguments.
Run = Callable[[Scope, Any, Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that is lowered.

    scope: the block that gets the operators.
    inputs: its operands, all of them lowered.
    params: its parameters.
    shapes, dtypes: those of its results.
    run: lowers a function among the parameters.
    """

    scope: Scope
    inputs: Sequence[Array]
    params: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[Any]
    run: Run

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the first result."""
        return self.shapes[0]

    @property
    def dtype(self) -> Any:
        """Return the element type of the first result."""
        return self.dtypes[0]


#: Lowers an operation.
Rule = Callable[[Step], Array | Sequence[Array]]
