"""Whether TOSA allows a program: every finding at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from tosa_convert.errors import Finding
from tosa_convert.graph.model import block_path, located, operator_path
from tosa_convert.rules.families.core import Violation, dashed
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.program import program_findings
from tosa_convert.rules.values import ShapeType, TypeTable, ValueType
from tosa_convert.rules.verdict import Verdict, judge

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns
    from tosa_convert.graph.model import Block, Graph, Operator


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
        from tosa_convert.rules.columns import is_valid

        return is_valid(block, columns, self.table, self.judge)

    def block(
        self, where: str, block: Block, positions: Sequence[int] | None = None
    ) -> Iterator[Finding]:
        """Report the findings of a block's operators.

        positions: the numbers that messages give to the operators, unless they count from 0.
        """
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
