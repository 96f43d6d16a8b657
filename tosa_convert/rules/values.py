"""Types of values, as the rules of operators see them.

Values of equal type share one object, so that types are compared and hashed by identity. A program
of 100,000 operators has few types.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.model import DYNAMIC, MAX_RANK, MAX_UNKNOWN_SIZES, Block, ShapeValue, Tensor
from tosa_convert.graph.opset import OPERATORS, OperatorSpec

#: Constant operands of at most this many bytes share a type if their bytes are equal.
_SHARED_BYTES: Final = 1 << 10

#: A size of a !tosa.shape; None if it is not known before the program runs.
Size = int | None
#: The shape of a tensor: DYNAMIC where a size is unknown; None if the rank is unknown.
Shape = tuple[int, ...] | None


class TensorType:
    """The type of a tensor.

    shape: sizes, DYNAMIC where unknown; None if the rank is unknown.
    scale: of a block-scaled tensor, the element type of its scales and their block.
    data: the elements of a constant, if the rules of an operator read them.
    """

    __slots__ = ("data", "dtype", "scale", "shape")

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...] | None,
        scale: tuple[DType, BlockShape] | None = None,
        data: Constant | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.scale = scale
        self.data = data

    @property
    def rank(self) -> int | None:
        """Return the number of dimensions, or None if it is unknown."""
        return None if self.shape is None else len(self.shape)

    def __str__(self) -> str:
        blocks = "" if self.scale is None else f" in blocks of {int(self.scale[1])}"
        return f"{self.dtype} {shape_text(self.shape)}{blocks}"


class ShapeType:
    """The type of a !tosa.shape. sizes: its values, as far as they are known."""

    __slots__ = ("rank", "sizes")

    def __init__(self, rank: int, sizes: tuple[Size, ...]) -> None:
        self.rank = rank
        self.sizes = sizes

    def __str__(self) -> str:
        return f"shape {shape_text(self.sizes)}"


ValueType = TensorType | ShapeType


def shape_text(sizes: tuple[Size, ...] | None) -> str:
    """Return a shape as messages show it: "?" for what is unknown.

    Example:
        >>> shape_text((2, -1)), shape_text(()), shape_text(None)
        ('[2, ?]', '[]', 'of unknown rank')
    """
    if sizes is None:
        return "of unknown rank"
    shown = ["?" if size is None or size == DYNAMIC else str(size) for size in sizes[:MAX_RANK]]
    if len(sizes) > MAX_RANK:
        shown.append(f"... {len(sizes)} sizes")
    return f"[{', '.join(shown)}]"


#: Domains of operands that need not be constants. TOSA restricts their elements (REQUIRE in the
#: pseudocode of the operator: any other element leaves the result unpredictable), so those of a
#: constant are judged.
_RESTRICTED: Final = ("index", "shift", "divisor")

#: The positions at which an operator has operands whose elements its rules read, from the end:
#: compile-time constants and restricted operands.
READ_POSITIONS: Final[dict[OperatorSpec, tuple[int, ...]]] = {
    spec: positions
    for spec in OPERATORS
    if (
        positions := tuple(
            index - len(spec.operands)
            for index, row in enumerate(spec.operands)
            if row.is_constant or row.domain in _RESTRICTED
        )
    )
}


class TypeTable:
    """Makes the types of values, each once."""

    def __init__(self) -> None:
        self._tensors: dict[object, TensorType] = {}
        self._shapes: dict[object, ShapeType] = {}

    def tensor(
        self,
        dtype: DType,
        shape: tuple[int, ...] | None,
        scale: tuple[DType, BlockShape] | None = None,
    ) -> TensorType:
        """Return the type of a tensor whose data does not matter."""
        key = (dtype, shape, scale)
        type_ = self._tensors.get(key)
        if type_ is None:
            type_ = self._tensors[key] = TensorType(dtype, shape, scale)
        return type_

    def shape(self, sizes: tuple[Size, ...]) -> ShapeType:
        """Return the type of a !tosa.shape with these sizes."""
        type_ = self._shapes.get(sizes)
        if type_ is None:
            type_ = self._shapes[sizes] = ShapeType(len(sizes), sizes)
        return type_

    def of_tensor(self, tensor: Tensor, *, with_data: bool) -> TensorType:
        """Return the declared type of a tensor. with_data: an operator looks at its elements."""
        scale = None if tensor.scale is None else (tensor.scale.dtype, tensor.scale.shape)
        data = tensor.data
        # The data of a variable is only its first value.
        if not with_data or data is None or tensor.variable:
            return self.tensor(tensor.dtype, tensor.shape, scale)
        if len(data.buffer) > _SHARED_BYTES:
            return TensorType(tensor.dtype, tensor.shape, scale, data)
        key = (tensor.dtype, tensor.shape, scale, data.count, data.splat, bytes(data.buffer))
        type_ = self._tensors.get(key)
        if type_ is None:
            type_ = self._tensors[key] = TensorType(tensor.dtype, tensor.shape, scale, data)
        return type_

    def of_shape(self, shape: ShapeValue) -> ShapeType:
        """Return the declared type of a !tosa.shape, with its values if it is constant."""
        values = shape.values()
        # `verify` refuses more.
        unknown = (None,) * min(shape.rank, MAX_UNKNOWN_SIZES)
        return self.shape(unknown if values is None else values)

    def of_block(self, block: Block) -> dict[str, ValueType]:
        """Return the declared types of all values of a block, by their names."""
        needed = {
            operator.inputs[position]
            for operator in block.operators
            if operator.spec in READ_POSITIONS
            for position in READ_POSITIONS[operator.spec]
        }
        types: dict[str, ValueType] = {
            name: self.of_shape(shape) for name, shape in block.shapes.items()
        }
        tensors = self._tensors
        for name, tensor in block.tensors.items():
            # Fast path of of_tensor; equal by test test_types_of_plain_tensors_are_those_of_of_tensor.
            if tensor.scale is None and name not in needed:
                type_ = tensors.get((tensor.dtype, tensor.shape, None))
                if type_ is not None:
                    types[name] = type_
                    continue
            types[name] = self.of_tensor(tensor, with_data=name in needed)
        return types
