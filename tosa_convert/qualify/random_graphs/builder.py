"""Hold the state that rules work on: a program, the values of a block, and random choices among them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.builder import Builder, Value, Variable
from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph import dtypes
from tosa_convert.graph.dtypes import DTYPES, V1_1, DType, dtype
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rules.operator_view import TensorType
from tosa_convert.rules.profiles import complete, fits, listed, parse
from tosa_convert.rules.types import Element, TypeRow, rows

# -- what random programs may have: the element types, profiles, extensions and level of a target --
# The rows of operators decide: which operators are chosen at all, and whether one with the
# operands that were chosen is kept.

_CONSTANTS: Final = ("CONST", "CONST_SHAPE")
#: Takes any element type, and so says which a target has.
_ANY_TYPE: Final = operator("IDENTITY")


@dataclass(frozen=True, slots=True)
class Target:
    """Say what a random program may have; None for anything.

    types: element types of inputs and of what operators compute. Constants have those that their
        operator needs. has: profiles and extensions. newest: the TOSA version that it is at most.
    """

    types: frozenset[str] | None = None
    has: frozenset[str] | None = None
    newest: tuple[int, int] = V1_1

    @classmethod
    def of(
        cls,
        profile: str | Iterable[str] | None,
        types: Iterable[str] | None,
        newest: tuple[int, int],
    ) -> Target:
        """Return the target that options describe. Raises TosaConvertError("option-conflict")."""
        text = profile if isinstance(profile, str) or profile is None else ",".join(profile)
        names = None if types is None else frozenset(str(name).upper() for name in types)
        for name in sorted(names or ()):
            refuse_unknown("types", name, tuple(row.name for row in DTYPES))
        return cls(names or None, None if text is None else complete(parse(text)), newest)

    def __str__(self) -> str:
        parts = [] if self.has is None else [f"--profile {listed(self.has)}"]
        parts += [] if self.types is None else [f"--types {','.join(sorted(self.types))}"]
        return " ".join(parts)

    def inputs(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return those of some element types that an input may have, in their order."""
        return _inputs(self, tuple(known))

    def takes(self, name: str) -> bool:
        """Return whether some row of an operator is within the target."""
        return any(map(self.has_row, rows(operator(name))))

    def taken(self, names: Sequence[str]) -> list[str]:
        """Return those of some operators that have a row within the target."""
        return list(_taken(self, tuple(names)))

    def has_row(self, row: TypeRow) -> bool:
        return self._has_needs(row) and self._has_types(row.results)

    def allows(self, block: Block, made: Operator) -> bool:
        if self.has is not None and not fits(block, made, self.has):
            return False
        if self.types is None or made.spec.name in _CONSTANTS:
            return True
        results = (block.tensors.get(name) for name in made.outputs)
        return all(tensor is None or tensor.dtype.name in self.types for tensor in results)

    def refuse_impossible(self, names: Iterable[str]) -> None:
        """Raise TosaConvertError("option-conflict") for operators that the target does not have."""
        missing = [name for name in names if not self.takes(name)]
        if missing:
            message = f"{', '.join(missing)} cannot be generated with {self}"
            hint = "name other operators, or add to the target what they need"
            raise fail("option-conflict", "generate", message, hint)

    def _has_needs(self, row: TypeRow) -> bool:
        return any(
            need.since <= self.newest and (self.has is None or need.names <= self.has)
            for need in row.needs
        )

    def _has_types(self, elements: Sequence[Element]) -> bool:
        if self.types is None:
            return True
        found = (element[0] if isinstance(element, tuple) else element for element in elements)
        return all(element is None or element.name in self.types for element in found)


ANYTHING: Final = Target()


@lru_cache(maxsize=64)
def _taken(target: Target, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(target.takes, names))


@lru_cache(maxsize=64)
def _inputs(target: Target, known: tuple[str, ...]) -> tuple[str, ...]:
    found = [row.operands[0] for row in rows(_ANY_TYPE) if target.has_row(row)]
    return tuple(name for name in known if dtype(name) in found)


