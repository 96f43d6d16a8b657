"""If, Loop and Scan whose course is known: the nodes of their graphs in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError
from tosa_convert.frontends.onnx.functions import copied

#: Iterations that are unrolled.
_ITERATIONS: Final = 256


def if_inlined(e: Decomposition) -> list[Any]:
    """Inline the branch that is taken; if that is computed, inline both, and select the results."""
    try:
        taken = bool(e.value(0).reshape(-1)[0])
    except NotDecomposedError:
        return _both_branches(e)
    graph = e.attribute("then_branch" if taken else "else_branch")
    nodes, names = _inlined(e, graph, {}, "branch")
    return nodes + [
        helper.make_node("Identity", [names.get(value.name, value.name)], [output])
        for value, output in zip(graph.output, e.node.output, strict=True)
        if output
    ]


def _both_branches(e: Decomposition) -> list[Any]:
    """Compute both branches, whose operators have no effects, and select by the condition."""
    graphs = e.attribute("then_branch"), e.attribute("else_branch")
    for values in zip(*(graph.output for graph in graphs), strict=True):
        kinds = [value.type.tensor_type for value in values]
        sizes = [[dim.dim_value for dim in kind.shape.dim] for kind in kinds]
        known = all(kind.HasField("shape") for kind in kinds) and all(map(all, sizes))
        same = sizes[0] == sizes[1] and kinds[0].elem_type == kinds[1].elem_type
        e.leave_if(not known or not same, "the results of its branches have open or other sizes")
    nodes: list[Any] = []
    names: list[dict[str, str]] = []
    for part, graph in zip(("then", "else"), graphs, strict=True):
        inner, found = _inlined(e, graph, {}, part)
        nodes += inner
        names.append(found)
    for index, values in enumerate(zip(*(graph.output for graph in graphs), strict=True)):
        if e.wants(index):
            sides = (row.get(v.name, v.name) for row, v in zip(names, values, strict=True))
            e.result(e.op("Where", e.inputs[0], *sides), index)
    return nodes + e.nodes


def loop_unrolled(e: Decomposition) -> list[Any]:
    """Unroll every iteration of a loop with a known count whose condition stays true."""
    graph = e.attribute("body")
    e.leave_if(not e.has(0), "it has no trip count")
    count = e.number(0)
    e.leave_if(
        count > _ITERATIONS or not _condition_stays(graph), "it is too long, or ends by a condition"
    )
    if e.has(1) and not bool(e.value(1).reshape(-1)[0]):
        count = 0

    def arguments(iteration: int, carried: list[str]) -> list[str]:
        return [e.constant(iteration, np.int64), e.constant(True, np.bool_), *carried]

    # The first result is the condition.
    results = [value.name for value in graph.output[1:]]
    nodes, carried, rows = _unrolled(e, graph, count, e.inputs[2:], arguments, results, "iteration")
    wanted = any(e.wants(len(carried) + index) for index in range(len(rows)))
    e.leave_if(not count and wanted, "it has no iteration")
    return [*nodes, *_outputs(e, carried, rows, [0] * len(rows), [0] * len(rows))]


def scan_unrolled(e: Decomposition) -> list[Any]:
    """Unroll every step of a scan over inputs of known sizes."""
    graph, count = e.attribute("body"), int(e.attribute("num_scan_inputs"))
    e.leave_if(e.opset < 9, "the first version of Scan has a batch")
    first = len(e.inputs) - count
    axes = e.attribute("scan_input_axes", [0] * count)
    directions = e.attribute("scan_input_directions", [0] * count)
    length = e.shape(first)[axes[0]]
    e.leave_if(length > _ITERATIONS or not length, f"it has {length} steps")

    def arguments(step: int, carried: list[str]) -> list[str]:
        parts = []
        for index, (axis, back) in enumerate(zip(axes, directions, strict=True)):
            place = e.constant(length - 1 - step if back else step, np.int64)
            parts.append(e.op("Gather", e.inputs[first + index], place, axis=int(axis)))
        return [*carried, *parts]

    results = [value.name for value in graph.output]
    nodes, carried, rows = _unrolled(e, graph, length, e.inputs[:first], arguments, results, "step")
    out_axes = e.attribute("scan_output_axes", [0] * len(rows))
    out_directions = e.attribute("scan_output_directions", [0] * len(rows))
    return [*nodes, *_outputs(e, carried, rows, out_axes, out_directions)]


def _unrolled(
    e: Decomposition,
    graph: Any,
    count: int,
    carried: list[str],
    arguments: Callable[[int, list[str]], list[str]],
    results: list[str],
    part: str,
) -> tuple[list[Any], list[str], list[list[str]]]:
    """Unroll a body; return its nodes, the last carried values, and the rows of each scanned one."""
    rows: list[list[str]] = [[] for _ in results[len(carried) :]]
    nodes: list[Any] = []
    for iteration in range(count):
        given = arguments(iteration, carried)
        nodes += e.nodes
        e.nodes.clear()
        bound = dict(zip((value.name for value in graph.input), given, strict=True))
        made, names = _inlined(e, graph, bound, f"{part}{iteration}")
        nodes += made
        found = [names.get(name, name) for name in results]
        carried = found[: len(carried)]
        for row, name in zip(rows, found[len(carried) :], strict=True):
            row.append(name)
    return nodes, carried, rows


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
        e.result(e.op("Concat", *(e.unsqueeze(name, axis) for name in row), axis=axis), index)
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
    initial = {tensor.name: f"{prefix}/{tensor.name}" for tensor in graph.initializer}
    names = {**bound, **initial}
    constants = [
        helper.make_node("Constant", [], [initial[tensor.name]], value=tensor)
        for tensor in graph.initializer
    ]
    return constants + copied(graph.node, names, prefix), names
