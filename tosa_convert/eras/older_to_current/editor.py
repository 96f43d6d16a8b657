"""What a rule works with: the values of a block, and the operators that replace an old operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np

from tosa_convert.eras.older_to_current.old_operation import OldOperation, OldValue
from tosa_convert.eras.older_to_current.record import Upgrade
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64, DType
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import DYNAMIC, Operator, ShapeValue, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue, operator

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


@dataclass(slots=True)
class Values:
    """The values of a block.

    tensors, shapes: as in `graph.Block`. outputs: names of the values that the block returns.
    taken: names that must not be generated. unsigned: tensors whose type was unsigned.
    """

    tensors: dict[str, Tensor]
    shapes: dict[str, ShapeValue]
    outputs: Sequence[str] = ()
    taken: set[str] = field(default_factory=set)
    unsigned: set[str] = field(default_factory=set)


class Editor:
    """Makes the operators that replace operations of one block.

    operators: those that were made, in order. consumed: constants that rules have read, which are
        removed unless something else uses them.
    """

    def __init__(self, values: Values, upgrade: Upgrade) -> None:
        self.values = values
        self.upgrade = upgrade
        self.operators: list[Operator] = []
        self.consumed: set[str] = set()
        #: Tensors with more dimensions, by the names of the tensors and their new rank.
        self.reshaped: dict[tuple[str, int], str] = {}
        self.location = ""
        self.label = ""

    def begin(self, label: str, location: str) -> None:
        """Make what follows for the operation of this name and location."""
        self.label, self.location = label, location

    def note(self, what: str) -> None:
        """Count a change of the operation."""
        self.upgrade.add(self.label, what)

    # -- values that are there ----------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of this name."""
        tensor = self.values.tensors.get(name)
        if tensor is None:
            is_shape = name in self.values.shapes
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

    def unused(self, stem: str) -> str:
        """Return a name that no other value has."""
        name = unused_name(stem, self.values.taken)
        self.values.taken.add(name)
        return name

    def temporary(self, stem: str, dtype: DType, shape: tuple[int, ...] | None) -> str:
        """Add a tensor between two operators."""
        name = self.unused(stem)
        self.values.tensors[name] = Tensor(name, dtype, shape)
        return name

    def constant(
        self, stem: str, dtype: DType, numbers: Sequence[float], shape: tuple[int, ...]
    ) -> str:
        """Add a CONST of these values."""
        try:
            array: Any = np.array(numbers)
            data = constant_of(array, dtype)
        except (ValueError, OverflowError) as problem:
            raise Refused(f"the value of {stem.rpartition('/')[2]}: {problem}") from None
        return self.constant_of(stem, data, shape)

    def constant_of(self, stem: str, data: Constant, shape: tuple[int, ...]) -> str:
        """Add a CONST of this data."""
        data.padding = -data.nbytes % 8
        name = self.temporary(stem, data.dtype, shape)
        self.values.tensors[name].data = data
        self.operators.append(Operator(CONST, (), (name,), {}, self.location))
        return name

    def shape(self, stem: str, sizes: Sequence[int]) -> str:
        """Add a CONST_SHAPE of these sizes."""
        name = self.unused(stem)
        try:
            data = constant_of(np.array(sizes, np.int64), INT64)
        except OverflowError:
            raise Refused("a size does not fit into 64 bits") from None
        self.values.shapes[name] = ShapeValue(name, len(sizes), data)
        self.operators.append(Operator(CONST_SHAPE, (), (name,), {}, self.location))
        return name

    def reshape(self, stem: str, name: str, shape: tuple[int, ...], result: str = "") -> str:
        """Add a RESHAPE of a tensor. result: the name of its result, if there is one already."""
        if shape.count(DYNAMIC) > 1:
            raise Refused(
                f"it needs a RESHAPE to {shape.count(DYNAMIC)} sizes that are not known",
                "give the tensors of the program static shapes before exporting",
            )
        result = result or self.temporary(stem, self.tensor(name).dtype, shape)
        self.emit("RESHAPE", (name, self.shape(f"{result}_shape", shape)), (result,))
        return result

    def emit(
        self,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        **attributes: AttributeValue,
    ) -> None:
        """Add an operator; attributes that are not given have their defaults."""
        spec = operator(name)
        values = {row.name: attributes.get(row.name, row.default) for row in spec.attributes}
        self.operators.append(Operator(spec, tuple(inputs), tuple(outputs), values, self.location))


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
    """Sizes of which those that are -1 are taken from the result; -1 if that is not known either."""
    if result is None or len(result) != len(sizes):
        return tuple(sizes)
    return tuple(
        other if size == DYNAMIC else size for size, other in zip(sizes, result, strict=True)
    )