MOST_ELEMENTS: Final = 2048
#: Largest absolute value of an integer input; random inputs for the reference model keep to it.
INPUT_BOUND: Final = {
    row.name: -row.limits[0] if row.bits <= 16 else 1 << min(row.bits - 17, 30)
    for row in DTYPES
    if row.kind == "integer"
}
INT32_BOUND: Final = 2**30
FLOATS: Final = tuple(row.name for row in dtypes.FLOATS)
INTEGERS: Final = ("INT8", "INT16", "INT32")
ELEMENT_TYPES: Final = (*FLOATS, *INTEGERS, "BOOL")
#: Element types that few operators have: inputs have them where an operator asks for one.
RARE_TYPES: Final = tuple(
    row.name
    for row in (*dtypes.FP8, *(row for row in DTYPES if row.kind == "integer"))
    if row.is_in_tools and row.name not in INTEGERS
)
EVERY_TYPE: Final = (*ELEMENT_TYPES, *RARE_TYPES)
#: How often an operator has a row of its types at random, whatever the block has.
_RARELY: Final = 0.3
#: How often an operator that can takes tensors that hold their scales, where programs have any.
_SCALED: Final = 0.7
#: Bits that wide integers have besides those of INT32, without those that a product takes.
_ROOM: Final = {"INT48": 15, "INT64": 15}
_MOST_RANK: Final = 4
#: Numbers that all floating-point types can represent.
NUMBERS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
#: Operators choose among so many of the last values: a large program takes time in proportion.
RECENT: Final = 256


class NoOperandsError(Exception):
    """Tell that no operands of the block fit an operator, or that its result would be too large."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Hold a tensor of the block. bound: the largest absolute value of an integer element."""

    value: Value
    dtype: str
    shape: tuple[int, ...]
    bound: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def is_within(self, bound: int) -> bool:
        """Return whether elements keep to a bound of INT32; wider ones have as much more room."""
        return self.bound <= bound << _ROOM.get(self.dtype, 0)


class Shape(NamedTuple):
    """Hold a shape of the block. All shapes of a random program are known."""

    value: Value
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.value.name


@dataclass(slots=True)
class State:
    """Hold a variable. The reference model accepts one write of each."""

    variable: Variable
    bound: int
    written: bool = False


