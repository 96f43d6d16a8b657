"""Runs rewrites of single operators over the blocks of a graph, all of them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tosa_convert.graph.model import Block, Graph, Operator, block_path
from tosa_convert.graph.opset import IDENTITY, OperatorSpec
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement
from tosa_convert.rewrites.report import Recorder

#: What replaces an operator, or None to keep it. Its operands are final: operators are visited in order.
Rule = Callable[[Operator, EditedBlock], Replacement | None]


class OperatorRewrite(NamedTuple):
    """A rewrite that replaces single operators.

    name: its name for users. group: one of `table.GROUPS`. reason: why it is made, in one line.
    function: what replaces an operator, or None.
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
        regions = []
        for region in graph.regions:
            blocks = [
                self._block(block_path(region.name, block.name), block) for block in region.blocks
            ]
            is_changed = any(new is not old for new, old in zip(blocks, region.blocks, strict=True))
            regions.append(replace(region, blocks=blocks) if is_changed else region)
        if all(new is old for new, old in zip(regions, graph.regions, strict=True)):
            return graph
        return replace(graph, regions=regions)

    def _block(self, where: str, block: Block) -> Block:
        """Rewrite a block; return the same object if no rule applies."""
        rules = self.rules
        kinds = frozenset([op.spec for op in block.operators])
        if rules.keys().isdisjoint(kinds):
            return block
        edited = EditedBlock(block, kinds)
        is_changed = False
        for index, op in enumerate(block.operators):
            if op.spec not in rules and not edited.same:
                edited.add(op)
                continue
            pending = [op]
            while pending:
                current = edited.current(pending.pop())
                found = self._first(current, edited)
                if found is None:
                    edited.add(current)
                    continue
                name, replacement = found
                is_changed = True
                self.recorder.add(name, replacement.what, where, index, op)
                for result, value in replacement.same.items():
                    edited.replace_by(value, result)
                pending += reversed(replacement.operators)
        return edited.finished() if is_changed else block

    def _first(self, op: Operator, edited: EditedBlock) -> tuple[str, Replacement] | None:
        """Return what the first rule that applies makes of an operator, or None."""
        for name, rule in self.rules.get(op.spec, ()):
            replacement = rule(op, edited)
            if replacement is None:
                continue
            settled = _settled(replacement, op, edited)
            if settled is not None:
                return name, settled
        return None


def _settled(replacement: Replacement, op: Operator, edited: EditedBlock) -> Replacement | None:
    """Put an IDENTITY where a name has to survive a replacement; return None if it changes nothing."""
    for result, value in list(replacement.same.items()):
        if edited.can_stand_for(value, result):
            continue
        if op.spec is IDENTITY or not _equal_types(value, result, edited):
            return None
        del replacement.same[result]
        replacement.operators.append(Operator(IDENTITY, (value,), (result,), {}, op.location))
    return replacement


def _equal_types(value: str, result: str, edited: EditedBlock) -> bool:
    one, other = edited.tensors.get(value), edited.tensors.get(result)
    if one is None or other is None or one.variable or other.variable or one.scale or other.scale:
        return False
    return one.dtype is other.dtype and one.shape == other.shape
