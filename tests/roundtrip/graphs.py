"""Strategies for graphs that are sound by construction, over the whole table of operators.

They keep the rules of `tosa_convert.graph.verify` and no others: operands have any type and shape, so
MLIR would refuse most of them. What they exercise is everything that a format must carry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tosa_convert.graph import (
    DTYPES,
    DYNAMIC,
    OPERATORS,
    Block,
    Constant,
    DType,
    Graph,
    Operator,
    OperatorSpec,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    dtype,
)
from tosa_convert.graph.dtypes import BLOCK_SCALE, BLOCK_SCALED, BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperandSpec
from tosa_convert.graph.versions import V1_0, V1_1_DRAFT

#: All operators except VARIABLE; variables are declared by their tensors.
USABLE = [row for row in OPERATORS if row.name != "VARIABLE"]
MAX_ELEMENTS = 300

_I32 = st.integers(-(2**31), 2**31 - 1)
_SIZES = st.one_of(st.integers(0, 5), st.integers(0, 2**31 - 1), st.just(DYNAMIC))
#: Text that a file can hold: no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
locations = st.one_of(
    st.just(""),
    st.just("loc(unknown)"),
    st.builds('loc("{}":{}:{})'.format, st.just("f.mlir"), st.integers(0, 99), st.integers(0, 99)),
    texts,
)


@st.composite
def constants(draw: Any, row: DType, count: int) -> Constant:
    """Return data of any form: as in a file, unpacked, or a splat; no INT4 is -8."""
    form = draw(st.sampled_from(["file", "unpacked", "splat"]))
    size = row.element_bytes * (1 if form == "splat" else count)
    seed = draw(st.integers(0, 2**32 - 1))
    raw = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    if row.is_packed:
        raw &= (1 << row.bits) - 1
        if row.name == "INT4":
            raw[raw == 8] = 1
    padding = draw(st.integers(0, 7))
    if form == "splat":
        return Constant(row, count, raw, splat=True, padding=padding)
    unpacked = Constant(row, count, raw, unpacked=True, padding=padding)
    if form == "unpacked":
        return unpacked
    return Constant(row, count, bytes(unpacked.packed()), padding=padding)


@st.composite
def static_shapes(draw: Any) -> tuple[int, ...]:
    """Return shapes that data can have."""
    rank = draw(st.integers(0, 4))
    sizes: list[int] = []
    left = MAX_ELEMENTS
    for _ in range(rank):
        sizes.append(draw(st.integers(0, min(left, 9))))
        left //= max(1, sizes[-1])
    return tuple(sizes)


@st.composite
def attributes(draw: Any, row: AttributeSpec, element: DType, regions: list[str]) -> AttributeValue:
    """Return a value for an attribute; `element` is the type of the operator's first operand."""
    match row.kind:
        case "i32":
            return int(draw(_I32))
        case "i32s":
            length = row.length if row.length >= 0 else draw(st.integers(0, 8))
            return tuple(draw(st.lists(_I32, min_size=length, max_size=length)))
        case "bool":
            return bool(draw(st.booleans()))
        case "dtype":
            return draw(st.sampled_from(row.choices))  # type: ignore[no-any-return]
        case "enum":
            assert row.enum is not None
            return draw(st.sampled_from(list(row.enum)))  # type: ignore[no-any-return]
        case "element":
            first, *others = draw(st.binary(min_size=element.element_bytes, max_size=16))
            # A type below 8 bits has no others, and a BOOL has one.
            bits = 1 if element.name == "BOOL" else element.bits
            return bytes([first & (1 << bits) - 1 if bits < 8 else first, *others])
        case "string":
            return str(draw(texts))
        case "bytes":
            return bytes(draw(st.binary(max_size=40)))
        case "region":
            return str(draw(st.sampled_from(regions)))
    raise AssertionError(row.kind)


