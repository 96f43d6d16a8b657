"""The shapes of all values of a program, derived anew from the shapes of its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding, Findings, TosaConvertError, fail, suggest
from tosa_convert.graph.dtypes import V1_1
from tosa_convert.graph.model import (
    DYNAMIC,
    INT32_MAX,
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    block_path,
    counted,
    element_count,
    operator_path,
    quoted,
)
from tosa_convert.graph.opset import operator
from tosa_convert.graph.static_shapes import (
    PLACEHOLDERS,
    is_open,
    make_placeholders_static,
    open_inputs,
)
from tosa_convert.graph.verify import verify
from tosa_convert.rules.families.checks import ResultShape, Violation, common_shape, listing
from tosa_convert.rules.operator_view import (
    SHAPE_DIVISIONS,
    OperatorView,
    ShapeType,
    Size,
    TensorType,
    TypeTable,
    ValueType,
    shape_text,
)
from tosa_convert.rules.validate import Validator, Verdict, finding, judge, judge_shapes

if TYPE_CHECKING:
    from tosa_convert.graph.model import Version


# -- the shapes that a user gives for the arguments of a program -----------------------------------

#: The size of a dimension: a number, or a symbol such as "B"; "?" leaves the dimension open.
GivenSize = int | str
OPEN: Final = "?"


def resolved(
    graph: Graph,
    shapes: Mapping[str, tuple[GivenSize, ...]],
    aliases: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each argument that is given one, by the argument's name.

    A symbol stands for one size wherever it occurs. It gets its value from a declared size in its
    position, or from an entry of its own: `{"x": ("B", 3), "y": ("B", 4), "B": (8,)}`. A symbol without
    a value leaves its dimensions open.
    """
    return _Arguments(graph, aliases or {}).resolved(shapes)


