"""An ONNX model as a TOSA program."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lowering.open_sizes import (
    differs,
    lowered_openly,
    open_dimensions,
    trial_sizes,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import carrier, refuse_empty
from tosa_convert.frontends.onnx.cut import NodeCutter
from tosa_convert.frontends.onnx.node import Item, Stop
from tosa_convert.frontends.onnx.walk import Decision, Walk
from tosa_convert.frontends.onnx.weights import Weights
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.read_result import with_own_outputs
from tosa_convert.frontends.unlowered import THE_MODEL, unlowered
from tosa_convert.graph.derived import rename_in_order
from tosa_convert.graph.model import Graph


@dataclass(frozen=True)
class Lowered:
    """What became of a model. graph: the program; None if something does not lower."""

    graph: Graph | None
    problems: Sequence[Unlowered]
    decisions: Sequence[Decision] = ()
    remarks: Iterable[str] = ()


def lower_model(
    model: Any, weights: Weights, narrow: Collection[str] = (), cutter: NodeCutter | None = None
) -> Lowered:
    """Lower a model whose inputs may have sizes that are not fixed, which then stay open."""
    infos = model.graph.input
    dims = [list(info.type.tensor_type.shape.dim) for info in infos]
    shapes = [
        [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in row]
        for row in dims
    ]
    is_ranked = all(info.type.tensor_type.HasField("shape") for info in infos)
    found = list(open_dimensions(shapes)) if is_ranked else []
    if not found or cutter is not None:
        return lower_graph(model, weights, narrow, cutter)
    made = Lowered(None, [])
    try:
        sizes = trial_sizes([(symbol, is_first) for _, _, symbol, is_first in found])

        def lower(trial: int) -> Graph | None:
            nonlocal made
            for number, axis, symbol, _ in found:
                dims[number][axis].dim_value = sizes[symbol][trial]
            before, made = made.decisions, lower_graph(model, weights, narrow)
            if trial and before != made.decisions:
                raise differs(_first_difference(before, made.decisions))
            return made.graph

        graph = lowered_openly(lower)
    except NotLowered as problem:
        named = zip((info.name for info in infos), shapes, strict=True)
        options = [_option(name, row) for name, row in named if not all(map(_is_size, row))]
        advice = f"set them: {' '.join(options)}"
        return Lowered(None, [unlowered(THE_MODEL, "", problem.reason, advice)])
    return made if graph is None else Lowered(graph, [], remarks=made.remarks)


def _is_size(size: Any) -> bool:
    return isinstance(size, int)


def _option(name: str, shape: Sequence[Any]) -> str:
    """Return the option that fixes the sizes of an input; 1 for each that is open."""
    sizes = "x".join(str(size) if _is_size(size) else "1" for size in shape)
    return shlex.join(["--input-shape", f"{name}={sizes}"])


def _first_difference(one: Sequence[Decision], other: Sequence[Decision]) -> str:
    """Return the first comparison with a size that is not fixed: the program would hold its result."""
    rows = zip(one, other, strict=False)
    row = next((first for first, second in rows if first != second), None)
    return (
        "its branches" if row is None else f"{row.operator} ({row.where}) compares or rounds a size"
    )


def lower_graph(
    model: Any, weights: Weights, narrow: Collection[str] = (), cutter: NodeCutter | None = None
) -> Lowered:
    """Lower a model.

    narrow: element types that become those of 32 bits when the program is read.
    cutter: takes nodes that do not lower out of the program.
    """
    builder = Builder("main")
    scope = Scope(builder, "i64" in narrow)
    opsets = {row.domain: row.version for row in model.opset_import}
    reals = np.float32 if "f64" in narrow else np.float64
    walk = Walk(weights, opsets, model.functions, reals, cutter)
    graph = model.graph
    given: list[Item] = []
    for info in graph.input:
        try:
            given.append(_argument(scope, walk, info))
        except NotLowered as problem:
            walk.problems.append(unlowered("an input", info.name, problem.reason, problem.advice))
    if not graph.output:
        walk.problems.append(unlowered(THE_MODEL, "", "it returns nothing"))
    if walk.problems:
        return Lowered(None, walk.problems)
    try:
        results = walk.graph(scope, graph, given)
    except Stop:
        return Lowered(None, walk.problems)
    except RecursionError:
        return Lowered(None, [unlowered(THE_MODEL, "", "its functions call one another")])
    if not walk.problems:
        walk.problems += _refused(results, [info.name for info in graph.output])
    if walk.problems:
        return Lowered(None, walk.problems)
    try:
        values = [scope.whole(item) for item in results if isinstance(item, Array)]
        if cutter is not None:
            values = cutter.results(scope, values, len(graph.input))
            builder.output(*values)
            return Lowered(builder.graph(), [], remarks=walk.remarks)
        builder.output(*values)
    except NotLowered as problem:
        return Lowered(None, [unlowered("a result", "", problem.reason, problem.advice)])
    names = [info.name for info in graph.input], [info.name for info in graph.output]
    renamed = rename_in_order(with_own_outputs(builder.graph()), *names)
    return Lowered(renamed, [], walk.decisions, walk.remarks)


def _argument(scope: Scope, walk: Walk, info: Any) -> Array:
    """Return the array of an input."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise NotLowered(f"{info.name} is a sequence, a map or an optional value, not a tensor")
    tensor = info.type.tensor_type
    if tensor.elem_type == onnx.TensorProto.STRING:
        raise NotLowered(f"{info.name} is text, and TOSA has tensors of numbers only")
    dims = tensor.shape.dim
    if not tensor.HasField("shape"):
        raise NotLowered(f"{info.name} has no shape", "write its shape into the model")
    if any(not dim.HasField("dim_value") for dim in dims):
        sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]
        names = ", ".join("?" if size == "" else str(size) for size in sizes)
        advice = f"set them: {_option(info.name, sizes)}"
        raise NotLowered(f"the sizes of {info.name} are not fixed: {names}", advice)
    shape = tuple(dim.dim_value for dim in dims)
    dtype = walk.dtype(tensor.elem_type)
    refuse_empty(shape)
    return Array(dtype, shape, None, scope.builder.input(info.name, carrier(dtype), shape))


def _refused(results: Sequence[Item], names: Sequence[str]) -> Iterable[Unlowered]:
    """Return what TOSA cannot return."""
    for item, name in zip(results, names, strict=True):
        try:
            if not isinstance(item, Array):
                what = "a sequence, a map or an optional value"
                raise NotLowered(f"{name} is {what}, and TOSA has tensors of numbers only")
            carrier(item.dtype)
            refuse_empty(item.shape)
        except NotLowered as problem:
            yield unlowered("a result", name, problem.reason, problem.advice)
        except TosaConvertError as error:
            yield unlowered("a result", name, error.findings[0].message)
