"""Whether TOSA allows a program: every finding at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.errors import Finding
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block, block_path, located, operator_path, quoted
from tosa_convert.graph.opset import CONST_SHAPE, OPERATORS
from tosa_convert.rules.families import rules_of
from tosa_convert.rules.families.checks import ResultShape, Violation, dashed, result_violations
from tosa_convert.rules.operator_view import (
    READ_POSITIONS,
    OperatorView,
    ShapeType,
    TensorType,
    TypeTable,
    ValueType,
)
from tosa_convert.rules.types import Element, mismatch

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns, Numbers
    from tosa_convert.graph.model import Graph, Operator


# -- the verdict on one operator: what TOSA forbids, and the shapes of its results -----------------


class Verdict(NamedTuple):
    """violations: what does not hold. results: the shapes of all results; None if one cannot follow."""

    violations: tuple[Violation, ...]
    results: tuple[ResultShape, ...] | None


def judge(view: OperatorView) -> Verdict:
    """Return all independent violations of an operator, its declared results included."""
    violations, results = judge_shapes(view)
    return Verdict((*_type_violations(view), *_size_violations(view), *violations), results)


def judge_shapes(view: OperatorView) -> Verdict:
    """Return what the operator's rules say of shapes, attributes and values, whatever its types."""
    rules = rules_of(view.spec)
    violations = [found for check in rules.ranks for found in check(view)]
    if not violations:
        violations = [found for check in rules.checks for found in check(view)]
    if violations:
        return Verdict(tuple(violations), None)
    results = rules.infer(view)
    if not view.outputs:
        return Verdict((), results)
    return Verdict(tuple(result_violations(view, results, rules.dimensions)), results)


def _type_violations(view: OperatorView) -> Iterator[Violation]:
    """Report what is wrong with the element types, if operands are there and results declared."""
    complete = (view.inputs or not view.spec.operands) and (view.outputs or not view.spec.results)
    if complete:
        found = mismatch(
            view.spec,
            tuple(map(element_of, view.inputs)),
            tuple(map(element_of, view.outputs)),
            view.attributes,
        )
        if found is not None:
            yield Violation(*found)


def _size_violations(view: OperatorView) -> Iterator[Violation]:
    """Check that no tensor is empty."""
    for row, value in (*view.operands(), *view.results()):
        if isinstance(value, TensorType) and value.shape is not None and 0 in value.shape:
            yield Violation(
                f"{dashed(row.name)}-size", f"{row.name} is {value}", "sizes of 1 or more"
            )


def element_of(value: ValueType) -> Element:
    """Return the element type, if block-scaled with that of its scales; None for a !tosa.shape."""
    if isinstance(value, ShapeType):
        return None
    return value.dtype if value.scale is None else (value.dtype, value.scale[0])


# -- what TOSA demands of a program as a whole -----------------------------------------------------
# Sources: what LLVM's TOSA dialect demands of functions and variables. It also refuses a
# !tosa.shape as a result, which official tests return.

_CODE: Final = "invalid-operator"


def program_findings(graph: Graph) -> Iterator[Finding]:
    """Report findings of a sound graph that belong to no single operator, or to several regions."""
    yield from _inputs(graph)
    for where, name, type_ in unjudged_inputs(graph):
        if type_.shape is not None and 0 in type_.shape:
            message = f"input {quoted(name)} is {type_}; expected sizes of 1 or more"
            yield Finding(_CODE, where, message, rule="program-input-size")
    yield from _variables(graph)
    yield from _missing_results(graph)


def unused_values(graph: Graph) -> Iterator[Finding]:
    """Yield a finding for each value that nothing uses, which the reference model refuses."""
    used = {where: _used(block) for where, block in graph.blocks()}
    variables = {
        tensor.variable_name or name
        for where, block in graph.blocks()
        for name, tensor in block.tensors.items()
        if tensor.variable and name in used[where]
    }
    for where, block in graph.blocks():
        for kind, names in (("tensor", block.tensors), ("shape", block.shapes)):
            for name in names:
                tensor = block.tensors.get(name)
                if tensor is not None and tensor.variable:
                    is_used = (tensor.variable_name or name) in variables
                else:
                    is_used = name in used[where]
                if not is_used:
                    place = f"{where} {kind} {quoted(name)}"
                    message = (
                        f"no operator makes or uses it; expected a program without this {kind}"
                    )
                    yield Finding(_CODE, place, message, rule="program-unused-value")


def _used(block: Block) -> set[str]:
    """Return the values that operators of a block make or use, or that it takes."""
    used = {name for operator in block.operators for name in (*operator.inputs, *operator.outputs)}
    return used.union(block.inputs)