@dataclass(slots=True)
class RandomBuilder:
    """Grow a block by one operator at a time.

    build: adds operators. depth: regions around the block. target: what the program may have. tensors:
        its tensors so far. inputs: those that the program takes. scaled: pairs of them, block-scaled
        data and scales.
    shapes: its shapes. is_scaled: whether tensors may hold their scales. held: those that do. states:
        its variables. used: names that an operator takes. operators: how many there are, without
        constants.
    """

    random: random.Random
    build: Builder
    depth: int = 0
    target: Target = ANYTHING
    is_scaled: bool = False
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    scaled: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    held: list[Tensor] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    operators: int = 0
    names: int = 0
    #: Operators of the block before the one that a rule adds, its constants included.
    before: int = 0

    # -- values ----------------------------------------------------------------------------------

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names - 1}"

    def input(self, element_type: str = "", shape: tuple[int, ...] = ()) -> Tensor:
        """Add a new input of the program; in a region, a constant."""
        known = self.target.inputs(EVERY_TYPE if element_type else ELEMENT_TYPES)
        if not known or (element_type and element_type not in known):
            raise NoOperandsError
        element_type = element_type or self.random.choice(known)
        shape = shape or self.sizes(self.random.choice((1, 2, 3, 3, 4, 4)))
        if self.depth:
            return self.add(self.random_const(element_type, shape, 100), 100)
        value = self.build.input(self.name("input"), dtype(element_type), shape)
        self.inputs.append(self.add(value, INPUT_BOUND.get(element_type, 0)))
        return self.inputs[-1]

    def sizes(self, rank: int, most: int = 6) -> tuple[int, ...]:
        return tuple(self.random.randint(1, most) for _ in range(rank))

    def add(self, value: Value, bound: int) -> Tensor:
        """Add a value that operators can take from now on."""
        name = value.dtype.name
        assert value.shape is not None
        most = 1 << (value.dtype.bits - 1) if name in INPUT_BOUND else 0
        tensor = Tensor(value, name, value.shape, min(bound, most))
        is_held = isinstance(value.type, TensorType) and value.type.scale is not None
        (self.held if is_held else self.tensors).append(tensor)
        return tensor

    def pick(
        self,
        element_types: Collection[str],
        ranks: Sequence[int] = range(1, _MOST_RANK + 1),
        bound: int | None = None,
    ) -> Tensor:
        """Pick a random tensor of one of the types and ranks, recent ones more often."""
        fitting = [
            t for t in self.tensors[-RECENT:] if t.dtype in element_types and len(t.shape) in ranks
        ]
        return self.recent(fitting if bound is None else [t for t in fitting if t.is_within(bound)])

    def operand(
        self,
        name: str,
        ranks: Sequence[int] = range(1, _MOST_RANK + 1),
        bound: int | None = None,
        most: int = 6,
    ) -> tuple[Tensor, PlainRow]:
        """Pick the first operand of an operator, and a row of its types that fits.

        Most often one of the block's tensors; sometimes a new input of a type that the block may not
        have, so that all rows are chosen. most: its largest size.
        """
        known, first_types = _rows_within(self.target, name)
        if known and self.random.random() < _RARELY:
            row = self.random.choice(known)
            element_type = str(row.operands[0])
            t = self.input(element_type, self.sizes(self.random.choice(list(ranks)), most))
            if bound is None or t.is_within(bound):
                return t, row
        t = self.pick(first_types, ranks, bound)
        return t, self.random.choice([row for row in known if row.operands[0] is t.value.dtype])

    def keywords(self, name: str, element_type: str) -> dict[str, Any]:
        """Return attributes that any value fits: how NaN spreads, and whether a shift rounds."""
        attributes = {row.name for row in operator(name).attributes}
        found: dict[str, Any] = {}
        if "nan_mode" in attributes and dtype(element_type).is_float:
            found["nan_mode"] = self.random.choice(("PROPAGATE", "IGNORE"))
        if "round" in attributes:
            found["round"] = self.random.random() < 0.5
        return found

    def zero_points(self, row: PlainRow, *names: str) -> dict[str, int]:
        """Return zero points for operands, whose types are the last ones of a row."""
        types = row.operands[-len(names) :]
        return {
            name: self.random.randint(-128, 127) if str(element) == "INT8" else 0
            for name, element in zip(names, types, strict=True)
        }

    def recent(self, fitting: Sequence[Tensor]) -> Tensor:
        """Pick one of some tensors, recent ones more often."""
        if not fitting:
            raise NoOperandsError
        index = max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))
        return fitting[index]

    def random_const(self, element_type: str, shape: tuple[int, ...], bound: int) -> Value:
        """Make a constant with random elements; integers up to `bound` in absolute value."""
        count, draw = math.prod(shape), self.random.randrange
        numbers: list[float]
        if element_type == "BOOL":
            numbers = [draw(2) for _ in range(count)]
        elif element_type in FLOATS:
            numbers = [draw(-64, 65) / 32 for _ in range(count)]
        elif dtype(element_type).is_float:
            numbers = [self.random.choice(NUMBERS) for _ in range(count)]
        else:
            bound = min(bound, INPUT_BOUND[element_type] - (element_type == "INT8"))
            numbers = [draw(-bound, bound + 1) for _ in range(count)]
        return self.build.const(np.array(numbers).reshape(shape), dtype(element_type))

    def shape(self, sizes: Sequence[int], *, new: bool = False) -> Shape:
        """Return a shape with these sizes: an existing one, unless `new`, or a new constant."""
        key = tuple(sizes)
        same = [shape for shape in self.shapes[-RECENT:] if shape.sizes == key]
        if same and not new and self.random.random() < 0.8:
            return self.random.choice(same)
        return self.add_shape(self.build.const_shape(key, name=self.name("shape")))

    def add_shape(self, value: Value) -> Shape:
        """Add a shape that operators can take from now on."""
        self.shapes.append(Shape(value, tuple(size for size in value.sizes if size is not None)))
        return self.shapes[-1]

    def broadcast_operand(self, tensor: Tensor, bound: int | None = None) -> tuple[Value, int]:
        """Return an operand of a tensor's type and rank that broadcasts to its shape, and its bound."""
        fitting = [
            t
            for t in self.tensors[-RECENT:]
            if t.dtype == tensor.dtype
            and len(t.shape) == len(tensor.shape)
            and all(a == b or b == 1 for a, b in zip(tensor.shape, t.shape, strict=True))
            and (bound is None or t.is_within(bound))
        ]
        if fitting and self.random.random() < 0.8:
            other = self.random.choice(fitting)
            return other.value, other.bound
        shape = tuple(size if self.random.random() < 0.7 else 1 for size in tensor.shape)
        limit = min(100, bound) if bound is not None else 100
        value = self.random_const(tensor.dtype, shape, limit)
        return value, limit if tensor.dtype in INPUT_BOUND else 0

    # -- operators -------------------------------------------------------------------------------

    def emit(self, op: str, *operands: Any, bound: int = 0, **keywords: Any) -> list[Tensor]:
        """Append an operator; returns its results that are tensors."""
        self.count_operator()
        function = getattr(self.build, op.lower())
        made = function(*map(_value, operands), **{k: _value(v) for k, v in keywords.items()})
        return self.record(made, self.build.last_operator.inputs, bound)

    def count_operator(self) -> None:
        """Count an operator that is about to be added, and set its location."""
        self.operators += 1
        self.build.location = f'loc("generated":{self.operators}:1)'

    def record(self, made: Any, taken: Sequence[str], bound: int) -> list[Tensor]:
        """Keep the results of an operator. taken: the names of its operands."""
        if (self.target.has, self.target.types) != (None, None):
            block = self.build.block
            if not all(self.target.allows(block, op) for op in block.operators[self.before :]):
                raise NoOperandsError
        self.used.update(taken)
        values = () if made is None else made if isinstance(made, tuple) else (made,)
        tensors = []
        for value in values:
            if value.is_shape:
                self.add_shape(value)
                continue
            tensors.append(self.add(value, bound))
            if tensors[-1].count > MOST_ELEMENTS:
                raise NoOperandsError
        return tensors

    def try_rule(self, op: str) -> bool:
        """Append an operator by its rule; False, and the block is unchanged, if no operands fit."""
        checkpoint = self.build.checkpoint()
        lists: tuple[list[Any], ...] = (
            self.tensors,
            self.inputs,
            self.scaled,
            self.held,
            self.shapes,
            self.states,
        )
        lengths, operators = [len(one) for one in lists], self.operators
        self.before = len(self.build.block.operators)
        self.build.location = f'loc("generated":{operators + 1}:1)'
        make = RULES[op]
        if self.is_scaled and op in SCALED_RULES and self.random.random() < _SCALED:
            make = SCALED_RULES[op]
        try:
            make(self, op)
        except NoOperandsError:
            self.build.rollback(checkpoint)
            for one, length in zip(lists, lengths, strict=True):
                del one[length:]
            self.operators = operators
            return False
        return True


