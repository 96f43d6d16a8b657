"""Lowers an ONNX model to TOSA: folded, decomposed, imported by torch-mlir. It needs no torch."""

from __future__ import annotations

import importlib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner
from torch_mlir import ir
from torch_mlir.extras import onnx_importer

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.write import save
from tosa_convert.frontends.onnx.cut import cutter_of
from tosa_convert.frontends.onnx.decompose import decompose, decompose_first, opset_of
from tosa_convert.frontends.onnx.few_bits import hold_in_bytes
from tosa_convert.frontends.onnx.fold import fold_with_onnxruntime
from tosa_convert.frontends.onnx.import_model import import_model
from tosa_convert.frontends.onnx.program import lower_graph
from tosa_convert.frontends.onnx.shapes import doubtful_nodes, infer
from tosa_convert.frontends.onnx.versions import OPSET, newer
from tosa_convert.frontends.onnx.weights import Weights, load
from tosa_convert.frontends.process.request import (
    CONSTANTS,
    PROGRAM_FILE,
    Interface,
    Request,
    Value,
)
from tosa_convert.frontends.torch.cut import Cutter
from tosa_convert.frontends.torch.dialect import (
    NOT_CONVERTED,
    THE_MODEL,
    TO_TOSA,
    NotLoweredError,
    Unlowered,
    lower_or_list,
    operator_name,
)
from tosa_convert.frontends.torch.unlowered_report import report

