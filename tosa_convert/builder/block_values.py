"""The values of a block that is edited: what is known of them, and new ones."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.values import Data, DTypeLike, dtype_of
from tosa_convert.errors import fail
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import INT64, DType
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor, element_value, quoted
from tosa_convert.graph.opset import CONST, CONST_SHAPE, OperatorSpec

#: Larger buffers are not read to find out whether all elements are equal, in bytes.
_MOST_COMPARED: Final = 1 << 16
#: Larger constants are equal only if they share memory.
_SMALL_BYTES: Final = 1 << 8


class BlockValues:
    """The values of a block, by name, and the operators that define them; see `BlockEditor`."""

    #: Whether equal constants that are made are one constant.
    shares_constants = True

    def __init__(self, block: Block, where: str = "") -> None:
        self.source = block
        self.where = where or f"block {quoted(block.name)}"
        self.tensors = dict(block.tensors)
        self.shapes = dict(block.shapes)
        self.operators: list[Operator] = []
        self.producers: dict[str, Operator] = {}
        self.location = ""
        self.stem = ""
        #: `constant_key` of a constant, or the sizes of a constant shape -> the first one that has it.
        self.constants: dict[object, str] = {}
        self._bits: dict[str, bytes | None] = {}
        self._taken = ChainMap[str, Any](self.tensors, self.shapes)
        self._numbers: dict[str, int] = {}

    def add(self, op: Operator) -> None:
        """Add an operator after those that were added; its operands and results are declared."""
        self.operators.append(op)
        for name in op.outputs:
            self.producers[name] = op

    # -- what is known ---------------------------------------------------------------------------

    def data_of(self, name: str) -> Constant | None:
        """Return the data of a tensor that a CONST defines; None for any other value."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST:
            return None
        tensor = self.tensors[name]
        return tensor.data if tensor.scale is None else None

    def bits_of(self, name: str) -> bytes | None:
        """Return the bits that all elements of a constant have.

        None for any other value, or if they differ or are too many to read.
        """
        if name not in self._bits:
            data = self.data_of(name)
            self._bits[name] = None if data is None else _uniform_bits(data)
        return self._bits[name]

    def number_of(self, name: str) -> bool | int | float | None:
        """Return the value that all elements of a constant have; None as for `bits_of`."""
        bits = self.bits_of(name)
        return None if bits is None else _number(bits, self.tensors[name].dtype)

    def sizes_of(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of a shape that a CONST_SHAPE defines; None for any other value."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST_SHAPE:
            return None
        return self.shapes[name].values()

    # -- new values ------------------------------------------------------------------------------

    def fresh_name(self, wanted: str = "") -> str:
        """Return a name that no value has: the wanted one or a similar one."""
        return unused_name(wanted or self.stem or "value", self._taken, numbers=self._numbers)

    def new_tensor(self, wanted: str, dtype: DType, shape: tuple[int, ...] | None) -> str:
        """Add a tensor, which an operator has to define; return its name, `wanted` or a similar one."""
        name = self.fresh_name(wanted)
        self.tensors[name] = Tensor(name, dtype, shape)
        return name

    def constant(self, elements: Data, dtype: DTypeLike, *, name: str = "") -> str:
        """Return the name of a constant: a new one, or one with these elements that was made before.

        Args:
            elements: Its elements, in its shape. Floating-point numbers are rounded.
            dtype: Its element type.
            name: The name that it gets, or a similar one.

        Raises:
            TosaConvertError: "value-out-of-range"; "unsupported-dtype".

        Example:
            >>> import tosa_convert as tc
            >>> from tosa_convert.graph import Block
            >>> edit = tc.edit.BlockEditor(Block("main"))
            >>> edit.constant([[1, 2]], "int8", name="weight")
            'weight'
            >>> edit.tensors["weight"]
            Tensor("weight", INT8 [1, 2], constant)
        """
        array = np.asarray(elements)
        return self.constant_of(self._data(array, dtype_of(dtype)), array.shape, name=name)

    def constant_of(self, data: Constant, shape: tuple[int, ...], *, name: str = "") -> str:
        """Return the name of a constant with this data, as `constant` does."""
        key = constant_key(Tensor("", data.dtype, shape, data)) if self.shares_constants else None
        if key in self.constants:
            return self.constants[key]
        data.padding = data.usual_padding
        made = self.new_tensor(name or self._named("constant"), data.dtype, shape)
        self.tensors[made].data = data
        return self._add_constant(CONST, made, key)

    def number(self, value: float, like: str, *, name: str = "") -> str:
        """Return the name of a constant of one element, which broadcasts with a tensor.

        Args:
            value: The element.
            like: A tensor, whose element type and rank it has.
            name: The name that it gets, or a similar one.

        Raises:
            TosaConvertError: "value-out-of-range".

        Example:
            >>> import tosa_convert as tc
            >>> from tosa_convert.graph import Block, Tensor, dtype
            >>> x = Tensor("x", dtype("FP32"), (2, 3))
            >>> edit = tc.edit.BlockEditor(Block("main", tensors={"x": x}))
            >>> edit.tensors[edit.number(0.5, like="x")]
            Tensor("constant", FP32 [1, 1], constant)
        """
        tensor = self.tensors[like]
        ones = (1,) * len(tensor.shape or ())
        return self.constant_of(self._data(np.array([value]), tensor.dtype), ones, name=name)

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> str:
        """Return the name of a constant of type !tosa.shape, as `constant` does.

        Raises:
            TosaConvertError: "value-out-of-range" for a size that does not fit into 64 bits.
        """
        key = tuple(sizes) if self.shares_constants else None
        if key in self.constants:
            return self.constants[key]
        data = self._data(np.array(sizes or (), object), INT64)
        made = self.fresh_name(name or self._named("sizes"))
        self.shapes[made] = ShapeValue(made, len(sizes), data)
        return self._add_constant(CONST_SHAPE, made, key)

    def _add_constant(self, spec: OperatorSpec, name: str, key: object) -> str:
        if key is not None:
            self.constants[key] = name
        self.add(Operator(spec, (), (name,), {}, self.location))
        return name

    # -- inside ----------------------------------------------------------------------------------

    def _named(self, kind: str) -> str:
        return f"{self.stem}_{kind}" if self.stem else kind

    def _data(self, array: npt.NDArray[Any], element: DType) -> Constant:
        try:
            return constant_of(array, element)
        except ValueError as error:
            raise fail("value-out-of-range", self.where, str(error)) from None


#: Programs have few different numbers in many constants.
_number: Final = lru_cache(1 << 10)(element_value)


def _uniform_bits(data: Constant) -> bytes | None:
    if data.count == 1 and not data.dtype.is_packed:
        return bytes(data.buffer)
    if not data.splat and len(data.buffer) > _MOST_COMPARED:
        return None
    element = data.uniform()
    return None if element is None else bytes(element)


def constant_key(tensor: Tensor) -> object:
    """Return what equal constants have in common, whatever form their data has.

    Large ones are not read: they have their memory in common, or they are splats of one element.
    """
    data = tensor.data
    assert data is not None
    element, shape, buffer = tensor.dtype, tensor.shape, data.buffer
    if data.splat:
        if len(buffer) * data.count > _SMALL_BYTES:
            return element, shape, "splat", bytes(buffer)
        return element, shape, bytes(buffer) * data.count
    if len(buffer) > _SMALL_BYTES:
        return element, shape, data.unpacked, data.address
    if element.is_packed and not data.unpacked:
        return element, shape, data.elements().tobytes()
    return element, shape, bytes(buffer)
