"""Graphs that share everything with another graph but the data of some tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Block, Graph, Tensor
from tosa_convert.records import replace

#: The elements of a tensor, or the scales of a block-scaled one.
Part = Literal["data", "scale_data"]


def replace_data(graph: Graph, rows: Iterable[tuple[Block, str, Part, Constant | None]]) -> Graph:
    """Return the graph with other data of some tensors."""
    changed: dict[int, dict[str, Tensor]] = {}
    for block, name, part, data in rows:
        tensors = changed.setdefault(id(block), {})
        tensor = tensors.get(name, block.tensors[name])
        if part == "data":
            tensors[name] = replace(tensor, data=data)
        else:
            assert tensor.scale is not None
            tensors[name] = replace(tensor, scale=replace(tensor.scale, data=data))

    def changed_block(block: Block) -> Block:
        tensors = changed.get(id(block))
        return block if tensors is None else replace(block, tensors=block.tensors | tensors)

    regions = [replace(row, blocks=list(map(changed_block, row.blocks))) for row in graph.regions]
    return replace(graph, regions=regions)
