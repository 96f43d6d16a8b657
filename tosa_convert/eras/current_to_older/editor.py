"""What the inverse of a rule works with: the values of a block, and its operators in an older form."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np

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
    LoweredOperator,
    WrittenValue,
)
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, AttributeSpec, operator

#: The list of integers that has 32 bits each.
_NARROW_LISTS: Final = frozenset({"perms"})
_BF16: Final = dtype("BF16")
_FOLD: Final = "fold it into a constant"


class Lowering:
    """Makes the operators of one block in the form of a state of the dialect.

    state: see `dialect_states`. operators: those that were made, in order. read: constants that became
        attributes, which are left out unless something else uses them.
    """

    #: The largest bound of integers that CLAMP can have.
    largest_bound: float = 2.0**62

    def __init__(self, block: Block, state: str) -> None:
        self.state = state
        self.tensors: dict[str, Tensor] = dict(block.tensors)
        self.shapes: dict[str, ShapeValue] = dict(block.shapes)
        self.operators: list[Operator] = []
        self.read: set[str] = set()
        self.location = ""
        self._taken = {*self.tensors, *self.shapes}
        #: Constants that were made, by what they are made of.
        self._made: dict[Hashable, str] = {}

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
        tensor = self.tensors[name]
        if tensor.data is None or tensor.variable:
            raise Refused(f"its {what} is not a constant", _FOLD)
        self.read.add(name)
        return tuple(map(int, tensor.data.numpy().tolist()))

    def number(self, name: str, what: str) -> float:
        """Return the only element of a constant that becomes an attribute."""
        tensor = self.tensors[name]
        if tensor.data is None or tensor.variable:
            raise Refused(f"its {what} is not a constant", _FOLD)
        self.read.add(name)
        return float(tensor.data.numpy().reshape(-1)[0])

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

    def temporary(self, stem: str, element: DType, shape: tuple[int, ...] | None) -> str:
        """Add a tensor that no operator has yet."""
        name = unused_name(stem, self._taken)
        self._taken.add(name)
        self.tensors[name] = Tensor(name, element, shape)
        return name

    def constant(
        self, stem: str, element: DType, numbers: Sequence[int], shape: tuple[int, ...]
    ) -> str:
        """Return a constant of these integers, which operators with the same ones share."""
        key = element, tuple(numbers), shape
        if key in self._made:
            return self._made[key]
        name = self._made[key] = self.temporary(stem, element, shape)
        self.tensors[name].data = constant_of(np.array(numbers, np.int64), element)
        self.add(Operator(CONST, (), (name,), {}, self.location), {})
        return name

    def scalar(self, name: str, stem: str) -> str:
        """Return a tensor of one element as one of rank 0."""
        tensor = self.tensors[name]
        if tensor.shape == ():
            return name
        is_constant = tensor.data is not None and not tensor.variable
        if is_constant and name in self._made:
            return self._made[name]
        made = self.temporary(stem, tensor.dtype, ())
        if is_constant:
            self.read.add(name)
            self._made[name] = made
            self.tensors[made].data = tensor.data
            self.add(Operator(CONST, (), (made,), {}, self.location), {})
        else:
            reshape = Operator(operator("RESHAPE"), (name,), (made,), {}, self.location)
            self.add(reshape, {"new_shape": Integers((), 64)})
        return made

    def add(
        self, op: Operator, own: dict[str, WrittenValue], inputs: Sequence[str] | None = None
    ) -> None:
        """Add an operator with these attributes, and with other operands if they are given."""
        self.operators.append(
            LoweredOperator(
                op.spec,
                op.inputs if inputs is None else tuple(inputs),
                op.outputs,
                op.attributes,
                op.location,
                name_in(self.state, op.spec.mlir),
                own,
            )
        )