class _Builder:
    """A block under construction: its values, and unused names."""

    def __init__(self, draw: Any, later: list[str]) -> None:
        self.draw = draw
        #: Regions that control flow may run: only later ones, so that they cannot form a cycle.
        self.later = later
        self.block = Block(draw(texts))
        self.usable: list[str] = []
        self.fresh = draw(st.sampled_from(["", "layer_", "é", "\N{GRINNING FACE} "]))

    def name(self) -> str:
        return f"{self.fresh}{len(self.block.tensors) + len(self.block.shapes)}"

    def tensor(self, *, data: bool = False, variable: bool = False) -> Tensor:
        """Return a tensor that the block lists and nothing defines yet."""
        draw = self.draw
        row = draw(st.sampled_from(DTYPES))
        shape: tuple[int, ...] | None
        if data:
            shape = draw(static_shapes())
        else:
            shape = draw(st.one_of(st.none(), st.lists(_SIZES, max_size=7).map(tuple)))
        made = Tensor(self.name(), row, shape)
        if draw(st.integers(0, 7)) == 0 and not variable:
            self.scale(made, data)
        if data:
            count = made.element_count()
            assert count is not None
            made.data = draw(constants(made.dtype, count))
        if variable:
            made.variable = True
            made.variable_name = draw(st.one_of(st.just(""), texts))
        self.block.tensors[made.name] = made
        return made

    def scale(self, made: Tensor, data: bool) -> None:
        """Make a tensor block-scaled."""
        blocks = self.draw(st.integers(1, 3))
        rows = self.draw(st.integers(1, 3))
        made.dtype = self.draw(st.sampled_from(BLOCK_SCALED))
        made.shape = (rows, 32 * blocks)
        made.scale = BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32)
        if data:
            made.scale.data = self.draw(constants(made.scale.dtype, rows * blocks))

    def shape(self, *, data: bool = False) -> ShapeValue:
        """Return a shape that the block lists and nothing defines yet."""
        rank = self.draw(st.integers(0, 6))
        made = ShapeValue(self.name(), rank)
        if data:
            sizes = self.draw(
                st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rank, max_size=rank)
            )
            made.data = Constant(dtype("INT64"), rank, np.array(sizes, "<i8").tobytes())
        self.block.shapes[made.name] = made
        return made

    def define(self, row: OperandSpec, *, data: bool = False) -> str:
        """Return a fresh value of the kind that a row wants."""
        return (self.shape(data=data) if row.is_shape else self.tensor(data=data)).name

    def operand(self, row: OperandSpec) -> str:
        """Return a value of the kind that a row wants: one that is defined, or a new argument."""
        values = self.block.shapes if row.is_shape else self.block.tensors
        known = [name for name in self.usable if name in values]
        if known and self.draw(st.integers(0, 3)):
            return str(self.draw(st.sampled_from(known)))
        name = self.define(row)
        self.block.inputs.append(name)
        self.usable.append(name)
        return name

    def rows(self, values: tuple[OperandSpec, ...]) -> list[OperandSpec]:
        """Return the row of each operand or result: any number of a `*`, and zero or one of a `?`."""
        rows: list[OperandSpec] = []
        for row in values:
            count = 1
            if row.arity:
                count = self.draw(st.integers(0, 3 if row.arity == "*" else 1))
            rows += [row] * count
        return rows

    def operator(self, spec: OperatorSpec) -> None:
        """Append an operator and the values that it needs."""
        variable = None
        if spec.name in ("VARIABLE_READ", "VARIABLE_WRITE"):
            variable = self.tensor(variable=True, data=self.draw(st.booleans())).name
        inputs = [self.operand(row) for row in self.rows(spec.operands)]
        is_constant = spec.name in ("CONST", "CONST_SHAPE")
        outputs = [self.define(row, data=is_constant) for row in self.rows(spec.results)]
        if spec.name == "VARIABLE_READ":
            inputs = [str(variable)]
        elif spec.name == "VARIABLE_WRITE":
            del self.block.tensors[outputs[0]]
            outputs = [str(variable)]
        else:
            self.usable += outputs
        element = (
            self.block.tensors[inputs[0]].dtype
            if inputs and inputs[0] in self.block.tensors
            else DTYPES[0]
        )
        values = {
            row.name: self.draw(attributes(row, element, self.later)) for row in spec.attributes
        }
        self.block.operators.append(
            Operator(spec, tuple(inputs), tuple(outputs), values, self.draw(locations))
        )

    def finish(self) -> Block:
        """Return the block with its outputs, and perhaps values that nothing uses."""
        draw = self.draw
        self.block.outputs = (
            draw(st.lists(st.sampled_from(self.usable), max_size=4)) if self.usable else []
        )
        for _ in range(draw(st.integers(0, 1))):
            self.tensor(data=draw(st.booleans()))
        return self.block


def _operators(last: bool) -> Any:
    """Return rows to choose from; the last region has no later region to run."""
    rows = [row for row in USABLE if not (last and row.regions)]
    return st.lists(st.sampled_from(rows), max_size=6)


@st.composite
def blocks(draw: Any, later: list[str], specs: list[OperatorSpec] | None = None) -> Block:
    """Return a block that may run the regions `later`."""
    builder = _Builder(draw, later)
    for spec in draw(_operators(not later)) if specs is None else specs:
        builder.operator(spec)
    return builder.finish()


@st.composite
def graphs(draw: Any, specs: list[OperatorSpec] | None = None) -> Graph:
    """Return a graph; `specs`: the operators of its first region, else any."""
    names = draw(st.lists(texts, min_size=2, max_size=4, unique=True))
    regions = [
        Region(name, [draw(blocks(names[index + 1 :], specs if index == 0 else None))])
        for index, name in enumerate(names)
    ]
    major, minor, micro = draw(st.tuples(*[st.integers(0, 9999)] * 3))
    producer = SoftwareVersion(major, minor, micro, draw(texts))
    version = draw(st.sampled_from([V1_0, V1_1_DRAFT]))
    return Graph(version, regions, producer)