def unjudged_inputs(graph: Graph) -> Iterator[tuple[str, str, TensorType]]:
    """Yield path, name and type of tensors that blocks take and no operator uses."""
    table = TypeTable()
    for where, block in graph.blocks():
        unused = dict.fromkeys(name for name in block.inputs if name in block.tensors)
        for operator in block.operators:
            if not unused:
                break
            for name in operator.inputs:
                unused.pop(name, None)
        for name in unused:
            yield where, name, table.of_tensor(block.tensors[name], with_data=False)


def _inputs(graph: Graph) -> Iterator[Finding]:
    """Check that a program takes tensors: operators need sizes that are known before it runs."""
    main = graph.main
    where = block_path(graph.regions[0].name, main.name)
    for name in main.inputs:
        if name in main.shapes:
            expected = "a tensor; sizes come from CONST_SHAPE or DIM"
            message = f"input {quoted(name)} is a !tosa.shape; expected {expected}"
            yield Finding(_CODE, where, message, rule="program-input")


def _variables(graph: Graph) -> Iterator[Finding]:
    """Check that a variable has one type, in all regions that declare it."""
    table = TypeTable()
    declared: dict[str, tuple[object, str]] = {}
    for where, block in graph.blocks():
        for tensor in block.tensors.values():
            if not tensor.variable:
                continue
            type_ = table.of_tensor(tensor, with_data=False)
            name = tensor.variable_name or tensor.name
            known, first = declared.setdefault(name, (type_, where))
            if known is not type_:
                message = f"variable {quoted(name)} is {type_}; expected {known}, as in {first}"
                place = f"{where} tensor {quoted(tensor.name)}"
                yield Finding(_CODE, place, message, rule="program-variable")


def _missing_results(graph: Graph) -> Iterator[Finding]:
    """Check that an operator without results runs regions that return nothing."""
    blocks = {region.name: region.blocks[0] for region in graph.regions}
    for where, block in graph.blocks():
        for index, operator in enumerate(block.operators):
            if operator.spec.regions and not operator.outputs:
                path = located(operator_path(where, index, operator), operator)
                yield from _returned(blocks, operator, path)


def _returned(blocks: dict[str, Block], operator: Operator, path: str) -> Iterator[Finding]:
    for row in operator.spec.regions:
        if row.name == "cond_graph":
            continue
        name = str(operator.attributes[row.name])
        count = len(blocks[name].outputs)
        if count:
            message = (
                f"region {quoted(name)} returns {count} values; expected none, as the results are"
            )
            yield Finding(_CODE, path, message, rule="program-results")


class Validator:
    """Judges the operators of one graph. Operators of equal types and attributes share a verdict.

    judge: makes the verdict on an operator.
    columns: of blocks that `verify` accepts, by the names of their regions.
    """

    def __init__(
        self,
        graph: Graph,
        judge: Callable[[OperatorView], Verdict] = judge,
        columns: Mapping[str, BlockColumns] | None = None,
    ) -> None:
        self.graph = graph
        self.judge = judge
        self.table = TypeTable()
        self.verdicts: dict[object, Verdict] = {}
        self.regions = {region.name: region.blocks[0] for region in graph.regions}
        self.columns = columns or {}

    def findings(self) -> Iterator[Finding]:
        """Report the findings of the program as a whole, then those of all blocks."""
        yield from program_findings(self.graph)
        for region in self.graph.regions:
            for block in region.blocks:
                if not self.is_valid(region.name, block):
                    yield from self.block(block_path(region.name, block.name), block)

    def is_valid(self, region: str, block: Block) -> bool:
        """Return whether a block whose columns are known is known to be valid."""
        columns = self.columns.get(region)
        if columns is None:
            return False

        return is_valid(block, columns, self.table, self.judge)

    def block(
        self, where: str, block: Block, positions: Sequence[int] | None = None
    ) -> Iterator[Finding]:
        """Report findings of a block's operators. positions: their numbers, unless they count from 0."""
        types = self.table.of_block(block)
        value, verdicts = types.__getitem__, self.verdicts
        for index, operator in zip(positions or count(), block.operators, strict=False):
            inputs = tuple(map(value, operator.inputs))
            outputs = tuple(map(value, operator.outputs))
            key = (operator.spec, inputs, outputs, *operator.attributes.items())
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = self.judge(OperatorView(operator, inputs, outputs, self.regions))
                # What a region holds is not part of the key.
                if not operator.spec.regions:
                    verdicts[key] = verdict
            if verdict.violations:
                path = operator_path(where, index, operator)
                for violation in verdict.violations:
                    yield finding(operator, path, violation)
            if outputs and outputs[0].__class__ is ShapeType:
                self.compute_shape(operator, types, verdict)

    def compute_shape(
        self, operator: Operator, types: dict[str, ValueType], verdict: Verdict
    ) -> None:
        """Set the values of a !tosa.shape that an operator computes, for the operators that use it."""
        if verdict.results is None:
            return
        for name, sizes in zip(operator.outputs, verdict.results, strict=True):
            if sizes is not None:
                types[name] = self.table.shape(sizes)


