"""Values and operators as the rules see them: types, and operands and results by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.model import DYNAMIC, MAX_RANK, MAX_UNKNOWN_SIZES, Block, ShapeValue, Tensor
from tosa_convert.graph.opset import OPERATORS, OperandSpec, OperatorSpec

if TYPE_CHECKING:
    from tosa_convert.graph.model import Operator


#: Constant operands of at most this many bytes share a type if their bytes are equal.
_SHARED_BYTES: Final = 1 << 10

#: Operators of shapes for which TOSA does not define the result of negative values.
SHAPE_DIVISIONS: Final = frozenset({"DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE", "MOD_SHAPE"})

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
    """Return a shape as messages show it: "?" for what is unknown."""
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


# -- an operator with the types of its operands and results, by name -------------------------------


class OperatorView:
    """An operator of a graph that `verify` accepts: it has the operands and attributes of its row.

    inputs: the types of its operands, in order.
    outputs: the declared types of its results, in order; empty while a program is being built.
    regions: the block of each region by the region's name, for operators that run regions; None if
        they are not known.
    """

    __slots__ = ("inputs", "operator", "outputs", "regions")

    def __init__(
        self,
        operator: Operator,
        inputs: tuple[ValueType, ...],
        outputs: tuple[ValueType, ...],
        regions: Mapping[str, Block] | None = None,
    ) -> None:
        self.operator = operator
        self.inputs = inputs
        self.outputs = outputs
        self.regions = regions

    @property
    def spec(self) -> OperatorSpec:
        return self.operator.spec

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.operator.attributes

    def operands(self) -> Iterator[tuple[OperandSpec, ValueType]]:
        rows, count = self.spec.operands, len(self.inputs)
        # Fast path of OperatorSpec.operand; equal by test test_all_operands_have_the_rows.
        if len(rows) == count:
            return zip(rows, self.inputs, strict=True)
        return ((self.spec.operand(index, count), self.inputs[index]) for index in range(count))

    def results(self) -> Iterator[tuple[OperandSpec, ValueType]]:
        count = len(self.outputs)
        for index, value in enumerate(self.outputs):
            yield self.spec.result(index, count), value

    def all(self, name: str) -> list[ValueType]:
        """Return the operands of a name: one, none or several, as its row allows."""
        return [value for row, value in self.operands() if row.name == name]

    def has(self, name: str) -> bool:
        return bool(self.all(name))

    def tensor(self, name: str) -> TensorType:
        (value,) = self.all(name)
        assert isinstance(value, TensorType)
        return value

    def tensors(self, name: str) -> list[TensorType]:
        """Return the tensor operands of a name that may occur several times, or not at all."""
        return [value for value in self.all(name) if isinstance(value, TensorType)]

    def shape(self, name: str) -> Shape:
        """Return the shape of the tensor operand of this name; None if its rank is unknown."""
        return self.tensor(name).shape

    def sizes(self, name: str) -> tuple[Size, ...]:
        """Return the values of the !tosa.shape operand of this name, None where unknown."""
        (value,) = self.all(name)
        assert isinstance(value, ShapeType)
        return value.sizes

    def splat(self, name: str) -> int | float | None:
        """Return the value that all elements of a constant operand have; None if unknown or several."""
        data = self.tensor(name).data
        if data is None or not data.count:
            return None
        if data.count < FEW:
            first: int | float
            first, *rest = data.values()
            return None if first != first or any(value != first for value in rest) else first
        # Fast path of values; equal by test test_the_value_of_many_elements_is_that_of_few
        elements = data.numpy()
        if (elements != elements[0]).any():
            return None
        value: int | float = np.asarray(elements[0]).item()
        return value
