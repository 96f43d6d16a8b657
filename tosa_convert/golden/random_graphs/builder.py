"""The state that rules work on: a block, its values, and random choices among them."""

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

#: The most elements of a tensor.
MOST_ELEMENTS: Final = 2048
#: Largest absolute value of an integer input; random inputs for the reference model keep to it.
INPUT_BOUND: Final = {"INT8": 128, "INT16": 32768, "INT32": 2**15}
INT32_BOUND: Final = 2**30
FLOATS: Final = ("FP32", "FP16", "BF16")
INTEGERS: Final = ("INT8", "INT16", "INT32")
ELEMENT_TYPES: Final = (*FLOATS, *INTEGERS, "BOOL")


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the block. bound: the largest absolute value of an integer element."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(slots=True)
class Variable:
    """State that operators read and write; the reference model accepts one write of each variable."""

    value: Value
    written: bool = False


@dataclass(slots=True)
class GraphBuilder:
    """A block that grows by one operator at a time.

    values: its tensors so far. scaled: pairs of them, block-scaled data and scales.
    shapes: name and sizes of its shapes. variables: whether each may still be written.
    regions: the regions that control flow runs, shared by all blocks of a graph.
    used: names that an operator takes. operators: how many there are, without constants.
    depth: regions around the block.
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
        """A new name."""
        self.names += 1
        return f"{prefix}{self.names - 1}"

    def input(self, element_type: str = "", shape: tuple[int, ...] = ()) -> Value:
        """A new input of the main block; in any other block, a constant."""
        if not element_type:
            element_type = self.random.choice(ELEMENT_TYPES)
            rank = self.random.choice((1, 2, 3, 3, 4, 4))
            shape = tuple(self.random.randint(1, 6) for _ in range(rank))
        if self.depth:
            bound = 0 if element_type not in INTEGERS else 100
            return self.add(
                Value(self.random_const(element_type, shape, 100), element_type, shape, bound)
            )
        name = self.name("input")
        self.block.tensors[name] = Tensor(name, dtype(element_type), shape)
        self.block.inputs.append(name)
        return self.add(Value(name, element_type, shape, INPUT_BOUND.get(element_type, 0)))

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def pick(
        self,
        element_types: Sequence[str],
        ranks: Sequence[int] = (1, 2, 3, 4),
        bound: int | None = None,
    ) -> Value | None:
        """A random value of one of the types and ranks, recent ones more often; None if none fits."""
        fitting = [
            v
            for v in self.values
            if v.dtype in element_types
            and len(v.shape) in ranks
            and (bound is None or v.dtype in FLOATS or v.bound <= bound)
        ]
        if not fitting:
            return None
        index = max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))
        return fitting[index]

    def const(self, element_type: str, values: Sequence[float], shape: tuple[int, ...]) -> str:
        """A new constant tensor; its CONST operator does not count."""
        name = self.name("const")
        row = dtype(element_type)
        self.block.tensors[name] = Tensor(name, row, shape, constant(row, values))
        self.block.operators.append(Operator(operator("CONST"), (), (name,)))
        return name

    def random_const(self, element_type: str, shape: tuple[int, ...], bound: int) -> str:
        """A new constant tensor with random elements; integers up to `bound` in absolute value."""
        count = math.prod(shape)
        if element_type == "BOOL":
            values: list[float] = [self.random.randint(0, 1) for _ in range(count)]
        elif element_type in FLOATS:
            values = [self.random.randint(-64, 64) / 32 for _ in range(count)]
        else:
            values = [self.random.randint(-bound, bound) for _ in range(count)]
        return self.const(element_type, values, shape)

    def zero(self, element_type: str) -> str:
        """A new constant with one element, 0."""
        return self.const(element_type, [0], (1,))

    def shape(self, sizes: Sequence[int], *, new: bool = False) -> str:
        """A shape with these sizes: an existing one, unless `new`, or a new constant."""
        same = [name for name, others in self.shapes if others == tuple(sizes)]
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
        op: str,
        operands: Sequence[str],
        results: Sequence[tuple[str, tuple[int, ...]]],
        bound: int = 0,
        **attributes: AttributeValue,
    ) -> bool:
        """Append an operator with new results, given as element type and shape; returns True.

        bound: of the results' integer elements.
        """
        values = []
        for element_type, shape in results:
            name = self.name("v")
            self.block.tensors[name] = Tensor(name, dtype(element_type), shape)
            values.append(Value(name, element_type, shape, bound))
        self.append(op, operands, tuple(value.name for value in values), attributes)
        self.values += values
        return True

    def append(
        self,
        op: str,
        operands: Sequence[str],
        results: tuple[str, ...],
        attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        """Append an operator whose results are declared already."""
        self.operators += 1
        location = f'loc("generated":{self.operators}:1)'
        row = operator(op)
        self.block.operators.append(
            Operator(row, tuple(operands), results, attributes or {}, location)
        )
        self.used.update(operands)

    def emit_shape(
        self,
        op: str,
        operands: Sequence[str],
        sizes: Sequence[int],
        **attributes: AttributeValue,
    ) -> bool:
        """Append an operator whose result is a new shape; returns True."""
        name = self.name("s")
        self.block.shapes[name] = ShapeValue(name, len(sizes))
        self.append(op, operands, (name,), attributes)
        self.shapes.append((name, tuple(sizes)))
        return True

    def broadcast_operand(self, value: Value, bound: int | None = None) -> tuple[str, int]:
        """An operand of the value's type and rank that broadcasts with it, and its bound."""
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

    def try_rule(self, op: str) -> bool:
        """Append an operator by its rule; False, and the block is unchanged, if no operands fit."""
        operators, regions = len(self.block.operators), len(self.regions)
        if RULES[op](self):
            return True
        del self.regions[regions:]
        for added in self.block.operators[operators:]:
            for name in added.outputs:
                self.block.tensors.pop(name, None)
                self.block.shapes.pop(name, None)
        del self.block.operators[operators:]
        self.values = [v for v in self.values if v.name in self.block.tensors]
        self.shapes = [s for s in self.shapes if s[0] in self.block.shapes]
        return False


def constant(row: DType, values: Sequence[float]) -> Constant:
    """Constant data. values: numbers; for FP8UE8M0 and MXINT8 the elements' codes."""
    if row.name in ("FP8UE8M0", "MXINT8"):
        return Constant(row, len(values), np.asarray(values, np.int64).astype(np.uint8).tobytes())
    is_float = row.name.startswith(("FP", "BF"))
    array = np.asarray(values, np.float64 if is_float else np.int64).astype(row.numpy)
    data = array.astype(array.dtype.newbyteorder("<")) if row.bits > 8 else array
    octets = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    return Constant(row, array.size, octets.tobytes(), unpacked=row.is_packed)


#: Appends an operator to the block, or returns False if no operands fit.
Rule = Callable[[GraphBuilder], bool]
RULES: Final[dict[str, Rule]] = {}


def rule(*names: str) -> Callable[[Callable[[GraphBuilder, str], bool]], None]:
    """Register a function as the rule of these operators; it gets the operator's name."""

    def register(make: Callable[[GraphBuilder, str], bool]) -> None:
        for name in names:
            RULES[name] = lambda builder, name=name: make(builder, name)  # type: ignore[misc]

    return register
