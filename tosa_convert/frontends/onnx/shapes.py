"""Infers the shapes of values with onnx, without those on which onnxruntime disagrees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: Operators whose shapes onnx infers from their definitions, without the defaults of attributes.
_MISJUDGED = ("MeanVarianceNormalization",)
_POOLS = ("AveragePool", "LpPool", "MaxPool")


def infer(model: Any) -> Any:
    """Return the model with the inferred shapes of its values."""
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # A model that onnx's inference refuses may still lower.
        return model
    nodes = [node for node in model.graph.node if node.op_type in _MISJUDGED]
    doubtful = [output for node in (*nodes, *doubtful_nodes(model)) for output in node.output]
    if doubtful:
        _forget(model.graph, doubtful)
    return model


def doubtful_nodes(model: Any) -> list[Any]:
    """List the nodes whose results have other sizes in onnxruntime than onnx infers.

    Once they are decomposed, their shapes follow from those of simpler operators.
    """
    kinds = {node.op_type for node in model.graph.node}
    if not kinds & {*_POOLS, "Resize", "Upsample"}:
        return []
    infos = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    shapes = {info.name: info.type.tensor_type.shape.dim for info in infos}
    constants = dict(_small_constants(model.graph))
    return [node for node in model.graph.node if _is_doubtful(node, shapes, constants)]


def _is_doubtful(node: Any, shapes: Any, constants: Any) -> bool:
    if node.op_type not in (*_POOLS, "Resize", "Upsample") or not shapes.get(node.input[0]):
        return False
    sizes = [dim.dim_value for dim in shapes[node.input[0]]]
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in _POOLS:
        return (
            bool(given.get("ceil_mode", 0))
            and 0 not in sizes[2:]
            and _ends_in_padding(sizes[2:], given)
        )
    scales = given.get("scales")
    for name in node.input[1:3] if scales is None else ():
        if name in constants and constants[name].dtype == np.float32 and constants[name].size:
            scales = constants[name].reshape(-1).tolist()
    if scales is None or len(node.input) > 3:
        return False
    axes = given.get("axes", range(len(sizes)))
    pairs = zip([sizes[axis] for axis in axes], scales, strict=False)
    return any(scaled(size, scale) != math.floor(size * scale) for size, scale in pairs)


def scaled(size: int, scale: float) -> int:
    """Return the size of a result as onnxruntime computes it: in FP32, so that 10 * 2.3 is 23."""
    return int(np.floor(np.float32(size) * np.float32(scale)))


def _ends_in_padding(sizes: list[int], given: dict[str, Any]) -> bool:
    """Return whether the last window by `ceil_mode` has no element of the input."""
    count = len(sizes)
    pads = given.get("pads", [0] * 2 * count)
    rows = zip(
        sizes,
        given["kernel_shape"],
        given.get("strides", [1] * count),
        given.get("dilations", [1] * count),
        pads[:count],
        pads[count:],
        strict=True,
    )
    return any(
        -(-(size + before + after - (kernel - 1) * gap - 1) // step) * step >= size + before
        for size, kernel, step, gap, before, after in rows
    )


def _small_constants(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of short lists among the initializers and nodes."""
    made = (
        (node.output[0], attribute.t)
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    )
    for name, tensor in (*((one.name, one) for one in graph.initializer), *made):
        if len(tensor.dims) == 1 and tensor.dims[0] < 16 and not tensor.external_data:
            yield name, numpy_helper.to_array(tensor)


def _forget(graph: Any, names: Iterable[str]) -> None:
    """Drop the shapes of values, and of all that is computed of them, in place."""
    stale = set(names)
    for node in graph.node:
        if not stale.isdisjoint(_used(node)):
            stale.update(node.output)
    kept = [info for info in graph.value_info if info.name not in stale]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for info in graph.output:
        if info.name in stale and info.type.WhichOneof("value") == "tensor_type":
            info.type.tensor_type.ClearField("shape")


def _used(node: Any) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _used(inner)