def finding(operator: Operator, path: str, violation: Violation) -> Finding:
    """Convert a violation of an operator to a finding. path: that of the operator."""
    message = f"{violation.message}; expected {violation.expected}"
    rule = f"{dashed(operator.spec.name)}-{violation.rule}"
    code = "outside-level" if violation.rule.startswith("level-") else "invalid-operator"
    return Finding(code, located(path, operator), message, violation.hint, rule=rule)


# -- whether TOSA allows a large block: one operator of each kind is judged ------------------------

#: The codes of operators that compute a !tosa.shape: the types of the operators after them follow.
_COMPUTE_SHAPES: Final = [
    spec.code
    for spec in OPERATORS
    if spec is not CONST_SHAPE and any(row.is_shape for row in spec.results)
]
#: Kinds of operators are numbers below this.
_LIMIT: Final = 2**62


def is_valid(
    block: Block,
    columns: BlockColumns,
    table: TypeTable,
    judge: Callable[[OperatorView], Verdict],
) -> bool:
    """Return whether no operator of a block with sound columns breaks a rule, judging one of a kind."""
    # Fast path of Validator.block; equal by test test_blocks_that_are_valid_in_columns_have_no_findings
    if np.isin(columns.codes, _COMPUTE_SHAPES).any():
        return False
    types, numbers = _types(columns, table)
    input_starts = np.cumsum(columns.input_counts) - columns.input_counts
    output_starts = np.cumsum(columns.output_counts) - columns.output_counts
    for index in _representatives(columns, numbers, len(types)):
        sides = (
            columns.inputs[input_starts[index] :][: columns.input_counts[index]],
            columns.outputs[output_starts[index] :][: columns.output_counts[index]],
        )
        inputs, outputs = (tuple(types[n] for n in numbers[side].tolist()) for side in sides)
        if judge(OperatorView(columns.operators[index], inputs, outputs, {})).violations:
            return False
    return True


def _types(columns: BlockColumns, table: TypeTable) -> tuple[list[ValueType], Numbers]:
    """Return the types of a block's values, and for each value the index of its type."""
    tensors = columns.tensors
    types: list[ValueType] = [table.tensor(t.dtype, t.shape) for t in columns.examples]
    numbers = np.empty(len(tensors) + len(columns.shapes), np.int64)
    numbers[: len(tensors)] = columns.types
    known: dict[ValueType, int] = {}

    def number(type_: ValueType) -> int:
        if type_ not in known:
            known[type_] = len(types)
            types.append(type_)
        return known[type_]

    needed = _read_by_rules(columns)
    for index in columns.others:
        tensor = tensors[index]
        if tensor.scale is not None or index in needed:
            numbers[index] = number(table.of_tensor(tensor, with_data=index in needed))
    sizes: dict[object, ShapeType] = {}
    for position, shape in enumerate(columns.shapes, len(tensors)):
        key = (shape.rank, _content(shape.data))
        shape_type = sizes.get(key)
        if shape_type is None:
            shape_type = sizes[key] = table.of_shape(shape)
        numbers[position] = number(shape_type)
    return types, numbers


def _content(data: Constant | None) -> object:
    return None if data is None else (data.splat, data.count, bytes(data.buffer))


def _read_by_rules(columns: BlockColumns) -> set[int]:
    """Return the values whose elements the rules of an operator read."""
    ends = np.cumsum(columns.input_counts)
    needed: set[int] = set()
    for spec, positions in READ_POSITIONS.items():
        chosen = ends[columns.codes == spec.code]
        for position in positions if len(chosen) else ():
            needed.update(columns.inputs[chosen + position].tolist())
    return needed


def _representatives(columns: BlockColumns, numbers: Numbers, type_count: int) -> list[int]:
    """Return one operator of each kind. Those with equal codes, attributes and types are of one kind."""
    kinds, limit = columns.codes, int(columns.codes.max()) + 1
    for column, size in _fields(columns, numbers, type_count):
        if limit > _LIMIT // size:
            kinds = np.unique(kinds, return_inverse=True)[1]
            limit = len(kinds)
        kinds, limit = kinds * size + column, limit * size
    return list(dict(zip(kinds.tolist(), range(len(kinds)), strict=True)).values())


def _fields(
    columns: BlockColumns, numbers: Numbers, type_count: int
) -> Iterator[tuple[Numbers, int]]:
    """Iterate over what an operator is judged by: columns of integers, each below its limit."""
    yield columns.attributes, int(columns.attributes.max()) + 1
    for values, counts in (
        (columns.inputs, columns.input_counts),
        (columns.outputs, columns.output_counts),
    ):
        most = int(counts.max())
        yield counts, most + 1
        starts = np.cumsum(counts) - counts
        types = numbers[values] + 1
        for position in range(most):
            has = counts > position
            column = np.zeros(len(counts), np.int64)
            column[has] = types[starts[has] + position]
            yield column, type_count + 1
