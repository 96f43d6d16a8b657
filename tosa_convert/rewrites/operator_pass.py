"""Runs rewrites of single operators over the blocks of a graph, all of them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.records import NamedTuple
from tosa_convert.rewrites.report import Recorder

#: Puts others in the place of an operator, and returns what it did, for the report; None to keep it, and
#: then it has emitted nothing. Its operands are final: operators are visited in order.
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
        add, same = edit.add, edit.same
        for index, op in enumerate(block.operators):
            if op.spec not in rules and not same:
                add(op)
                continue
            pending = [op]
            while pending:
                current = edit.current(pending.pop()) if same else pending.pop()
                change = self._change(current, edit) if current.spec in rules else None
                if change is None:
                    add(current)
                    continue
                self.recorder.add(*change, where, index, op)
                pending += reversed(edit.take_emitted())
        return edit.finish()

    def _change(self, op: Operator, edit: BlockEditor) -> tuple[str, str] | None:
        """Apply the first rule that changes an operator."""
        edit.begin(op)
        for name, rule in self.rules[op.spec]:
            what = rule(op, edit)
            if what is not None:
                return name, what
        return None


def replace_by_value(edit: BlockEditor, op: Operator, value: str, what: str) -> str | None:
    """Use another value instead of the only result of an operator."""
    (result,) = op.outputs
    if edit.can_stand_for(value, result):
        edit.substitute(value, result)
    elif edit.can_replace(op, value):
        edit.replace(op, [value])
    else:
        return None
    return what
