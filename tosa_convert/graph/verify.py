"""The rules for every Graph, whatever it was read from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding, Findings, TosaConvertError
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.lazy_numpy import FEW
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Tensor,
    block_path,
    operator_path,
    quoted,
    require_graphs,
)
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    OPERATORS,
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
)
from tosa_convert.graph.verify_values import (
    Problem,
    attribute_problems,
    name_problems,
    shape_problems,
    tensor_problems,
)

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns

#: For writers of a graph whose columns are not known.
NO_COLUMNS: Final[Mapping[str, BlockColumns]] = MappingProxyType({})
#: Operator, side and number of values that newer drafts have, and are not here -> what to do.
_NEWER_FORMS: Final = {
    (
        "SCATTER",
        "input",
        4,
    ): "SCATTER takes a row count in the draft of TOSA 1.1 of September 2026, "
    "which tosa-convert does not read yet: write an index for each row"
}
#: Blocks of fewer operators are not worth array operations.
_MIN_COLUMNS: Final = FEW


def verify(graph: Graph) -> list[Finding]:
    """Report all rules that a graph breaks.

    The graph is not changed. `tosa_convert.save` calls this first and raises what it returns.

    Args:
        graph: any graph, however it was made.

    Returns:
        The findings in the order of the graph, at most `errors.MAX_FINDINGS`; [] if it is sound.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> tc.verify(graph)
        []
        >>> graph.main.outputs.append("missing")
        >>> print(tc.verify(graph)[0])
        region "digits_cnn" block "main": error: block output "missing" is never defined [undefined-name]
    """
    return _check(graph)[0]


def refuse_unsound(graph: Graph) -> dict[str, BlockColumns]:
    """Raise TosaConvertError with the findings of `verify`, if it has any."""
    findings, columns = _check(graph)
    if findings:
        raise TosaConvertError(findings)
    return columns


def _check(graph: Graph) -> tuple[list[Finding], dict[str, BlockColumns]]:
    require_graphs(graph)
    findings = Findings()
    rules = _GraphRules(graph, findings)
    # Raised when there are as many findings as one error has.
    with contextlib.suppress(TosaConvertError):
        rules.check()
    return findings.rows, rules.columns


class _GraphRules:
    """The rules of regions and of what they run."""

    def __init__(self, graph: Graph, findings: Findings) -> None:
        self.graph = graph
        self.findings = findings
        self.region_names = {region.name: None for region in graph.regions}
        #: Region -> the regions that its operators run.
        self.calls: dict[str, list[str]] = {region.name: [] for region in graph.regions}
        #: Types of tensors without data that break no rule. Most tensors share a few types.
        self.sound_types: set[tuple[DType, tuple[int, ...] | None, bool]] = set()
        #: The columns of blocks that were checked in columns, by region.
        self.columns: dict[str, BlockColumns] = {}

    def wrong(self, where: str, message: str, hint: str = "") -> None:
        self.findings.add("malformed-structure", where, message, hint)

    def check(self) -> None:
        if not self.graph.regions:
            self.wrong("graph", "it has no regions", "regions[0] is the main graph")
            return
        if len(self.region_names) != len(self.graph.regions):
            self.duplicate_regions()
        for region in self.graph.regions:
            if len(region.blocks) != 1:
                message = f"it has {len(region.blocks)} blocks; a TOSA region has exactly one"
                self.wrong(f'region "{region.name}"', message)
            for block in region.blocks:
                if not self.keeps_rules(region.name, block):
                    _BlockRules(self, region.name, block).check()
        self.cycles()
        main = self.graph.regions[0].name
        if any(main in targets for targets in self.calls.values()):
            message = (
                "the first region is the main graph, and an operator runs it as a branch or a body"
            )
            self.wrong(f'region "{main}"', message)

    def keeps_rules(self, region: str, block: Block) -> bool:
        """Return whether a large block is known to keep all rules. Notes its columns if it does."""
        if len(block.operators) < _MIN_COLUMNS:
            return False
        from tosa_convert.graph.columns import columns_of, keeps_rules

        columns = columns_of(block)
        if columns is None or not keeps_rules(block, columns):
            return False
        self.columns[region] = columns
        return True

    def duplicate_regions(self) -> None:
        seen: set[str] = set()
        for region in self.graph.regions:
            if region.name in seen:
                message = "two regions have this name, and control flow refers to regions by name"
                self.findings.add("duplicate-name", f'region "{region.name}"', message)
            seen.add(region.name)

    def cycles(self) -> None:
        """Find regions that run themselves. Iterative, because nesting can be deep."""
        done: set[str] = set()
        for start in self.calls:
            path: list[tuple[str, int]] = [(start, 0)]
            on_path = {start}
            while path:
                name, position = path.pop()
                targets = self.calls.get(name, [])
                if name in done or position == len(targets):
                    done.add(name)
                    on_path.discard(name)
                    continue
                path.append((name, position + 1))
                target = targets[position]
                if target in on_path:
                    message = (
                        f'it runs region "{target}", which runs it: regions must not form a cycle'
                    )
                    self.wrong(f'region "{name}"', message)
                elif target not in done:
                    path.append((target, 0))
                    on_path.add(target)


class _BlockRules:
    """The rules of one block: its values, and the operators that refer to them."""

    def __init__(self, rules: _GraphRules, region: str, block: Block) -> None:
        self.findings = rules.findings
        self.region_names = rules.region_names
        self.sound_types = rules.sound_types
        self.calls = rules.calls[region]
        self.block = block
        self.where = block_path(region, block.name)
        #: Results of all operators; filled in when a message needs it.
        self.produced: set[str] | None = None

    def check(self) -> None:
        self.values()
        defined = self.inputs()
        self.operators(defined)
        for name in self.block.outputs:
            if name not in defined:
                self.undefined(f'block output "{name}" is never defined')

    def undefined(self, message: str) -> None:
        self.findings.add("undefined-name", self.where, message)

    def values(self) -> None:
        block, where = self.block, self.where
        for name in block.tensors.keys() & block.shapes.keys():
            message = "both a tensor and a shape have this name"
            self.findings.add("duplicate-name", f'{where} "{name}"', message)
        for key, tensor in block.tensors.items():
            # Fast path of tensor_problems; equal by test test_types_that_are_sound_once_are_sound_always
            type_key = None
            if tensor.data is None and tensor.scale is None and tensor.name == key:
                if not tensor.variable_name:
                    type_key = (tensor.dtype, tensor.shape, tensor.variable)
                    if type_key in self.sound_types:
                        continue
            if not self.value("tensor", key, tensor_problems(key, tensor)) and type_key is not None:
                self.sound_types.add(type_key)
        for key, shape in block.shapes.items():
            self.value("shape", key, shape_problems(key, shape))

    def value(self, what: str, name: str, problems: Iterable[Problem]) -> bool:
        """Report the problems of a tensor or shape; return whether there are any."""
        found = False
        for code, message, hint in problems:
            found = True
            self.findings.add(code, f"{self.where} {what} {quoted(name)}", message, hint)
        return found

    def inputs(self) -> set[str]:
        """Check the inputs of the block; returns what is defined before its first operator."""
        block = self.block
        seen: set[str] = set()
        for name in block.inputs:
            if name in seen:
                message = f'block input "{name}" is duplicated'
                self.findings.add("duplicate-name", self.where, message)
            seen.add(name)
            if name not in block.tensors and name not in block.shapes:
                self.undefined(
                    f'block input "{name}" is in neither the tensors nor the shapes of the block'
                )
        seen.update(tensor.name for tensor in block.tensors.values() if tensor.variable)
        return seen

    def operators(self, defined: set[str]) -> None:
        """Check the operators in order, and add their results to `defined`. This is a hot loop."""
        tensors, shapes = self.block.tensors, self.block.shapes
        are_tensors = shapes.keys().isdisjoint
        for index, operator in enumerate(self.block.operators):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            if not defined.issuperset(inputs):
                self.undefined_inputs(index, operator, defined)
            for name in outputs:
                if name in defined or (name not in tensors and name not in shapes):
                    self.output(index, operator, name, name in defined)
                defined.add(name)
            # Fast path of arity; equal by test test_operators_of_a_fixed_arity_are_those_of_their_rows
            operands, results, are_shapes = _FIXED_ARITY.get(spec.code, _VARIABLE_ARITY)
            if len(inputs) != operands or len(outputs) != results:
                self.arity(index, operator)
            elif are_shapes is None:
                if not (are_tensors(inputs) and are_tensors(outputs)):
                    self.arity(index, operator)
            else:
                for is_shape, name in zip(are_shapes, inputs + outputs, strict=True):
                    if (name in shapes) is not is_shape:
                        self.arity(index, operator)
                        break
            if spec.attributes or operator.attributes:
                self.attributes(index, operator)
            if spec is CONST or spec is CONST_SHAPE:
                self.constant(index, operator)
            elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
                self.variable_access(index, operator)

    def wrong(
        self,
        index: int,
        operator: Operator,
        message: str,
        hint: str = "",
        code: str = "malformed-operator",
    ) -> None:
        self.findings.add(code, operator_path(self.where, index, operator), message, hint)

    def undefined_inputs(self, index: int, operator: Operator, defined: set[str]) -> None:
        if self.produced is None:
            self.produced = {output for op in self.block.operators for output in op.outputs}
        for name in operator.inputs:
            if name in defined:
                continue
            # Results of earlier operators are defined already, so a later one produces it.
            when, hint = "never defined", ""
            if name in self.produced:
                when, hint = "defined only later", "operators must be in topological order"
            self.wrong(index, operator, f'input "{name}" is {when}', hint, "undefined-name")

    def output(self, index: int, operator: Operator, name: str, is_defined: bool) -> None:
        """Report an output that is defined already or unknown to the block, unless it is a variable."""
        if not is_defined:
            message = f'output "{name}" is in neither the tensors nor the shapes of the block'
            self.wrong(index, operator, message, code="undefined-name")
        elif not self.is_variable_target(operator, name):
            message, hint = f'output "{name}" is already defined', "names are unique within a block"
            self.wrong(index, operator, message, hint, "duplicate-name")

    def is_variable_target(self, operator: Operator, name: str) -> bool:
        """Return whether the operator writes a variable, which any number of operators can do."""
        tensor = self.block.tensors.get(name)
        return tensor is not None and tensor.variable and operator.spec.encoded_as == IDENTITY.name

    def arity(self, index: int, operator: Operator) -> None:
        """Check how many operands and results there are, and which of them are shapes."""
        spec = operator.spec
        if spec is VARIABLE:
            message = "a graph does not have this operator: a variable is declared by its tensor"
            self.wrong(index, operator, message)
            return
        sides = (
            ("input", operator.inputs, spec.operands, spec.operand_range, spec.operand),
            ("output", operator.outputs, spec.results, spec.result_range, spec.result),
        )
        for side, names, rows, expected_range, row_at in sides:
            count = len(names)
            fewest, most = expected_range()
            if count < fewest or (most is not None and count > most):
                expected = str(fewest) if fewest == most else f"{fewest} to {most or 'any'}"
                listed = ", ".join(row.name for row in rows) or "none"
                message = f"it has {count} {side}s, expected {expected}: {listed}"
                self.wrong(index, operator, message, _NEWER_FORMS.get((spec.name, side, count), ""))
                continue
            for position, name in enumerate(names):
                row = row_at(position, count)
                if name in (self.block.tensors if row.is_shape else self.block.shapes):
                    kinds = "a tensor, expected a shape", "a shape, expected a tensor"
                    message = f'{side} {row.name} "{name}" is {kinds[not row.is_shape]}'
                    self.wrong(index, operator, message)

    def attributes(self, index: int, operator: Operator) -> None:
        rows, values = operator.spec.attributes, operator.attributes
        operand = self.block.tensors.get(operator.inputs[0]) if operator.inputs else None
        wrong = set()
        for row, problem in attribute_problems(operator, operand):
            wrong.add(row.name)
            self.wrong(index, operator, f'attribute "{row.name}": {problem}')
        for row in operator.spec.regions:
            if row.name in values and row.name not in wrong:
                self.region_attribute(index, operator, row.name, str(values[row.name]))
        complete = len(values) == len(rows) and all(row.name in values for row in rows)
        if not complete:
            for message in name_problems(operator):
                self.wrong(index, operator, message)

    def region_attribute(self, index: int, operator: Operator, name: str, target: str) -> None:
        self.calls.append(target)
        if target not in self.region_names:
            message = f'attribute "{name}" names region "{target}", which does not exist'
            known = ", ".join(f'"{region}"' for region in list(self.region_names)[:8])
            self.wrong(index, operator, message, f"regions: {known}", "undefined-name")

    def constant(self, index: int, operator: Operator) -> None:
        for name in operator.outputs:
            value = self.block.tensors.get(name) or self.block.shapes.get(name)
            if value is not None and value.data is None:
                message = f'the constant "{name}" has no data'
                hint = "if the file has a folder of weights, keep the two together"
                self.wrong(index, operator, message, hint, "missing-data")
            elif isinstance(value, Tensor) and value.scale is not None and value.scale.data is None:
                message = f'the block-scaled constant "{name}" has no scales'
                self.wrong(index, operator, message, code="missing-data")

    def variable_access(self, index: int, operator: Operator) -> None:
        side, names = "input", operator.inputs
        if operator.spec is VARIABLE_WRITE:
            side, names = "output", operator.outputs
        for name in names:
            tensor = self.block.tensors.get(name)
            if tensor is not None and not tensor.variable:
                self.wrong(index, operator, f'{side} "{name}" is not a variable')


#: Code of an operator with a fixed arity -> the number of its operands and of its results, and which
#: of them are shapes, or None if all are tensors.
_FIXED_ARITY: Final = {
    spec.code: (
        len(spec.operands),
        len(spec.results),
        tuple(row.is_shape for row in rows) if any(row.is_shape for row in rows) else None,
    )
    for spec in OPERATORS
    if spec is not VARIABLE
    for rows in [spec.operands + spec.results]
    if not any(row.arity for row in rows)
}
#: No operator has this arity, so that `arity` is called.
_VARIABLE_ARITY: Final = (-1, -1, None)
