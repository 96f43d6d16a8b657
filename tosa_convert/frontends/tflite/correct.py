"""Corrects lowerings in the converter's program that compute other numbers than TFLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tosa_convert.builder.edit import change_blocks
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.frontends.source_places import name_of
from tosa_convert.frontends.tflite.lowerings.correction import OtherFormError, group_of
from tosa_convert.frontends.tflite.lowerings.find import Wanted
from tosa_convert.frontends.tflite.lowerings.writer import Writer
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE


def with_corrections(graph: Graph, wanted: Sequence[Wanted], source: str) -> Graph:
    """Return the graph with these lowerings corrected, wherever they are.

    Raises:
        TosaConvertError: "not-lowered" for those whose lowering does not have the known form.
    """
    changes = {one.name: one.row.change for one in wanted if one.row.change is not None}
    graph = change_blocks(graph, lambda _, block: _changed(block, changes))
    left: list[Wanted] = []
    others = [one for one in wanted if one.row.lower is not None]
    while others:  # Of several rows for one operator one at a time.
        rows = {one.name: one for one in reversed(others)}
        unknown = dict(rows)
        graph = change_blocks(graph, lambda _, block: _rewritten(block, rows, unknown))  # noqa: B023
        left += unknown.values()
        others = [one for one in others if rows[one.name] is not one]
    findings = [
        Finding(
            "not-lowered",
            f'{source}: the operator that makes "{one.name}"',
            f"{one.row.operator} would be lowered wrongly: {one.row.fault}",
            "write it with other operators",
        )
        for one in left
    ]
    if findings:
        raise TosaConvertError(findings)
    return graph


def _changed(block: Block, changes: Mapping[str, Callable[[Operator], Operator]]) -> Block:
    """Change the operators with one of these names in their location, each in its place."""

    def changed(one: Operator) -> Operator:
        change = changes.get(name_of(one.location))
        return one if change is None else change(one)

    return replace(block, operators=list(map(changed, block.operators)))


def _rewritten(block: Block, rows: Mapping[str, Wanted], left: dict[str, Wanted]) -> Block:
    """Correct the lowerings of the block; remove them from `left`."""
    members: dict[str, list[Operator]] = {}
    for one in block.operators:
        name = name_of(one.location)
        if name in rows and one.spec not in (CONST, CONST_SHAPE):
            members.setdefault(name, []).append(one)
    if not members:
        return block
    write = Writer(block)
    # The block with the values that it has by now.
    view = replace(block, tensors=write.tensors, shapes=write.shapes)
    instead: dict[int, list[Operator]] = {}
    gone: set[int] = set()
    for name, operators in members.items():
        write.operators, write.location = [], operators[-1].location
        try:
            lower = rows[name].row.lower
            assert lower is not None
            lower(view, group_of(block, operators), rows[name].facts, write)
        except OtherFormError:
            continue
        except TosaConvertError as error:
            # A number may not fit its type.
            if error.code == "invalid-operator":
                raise RuntimeError(f"{name}: a correction wrote {error}") from error
            continue
        left.pop(name, None)
        instead[id(operators[-1])] = write.operators
        gone |= {id(one) for one in operators}
    write.operators = []
    for one in block.operators:
        if id(one) not in gone:
            write.add(one)
        for made in instead.get(id(one), []):
            write.add(made)
    return write.finish()
