"""What the inverse of a rule works with: the values of a block, and its operators in an older form."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.eras.dialect_states import (
    ATTRIBUTES,
    BF16_ACCUMULATORS,
    NARROW_AXES,
    name_in,
)
from tosa_convert.eras.older_to_current.editor import Refused
from tosa_convert.eras.older_to_current.old_operation import (
    Element,
    Integer,
    Integers,
    OlderOperator,
    WrittenValue,
)
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import CONST, AttributeSpec, operator

#: The list of integers that has 32 bits each.
_NARROW_LISTS: Final = frozenset({"perms"})
_BF16: Final = dtype("BF16")
_FOLD: Final = "fold it into a constant"


class DowngradeEditor(BlockEditor):
    """Makes the operators of one block in the form of a state of the dialect.

    state: see `dialect_states`. read: constants that became attributes, which are left out unless
        something else uses them.
    """

    #: The largest bound of integers that CLAMP can have.
    largest_bound: float = 2.0**62

    def __init__(self, block: Block, state: str) -> None:
        super().__init__(block)
        self.state = state
        self.read: set[str] = set()
        #: Constants -> the same as tensors of rank 0.
        self._scalars: dict[str, str] = {}

    def since(self, state: str) -> str:
        """Return what came with a state of the dialect, in the words of who reads the message."""
        return state

    # -- values that are there ----------------------------------------------------------------

    def rank(self, name: str) -> tuple[int, ...]:
        """Return the sizes of a tensor, whose rank must be known."""
        shape = self.tensors[name].shape
        if shape is None:
            raise Refused("the rank of an operand or result is not known")
        return shape

    def sizes(self, name: str, what: str) -> tuple[int, ...]:
        """Return the sizes of a shape that becomes an attribute."""
        values = self.shapes[name].values()
        if values is None:
            raise Refused(f"its {what} is not a constant", _FOLD)
        self.read.add(name)
        return values

    def numbers(self, name: str, what: str) -> tuple[int, ...]:
        """Return the integers of a constant that becomes an attribute."""
        return tuple(map(int, self._elements(name, what)))

    def only_number(self, name: str, what: str) -> float:
        """Return the only element of a constant that becomes an attribute."""
        return float(self._elements(name, what)[0])

    def _elements(self, name: str, what: str) -> Any:
        tensor = self.tensors[name]
        if tensor.data is None or tensor.variable:
            raise Refused(f"its {what} is not a constant", _FOLD)
        self.read.add(name)
        return tensor.data.numpy()

    # -- attributes ---------------------------------------------------------------------------

    def attributes(self, operator: Operator, *without: str) -> dict[str, WrittenValue]:
        """Return an operator's attributes, in the types of the state, without those of these names."""
        rows = [row for row in operator.spec.attributes if row.name not in without]
        found = {}
        for row in rows:
            since = ATTRIBUTES.get(row.name, "")
            if self.state >= since and row.kind != "region":
                found[row.name] = self._attribute(operator, row)
            elif row.kind != "region" and operator.attributes[row.name] != row.default:
                raise Refused(f"{row.name} is an attribute only since {self.since(since)}")
        return found

    def _attribute(self, operator: Operator, row: AttributeSpec) -> WrittenValue:
        value: Any = operator.attributes[row.name]
        if value is _BF16 and self.state < BF16_ACCUMULATORS:
            raise Refused(f"{row.name} can be BF16 only since {self.since(BF16_ACCUMULATORS)}")
        if row.kind == "i32":
            return Integer(value, 64 if row.name == "axis" and self.state < NARROW_AXES else 32)
        if row.kind == "i32s":
            return Integers(value, 32 if row.name in _NARROW_LISTS else 64)
        if row.kind == "element":
            return Element(value, self.tensors[operator.inputs[0]].dtype)
        assert isinstance(value, (bool, str, bytes, DType, IntEnum))
        return value

    # -- values and operators that are made -------------------------------------------------------

    def scalar(self, name: str, stem: str) -> str:
        """Return a tensor of one element as one of rank 0."""
        tensor = self.tensors[name]
        if tensor.shape == ():
            return name
        if tensor.data is None or tensor.variable:
            made = self.new_tensor(stem, tensor.dtype, ())
            reshape = Operator(operator("RESHAPE"), (name,), (made,), {}, self.location)
            self.downgrade(reshape, {"new_shape": Integers((), 64)})
            return made
        if name not in self._scalars:
            made = self._scalars[name] = self.new_tensor(stem, tensor.dtype, ())
            self.read.add(name)
            self.tensors[made].data = tensor.data
            self.add(Operator(CONST, (), (made,), {}, self.location))
        return self._scalars[name]

    def add(self, op: Operator) -> None:
        """Add an operator in the older form; one that has the form of today has no attributes."""
        super().add(op if isinstance(op, OlderOperator) else self._downgraded(op, {}, op.inputs))

    def downgrade(
        self, op: Operator, own: dict[str, WrittenValue], inputs: Sequence[str] | None = None
    ) -> None:
        """Add an operator with these attributes, and with other operands if they are given."""
        self.add(self._downgraded(op, own, op.inputs if inputs is None else inputs))

    def _downgraded(
        self, op: Operator, own: dict[str, WrittenValue], inputs: Sequence[str]
    ) -> OlderOperator:
        name = name_in(self.state, op.spec.mlir)
        return OlderOperator(
            op.spec, tuple(inputs), op.outputs, op.attributes, op.location, name, own
        )