#: Lines of what onnx's checker says that a message repeats.
_MOST_LINES: Final = 6
#: What onnx's checker says of a result whose shape it does not infer.
_WITHOUT_A_SHAPE: Final = "Field 'shape' of 'type' is required but missing"
#: The version of the format from which constants need not be inputs.
_CONSTANTS_ALONE: Final = 4
#: The greatest numbers of the types of CLAMP.
_GREATEST: Final = {"f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
log: Final = logging.getLogger(__name__)
_TO_BACKEND: Final = "builtin.module(torch-onnx-to-torch-backend-pipeline)"


def warm_up() -> None:
    """Import what `lower` imports only when it needs it; for a process that many models share."""
    importlib.import_module("onnxruntime")


def lower(request: Request, folder: Path) -> Interface:
    """Lower the model of an `.onnx` file; see `Interface`."""
    source = Path(request.source)
    shown = request.shown or request.source
    model, weights = checked(source, shown)
    if constants := request.options.get(CONSTANTS):
        make_constants(model, Path(constants))
    inputs, outputs = signature(model)
    remarks = hold_in_bytes(model)
    remarks += [
        f"{node.name} ({node.op_type}) has the size that onnxruntime computes, not what ONNX infers"
        for node in doubtful_nodes(infer(model))
    ]
    if request.input_shapes:
        set_shapes(model, request.input_shapes)
    _name_operators(model)
    cut = cutter_of(infer(model)) if request.partial else None
    found = lower_graph(model, weights, request.narrow, cut)
    if found.graph is not None:
        save(found.graph, folder / PROGRAM_FILE, "mlirbc")
        interface = Interface(inputs=inputs, outputs=outputs, remarks=remarks)
        if cut is not None:
            cut.add_to(interface)
        return interface
    log.debug("by way of torch-mlir: %s", found.problems)
    cutter = Cutter() if request.partial else None
    try:
        module = lower_model(model, weights, folder, cutter=cutter)
    except NotLoweredError as error:
        # The second is a node without a type.
        if any(row.operator in (THE_MODEL, "onnx.") for row in error.found):
            refuse_invalid(source, shown)
        plain = [row for row in error.found if row.reason == NOT_CONVERTED]
        rows = report(error.found, partial(_older_form, opset_of(model), plain))
        return Interface(inputs=inputs, not_lowered=rows)
    except TosaConvertError:
        raise
    except Exception:  # onnx and torch-mlir raise what they like for an invalid model.
        refuse_invalid(source, shown)
        raise
    # By name: MLIR would pass the whole of a constant to a file of Python.
    module.operation.write_bytecode(str(folder / PROGRAM_FILE))
    interface = Interface(inputs=inputs, outputs=outputs, remarks=remarks)
    if cutter is not None:
        cutter.add_to(interface)
    return interface


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


def _settle(model: Any) -> None:
    """Name nodes without a name by what they make, and list no constant as an input, in place."""
    graph = model.graph
    for node in graph.node:
        node.name = node.name or next(filter(None, node.output), "")
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    # Before that version every constant is an input, too.
    model.ir_version = max(model.ir_version, _CONSTANTS_ALONE)


def refuse_invalid(source: Path, shown: str) -> None:
    """Refuse a model that onnx's checker refuses.

    Called when the model does not lower: many models that the checker refuses do.
    """
    try:
        onnx.checker.check_model(source, full_check=True)
    except Exception as error:  # Some checks raise other exceptions than the checker's own.
        if _WITHOUT_A_SHAPE in str(error):  # onnx asks for it in the end, and most models lack one.
            return
        lines = [line for line in str(error).splitlines() if line.strip()][:_MOST_LINES]
        message = "\n    ".join(["the model is not valid ONNX, by onnx's checker:", *lines])
        raise fail("unrecognised-input", shown, message) from None


def _older_form(opset: int, plain: list[Unlowered], operator: str) -> str:
    """Advice for an operator whose form is younger than what torch-mlir's conversions expect.

    plain: those that torch-mlir refused without another reason.
    """
    if all(row.operator != operator for row in plain):
        return ""
    kind = operator.removeprefix("onnx.").partition(" ")[0]
    if not operator.startswith("onnx.") or not onnx.defs.has(kind):
        return ""
    try:
        since = onnx.defs.get_schema(kind, opset).since_version
        onnx.defs.get_schema(kind, OPSET)
    except onnx.defs.SchemaError:  # It is younger, or has been removed.
        return ""
    if since <= OPSET:
        return ""
    return f"its form is that of opset {since}: export the model with opset {OPSET}"


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
    """Return the inputs and outputs of a model in its own words."""
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


def lower_model(
    model: Any,
    weights: Weights,
    scratch: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    cutter: Cutter | None = None,
) -> Any:
    """Lower a model to a module of TOSA with the function `main`."""
    if shapes:
        set_shapes(model, shapes)
    _name_operators(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
    written = {node.name: node.op_type for node in model.graph.node}
    try:
        return _lower(model, weights, scratch, written)
    except (NotLoweredError, onnx.defs.SchemaError):
        # Old sets of operators lack some that the decompositions use.
        converted = newer(model)
        if cutter is not None:
            given = model if converted is None else converted
            return _lower(given, weights, scratch, written, cutter)
        if converted is None:
            raise
        return _lower(converted, weights, scratch, written)


def _name_operators(model: Any) -> None:
    """Name ONNX's own operators among those of a model, for what its other ones become, in place."""
    if all(row.domain not in ("", "ai.onnx") for row in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", OPSET))


def _lower(
    model: Any,
    weights: Weights,
    scratch: Path,
    written: Mapping[str, str],
    cutter: Cutter | None = None,
) -> Any:
    """Lower a model. written: node -> its operator as the user wrote it."""
    inputs = [info.name for info in model.graph.input]
    model, refused = decompose_first(infer(model), weights)
    if refused and cutter is None:
        raise NotLoweredError(refused)
    # onnxruntime folds shapes that onnx infers, and computes others.
    folded = None if doubtful_nodes(model) else fold_with_onnxruntime(model, scratch, weights)
    if folded is not None and [info.name for info in folded.graph.input] == inputs:
        model = folded
    model, refused = decompose(model, weights)
    if refused and cutter is None:
        raise NotLoweredError({_as_onnx(row, kinds=written): n for row, n in refused.items()})
    return _import(model, weights, refused, written, cutter)


def _import(
    model: Any,
    weights: Weights,
    refused: Mapping[Unlowered, int],
    written: Mapping[str, str],
    cutter: Cutter | None,
) -> Any:
    """Import and lower a model to a module.

    refused: operators that must not lower, which are cut out.
    """
    try:
        module = import_model(model, weights)
    except onnx_importer.OnnxImportError as error:
        raise NotLoweredError({Unlowered(THE_MODEL, "", str(error)): 1}) from None
    kinds = {node.name: node.op_type for node in model.graph.node}
    if cutter is not None:
        cutter.module = module
        cutter.shown = partial(_of_torch, kinds=kinds)
        if refused:
            cutter.cut(_operations_of(module, refused))
    for pipeline in (_TO_BACKEND, TO_TOSA):
        try:
            if cutter is not None:
                cutter.lower(pipeline)
            else:
                lower_or_list(module, pipeline)
        except NotLoweredError as error:
            found: dict[Unlowered, int] = {}
            for row, count in error.found.items():
                new = _as_onnx(row, kinds={**kinds, **written})
                found[new] = found.get(new, 0) + count
            raise NotLoweredError(found) from None
    _keep_infinities(module, {**kinds, **written})
    return module


def _keep_infinities(module: Any, kinds: Mapping[str, str]) -> None:
    """Unbound CLAMP where torch-mlir bounds it by the greatest number, in place; Clip is so bound."""

    def unbound(operation: Any) -> Any:
        if operation.name != "tosa.clamp" or _kind(str(operation.location), kinds) == "Clip":
            return ir.WalkResult.ADVANCE
        for name in ("min_val", "max_val"):
            bound = operation.attributes[name]
            if isinstance(bound, ir.FloatAttr) and abs(bound.value) >= _GREATEST[str(bound.type)]:
                infinity = math.copysign(math.inf, bound.value)
                operation.attributes[name] = ir.FloatAttr.get(bound.type, infinity)
        return ir.WalkResult.ADVANCE

    with module.context, ir.Location.unknown():
        module.operation.walk(unbound)


def _kind(location: str, kinds: Mapping[str, str]) -> str:
    """Return the operator of the node that a location names, or ""."""
    return kinds.get(location.partition('"')[2].partition('"')[0], "")


def _operations_of(module: Any, rows: Iterable[Unlowered]) -> list[tuple[Any, Unlowered]]:
    """Return the operations of a module that the rows name, by operator and location."""
    by_key = {(row.operator, row.location): row for row in rows}
    found = []
    for operation in module.body.operations[0].operation.regions[0].blocks[0].operations:
        key = operator_name(operation.operation), str(operation.operation.location)
        if key in by_key:
            found.append((operation.operation, by_key[key]))
    return found


def _as_onnx(row: Unlowered, *, kinds: Mapping[str, str]) -> Unlowered:
    """Return the row with the ONNX operator that its operator came from."""
    kind = _kind(row.location, kinds)
    if not kind or row.operator.startswith(f"onnx.{kind}"):
        return row
    return Unlowered(f"onnx.{kind} ({row.operator})", row.location, row.reason)


def _of_torch(row: Unlowered, *, kinds: Mapping[str, str]) -> Unlowered:
    """Return the row with the ONNX operator, unless it is one that a decomposition made."""
    return row if row.operator.startswith("onnx.") else _as_onnx(row, kinds=kinds)


def set_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Fix the sizes of inputs in place; a dimension that has a name gets one size everywhere."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {info.name: info for info in model.graph.input if info.name not in constants}
    for name in shapes:
        if name not in inputs:
            message = f"no input is called {name}"
            raise fail("unknown-argument", "--input-shape", message, f"inputs: {', '.join(inputs)}")
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        dims = inputs[name].type.tensor_type.shape.dim
        if len(dims) != len(shape):
            message = f"the input has {len(dims)} dimensions, found {len(shape)} sizes"
            raise fail("option-conflict", f"--input-shape {name}", message)
        for dim, size in zip(dims, shape, strict=True):
            known = dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param, size)
            if known != size:
                message = f"a size of the input is {known} and cannot be {size}"
                raise fail("option-conflict", f"--input-shape {name}", message)
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
