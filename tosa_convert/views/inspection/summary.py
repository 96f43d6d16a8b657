"""`summarize`: what a program is, in numbers, as one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import Part, replace_data
from tosa_convert.graph.dtypes import BY_CODE as DTYPE_BY_CODE
from tosa_convert.graph.model import MAX_RANK, ShapeValue, counted, require_graphs
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.graph.opset import operator as row_of
from tosa_convert.graph.shown import Shown
from tosa_convert.rules.costs import Amount, multiply_accumulates, product, total
from tosa_convert.rules.operator_view import shape_text
from tosa_convert.rules.public import TARGET_CODES, Needs, find_violations, needs

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Graph, SoftwareVersion, Target, Tensor, Version


# -- the memory of activations: the most bytes of tensors that are in use at the same time ---------


def tensor_bytes(tensor: Tensor) -> Amount:
    """Return the bytes of a tensor's elements as they are in a file, scales included."""
    if tensor.shape is None:
        return Amount(0, exact=False)
    count = product(tensor.shape)
    size = tensor.dtype.wire_bytes(count.value)
    if tensor.scale is not None:
        blocks = -(-count.value // int(tensor.scale.shape))
        size += tensor.scale.dtype.wire_bytes(blocks)
    return Amount(size, count.exact)


def peak_activations(block: Block) -> Amount:
    """Return the most bytes of a block in use at an operator, in file order, nothing in place."""
    end = len(block.operators)
    last: dict[str, int] = dict.fromkeys(block.inputs, -1)
    constants: set[str] = set()
    exact = True
    for index, operator in enumerate(block.operators):
        exact = exact and not operator.spec.regions
        last.update(dict.fromkeys(operator.outputs, index))
        last.update(dict.fromkeys(operator.inputs, index))
        if operator.spec is CONST:
            constants.update(operator.outputs)
    last.update(dict.fromkeys(block.outputs, end))
    sizes: dict[str, int] = {}
    for name in last:
        tensor = block.tensors.get(name)
        if tensor is not None and name not in constants and not tensor.variable:
            size = tensor_bytes(tensor)
            sizes[name] = size.value
            exact = exact and size.exact
    used = peak = sum(sizes.get(name, 0) for name in dict.fromkeys(block.inputs))
    alive = set(block.inputs)
    for index, operator in enumerate(block.operators):
        for name in operator.outputs:
            if name not in alive:
                alive.add(name)
                used += sizes.get(name, 0)
        peak = max(peak, used)
        for name in dict.fromkeys((*operator.inputs, *operator.outputs)):
            if last[name] == index and name in alive:
                alive.remove(name)
                used -= sizes.get(name, 0)
    return Amount(peak, exact)


#: Bytes of a constant up to which `summarize` lets rules read its elements.
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ValueSummary(Shown):
    """A tensor or shape, such as an input of a program.

    type: an element type such as "FP32", or "SHAPE" for a !tosa.shape.
    shape: sizes, -1 where unknown; of a !tosa.shape, the one size (rank,). None if unranked.
    block: how many elements share a scale; 0 unless the tensor is block-scaled.
    sizes: the values of a !tosa.shape, if they are constant.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None
    block: int = 0
    sizes: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.type == "SHAPE":
            if self.sizes is None:
                return f"shape of rank {(self.shape or (0,))[0]}"
            return f"shape {shape_text(self.sizes)}"
        blocks = f" in blocks of {self.block}" if self.block else ""
        return f"{self.type} {shape_text(self.shape)}{blocks}"


@dataclass(frozen=True, slots=True)
class OperatorSummary(Shown):
    """All operators of one kind. work: their multiply-accumulates; None if they have none."""

    name: str
    count: int
    work: Amount | None


@dataclass(frozen=True, slots=True)
class TypeSummary(Shown):
    """An element type: how many tensors have it, how many of them are constants, and their bytes."""

    name: str
    tensors: int
    constants: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class RegionSummary(Shown):
    """A region: its operators, their multiply-accumulates, and the most bytes of activations in use."""

    name: str
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    operators: int
    work: Amount
    peak_activations: Amount


@dataclass(frozen=True, slots=True)
class Summary(Shown):
    """A program in numbers.

    version, producer, target: those of the graph.
    inputs, outputs: of the main region. variables: of all regions, each once.
    regions: the main region first.
    operators: by kind, those with most multiply-accumulates first, then the most frequent.
    types: the element types of tensors and scales, in the order of their codes.
    constants, constant_bytes: the constants with data, without padding; scales count as constants.
    without_data: constants whose data is missing.
    work: the multiply-accumulates of all operators. Each region is counted once: a loop's body as if
        it ran once, and both regions of a COND_IF.
    not_counted: operators whose multiply-accumulates are unknown -> why.
    peak_activations: the most bytes of activations that the main region has in use at a time; see
        `memory.peak_activations`.
    findings: what `validate` reports. needs: the least target; None if TOSA forbids the program.
    """

    version: Version
    producer: SoftwareVersion | None
    target: Target | None
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    variables: tuple[ValueSummary, ...]
    regions: tuple[RegionSummary, ...]
    operators: tuple[OperatorSummary, ...]
    types: tuple[TypeSummary, ...]
    constants: int
    constant_bytes: int
    without_data: int
    work: Amount
    not_counted: tuple[tuple[str, str], ...]
    peak_activations: Amount
    findings: tuple[Finding, ...]
    needs: Needs | None

    @property
    def operator_count(self) -> int:
        """Return how many operators there are in all regions."""
        return sum(row.operators for row in self.regions)

    def __str__(self) -> str:
        rows = [("input", row) for row in self.inputs] + [("output", row) for row in self.outputs]
        most = ", ".join(f"{row.name} {row.count}" for row in self.operators)
        return "\n".join(
            [
                f"TOSA {self.version}, {counted(self.operator_count, 'operator')}: {most}",
                *(f"{kind} {row.name}: {row}" for kind, row in rows),
                f"{counted(self.constants, 'constant')}, {self.constant_bytes} bytes",
                f"{self.work} multiply-accumulates, {counted(len(self.findings), 'finding')}",
            ]
        )


def summarize(graph: Graph) -> Summary:
    """Summarise a program: operators, types, constants, work, memory, least target, findings.

    The graph may be one that TOSA does not allow; `findings` says what is wrong. Large constants are not
    read: those of INT4 with more than 1 MiB are not searched for -8, which `validate` does.

    Args:
        graph: any graph. It is not changed.

    Returns:
        A `Summary`, which does not change with the graph.

    Example:
        >>> import tosa_convert as tc
        >>> found = tc.summarize(tc.load("digits_cnn.tosa"))
        >>> print(found.operator_count, found.constants, found.constant_bytes, found.work)
        27 9 39244 409,344
        >>> found.needs.profiles, [f"{row.name}: {row}" for row in found.inputs]
        (('PRO-FP',), ['image: FP32 [1, 1, 16, 16]'])
    """
    require_graphs(graph)
    findings = tuple(find_violations(_without_large_int4(graph)))
    allowed = all(finding.code in TARGET_CODES for finding in findings)
    regions = tuple(_regions(graph))
    operators = _operators(graph)
    sizes = [constant.nbytes for _, constant in graph.constants()]
    main = regions[0] if regions else None
    return Summary(
        version=graph.version,
        producer=graph.producer,
        target=graph.target,
        inputs=() if main is None else main.inputs,
        outputs=() if main is None else main.outputs,
        variables=tuple(_variables(graph)),
        regions=regions,
        operators=operators,
        types=_types(graph),
        constants=len(sizes),
        constant_bytes=sum(sizes),
        without_data=sum(map(_without_data, (block for _, block in graph.blocks()))),
        work=total(row.work for row in operators if row.work is not None),
        not_counted=tuple(
            (row.name, reason) for row in operators if (reason := row_of(row.name).uncounted)
        ),
        peak_activations=Amount(0) if main is None else main.peak_activations,
        findings=findings,
        needs=needs(graph) if allowed else None,
    )


def _without_large_int4(graph: Graph) -> Graph:
    """Return the graph with large INT4 constants as splats, so that nothing reads their elements."""
    rows: list[tuple[Block, str, Part, Constant]] = [
        (block, name, "data", Constant(data.dtype, data.count, bytes(1), splat=True))
        for _, block in graph.blocks()
        for name, tensor in block.tensors.items()
        if (data := tensor.data) is not None
        if data.dtype.is_in_bytes and len(data.buffer) > _READ_BYTES
    ]
    return replace_data(graph, rows) if rows else graph


def _regions(graph: Graph) -> Iterator[RegionSummary]:
    for region in graph.regions:
        blocks = region.blocks
        found = [multiply_accumulates(op, block) for block in blocks for op in block.operators]
        yield RegionSummary(
            region.name,
            tuple(summary_of(block, name) for block in blocks[:1] for name in block.inputs),
            tuple(summary_of(block, name) for block in blocks[:1] for name in block.outputs),
            sum(len(block.operators) for block in blocks),
            total(work for work in found if work is not None),
            max(map(peak_activations, blocks), key=lambda peak: peak.value, default=Amount(0)),
        )


def summary_of(block: Block, name: str) -> ValueSummary:
    """Return the summary of a name's value; a name that nothing defines has the type "undefined"."""
    value = block.tensors.get(name) or block.shapes.get(name)
    if value is None:
        return ValueSummary(name, "undefined", None)
    return value_summary(value)


def value_summary(value: Tensor | ShapeValue) -> ValueSummary:
    """Return a tensor or shape in a line.

    Example:
        >>> from tosa_convert.graph import Tensor, dtype
        >>> print(value_summary(Tensor("x", dtype("INT8"), (1, -1))))
        INT8 [1, ?]
        >>> print(value_summary(ShapeValue("s", 2)))
        shape of rank 2
    """
    if isinstance(value, ShapeValue):
        sizes = value.values() if value.rank <= MAX_RANK else None
        return ValueSummary(value.name, "SHAPE", (value.rank,), sizes=sizes)
    scale = value.scale
    return ValueSummary(
        value.name, value.dtype.name, value.shape, 0 if scale is None else int(scale.shape)
    )


def _variables(graph: Graph) -> Iterator[ValueSummary]:
    seen = set()
    for _, block in graph.blocks():
        for tensor in block.tensors.values():
            name = tensor.variable_name or tensor.name
            if tensor.variable and name not in seen:
                seen.add(name)
                row = value_summary(tensor)
                yield ValueSummary(name, row.type, row.shape, row.block)


def _operators(graph: Graph) -> tuple[OperatorSummary, ...]:
    counts: Counter[str] = Counter()
    work: dict[str, Amount] = {}
    for _, block in graph.blocks():
        for operator in block.operators:
            name = operator.spec.name
            counts[name] += 1
            amount = multiply_accumulates(operator, block)
            if amount is not None:
                work[name] = work.get(name, Amount(0)) + amount
    rows = (OperatorSummary(name, count, work.get(name)) for name, count in counts.items())
    return tuple(
        sorted(rows, key=lambda row: (-row.work.value if row.work else 0, -row.count, row.name))
    )


def _types(graph: Graph) -> tuple[TypeSummary, ...]:
    found: dict[int, list[Constant | None]] = {}
    for _, block in graph.blocks():
        for tensor in block.tensors.values():
            found.setdefault(tensor.dtype.code, []).append(tensor.data)
            if tensor.scale is not None:
                found.setdefault(tensor.scale.dtype.code, []).append(tensor.scale.data)
    rows = []
    for code, constants in sorted(found.items()):
        sizes = [constant.nbytes for constant in constants if constant is not None]
        rows.append(TypeSummary(DTYPE_BY_CODE[code].name, len(constants), len(sizes), sum(sizes)))
    return tuple(rows)


def _without_data(block: Block) -> int:
    """Count the results of CONST and CONST_SHAPE that have no data."""
    missing = 0
    for operator in block.operators:
        if operator.spec is CONST or operator.spec is CONST_SHAPE:
            for name in operator.outputs:
                value = block.tensors.get(name) or block.shapes.get(name)
                missing += value is not None and value.data is None
    return missing
