"""Lowers an ONNX model by way of torch-mlir: folded, decomposed and imported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import inliner
from torch_mlir import ir
from torch_mlir.extras import onnx_importer

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.onnx.decompose import decompose, decompose_first
from tosa_convert.frontends.onnx.few_bits import hold_in_bytes
from tosa_convert.frontends.onnx.fold import fold_with_onnxruntime
from tosa_convert.frontends.onnx.import_model import import_model
from tosa_convert.frontends.onnx.shapes import doubtful_nodes, infer
from tosa_convert.frontends.onnx.versions import OPSET, newer, opset_of
from tosa_convert.frontends.onnx.weights import Weights
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface
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

#: The greatest numbers of the types of CLAMP.
_GREATEST: Final = {"f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
_TO_BACKEND: Final = "builtin.module(torch-onnx-to-torch-backend-pipeline)"


def lower_by_torch_mlir(
    model: Any,
    weights: Weights,
    folder: Path,
    interface: Interface,
    refuse_invalid: Callable[[], None],
    is_partial: bool,
) -> Interface:
    """Lower a model, and complete its interface.

    refuse_invalid: raises TosaConvertError for a model that onnx's checker refuses.
    """
    hold_in_bytes(model)
    cutter = Cutter() if is_partial else None
    try:
        module = lower_model(model, weights, folder, cutter)
    except NotLoweredError as error:
        # The second is a node without a type.
        if any(row.operator in (THE_MODEL, "onnx.") for row in error.found):
            refuse_invalid()
        plain = [row for row in error.found if row.reason == NOT_CONVERTED]
        rows = report(error.found, partial(_older_form, opset_of(model), plain))
        return Interface(inputs=interface.inputs, not_lowered=rows)
    except TosaConvertError:
        raise
    except Exception:  # onnx and torch-mlir raise what they like for an invalid model.
        refuse_invalid()
        raise
    # By name: MLIR would pass the whole of a constant to a file of Python.
    module.operation.write_bytecode(str(folder / PROGRAM_FILE))
    if cutter is not None:
        cutter.add_to(interface)
    return interface


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


def lower_model(
    model: Any,
    weights: Weights,
    scratch: Path,
    cutter: Cutter | None = None,
) -> Any:
    """Lower a model to a module of TOSA with the function `main`."""
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