def open_symbols(
    graph: Graph,
    shapes: Mapping[str, tuple[GivenSize, ...]],
    aliases: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the symbols to which `resolved` gives no value, in their order."""
    arguments = _Arguments(graph, aliases or {})
    arguments.resolved(shapes)
    names = [size for sizes in shapes.values() for size in sizes if isinstance(size, str)]
    return [name for name in dict.fromkeys(names) if name != OPEN and name not in arguments.values]


class _Arguments:
    """The arguments of one program."""

    def __init__(self, graph: Graph, aliases: Mapping[str, int]) -> None:
        self.block: Block = graph.main
        self.where = block_path(graph.regions[0].name, self.block.name)
        names = self.block.inputs
        self.positions = {f"arg{index}": index for index in range(len(names))}
        self.positions |= {name: index for name, index in aliases.items() if index < len(names)}
        self.positions |= {name: index for index, name in enumerate(names)}
        self.findings: list[Finding] = []
        #: The values of symbols, and what gave them.
        self.values: dict[str, tuple[int, str]] = {}

    def resolved(self, shapes: Mapping[str, tuple[GivenSize, ...]]) -> dict[str, tuple[int, ...]]:
        """See `resolved`."""
        symbols = {
            size
            for key, sizes in shapes.items()
            if key in self.positions
            for size in sizes
            if isinstance(size, str) and size != OPEN
        }
        chosen: dict[str, tuple[GivenSize, ...]] = {}
        for key, sizes in shapes.items():
            if key in self.positions:
                name = self.block.inputs[self.positions[key]]
                if name in chosen:
                    self.refuse("unsupported-shape", f'argument "{key}": it has a shape already')
                elif self.fits(key, name, sizes):
                    chosen[name] = sizes
            elif key in symbols:
                self.bind_alone(key, sizes)
            else:
                names = [f'"{name}"' for name in self.block.inputs]
                hint = suggest(f'"{key}"', names, "arguments: " + ", ".join(names))
                self.refuse("unknown-argument", f'no argument is called "{key}"', hint)
        for name, sizes in chosen.items():
            self.bind_declared(name, sizes)
        if self.findings:
            raise TosaConvertError(self.findings)
        return {name: tuple(self.size(size) for size in sizes) for name, sizes in chosen.items()}

    def size(self, size: GivenSize) -> int:
        """Return a size as an integer: DYNAMIC for one that stays open."""
        if isinstance(size, int):
            return size
        return self.values[size][0] if size in self.values else DYNAMIC

    def refuse(self, code: str, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code, self.where, message, hint))

    def bind(self, symbol: str, value: int, source: str) -> None:
        known, known_source = self.values.setdefault(symbol, (value, source))
        if known != value:
            self.refuse(
                "unsupported-shape",
                f'the size "{symbol}" is {known} by {known_source} and {value} by {source}',
            )

    def bind_alone(self, symbol: str, sizes: tuple[GivenSize, ...]) -> None:
        """Bind a symbol to the value of its own entry."""
        if len(sizes) == 1 and isinstance(sizes[0], int) and 0 <= sizes[0] <= INT32_MAX:
            self.bind(symbol, sizes[0], "the value given")
        else:
            found = _text(sizes)
            self.refuse(
                "unsupported-shape", f'the size "{symbol}" is given as {found}, expected one number'
            )

    def bind_declared(self, name: str, sizes: tuple[GivenSize, ...]) -> None:
        declared = self.block.tensors[name].shape
        for size, own in zip(sizes, declared or (), strict=False):
            if isinstance(size, str) and size != OPEN and own != DYNAMIC:
                self.bind(size, own, f'argument "{name}"')

    def fits(self, key: str, name: str, sizes: tuple[GivenSize, ...]) -> bool:
        """Return whether an argument can have these sizes; if not, note the reason."""
        problem = _mismatch(self.block.tensors.get(name), sizes)
        if problem:
            self.refuse("unsupported-shape", f'argument "{key}": {problem}')
        return not problem


def _mismatch(tensor: Tensor | None, sizes: tuple[GivenSize, ...]) -> str:
    """Return why an argument cannot have these sizes, or ""."""
    if tensor is None:
        return "it is a shape, not a tensor"
    shape = _text(sizes)
    numbers = [size for size in sizes if isinstance(size, int)]
    wrong = [size for size in sizes if isinstance(size, str) and not _is_symbol(size)]
    if wrong:
        return f'the shape {shape} has the size {wrong[0]!r}, expected a number, a symbol or "?"'
    if any(size < 0 for size in numbers):
        return f"the shape {shape} has a negative size"
    if any(size > INT32_MAX for size in numbers):
        return f"the shape {shape} has a dimension over {INT32_MAX}"
    if tensor.shape is None:
        return ""
    if len(tensor.shape) != len(sizes) or any(
        isinstance(given, int) and declared not in (DYNAMIC, given)
        for declared, given in zip(tensor.shape, sizes, strict=True)
    ):
        return f"the shape {shape} does not fit its shape {shape_text(tensor.shape)}"
    return ""


def _is_symbol(size: str) -> bool:
    return size == OPEN or size.isidentifier()


def _text(sizes: tuple[GivenSize, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


#: The deepest nesting of regions that is followed. TOSA's own limit is 6 at level 8K.
MAX_NESTING: Final = 256

_RESHAPE: Final = operator("RESHAPE")
_SLICE: Final = operator("SLICE")

#: `refuse_impossible_symbols` tries the sizes up to the first of these and some from the second on,
#: unless that is more than the third number of operators to judge.
_TRIED, _UNLIKELY, _MOST_TRIED = 16, 1_000_003, 200_000

#: A region and the types of the values that it is given.
_Call = tuple[str, tuple[ValueType, ...]]


@dataclass(slots=True)
class _Run:
    """One run of a region. calls: the runs that its operators make."""

    types: dict[str, ValueType]
    calls: list[_Call] = field(default_factory=list)


def infer(graph: Graph, arguments: Mapping[str, tuple[int, ...]], *, judges: bool = True) -> Graph:
    """Return the program with new shapes for its arguments, and for all values that follow from them."""
    return _Inference(graph, judges=judges).graph_with(arguments)


def settled(graph: Graph) -> Graph:
    """Return a program whose inputs are static with all sizes that follow; unsound ones stay as is."""
    from tosa_convert.graph.verify import verify

    if any(open_inputs(graph)) or verify(graph):
        return graph
    try:
        inferred = infer(graph, {}, judges=False)
    except TosaConvertError:
        return graph
    make_placeholders_static(inferred)
    return inferred


def refuse_impossible_symbols(
    graph: Graph,
    shapes: Mapping[str, tuple[GivenSize, ...]],
    aliases: Mapping[str, int],
) -> None:
    """Refuse a symbol without a value of which two operators need different sizes, as trials show."""
    findings = Findings()
    blocks = [block for _, block in graph.blocks()]
    own = {size for block in blocks for row in block.tensors.values() for size in row.shape or ()}
    small = sorted({*range(1, _TRIED + 1), *own} - {0, DYNAMIC})
    sizes = [*small, *range(_UNLIKELY, _UNLIKELY + _TRIED)]
    if len(sizes) * sum(len(block.operators) for block in blocks) > _MOST_TRIED:
        return
    for symbol in open_symbols(graph, shapes, aliases):

        def wrong(size: int, symbol: str = symbol) -> set[str]:
            try:
                infer(graph, resolved(graph, {**shapes, symbol: (size,)}, aliases))
            except TosaConvertError as error:
                return {finding.where for finding in error.findings}
            return set()

        demanding = wrong(_UNLIKELY)
        if not demanding:
            continue
        refused = {size: wrong(size) for size in sizes}
        needed: dict[int, str] = {}
        for place in sorted(demanding):
            allowed = [size for size in sizes if place not in refused[size]]
            if len(allowed) == 1:
                needed.setdefault(allowed[0], place)
        if len(needed) > 1:
            (one, here), (other, there) = list(needed.items())[:2]
            findings.add(
                "unsupported-shape",
                here,
                f'the size "{symbol}" must be {one} here, and {other} at {there}',
                "give the arguments sizes that fit, or symbols of their own",
            )
    findings.raise_if_any()


class _Inference:
    """The inference of one program. Runs of a region with equal types share one `_Run`."""

    def __init__(self, graph: Graph, *, judges: bool = True) -> None:
        self.graph = graph
        self.judge = judge if judges else judge_shapes
        self.judges = judges
        self.table = TypeTable()
        self.regions = {region.name: region for region in graph.regions}
        self.blocks = dict(zip(self.regions, graph.blocks(), strict=True))
        self.declared: dict[str, dict[str, ValueType]] = {}
        self.verdicts: dict[object, Verdict] = {}
        self.runs: dict[_Call, _Run] = {}
        self.findings = Findings()
        self.reported: set[tuple[str, str]] = set()

    def graph_with(self, arguments: Mapping[str, tuple[int, ...]]) -> Graph:
        """See `infer`."""
        main = self.graph.main
        declared = self.table.of_block(main)
        inputs = tuple(self.refined(declared[name], arguments.get(name)) for name in main.inputs)
        call = (self.graph.regions[0].name, inputs)
        self.run(call, 0)
        if self.judges:
            self.findings.raise_if_any()
        return replace(self.graph, regions=self.regions_with(self.final_types(call)))

    # -- running ---------------------------------------------------------------------------------

    def run(self, call: _Call, depth: int) -> list[ValueType]:
        """Return the types of the values that a region returns when it is given values of some types."""
        where, block = self.blocks[call[0]]
        run = self.runs.get(call)
        if run is None:
            if depth > MAX_NESTING:
                raise fail("too-large", where, f"regions are nested more than {MAX_NESTING} deep")
            if len(block.inputs) != len(call[1]):
                message = (
                    f"{counted(len(call[1]), 'value')} for {counted(len(block.inputs), 'input')}"
                )
                raise fail("invalid-operator", where, message)
            types = dict(self.declared_types(call[0]))
            types.update(zip(block.inputs, call[1], strict=True))
            run = self.runs[call] = _Run(types)
            for index, operator in enumerate(block.operators):
                if operator.spec.regions:
                    self.run_regions(operator, run, depth)
                else:
                    self.run_operator(operator, types, where, index)
        return [run.types[name] for name in block.outputs]

    def declared_types(self, region: str) -> dict[str, ValueType]:
        types = self.declared.get(region)
        if types is None:
            types = self.declared[region] = self.table.of_block(self.blocks[region][1])
        return types

    def run_operator(
        self, operator: Operator, types: dict[str, ValueType], where: str, index: int
    ) -> None:
        """Set the types of an operator's results."""
        inputs = tuple(types[name] for name in operator.inputs)
        if operator.spec in PLACEHOLDERS:
            inputs = self.without_placeholders(operator, inputs)
        outputs = tuple(types[name] for name in operator.outputs)
        key = (operator.spec, inputs, outputs, *operator.attributes.items())
        verdict = self.verdicts.get(key)
        if verdict is None:
            verdict = self.verdicts[key] = self.judge(OperatorView(operator, inputs, outputs))
        if verdict.violations:
            self.report(operator, operator_path(where, index, operator), verdict)
        elif verdict.results is not None:
            for name, type_, shape in zip(operator.outputs, outputs, verdict.results, strict=True):
                types[name] = self.refined(type_, shape)

    def without_placeholders(
        self, operator: Operator, inputs: tuple[ValueType, ...]
    ) -> tuple[ValueType, ...]:
        """Return operands in which no size is -1, which in RESHAPE and SLICE is "what remains"."""
        position = PLACEHOLDERS[operator.spec]
        sizes = inputs[position]
        if not isinstance(sizes, ShapeType) or -1 not in sizes.sizes:
            return inputs
        rest: tuple[Size, ...] = (None,) * len(sizes.sizes)
        source, start = inputs[0], inputs[1]
        if operator.spec is _RESHAPE:
            rest = _what_remains(source, sizes.sizes)
        elif (
            operator.spec is _SLICE
            and isinstance(source, TensorType)
            and isinstance(start, ShapeType)
        ):
            lengths = source.shape or rest
            if len(lengths) == len(start.sizes) == len(rest):
                rest = tuple(map(_what_follows, lengths, start.sizes))
        new = tuple(
            other if size == -1 else size for size, other in zip(sizes.sizes, rest, strict=True)
        )
        return (*inputs[:position], self.table.shape(new), *inputs[position + 1 :])

    def report(self, operator: Operator, path: str, verdict: Verdict) -> None:
        """Note the violations of an operator; a region that is run several times has them once."""
        for violation in verdict.violations:
            if (path, violation.rule) not in self.reported:
                self.reported.add((path, violation.rule))
                self.findings.extend([finding(operator, path, violation)])

    def run_regions(self, operator: Operator, run: _Run, depth: int) -> None:
        """Set the types of the results of an operator that runs regions."""
        names = [str(operator.attributes[row.name]) for row in operator.spec.regions]
        values = tuple(run.types[name] for name in operator.inputs)
        if operator.spec.name == "COND_IF":
            results = self.branches(names, values[1:], run, depth)
        else:
            results = self.loop(names, values, run, depth)
        for name, type_ in zip(operator.outputs, results, strict=False):
            shape = type_.shape if isinstance(type_, TensorType) else type_.sizes
            run.types[name] = self.refined(run.types[name], shape)

    def branches(
        self, names: list[str], values: tuple[ValueType, ...], run: _Run, depth: int
    ) -> list[ValueType]:
        """Return the types that both regions return."""
        returned = []
        for name in names:
            call = (name, self.given(name, values))
            run.calls.append(call)
            returned.append(self.run(call, depth + 1))
        return [self.common(*types) for types in zip(*returned, strict=False)]

    def loop(
        self, names: list[str], values: tuple[ValueType, ...], run: _Run, depth: int
    ) -> list[ValueType]:
        """Return the types of a loop's state, which holds before and after each iteration."""
        condition, body = names
        state = self.given(body, values)
        while True:
            after = self.run((body, state), depth + 1)
            if len(after) != len(state):
                break
            # Each round opens at least one size, so that this ends.
            common = self.given(body, tuple(map(self.common, state, after)))
            if common == state:
                break
            state = common
        self.run((condition, state), depth + 1)
        run.calls += (condition, state), (body, state)
        return list(state)

    def given(self, region: str, values: Sequence[ValueType]) -> tuple[ValueType, ...]:
        """Return the types of a region's arguments when it is given values of these types."""
        block = self.blocks[region][1]
        declared = self.declared_types(region)
        return tuple(
            self.refined(
                declared[name], type_.shape if isinstance(type_, TensorType) else type_.sizes
            )
            for name, type_ in zip(block.inputs, values, strict=False)
        )

    # -- types -----------------------------------------------------------------------------------

    def refined(self, type_: ValueType, shape: ResultShape) -> ValueType:
        """Return a type with the sizes that a shape adds to it. Its own sizes are kept."""
        if shape is None:
            return type_
        if isinstance(type_, ShapeType):
            sizes = tuple(
                new if size is None else size for size, new in zip(type_.sizes, shape, strict=True)
            )
            return self.table.shape(sizes)
        if type_.shape is None:
            new = tuple(DYNAMIC if size is None else size for size in shape)
        elif len(type_.shape) != len(shape):
            return type_
        else:
            new = tuple(
                size if size != DYNAMIC or other is None else other
                for size, other in zip(type_.shape, shape, strict=True)
            )
        return type_ if new == type_.shape else self.table.tensor(type_.dtype, new, type_.scale)

    def common(self, one: ValueType, other: ValueType) -> ValueType:
        """Return the type whose sizes are those that two types share."""
        # `validate` refuses branches that return a shape and a tensor.
        if one is other or not (isinstance(one, TensorType) and isinstance(other, TensorType)):
            return one
        return self.table.tensor(one.dtype, common_shape(one.shape, other.shape), one.scale)

    # -- the new program -------------------------------------------------------------------------

    def final_types(self, main: _Call) -> dict[str, dict[str, ValueType]]:
        """Return the types of each region's values: the sizes that all of its runs share."""
        final: dict[str, dict[str, ValueType]] = {}
        pending, seen = [main], {main}
        while pending:
            call = pending.pop()
            types = self.runs[call].types
            known = final.get(call[0])
            final[call[0]] = (
                types
                if known is None
                else {name: self.common(type_, types[name]) for name, type_ in known.items()}
            )
            for inner in self.runs[call].calls:
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
        return final

    def regions_with(self, types: Mapping[str, dict[str, ValueType]]) -> list[Region]:
        """Return the regions with these types; a region that no operator runs stays as it is."""
        return [
            Region(region.name, [_with_types(region.blocks[0], types[region.name])])
            if region.name in types
            else region
            for region in self.graph.regions
        ]


def _what_remains(source: ValueType, sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    """Return the only size of -1 in a RESHAPE at each position, if the elements have one; else None."""
    count = element_count(source.shape) if isinstance(source, TensorType) else None
    others = [size for size in sizes if size != -1]
    each = prod(size for size in others if size is not None)
    known = count is not None and len(others) == len(sizes) - 1 and None not in others
    if known and each > 0 and count is not None and count % each == 0:
        return (count // each,) * len(sizes)
    return (None,) * len(sizes)


def _what_follows(length: Size, start: Size) -> Size:
    """Return the size of a slice from a start to the end of a dimension; None if it is not known."""
    if length is None or start is None or DYNAMIC in (length, start):
        return None
    return length - start


def _with_types(block: Block, types: Mapping[str, ValueType]) -> Block:
    tensors = {}
    for name, tensor in block.tensors.items():
        type_ = types[name]
        assert isinstance(type_, TensorType)
        tensors[name] = (
            tensor if type_.shape == tensor.shape else replace(tensor, shape=type_.shape)
        )
    # `make_placeholders_static` replaces operators and their operands.
    operators = [replace(operator) for operator in block.operators]
    return replace(block, tensors=tensors, shapes=dict(block.shapes), operators=operators)


# -- unknown sizes: those that stay and why, and those that a version does not have ----------------

#: Most names that one line lists.
_NAMED = 4


@dataclass(slots=True)
class Cause:
    """Why sizes stay unknown.

    reason: the argument or operator with which the unknown sizes begin.
    tensors: the names of the tensors that stay dynamic because of it. outputs: those of them that are
        results of the program, with their open dimensions.
    """

    reason: str
    tensors: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        hidden = len(self.tensors) - _NAMED
        names = ", ".join(map(quoted, self.tensors[:_NAMED]))
        more = f" and {hidden} more" if hidden > 0 else ""
        verb = "stays" if len(self.tensors) == 1 else "stay"
        count = counted(len(self.tensors), "tensor")
        text = f"{self.reason}; {count} {verb} dynamic: {names}{more}"
        return text + (f"; of the results: {', '.join(self.outputs)}" if self.outputs else "")


def causes(graph: Graph) -> list[Cause]:
    """Return the causes of unknown sizes, in program order, each with all that it affects first."""
    return [cause for where, block in graph.blocks() for cause in _causes_in(where, block)]


def version_findings(graph: Graph, version: Version) -> Iterator[Finding]:
    """Yield a finding for each tensor with unknown sizes if, as for 1.0, MLIR refuses these."""
    if (version.major, version.minor) >= V1_1:
        return
    for where, block in graph.blocks():
        for name, tensor in block.tensors.items():
            if is_open(tensor):
                yield Finding(
                    "version-too-low",
                    f"{where} tensor {quoted(name)}",
                    f"unknown sizes need TOSA {V1_1[0]}.{V1_1[1]}; {version} does not have them",
                )


def _causes_in(where: str, block: Block) -> list[Cause]:
    found: list[Cause] = []
    cause_of: dict[str, Cause] = {}

    def add(name: str, cause: Cause) -> None:
        cause_of[name] = cause
        cause.tensors.append(name)
        if name in block.outputs:
            cause.outputs.append(f"{quoted(name)} in {_dimensions(block.tensors[name])}")

    open_tensors = {name for name, tensor in block.tensors.items() if is_open(tensor)}
    for name in block.inputs:
        if name in open_tensors:
            tensor = block.tensors[name]
            found.append(
                Cause(f"{where} input {quoted(name)} has no size in {_dimensions(tensor)}")
            )
            add(name, found[-1])
    for index, op in enumerate(block.operators):
        results = [name for name in op.outputs if name in open_tensors]
        if not results:
            continue
        source = next((cause_of[name] for name in op.inputs if name in cause_of), None)
        if source is None:
            path = operator_path(where, index, op)
            source = Cause(f"{path}: the sizes of its result do not follow from its operands")
            found.append(source)
        for name in results:
            add(name, source)
    return found


def _dimensions(tensor: Tensor) -> str:
    if tensor.shape is None:
        return "any dimension, because its rank is unknown"
    positions = [str(index) for index, size in enumerate(tensor.shape) if size == DYNAMIC]
    return f"dimension{'s' if len(positions) > 1 else ''} {' and '.join(positions)}"


# -- operators that compute shapes of values for which TOSA does not define the result -------------
# TOSA's shapes have no negative sizes; MLIR calls the quotient of one undefined, and programs
# differ in what they compute.

_LOGARITHMS: Final = frozenset({"LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE"})
_RULE: Final = "undefined"


def undefined_shapes(graph: Graph) -> list[Finding]:
    """Return a finding for each division of a negative value, in a program that `verify` accepts."""
    if not _has(graph, SHAPE_DIVISIONS):
        return []
    found = Validator(graph, _judge).findings()
    return [row for row in found if row.rule.endswith(f"-{_RULE}")]


def endless_logarithms(graph: Graph) -> list[Finding]:
    """Return why a logarithm of a sound program has no value: runtimes may search for it without end."""
    if not _has(graph, _LOGARITHMS) or verify(graph):
        return []
    rules = {f"{name.lower().replace('_', '-')}-value" for name in _LOGARITHMS}
    found = [row for row in Validator(graph).findings() if row.rule in rules]
    return found or undefined_shapes(graph)


def _has(graph: Graph, names: frozenset[str]) -> bool:
    return any(op.spec.name in names for _, block in graph.blocks() for op in block.operators)


def _judge(view: OperatorView) -> Verdict:
    verdict = judge(view)
    if view.spec.name not in SHAPE_DIVISIONS or verdict.violations:
        return verdict
    sizes = (*view.sizes("input1"), *view.sizes("input2"))
    if not any(size is not None and size < 0 for size in sizes):
        return verdict
    message = f"TOSA does not define it for negative values: {listing(view)}"
    return Verdict((Violation(_RULE, message, "values of 0 or more"),), verdict.results)
