"""Lowers an ONNX model to TOSA, or reports what of it does not lower."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner

from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.lower_model import write_program
from tosa_convert.frontends.lowering.open_sizes import (
    Decision,
    lowered_openly,
    open_dimensions,
    refuse_other_decisions,
    trial_sizes,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import carrier, refuse_empty
from tosa_convert.frontends.onnx.cut import NodeCutter
from tosa_convert.frontends.onnx.node import Item, Stop
from tosa_convert.frontends.onnx.rules.elementwise import held_in_bytes
from tosa_convert.frontends.onnx.walk import OTHER_FORM, Walk
from tosa_convert.frontends.onnx.weights import Weights, load
from tosa_convert.frontends.process.request import (
    CONSTANTS,
    Interface,
    Request,
    Value,
    by_position,
    options_for,
    say_stage,
)
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.read_result import with_own_outputs
from tosa_convert.frontends.unlowered import THE_MODEL, grouped, unlowered
from tosa_convert.graph.derived import rename_in_order
from tosa_convert.graph.model import Graph

#: The version of ONNX's own operators, for a model that names none.
_OPSET: Final = 17
#: Lines of what onnx's checker says that a message repeats.
_MOST_LINES: Final = 6
#: What onnx's checker says of a result whose shape it does not infer.
_WITHOUT_A_SHAPE: Final = "Field 'shape' of 'type' is required but missing"
#: The version of the format from which constants need not be inputs.
_CONSTANTS_ALONE: Final = 4


def lower(request: Request, folder: Path) -> Interface:
    """Lower the model of an `.onnx` file; see `Interface`."""
    source = Path(request.source)
    shown = request.shown or request.source
    model, weights = checked(source, shown)
    if constants := request.options.get(CONSTANTS):
        make_constants(model, Path(constants))
    inputs, outputs = signature(model)
    remarks = held_in_bytes(model)
    if request.input_shapes:
        set_shapes(model, request.input_shapes)
    name_operators(model)
    cutter = None
    if request.partial:
        # Nodes of the main graph can be cut out.
        model = inliner.inline_local_functions(model) if model.functions else model
        cutter = NodeCutter(model)
    say_stage(folder, "lowering the model")
    try:
        found = lower_model(model, weights, request.narrow, cutter)
    except TosaConvertError:
        raise
    except Exception:  # An invalid model breaks what the rules take for granted.
        refuse_invalid(source, shown)
        raise
    if found.graph is None:
        if any(
            row.operator == THE_MODEL or row.reason.startswith(OTHER_FORM) for row in found.problems
        ):
            refuse_invalid(source, shown)
        return Interface(inputs=inputs, not_lowered=report(found.problems))
    write_program(found.graph, folder)
    interface = Interface(inputs=inputs, outputs=outputs, remarks=[*remarks, *found.remarks])
    if cutter is not None:
        cutter.add_to(interface)
    return interface


def report(problems: Iterable[Unlowered]) -> list[Unlowered]:
    """Return one row for each operator and reason."""
    rows = grouped(problems, "onnx")
    for row in rows:
        if row.reason.endswith("float64"):
            row.hint = "to compute in FP32: --narrow f64"
    return rows


def checked(source: Path, shown: str) -> tuple[Any, Weights]:
    """Load the model of a file, and its weights."""
    try:
        model, weights = load(source)
    except DecodeError as error:
        message = f"the ONNX model is damaged: {error}"
        raise fail("unrecognised-input", shown, message) from None
    if not model.HasField("graph"):
        raise fail("unrecognised-input", shown, "the ONNX model is damaged: it has no graph")
    _settle(model)
    known = onnx.defs.onnx_opset_version()
    if not 0 < opset_of(model) <= known:
        message = f"the model has operators of opset {opset_of(model)}, expected 1 to {known}"
        hint = f"onnx {onnx.__version__} does not know them; a newer one may"
        raise fail("unrecognised-input", shown, message, hint)
    counts = Counter(info.name for info in model.graph.input)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        message = f"the ONNX model is damaged: two inputs are called {twice!r}"
        raise fail("unrecognised-input", shown, message)
    return model, weights


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operators that a model uses."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def name_operators(model: Any) -> None:
    """Name ONNX's own operators among those of a model, for what its other ones become, in place."""
    if all(row.domain not in ("", "ai.onnx") for row in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", _OPSET))


def _settle(model: Any) -> None:
    """Name nodes without a name by what they make, and list no constant as an input, in place."""
    graph = model.graph
    for node in graph.node:
        node.name = node.name or next(filter(None, node.output), "")
    sparse = (row.values for row in graph.sparse_initializer)
    constants = {tensor.name for tensor in (*graph.initializer, *sparse)}
    inputs = [info for info in graph.input if info.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    # Before that version every constant is an input, too.
    model.ir_version = max(model.ir_version, _CONSTANTS_ALONE)


def refuse_invalid(source: Path, shown: str) -> None:
    """Refuse what onnx's checker refuses, if the model does not lower: many that it refuses do."""
    try:
        onnx.checker.check_model(source, full_check=True)
    except Exception as error:  # Some checks raise other exceptions than the checker's own.
        if _WITHOUT_A_SHAPE in str(error):  # onnx asks for it in the end, and most models lack one.
            return
        lines = [line for line in str(error).splitlines() if line.strip()][:_MOST_LINES]
        message = "\n    ".join(["the model is not valid ONNX, by onnx's checker:", *lines])
        raise fail("unrecognised-input", shown, message) from None


def make_constants(model: Any, path: Path) -> None:
    """Make initializers of the inputs whose values an `.npz` file has, in place."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    left = [info for info in model.graph.input if info.name not in arrays]
    for info in model.graph.input:
        if info.name in arrays:
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            array = arrays[info.name]
            # Types that numpy does not have are stored as opaque bytes.
            array = array.view(dtype) if array.dtype.kind == "V" else array.astype(dtype)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
    del model.graph.input[:]
    model.graph.input.extend(left)


def signature(model: Any) -> tuple[list[Value], list[Value]]:
    return [_value(info) for info in model.graph.input], [
        _value(info) for info in model.graph.output
    ]


def _value(info: Any) -> Value:
    kind = info.type.tensor_type
    try:
        dtype = str(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except (KeyError, TypeError):
        dtype = ""
    sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return Value(name=info.name, dtype=dtype, shape=sizes if kind.HasField("shape") else None)


def set_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Fix the sizes of inputs in place; a dimension that has a name gets one size everywhere."""
    values = [_value(info) for info in model.graph.input]
    inputs = [([value.name], value.shape) for value in values]
    sizes: dict[str, int] = {}
    for position, shape in by_position(inputs, shapes).items():
        info = model.graph.input[position]
        for dim, size in zip(info.type.tensor_type.shape.dim, shape, strict=True):
            if (known := sizes.get(dim.dim_param, size)) != size:
                message = f"a size of the input is {known} and cannot be {size}"
                raise fail("option-conflict", f"--input-shape {info.name}", message)
            if dim.dim_param:
                sizes[dim.dim_param] = size
            dim.dim_value = size
    for info in (*model.graph.input, *model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    del model.graph.value_info[:]
    for info in model.graph.output:  # Inferred again.
        if any(not dim.HasField("dim_value") for dim in info.type.tensor_type.shape.dim):
            info.type.tensor_type.ClearField("shape")


# -- a model as a program of TOSA ------------------------------------------------------------------


@dataclass(frozen=True)
class Lowered:
    """Hold the result of lowering. graph: None if an operator does not lower."""

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
    named = zip((info.name for info in infos), shapes, strict=True)
    hint = f"set them: {options_for(named)}"
    try:
        sizes = trial_sizes([(symbol, is_first) for _, _, symbol, is_first in found])

        def lower(trial: int) -> Graph | None:
            nonlocal made
            for number, axis, symbol, _ in found:
                dims[number][axis].dim_value = sizes[symbol][trial]
            before, made = made.decisions, lower_graph(model, weights, narrow)
            tried = {symbol: pair[trial] for symbol, pair in sizes.items()}
            for problem in made.problems:
                _say_tried(problem, tried, hint)
            if trial:
                refuse_other_decisions(before, made.decisions, "compares or rounds")
            return made.graph

        graph = lowered_openly(lower)
    except NotLowered as problem:
        return Lowered(None, [unlowered(THE_MODEL, "", problem.reason, hint)])
    return made if graph is None else Lowered(graph, [], remarks=made.remarks)


def _say_tried(problem: Unlowered, tried: Mapping[Any, int], hint: str) -> None:
    """Say which sizes were tried for open ones, if a reason may come of them, in place."""
    numbers = set(map(int, re.findall(r"\d+", problem.reason)))
    if problem.reason == OTHER_FORM or not numbers.isdisjoint(tried.values()):
        rows = (f"{name if isinstance(name, str) else '?'}={size}" for name, size in tried.items())
        problem.reason += f", with the open sizes {', '.join(rows)}"
        problem.hint = f"give equal sizes one name, or {hint}"


def lower_graph(
    model: Any, weights: Weights, narrow: Collection[str] = (), cutter: NodeCutter | None = None
) -> Lowered:
    """Lower a model. narrow: types that become 32 bits. cutter: takes out nodes that do not lower."""
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
        if not walk.problems and walk.unmade is not None:
            kind, where, name = walk.unmade
            reason = f'its input "{name}" is not defined: by no node, input or initializer'
            walk.problems.append(unlowered(f"onnx.{kind}", where, reason))
        return Lowered(None, walk.problems)
    except CycleError:
        return Lowered(None, [unlowered(THE_MODEL, "", "its nodes take each other's results")])
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
        advice = f"set them: {options_for([(info.name, sizes)])}"
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
