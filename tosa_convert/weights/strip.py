"""A program without its weights, to show or to share."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.weights.replace_data import replaced, with_data

#: Elements and bytes up to which a constant is small: zero points, shifts, multipliers, axes.
SMALL_ELEMENTS: Final = 16
SMALL_BYTES: Final = 64


def strip(graph: Graph, *, keep_small: bool = True) -> Graph:
    """The graph with every bit of its weights 0, same shapes and types; `graph` is not changed.

    keep_small: leave constants of at most 16 elements and 64 bytes as they are. Zero points, shifts
        and per-tensor multipliers have meaning to readers, and tell nothing of a model's training;
        per-channel multipliers and shifts of more channels, tables, biases and scales are stripped.

    The sizes of a TosaShape are always kept. The zeros take no memory, and in a file as much room as
    the weights did; `write` of this package or a compressor is the way to save that.
    """
    changed: dict[int, dict[str, Tensor]] = {}
    for _, block in graph.blocks():
        for tensor in block.tensors.values():
            stripped = tensor
            if _is_stripped(tensor.data, keep_small):
                stripped = with_data(stripped, "data", _zeros(tensor.data))
            if tensor.scale is not None and _is_stripped(tensor.scale.data, keep_small):
                stripped = with_data(stripped, "scale_data", _zeros(tensor.scale.data))
            if stripped is not tensor:
                changed.setdefault(id(block), {})[tensor.name] = stripped
    return replaced(graph, changed)


def _is_stripped(data: Constant | None, keep_small: bool) -> bool:
    if data is None or not data.count:
        return False
    return not keep_small or data.count > SMALL_ELEMENTS or data.nbytes > SMALL_BYTES


def _zeros(data: Constant | None) -> Constant:
    assert data is not None
    element = bytes(data.dtype.element_bytes)
    return Constant(data.dtype, data.count, element, splat=True, padding=data.padding)
