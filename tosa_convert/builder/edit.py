"""Edit programs: a function of the caller sees each operator, and puts others in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.model import Block, Graph, Operator, block_path, require_graphs
from tosa_convert.graph.verify import refuse_unsound

__all__ = ["BlockEditor", "rewrite"]

#: Changes a program at an operator that is visited. What it returns is ignored.
Rule = Callable[[Operator, BlockEditor], object]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Return the graph with each operator rewritten by a function.

    Args:
        graph: A program that `verify` finds sound. It does not change; the result shares operators,
            tensors and constants with it.
        rule: Is called with each operator of each block, in order, and the `BlockEditor` of the block.
            It may emit operators, and replace or remove the operator that it is called with. It is not
            called with operators that it emits.

    Returns:
        The rewritten graph, which is the same object if nothing was changed. `rewrites.apply` removes
        what no result depends on any more.

    Raises:
        TosaConvertError: What `BlockEditor` refuses; what `verify` finds in the result.

    Example:
        >>> import tosa_convert as tc
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (2, 3))
        >>> b.output(b.sigmoid(x), name="y")
        >>> def sigmoid_by_tanh(op, edit):
        ...     if op.spec.name == "SIGMOID":
        ...         (x,), half = op.inputs, edit.number(0.5, like=op.inputs[0])
        ...         tanh = edit.emit("TANH", [edit.emit("MUL", [x, half])])
        ...         edit.replace(op, [edit.emit("ADD", [edit.emit("MUL", [tanh, half]), half])])
        >>> graph = tc.edit.rewrite(b.graph(), sigmoid_by_tanh)
        >>> [op.spec.name for op in graph.main.operators]
        ['CONST', 'CONST', 'MUL', 'TANH', 'MUL', 'ADD']
    """
    require_graphs(graph)

    def change(where: str, block: Block) -> Block:
        edit = BlockEditor(block, where)
        for op in edit.visit():
            rule(op, edit)
        return edit.finish()

    made = change_blocks(graph, change)
    if made is not graph:
        refuse_unsound(made)
    return made


def change_blocks(graph: Graph, change: Callable[[str, Block], Block]) -> Graph:
    """Return the graph with each block changed; the same object if all blocks are the same objects."""
    regions = []
    for region in graph.regions:
        blocks = [change(block_path(region.name, block.name), block) for block in region.blocks]
        is_changed = any(new is not old for new, old in zip(blocks, region.blocks, strict=True))
        regions.append(replace(region, blocks=blocks) if is_changed else region)
    if all(new is old for new, old in zip(regions, graph.regions, strict=True)):
        return graph
    return replace(graph, regions=regions)
