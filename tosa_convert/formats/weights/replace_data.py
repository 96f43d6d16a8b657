"""Graphs that share everything with another graph but the data of some tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tosa_convert.formats.weights.manifest import Part
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Graph, Tensor


def with_data(tensor: Tensor, part: Part, data: Constant | None) -> Tensor:
    """Return the tensor with other data or, if it is block-scaled, with other scales."""
    if part == "data":
        return replace(tensor, data=data)
    assert tensor.scale is not None
    return replace(tensor, scale=replace(tensor.scale, data=data))


def with_tensors(graph: Graph, changed: Mapping[int, dict[str, Tensor]]) -> Graph:
    """Return the graph with other tensors.

    Args:
        graph: The graph, which is not changed.
        changed: id of a block -> name -> the new tensor.
    """
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
