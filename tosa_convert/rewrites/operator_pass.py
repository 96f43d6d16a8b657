"""Runs rewrites of single operators over the blocks of a graph, all of them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.graph.shown import Shown

# -- what rewrites changed: counted, and grouped by rewrite and kind of change ---------------------

#: How many operators a change lists.
_SHOWN_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class Change(Shown):
    """Equal changes of one rewrite.

    rewrite: the name of the rewrite.
    what: what it did, such as "POW by 2 became x * x".
    count: how often.
    places: the paths of the first operators that it changed, with their locations, in the graph as the
        rewrite found it.

    Example:
        >>> print(Change("pow-by-constant", "POW by 2 became x * x", 3, ("a", "b", "c")))
        pow-by-constant: POW by 2 became x * x, 3 times: a, b, c
    """

    rewrite: str
    what: str
    count: int
    places: tuple[str, ...] = ()

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        more = self.count - len(self.places)
        places = ", ".join(self.places) + (f", ... {more} more" if more > 0 else "")
        return f"{self.rewrite}: {self.what}{times}: {places}"


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The changes of one call of `apply`, in the order in which rewrites run.

    False if nothing was changed. `str` gives one line for each change.
    """

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes))

    def count(self, rewrite: str) -> int:
        """Return how many changes a rewrite made.

        Example:
            >>> Report((Change("fold-constants", "ADD", 2),)).count("fold-constants")
            2
        """
        return sum(change.count for change in self.changes if change.rewrite == rewrite)


@dataclass(slots=True)
class _Group:
    """The number of equal changes, and the places of the first ones."""

    count: int = 0
    places: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recorder:
    """Collects changes. order: the names of all rewrites, in the order of the report."""

    order: tuple[str, ...]
    groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def add(self, rewrite: str, what: str, where: str, index: int, operator: Operator) -> None:
        """Note one change. where, index: the block of the original operator, and its position."""
        group = self.groups.setdefault((rewrite, what), _Group())
        group.count += 1
        if len(group.places) < _SHOWN_PLACES:
            path = operator_path(where, index, operator)
            group.places.append(f"{path} {operator.location}" if operator.location else path)

    def report(self) -> Report:
        """Return everything that was noted, in the order of the table and then by kind of change."""
        keys = sorted(self.groups, key=lambda key: self.order.index(key[0]))
        return Report(
            tuple(
                Change(*key, self.groups[key].count, tuple(self.groups[key].places)) for key in keys
            )
        )


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
