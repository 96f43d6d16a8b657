"""Differences as text, like `diff -u`: the operators that differ, with those around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tosa_convert.errors import printable
from tosa_convert.graph.model import Block, Graph, counted, value_text
from tosa_convert.views.structural_diff.changes import Change, Detail, Diff, ElementDifference

#: Changes that follow from others are listed up to this number.
SHOWN_FOLLOWING: Final = 3

#: Colours a line: its role ("file", "place", "added", "removed" or "changed") and its text.
Paint = Callable[[str, str], str]


def plain(role: str, text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class TextForm:
    """How differences are printed.

    names: those of both files. context: how many operators are printed around one that differs.
    everything: also list all changes that follow from others.
    """

    names: tuple[str, str]
    context: int = 1
    everything: bool = False
    paint: Paint = plain


def as_text(diff: Diff, left: Graph, form: TextForm) -> Iterator[str]:
    """Iterate over the lines of the differences from a program; only notes if there are none."""
    if diff:
        for mark, name, title in (
            ("---", form.names[0], diff.left),
            ("+++", form.names[1], diff.right),
        ):
            yield form.paint("file", f"{mark} {printable(name)}: {printable(title)}")
    for note in diff.notes:
        yield f"note: {note.what}: {printable(note.left)} -> {printable(note.right)}"
    blocks = {
        (region.name, block.name): block for region in left.regions for block in region.blocks
    }
    place: tuple[str, str] | None = None
    group: list[Change] = []
    for change in diff.changes:
        here = change.within
        if here == ("", ""):
            here = (change.item.region, change.item.block)
        if here != place and group:
            yield from _block_lines(group, blocks.get(place or here), form)
            group = []
        place = here
        group.append(change)
    if group:
        yield from _block_lines(group, blocks.get(place or ("", "")), form)
    if diff:
        yield diff.summary()


def as_statistics(diff: Diff) -> Iterator[str]:
    """Iterate over lines on how many operators of each name differ, and how."""
    found: dict[str, Counter[str]] = {}
    for change in diff.changes:
        name = change.item.name if change.subject in ("operator", "constant") else change.subject
        found.setdefault(name, Counter())[change.kind] += 1
    width = max(map(len, found), default=0)
    for name in sorted(found):
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found[name].items()))
        yield f" {name:{width}} | {counts}"
    if diff:
        yield diff.summary()


def _block_lines(changes: Sequence[Change], block: Block | None, form: TextForm) -> Iterator[str]:
    region = changes[0].within[0] or changes[0].item.region
    if region:
        yield form.paint("place", f"@@ region {value_text(region, None)} @@")
    inside = [c for c in changes if c.subject in ("operator", "constant") and c.kind != "retyped"]
    following = [c for c in changes if c.kind == "retyped"]
    # In the order of the block: what it takes, what it does, what it returns.
    for change in changes:
        if change.subject not in ("operator", "constant", "output") and change.kind != "retyped":
            yield from _change_lines(change, form)
    yield from _operator_lines(inside, block, form)
    for change in changes:
        if change.subject == "output":
            yield from _change_lines(change, form)
    yield from _following_lines(following, form)


def _operator_lines(
    changes: Sequence[Change], block: Block | None, form: TextForm
) -> Iterator[str]:
    at: dict[int, list[Change]] = {}
    for change in changes:
        at.setdefault(change.place, []).append(change)
    operators = [] if block is None else block.operators
    visible = [i for i, op in enumerate(operators) if op.spec.operands or i in at]
    ranks = {index: rank for rank, index in enumerate(visible)}
    shown: set[int] = set()
    for place, rows in at.items():
        middle = ranks.get(place, -1)
        # Constants come first in most files: the operators around one say nothing.
        context = form.context if any(row.subject == "operator" for row in rows) else 0
        shown.update(range(middle - context, middle + context + 1))
    last = -1
    for rank in [-1, *range(len(visible))]:
        index = visible[rank] if rank >= 0 else -1
        if rank not in shown and index not in at:
            continue
        if rank > last + 1 and last >= 0:
            yield form.paint("place", "@@")
        last = rank
        rows = at.get(index, [])
        if index >= 0 and all(row.kind == "added" for row in rows):
            assert block is not None
            if rows or rank in shown:
                yield f"  #{index} {block.operator_text(operators[index])}"
        for number, row in enumerate(rows):
            # What both changed and moved is two changes of one operator or constant.
            before = rows[number - 1].left if number else None
            same = before is not None and before == row.left
            yield from _change_lines(row, form, with_heading=not same)


def _change_lines(change: Change, form: TextForm, *, with_heading: bool = True) -> Iterator[str]:
    kind = change.kind
    mark = {"added": "+", "removed": "-"}.get(kind, "~")
    role = kind if kind in ("added", "removed") else "changed"
    if with_heading:
        yield form.paint(role, f"{mark} {_heading(change)}")
    if change.users:
        yield form.paint(role, f"{mark}     {', '.join(change.users)}")
    for detail in change.details:
        if detail.what == "position":
            text = f"moved: #{detail.left} -> #{detail.right}"
            if change.with_constants:
                text += f", and {counted(change.with_constants, 'further constant')}"
            yield form.paint(role, f"~     {text}")
        elif detail.elements is not None:
            yield form.paint(role, f"~     {detail.what}: {elements_text(detail.elements)}")
            if len(detail.left) + len(detail.right) < 200 and detail.left != detail.right:
                yield from _sides(detail, form)
        else:
            yield from _sides(detail, form)


def _sides(detail: Detail, form: TextForm) -> Iterator[str]:
    yield form.paint("removed", f"-     {detail.what}: {printable(detail.left)}")
    yield form.paint("added", f"+     {detail.what}: {printable(detail.right)}")


def _heading(change: Change) -> str:
    item = change.item
    is_operator = change.subject in ("operator", "constant")
    text = f"#{item.index} {item.text}" if is_operator else f"{change.subject} {item.text}"
    if change.subject in ("region", "block"):
        text = item.text
    if change.with_constants and change.kind != "moved":
        text += f", with {counted(change.with_constants, 'constant')}"
    return text


def _following_lines(changes: Sequence[Change], form: TextForm) -> Iterator[str]:
    """Iterate over a few lines on the results whose types follow from those of operands."""
    if not changes:
        return
    count = counted(len(changes), "operator")
    yield form.paint(
        "changed", f"~ {count}: the types of results differ because those of operands do"
    )
    shown = changes if form.everything else changes[:SHOWN_FOLLOWING]
    for change in shown:
        item = change.item
        number = f"#{item.index} {item.name}" if change.subject == "operator" else item.text
        types = "; ".join(f"{detail.left} -> {detail.right}" for detail in change.details)
        yield form.paint("changed", f"~     {number}: {types}")
    if hidden := len(changes) - len(shown):
        yield form.paint("changed", f"~     ... {hidden} more")


def elements_text(found: ElementDifference) -> str:
    """Return how constants differ, in a line."""
    verb = "differs" if found.different == 1 else "differ"
    text = f"{found.different} of {counted(found.elements, 'element')} {verb}"
    if found.max_absolute is not None:
        text += f" by up to {found.max_absolute:.6g}"
    if found.max_relative is not None:
        text += f" (relative {found.max_relative:.3g})"
    text += f", the first is element {found.first}"
    return text + (f"; {found.nans} with NaN" if found.nans else "")
