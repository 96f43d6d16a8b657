"""Graphs that share everything but the data of some tensors."""

from __future__ import annotations

from dataclasses import replace

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.weights.manifest import Part


def with_data(tensor: Tensor, part: Part, data: Constant | None) -> Tensor:
    """The tensor with other data or scales; it must be block-scaled to have scales."""
    if part == "data":
        return replace(tensor, data=data)
    assert tensor.scale is not None
    return replace(tensor, scale=replace(tensor.scale, data=data))


def replaced(graph: Graph, changed: dict[int, dict[str, Tensor]]) -> Graph:
    """The graph with other tensors; changed: id of a block -> name -> tensor."""
    regions = []
    for region in graph.regions:
        blocks = [
            replace(block, tensors=block.tensors | changed[id(block)])
            if id(block) in changed
            else block
            for block in region.blocks
        ]
        regions.append(replace(region, blocks=blocks))
    return replace(graph, regions=regions)
