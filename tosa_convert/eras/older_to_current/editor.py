"""What a rule works with: the values of a block, and the operators that replace an old operation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.values import Data, DTypeLike
from tosa_convert.eras.older_to_current.old_operation import OldOperation, OldValue
from tosa_convert.eras.older_to_current.record import Upgrade
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import DYNAMIC, Block, Operator, Tensor

Enum = TypeVar("Enum", bound=IntEnum)

#: Members of enums that have another name in MLIR.
_MEMBERS: Final = {"NEAREST_NEIGHBOR": "NEAREST"}


class Refused(Exception):
    """An operation that has no form in TOSA 1.0; the message says why. hint: what to do.

    Without a message, the operation has a finding already.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Editor(BlockEditor):
    """Makes the operators that replace operations of one block.

    unsigned: tensors whose type was unsigned. consumed: constants that rules have read, which go unless
        something else uses them.
    """

    # An operation has constants of its own, at its location.
    shares_constants = False

    def __init__(self, block: Block, unsigned: Collection[str], upgrade: Upgrade) -> None:
        super().__init__(block)
        self.unsigned = frozenset(unsigned)
        self.upgrade = upgrade
        self.consumed: set[str] = set()
        #: Tensors with more dimensions, by the names of the tensors and their new rank.
        self.reshaped: dict[tuple[str, int], str] = {}
        self.label = ""

    def begin_operation(self, label: str, location: str) -> None:
        """Make what follows for the operation of this name and location."""
        self.label, self.location = label, location

    def note(self, what: str) -> None:
        """Count a change of the operation."""
        self.upgrade.add(self.label, what)

    # -- values that are there ----------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of this name."""
        tensor = self.tensors.get(name)
        if tensor is None:
            is_shape = name in self.shapes
            # A value that is neither has a finding already, which needs no second one.
            raise Refused("an operand is a shape, expected a tensor" if is_shape else "")
        return tensor

    def operand(self, old: OldOperation, index: int) -> Tensor:
        """Return an operand that must be a tensor."""
        if index >= len(old.inputs):
            raise Refused(f"it has {len(old.inputs)} operands, expected more than {index}")
        return self.tensor(old.inputs[index])

    def result(self, old: OldOperation) -> Tensor:
        """Return the only result."""
        if len(old.outputs) != 1:
            raise Refused(f"it has {len(old.outputs)} results, expected 1")
        return self.tensor(old.outputs[0])

    def rank(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the sizes of a tensor, whose rank must be known."""
        if tensor.shape is None:
            raise Refused(
                "the rank of an operand or result is not known",
                "give the tensors of the program static shapes before exporting",
            )
        return tensor.shape

    def numbers(self, name: str, what: str) -> tuple[int, ...]:
        """Return the integers of a constant, which the rule reads at its place."""
        tensor = self.tensor(name)
        if tensor.data is None or tensor.dtype.is_float:
            raise Refused(
                f"{what} is not a constant of integers",
                "TOSA needs it at compile time; fold it into a constant",
            )
        self.consumed.add(name)
        return tuple(map(int, tensor.data.numpy().tolist()))

    # -- values that are made -----------------------------------------------------------------

    def constant(self, elements: Data, dtype: DTypeLike, *, name: str = "") -> str:
        """Add a CONST of these values."""
        try:
            return super().constant(elements, dtype, name=name)
        except TosaConvertError as error:
            problem = error.findings[0].message
            raise Refused(f"the value of {name.rpartition('/')[2]}: {problem}") from None

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> str:
        """Add a CONST_SHAPE of these sizes."""
        try:
            return super().const_shape(sizes, name=name)
        except TosaConvertError:
            raise Refused("a size does not fit into 64 bits") from None

    def reshape(
        self, name: str, shape: tuple[int, ...], *, wanted: str = "", result: str = ""
    ) -> str:
        """Add a RESHAPE of a tensor.

        wanted: the name of its result, or a similar one. result: its result, if it is declared already.
        """
        if shape.count(DYNAMIC) > 1:
            raise Refused(
                f"it needs a RESHAPE to {shape.count(DYNAMIC)} sizes that are not known",
                "give the tensors of the program static shapes before exporting",
            )
        result = result or self.new_tensor(wanted, self.tensor(name).dtype, shape)
        sizes = self.const_shape(shape, name=f"{result}_shape")
        return self.emit("RESHAPE", [name, sizes], results=[result])

    def settle(self, result: Tensor, shape: tuple[int, ...]) -> None:
        """Give a result the sizes that an operation says where its type leaves them open."""
        result.shape = shape if result.shape is None else resolved(result.shape, shape)

    def infer_open_results(self, operator: Operator) -> None:
        """Give results of unknown rank the sizes that follow from the operands."""
        tensors = [self.tensors.get(name) for name in operator.outputs]
        if all(tensor is None or tensor.shape is not None for tensor in tensors):
            return
        from tosa_convert.rules.operator_view import OperatorView
        from tosa_convert.rules.verdict import judge_shapes

        if operator.spec.regions or None in tensors:
            return
        inputs, outputs = (
            tuple([self._type(operator, name) for name in names])
            for names in (operator.inputs, operator.outputs)
        )
        _, shapes = judge_shapes(OperatorView(operator, inputs, outputs))
        for tensor, shape in zip(tensors, shapes or (), strict=False):
            if tensor is not None and tensor.shape is None and shape is not None:
                tensor.shape = tuple(DYNAMIC if size is None else size for size in shape)


# -- attributes of old operations -------------------------------------------------------------------


def integers(old: OldOperation, name: str, length: int = -1) -> tuple[int, ...]:
    """Return an attribute that is a list of integers."""
    value = old.attributes.get(name)
    if not isinstance(value, (list, tuple)) or not all(type(item) is int for item in value):
        raise Refused(f"its attribute {name} is not a list of integers")
    if length >= 0 and len(value) != length:
        raise Refused(f"its attribute {name} has {len(value)} values, expected {length}")
    return tuple(item for item in value if isinstance(item, int))


def integer(old: OldOperation, name: str, default: int | None = None) -> int:
    """Return an attribute that is an integer."""
    value = old.attributes.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"its attribute {name} is not an integer")
    return value


def number(old: OldOperation, name: str) -> float:
    """Return an attribute that is a floating-point number."""
    value = old.attributes.get(name)
    if not isinstance(value, float):
        raise Refused(f"its attribute {name} is not a floating-point number")
    return value


def flag(old: OldOperation, name: str, default: bool | None = None) -> bool:
    """Return an attribute that is a bool."""
    value = old.attributes.get(name, default)
    if not isinstance(value, bool):
        raise Refused(f"its attribute {name} is not a bool")
    return value


def text(old: OldOperation, name: str, default: str | None = None) -> str:
    """Return an attribute that is a string."""
    value = old.attributes.get(name, default)
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = None
    if not isinstance(value, str):
        raise Refused(f"its attribute {name} is not a string in UTF-8")
    return value


def member(old: OldOperation, name: str, enum: type[Enum], default: Enum | None = None) -> Enum:
    """Return an attribute that is a member of an enum, by its name."""
    if name not in old.attributes and default is not None:
        return default
    found = text(old, name)
    found = _MEMBERS.get(found, found)
    if found not in enum.__members__:
        expected = ", ".join(enum.__members__)
        raise Refused(f"its attribute {name} is {found!r}, expected one of {expected}")
    return enum[found]


def zero_point(old: OldOperation, name: str) -> int:
    """Return a zero point, an attribute of its own or part of `quantization_info`; absent is 0."""
    holder: Any = old.attributes
    if name not in holder:
        holder = old.attributes.get("quantization_info") or {}
        if not isinstance(holder, dict):
            raise Refused("its attribute quantization_info has an unknown form")
    value: OldValue = holder.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"its zero point {name} is not an integer")
    return value


def resolved(sizes: Sequence[int], result: Sequence[int] | None) -> tuple[int, ...]:
    """Return sizes, those that are -1 from the result; -1 if that is not known either."""
    if result is None or len(result) != len(sizes):
        return tuple(sizes)
    return tuple(
        other if size == DYNAMIC else size for size, other in zip(sizes, result, strict=True)
    )
