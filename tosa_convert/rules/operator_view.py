"""An operator with the types of its operands and results, by the names of the operator table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.opset import OperandSpec, OperatorSpec
from tosa_convert.rules.values import Shape, ShapeType, Size, TensorType, ValueType

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Operator


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
        """Return the operator's row."""
        return self.operator.spec

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the values of its attributes by name."""
        return self.operator.attributes

    def operands(self) -> Iterator[tuple[OperandSpec, ValueType]]:
        """Iterate over the operands, each with its row."""
        rows, count = self.spec.operands, len(self.inputs)
        # Fast path of OperatorSpec.operand; equal by test test_all_operands_have_the_rows.
        if len(rows) == count:
            return zip(rows, self.inputs, strict=True)
        return ((self.spec.operand(index, count), self.inputs[index]) for index in range(count))

    def results(self) -> Iterator[tuple[OperandSpec, ValueType]]:
        """Iterate over the declared results, each with its row."""
        count = len(self.outputs)
        for index, value in enumerate(self.outputs):
            yield self.spec.result(index, count), value

    def all(self, name: str) -> list[ValueType]:
        """Return the operands of a name: one, none or several, as its row allows."""
        return [value for row, value in self.operands() if row.name == name]

    def has(self, name: str) -> bool:
        """Return whether the operator has an operand of this name."""
        return bool(self.all(name))

    def tensor(self, name: str) -> TensorType:
        """Return the tensor operand of this name."""
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
        """Return the value that all elements of a constant operand have.

        None if unknown or not one value.
        """
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
