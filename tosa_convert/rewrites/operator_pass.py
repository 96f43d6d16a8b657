"""Runs rewrites of single operators over the blocks of a graph, all of them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.rewrites.report import Recorder

#: Puts others in the place of an operator, and returns what it did, for the report; None to keep it. Its
#: operands are final: operators are visited in order.
Rule = Callable[[Operator, BlockEditor], str | None]


class OperatorRewrite(NamedTuple):
    """A rewrite that replaces single operators.

    name: its name for users. group: one of `table.GROUPS`. reason: why it is made, in one line.
    function: puts others in the place of an operator.
    operators: the operators that it looks at.
    """

    name: str
    group: str
    reason: str
    function: Rule
    operators: tuple[OperatorSpec, ...]


class OperatorPass:
    """One pass of several rewrites, in their order. What replaces an operator is visited, too."""

    def __init__(self, rewrites: Sequence[OperatorRewrite], recorder: Recorder) -> None:
        self.recorder = recorder
        self.rules: dict[OperatorSpec, list[tuple[str, Rule]]] = {}
        for row in rewrites:
            for spec in row.operators:
                self.rules.setdefault(spec, []).append((row.name, row.function))

    def rewritten(self, graph: Graph) -> Graph:
        """Rewrite a graph; return the same object if no rule applies."""
        return change_blocks(graph, self._block)

    def _block(self, where: str, block: Block) -> Block:
        """Rewrite a block; return the same object if no rule applies."""
        rules = self.rules
        if rules.keys().isdisjoint([op.spec for op in block.operators]):
            return block
        edit = BlockEditor(block, where)
        for index, op in enumerate(block.operators):
            if op.spec not in rules and not edit.same:
                edit.add(op)
                continue
            pending = [op]
            while pending:
                current = edit.current(pending.pop())
                found = self._first(current, edit)
                if found is None:
                    edit.add(current)
                    continue
                name, what, emitted = found
                self.recorder.add(name, what, where, index, op)
                pending += reversed(emitted)
        return edit.finish()

    def _first(self, op: Operator, edit: BlockEditor) -> tuple[str, str, list[Operator]] | None:
        """Apply the first rule that changes an operator.

        Returns:
            Its name, what it did, and the operators in the place of this one; None if there is no rule.
        """
        rules = self.rules.get(op.spec)
        if rules is None:
            return None
        edit.begin(op)
        for name, rule in rules:
            what = rule(op, edit)
            if what is not None:
                return name, what, edit.take_emitted()
        edit.take_emitted()
        return None


def replace_by_value(edit: BlockEditor, op: Operator, value: str, what: str) -> str | None:
    """Use another value instead of the only result of an operator.

    Returns:
        What was done, as it is given; None if the value cannot replace the result.
    """
    if not edit.can_replace(op, value):
        return None
    edit.replace(op, [value])
    return what