def _value(given: Any) -> Any:
    """Return what the builder takes for a tensor or shape, or for a list of them."""
    if isinstance(given, (Tensor, Shape)):
        return given.value
    return [_value(item) for item in given] if isinstance(given, list) else given


class PlainRow(NamedTuple):
    """Hold a row without block-scaled tensors: the element types that an operator takes together."""

    row: TypeRow
    operands: tuple[DType, ...]
    results: tuple[DType, ...]

    @property
    def attribute(self) -> str:
        """Return the value of the attribute that belongs to the types."""
        assert self.row.attribute is not None
        return self.row.attribute[1]


@cache
def plain_rows(name: str) -> tuple[PlainRow, ...]:
    """Return the rows of an operator whose types are all of EVERY_TYPE."""
    found = []
    for row in rows(operator(name)):
        plain = [
            tuple(one for one in side if isinstance(one, DType) and one.name in EVERY_TYPE)
            for side in (row.operands, row.results)
        ]
        if (len(plain[0]), len(plain[1])) == (len(row.operands), len(row.results)):
            found.append(PlainRow(row, *plain))
    return tuple(found)


@lru_cache(maxsize=4096)
def _rows_within(target: Target, name: str) -> tuple[tuple[PlainRow, ...], frozenset[str]]:
    """Return the rows of an operator that a target has, and the types of their first operands."""
    known = tuple(plain for plain in plain_rows(name) if target.has_row(plain.row))
    return known, frozenset(str(row.operands[0]) for row in known)


#: Appends an operator, or raises NoOperandsError. It gets the operator's name.
Rule = Callable[[RandomBuilder, str], object]
#: By operators, and by the words of their rows.
RULES: Final[dict[str, Rule]] = {}
RULES_OF_WORDS: Final[dict[str, Rule]] = {}
#: ... to tensors that hold their scales.
SCALED_RULES: Final[dict[str, Rule]] = {}


def rule(*names: str, rules: dict[str, Rule] = RULES_OF_WORDS) -> Callable[[Rule], Rule]:
    """Register a function as the rule of operators whose rows say one of these words, or "own"."""

    def register(make: Rule) -> Rule:
        rules.update(dict.fromkeys(names, make))
        return make

    return register
