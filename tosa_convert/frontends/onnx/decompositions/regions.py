"""If, Loop and Scan whose course is known: the nodes of their graphs in a row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tosa_convert.frontends.onnx.decompositions.decomposition import (
    Decomposition,
    NotDecomposedError,
)

#: Iterations that are unrolled.
_ITERATIONS: Final = 256


def if_constant(e: Decomposition) -> list[Any]:
    """Inline the branch that is taken."""
    taken = bool(e.value(0).reshape(-1)[0])
    graph = e.attribute("then_branch" if taken else "else_branch")
    nodes, names = _inlined(e, graph, {}, "branch")
    return [*nodes, *_identities(names, [o.name for o in graph.output], e.node.output)]


def loop_unrolled(e: Decomposition) -> list[Any]:
    """Unroll every iteration of a loop with a known count whose condition stays true."""
    graph = e.attribute("body")
    if not e.has(0):
        raise NotDecomposedError("it has no trip count")
    count = int(e.value(0).reshape(-1)[0])
    if count > _ITERATIONS or not _condition_stays(graph):
        raise NotDecomposedError("it is too long, or ends by a condition")
    if e.has(1) and not bool(e.value(1).reshape(-1)[0]):
        count = 0
    carried = list(e.node.input[2:])
    body_inputs = [value.name for value in graph.input]
    body_outputs = [value.name for value in graph.output]
    nodes: list[Any] = []
    scanned: list[list[str]] = [[] for _ in body_outputs[1 + len(carried) :]]
    for iteration in range(count):
        number = e.constant(iteration, np.int64)
        true = e.constant(True, np.bool_)
        nodes += e.nodes
        e.nodes.clear()
        bound = dict(zip(body_inputs, [number, true, *carried], strict=True))
        made, names = _inlined(e, graph, bound, f"iteration{iteration}")
        nodes += made
        results = [names.get(name, name) for name in body_outputs[1:]]
        carried, rows = results[: len(carried)], results[len(carried) :]
        for rowed, row in zip(scanned, rows, strict=True):
            rowed.append(row)
    if not count and any(scanned):
        raise NotDecomposedError("it has no iteration")
    return [*nodes, *_outputs(e, carried, scanned, [0] * len(scanned), [0] * len(scanned))]


def scan_unrolled(e: Decomposition) -> list[Any]:
    """Unroll every step of a scan over inputs of known sizes."""
    graph, count = e.attribute("body"), int(e.attribute("num_scan_inputs"))
    if e.opset < 9:
        raise NotDecomposedError("the first version of Scan has a batch")
    first = len(e.inputs) - count
    axes = e.attribute("scan_input_axes", [0] * count)
    directions = e.attribute("scan_input_directions", [0] * count)
    length = e.shape(first)[axes[0]]
    if length > _ITERATIONS or not length:
        raise NotDecomposedError(f"it has {length} steps")
    carried = list(e.node.input[:first])
    body_inputs = [value.name for value in graph.input]
    body_outputs = [value.name for value in graph.output]
    rows: list[list[str]] = [[] for _ in body_outputs[first:]]
    nodes: list[Any] = []
    for step in range(length):
        parts = []
        for index, (axis, back) in enumerate(zip(axes, directions, strict=True)):
            place = length - 1 - step if back else step
            place_name = e.constant(place, np.int64)
            parts.append(e.op("Gather", e.inputs[first + index], place_name, axis=int(axis)))
        nodes += e.nodes
        e.nodes.clear()
        bound = dict(zip(body_inputs, [*carried, *parts], strict=True))
        made, names = _inlined(e, graph, bound, f"step{step}")
        nodes += made
        results = [names.get(name, name) for name in body_outputs]
        carried = results[:first]
        for row, result in zip(rows, results[first:], strict=True):
            row.append(result)
    out_axes = e.attribute("scan_output_axes", [0] * len(rows))
    out_directions = e.attribute("scan_output_directions", [0] * len(rows))
    return [*nodes, *_outputs(e, carried, rows, out_axes, out_directions)]


def _outputs(
    e: Decomposition,
    carried: list[str],
    rows: list[list[str]],
    axes: list[int],
    directions: list[int],
) -> list[Any]:
    """Set the results: the last carried values, and the rows of each scanned one side by side."""
    for index, name in enumerate(carried):
        if e.wants(index):
            e.result(name, index)
    for index, row in enumerate(rows, len(carried)):
        if not e.wants(index):
            continue
        axis = int(axes[index - len(carried)])
        if directions[index - len(carried)]:
            row = row[::-1]
        single = [
            e.op("Unsqueeze", name, e.ints(axis))
            if e.opset >= 13
            else e.op("Unsqueeze", name, axes=[axis])
            for name in row
        ]
        e.result(e.op("Concat", *single, axis=axis), index)
    return e.nodes


def _condition_stays(graph: Any) -> bool:
    """Return whether an iteration returns the condition that it got, or a constant that is true."""
    name = graph.output[0].name
    makers = {output: node for node in graph.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == graph.input[1].name:
        return True
    constants = {tensor.name: tensor for tensor in graph.initializer}
    node = makers.get(name)
    if node is not None and node.op_type == "Constant":
        constants[name] = helper.get_attribute_value(node.attribute[0])
    tensor = constants.get(name)
    return isinstance(tensor, onnx.TensorProto) and bool(numpy_helper.to_array(tensor).all())


def _inlined(
    e: Decomposition, graph: Any, bound: dict[str, str], part: str
) -> tuple[list[Any], dict[str, str]]:
    """Copy the nodes of a graph with names of their own; also return the names.

    Outer values keep theirs.
    """
    prefix = f"{e.prefix}/{part}"
    names = dict(bound)
    nodes = []
    for tensor in graph.initializer:
        names[tensor.name] = f"{prefix}/{tensor.name}"
        nodes.append(helper.make_node("Constant", [], [names[tensor.name]], value=tensor))
    for inner in graph.node:
        node = onnx.NodeProto()
        node.CopyFrom(inner)
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
        for index, name in enumerate(node.output):
            if name:
                names[name] = node.output[index] = f"{prefix}/{name}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_outer(attribute.g, names)
        nodes.append(node)
    return nodes, names


def _rename_outer(graph: Any, names: dict[str, str]) -> None:
    """Rename what a nested graph uses of the graphs around it."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {output for node in graph.node for output in node.output}
    outer = {name: new for name, new in names.items() if name not in own}
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = outer.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_outer(attribute.g, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)


def _identities(names: dict[str, str], inner: list[str], outer: Any) -> list[Any]:
    return [
        helper.make_node("Identity", [names.get(name, name)], [output])
        for name, output in zip(inner, outer, strict=True)
        if output
    ]
