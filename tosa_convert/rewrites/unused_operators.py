"""Operators whose results nothing uses are removed.

Frontends leave constants and computations behind that no operator uses any more. What has an effect
stays: writes of variables, control flow that touches variables, CUSTOM and ASSERT_EQUAL_SHAPE. One read
of a variable that nothing writes stays, too: TOSA has no variable that no operator uses.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.derived import touches_variables, unrun_regions
from tosa_convert.graph.model import Block, Graph, Operator, Region, block_path
from tosa_convert.graph.opset import OPERATORS, VARIABLE_READ, VARIABLE_WRITE, operator
from tosa_convert.records import replace
from tosa_convert.rewrites.report import Recorder

NAME: Final = "unused-operators"
_WITH_EFFECT: Final = frozenset(
    (VARIABLE_WRITE, operator("CUSTOM"), *(row for row in OPERATORS if not row.results))
)


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph without the operators that no result depends on, nor any effect."""
    unrun = {region.name for region in unrun_regions(graph)}
    regions = [
        replace(
            region, blocks=[_used_part(graph, region, block, recorder) for block in region.blocks]
        )
        for region in graph.regions
    ]
    if all(
        new is old
        for after, before in zip(regions, graph.regions, strict=True)
        for new, old in zip(after.blocks, before.blocks, strict=True)
    ):
        return graph
    made = replace(graph, regions=regions)
    # A region that only removed operators ran has no purpose; others that nothing runs are not ours.
    removed = {region.name for region in unrun_regions(made)} - unrun
    made.regions = [region for region in regions if region.name not in removed]
    return made


def _used_part(graph: Graph, region: Region, block: Block, recorder: Recorder) -> Block:
    """Return the block without unused operators; the same object if it has none."""
    used = set(block.outputs)
    update, isdisjoint = used.update, used.isdisjoint
    unused: list[int] = []
    operators = block.operators
    reads = _only_reads(graph, block)
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        is_last_use = index in reads and reads[index] not in used
        if isdisjoint(op.outputs) and not _has_effect(graph, op) and not is_last_use:
            unused.append(index)
        else:
            update(op.inputs)
    if not unused:
        return block
    where = block_path(region.name, block.name)
    for index in reversed(unused):
        op = operators[index]
        recorder.add(NAME, f"removed {op.spec.name}", where, index, op)
    gone = {name for index in unused for name in operators[index].outputs}
    dropped = set(unused)
    return replace(
        block,
        operators=[op for index, op in enumerate(operators) if index not in dropped],
        tensors={name: value for name, value in block.tensors.items() if name not in gone},
        shapes={name: value for name, value in block.shapes.items() if name not in gone},
    )


def _only_reads(graph: Graph, block: Block) -> dict[int, str]:
    """Return the first reads of variables that no operator writes: their numbers, and the variables."""
    reads = {
        op.inputs[0]: index
        for index, op in reversed(list(enumerate(block.operators)))
        if op.spec is VARIABLE_READ
    }
    if not reads:
        return {}
    written = {
        _symbol(own, op.outputs[0])
        for _, own in graph.blocks()
        for op in own.operators
        if op.spec is VARIABLE_WRITE
    }
    return {index: name for name, index in reads.items() if _symbol(block, name) not in written}


def _symbol(block: Block, name: str) -> str:
    return block.tensors[name].variable_name or name


def _has_effect(graph: Graph, op: Operator) -> bool:
    if op.spec in _WITH_EFFECT:
        return True
    return bool(op.spec.regions) and touches_variables(graph, op)
