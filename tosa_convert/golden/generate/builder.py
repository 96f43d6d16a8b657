"""What the rules build with: a block, the values that are in it, and random choices among them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64, DType, dtype
from tosa_convert.graph.model import Block, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import AttributeValue, operator

#: Elements that no tensor has more of.
MOST_ELEMENTS: Final = 2048
#: Inputs are at most this large, as the random inputs of the reference model are.
INPUT_BOUND: Final = {"INT8": 128, "INT16": 32768, "INT32": 2**15}
INT32_BOUND: Final = 2**30
FLOATS: Final = ("FP32", "FP16", "BF16")
INTEGERS: Final = ("INT8", "INT16", "INT32")
KINDS: Final = (*FLOATS, *INTEGERS, "BOOL")


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor made so far. bound: no integer element is larger in size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(slots=True)
class Variable:
    """State that operators read and write; the reference model takes one write of each."""

    value: Value
    written: bool = False


@dataclass(slots=True)
class Maker:
    """A block in the making.

    values: its tensors so far. scaled: pairs of them, block-scaled data and scales.
    shapes: name and sizes of its shapes. variables: what may still be done with each.
    regions: those that control flow runs, shared by all blocks of a graph.
    """

    random: random.Random
    block: Block = field(default_factory=lambda: Block("main"))
    values: list[Value] = field(default_factory=list)
    scaled: list[tuple[Value, Value]] = field(default_factory=list)
    shapes: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    operators: int = 0
    names: int = 0
    depth: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names - 1}"

    def input(self, kind: str = "", shape: tuple[int, ...] = ()) -> Value:
        """A new input of the block; a constant where the block is not the main one."""
        if not kind:
            kind = self.random.choice(KINDS)
            rank = self.random.choice((1, 2, 3, 3, 4, 4))
            shape = tuple(self.random.randint(1, 6) for _ in range(rank))
        if self.depth:
            bound = 0 if kind not in INTEGERS else 100
            return self.add(Value(self.random_const(kind, shape, 100), kind, shape, bound))
        name = self.name("input")
        self.block.tensors[name] = Tensor(name, dtype(kind), shape)
        self.block.inputs.append(name)
        return self.add(Value(name, kind, shape, INPUT_BOUND.get(kind, 0)))

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def pick(
        self,
        kinds: Sequence[str],
        ranks: Sequence[int] = (1, 2, 3, 4),
        bound: int | None = None,
    ) -> Value | None:
        """A value of one of the types and ranks, recent ones more often; None if there is none."""
        fitting = [
            v
            for v in self.values
            if v.dtype in kinds
            and len(v.shape) in ranks
            and (bound is None or v.dtype in FLOATS or v.bound <= bound)
        ]
        if not fitting:
            return None
        index = max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))
        return fitting[index]

    def const(self, kind: str, values: Sequence[float], shape: tuple[int, ...]) -> str:
        """A constant tensor; CONST operators do not count."""
        name = self.name("const")
        row = dtype(kind)
        self.block.tensors[name] = Tensor(name, row, shape, constant(row, values))
        self.block.operators.append(Operator(operator("CONST"), (), (name,)))
        return name

    def random_const(self, kind: str, shape: tuple[int, ...], bound: int) -> str:
        count = math.prod(shape)
        if kind == "BOOL":
            values: list[float] = [self.random.randint(0, 1) for _ in range(count)]
        elif kind in FLOATS:
            values = [self.random.randint(-64, 64) / 32 for _ in range(count)]
        else:
            values = [self.random.randint(-bound, bound) for _ in range(count)]
        return self.const(kind, values, shape)

    def zero(self, kind: str) -> str:
        return self.const(kind, [0], (1,))

    def shape(self, sizes: Sequence[int], *, new: bool = False) -> str:
        """A shape with these sizes: one there is already, where there is one, or a constant."""
        same = [name for name, known in self.shapes if known == tuple(sizes)]
        if same and not new and self.random.random() < 0.8:
            return self.random.choice(same)
        name = self.name("shape")
        data = Constant(INT64, len(sizes), np.asarray(sizes, "<i8").tobytes())
        self.block.shapes[name] = ShapeValue(name, len(sizes), data)
        self.block.operators.append(Operator(operator("CONST_SHAPE"), (), (name,)))
        self.shapes.append((name, tuple(sizes)))
        return name

    def emit(
        self,
        kind: str,
        operands: Sequence[str],
        results: Sequence[tuple[str, tuple[int, ...]]],
        bound: int = 0,
        **attributes: AttributeValue,
    ) -> bool:
        """Append an operator; True."""
        made = []
        for element, shape in results:
            name = self.name("v")
            self.block.tensors[name] = Tensor(name, dtype(element), shape)
            made.append(Value(name, element, shape, bound))
        self.append(kind, operands, tuple(value.name for value in made), attributes)
        self.values += made
        return True

    def append(
        self,
        kind: str,
        operands: Sequence[str],
        results: tuple[str, ...],
        attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        """Append an operator whose results are declared already."""
        self.operators += 1
        place = f'loc("generated":{self.operators}:1)'
        row = operator(kind)
        self.block.operators.append(
            Operator(row, tuple(operands), results, attributes or {}, place)
        )
        self.used.update(operands)

    def emit_shape(
        self,
        kind: str,
        operands: Sequence[str],
        sizes: Sequence[int],
        **attributes: AttributeValue,
    ) -> bool:
        """Append an operator that makes a shape; True."""
        name = self.name("s")
        self.block.shapes[name] = ShapeValue(name, len(sizes))
        self.append(kind, operands, (name,), attributes)
        self.shapes.append((name, tuple(sizes)))
        return True

    def partner(self, value: Value, bound: int | None = None) -> tuple[str, int]:
        """Something of the value's type and rank that broadcasts with it, and its bound."""
        fitting = [
            v
            for v in self.values
            if v.dtype == value.dtype
            and len(v.shape) == len(value.shape)
            and all(a == b or b == 1 for a, b in zip(value.shape, v.shape, strict=True))
            and (bound is None or v.dtype in FLOATS or v.bound <= bound)
        ]
        if fitting and self.random.random() < 0.8:
            other = self.random.choice(fitting)
            return other.name, other.bound
        shape = tuple(size if self.random.random() < 0.7 else 1 for size in value.shape)
        limit = min(100, bound) if bound is not None else 100
        return self.random_const(value.dtype, shape, limit), 0 if value.dtype == "BOOL" else limit

    def attempt(self, kind: str) -> bool:
        """Append an operator of a kind; False, and nothing is changed, if there are no operands."""
        operators, regions = len(self.block.operators), len(self.regions)
        if RULES[kind](self):
            return True
        del self.regions[regions:]
        for op in self.block.operators[operators:]:
            for name in op.outputs:
                self.block.tensors.pop(name, None)
                self.block.shapes.pop(name, None)
        del self.block.operators[operators:]
        self.values = [v for v in self.values if v.name in self.block.tensors]
        self.shapes = [s for s in self.shapes if s[0] in self.block.shapes]
        return False


def constant(row: DType, values: Sequence[float]) -> Constant:
    """Constant data; of a type without numbers between its codes, the codes are given."""
    if row.name in ("FP8UE8M0", "MXINT8"):
        return Constant(row, len(values), np.asarray(values, np.int64).astype(np.uint8).tobytes())
    is_float = row.name.startswith(("FP", "BF"))
    array = np.asarray(values, np.float64 if is_float else np.int64).astype(row.numpy)
    data = array.astype(array.dtype.newbyteorder("<")) if row.bits > 8 else array
    octets = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    return Constant(row, array.size, octets.tobytes(), unpacked=row.is_packed)


#: Appends an operator to the block, or returns False if there are no operands for it.
Rule = Callable[[Maker], bool]
RULES: Final[dict[str, Rule]] = {}


def rule(*names: str) -> Callable[[Callable[[Maker, str], bool]], None]:
    """Register a function as the rule of operators; it is told which."""

    def register(make: Callable[[Maker, str], bool]) -> None:
        for name in names:
            RULES[name] = lambda maker, name=name: make(maker, name)  # type: ignore[misc]

    return register
