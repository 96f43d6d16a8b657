"""Operations in forms that TOSA had before 1.0, and what rules need to upgrade them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.builder.values import Data, DTypeLike
from tosa_convert.eras.dialect_states import (
    ATTRIBUTES,
    NARROW_AXES,
    name_in,
)
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import DYNAMIC, Block, Operator, Tensor
from tosa_convert.graph.opset import CONST, AttributeSpec, operator

# -- an operation in a form that TOSA had before 1.0 -----------------------------------------------

#: The value of an attribute. A list was an ArrayAttr, which the dialect had until 2022; a tuple is a
#: dense array, or a vector of a file. A dictionary has the zero points of `quantization_info`.
OldValue = (
    bool
    | int
    | float
    | str
    | bytes
    | DType
    | list["OldValue"]
    | tuple[int, ...]
    | Mapping[str, "OldValue"]
    | None
)


@dataclass(slots=True, eq=False)
class OldOperation:
    """An operation as an old program has it.

    name: that of the operation in MLIR, such as "tosa.conv2d".
    inputs, outputs: names of values of the block.
    attributes: by name; None for one of a kind that no rule reads.
    location: as in `graph.Operator`.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, OldValue]
    location: str = ""

    @property
    def label(self) -> str:
        """Return the name without the dialect."""
        return self.name.partition(".")[2] or self.name


# -- operations that are written -------------------------------------------------------------------


class Integer(NamedTuple):
    """A signless integer."""

    value: int
    bits: int


class Integers(NamedTuple):
    """A list of signless integers: an array of attributes, or a dense array since 2023."""

    values: tuple[int, ...]
    bits: int


class Floats(NamedTuple):
    """An array of attributes that are numbers of FP32."""

    values: tuple[float, ...]


class Element(NamedTuple):
    """A number by the bytes of an element."""

    data: bytes
    dtype: DType


class ZeroPoints(NamedTuple):
    """`quantization_info`. kind: such as "conv". values: by name."""

    kind: str
    values: dict[str, int]


#: The value of an attribute of an operation that is written.
WrittenValue = (
    bool
    | float
    | str
    | bytes
    | DType
    | IntEnum
    | Integer
    | Integers
    | Floats
    | Element
    | ZeroPoints
)


@dataclass(slots=True, eq=False, repr=False)
class OlderOperator(Operator):
    """An operator in the form of an older release.

    mlir: the name of the operation. own: its attributes, except the value of a constant and the
    symbol of a variable; a float has the type FP32. `attributes` are still those of today.
    """

    mlir: str = ""
    own: dict[str, WrittenValue] = field(default_factory=dict)


# -- what an upgrade changed: counted, and grouped by operation ------------------------------------


class Change(NamedTuple):
    """A kind of change. operation: such as "conv2d". what: in words. number: of operations."""

    operation: str
    what: str
    number: int


class Upgrade:
    """Whether a program is taken for an old one, and what was changed in it.

    is_old: the program is known to be older than TOSA 1.0, by request or by one of its operations.
        What programs of today must not do is then allowed to mean what it meant: operands of different
        ranks, strides that do not divide.
    state: that of the program's dialect, if it is known; see `dialect_states`.
    """

    __slots__ = ("_counts", "is_old", "state")

    def __init__(self, is_old: bool = False, state: str = "") -> None:
        self.is_old = is_old
        self.state = state
        self._counts: Counter[tuple[str, str]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, operation: str, what: str) -> None:
        self._counts[operation, what] += 1

    def changes(self) -> list[Change]:
        return [Change(*key, count) for key, count in sorted(self._counts.items())]

    def lines(self) -> Iterator[str]:
        """Iterate over the changes as text, one line for each kind."""
        for operation, what, number in self.changes():
            yield f"{operation}: {what} ({number})"

    def summary(self) -> str:
        """Return the number of changed operations in one line."""
        counts: Counter[str] = Counter()
        for (operation, _), count in self._counts.items():
            # An operation that changed in several ways counts once.
            counts[operation] = max(counts[operation], count)
        listing = ", ".join(f"{operation} {count}" for operation, count in sorted(counts.items()))
        return f"upgraded from an older TOSA: {listing}"


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
        self.label, self.location = label, location

    def note(self, what: str) -> None:
        """Count a change of the operation."""
        self.upgrade.add(self.label, what)

    # -- values that are there ----------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            is_shape = name in self.shapes
            # A value that is neither has a finding already, which needs no second one.
            raise Refused("an operand is a shape, expected a tensor" if is_shape else "")
        return tensor

    def operand(self, old: OldOperation, index: int) -> Tensor:
        if index >= len(old.inputs):
            raise Refused(f"it has {len(old.inputs)} operands, expected more than {index}")
        return self.tensor(old.inputs[index])

    def result(self, old: OldOperation) -> Tensor:
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
        try:
            return super().constant(elements, dtype, name=name)
        except TosaConvertError as error:
            problem = error.findings[0].message
            raise Refused(f"the value of {name.rpartition('/')[2]}: {problem}") from None

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> str:
        try:
            return super().const_shape(sizes, name=name)
        except TosaConvertError:
            raise Refused("a size does not fit into 64 bits") from None

    def reshape(
        self, name: str, shape: tuple[int, ...], *, wanted: str = "", result: str = ""
    ) -> str:
        """Add a RESHAPE of a tensor; `wanted` names its result, or `result` if it is declared."""
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
        from tosa_convert.rules.validate import judge_shapes

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
    value = old.attributes.get(name)
    if not isinstance(value, (list, tuple)) or not all(type(item) is int for item in value):
        raise Refused(f"its attribute {name} is not a list of integers")
    if length >= 0 and len(value) != length:
        raise Refused(f"its attribute {name} has {len(value)} values, expected {length}")
    return tuple(item for item in value if isinstance(item, int))


def integer(old: OldOperation, name: str, default: int | None = None) -> int:
    value = old.attributes.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"its attribute {name} is not an integer")
    return value


def number(old: OldOperation, name: str) -> float:
    value = old.attributes.get(name)
    if not isinstance(value, float):
        raise Refused(f"its attribute {name} is not a floating-point number")
    return value


def flag(old: OldOperation, name: str, default: bool | None = None) -> bool:
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


# -- what the inverse of a rule works with: values of a block, and older operators -----------------

#: The list of integers that has 32 bits each.
_NARROW_LISTS: Final = frozenset({"perms"})
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
        if isinstance(value, DType) and self.state < (since := value.sums_since or ""):
            raise Refused(f"{row.name} can be {value} only since {self.since(since)}")
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
