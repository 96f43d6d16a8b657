"""Lowers an ONNX model to TOSA, or reports what of it does not lower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.write import save
from tosa_convert.frontends.onnx.cut import NodeCutter
from tosa_convert.frontends.onnx.program import lower_model
from tosa_convert.frontends.onnx.rules.casts import held_in_bytes
from tosa_convert.frontends.onnx.walk import OTHER_FORM
from tosa_convert.frontends.onnx.weights import Weights, load
from tosa_convert.frontends.process.request import (
    CONSTANTS,
    PROGRAM_FILE,
    Interface,
    NotLowered,
    Request,
    Value,
)
from tosa_convert.frontends.unlowered import THE_MODEL, grouped

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
    try:
        found = lower_model(model, weights, request.narrow, cutter)
    except TosaConvertError:
        raise
    except Exception:  # An invalid model breaks what the rules take for granted.
        refuse_invalid(source, shown)
        raise
    if found.graph is None:
        if any(row.operator == THE_MODEL or row.reason == OTHER_FORM for row in found.problems):
            refuse_invalid(source, shown)
        return Interface(inputs=inputs, not_lowered=report(found.problems))
    save(found.graph, folder / PROGRAM_FILE, "mlirbc")
    interface = Interface(inputs=inputs, outputs=outputs, remarks=[*remarks, *found.remarks])
    if cutter is not None:
        cutter.add_to(interface)
    return interface


def report(problems: Iterable[NotLowered]) -> list[NotLowered]:
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
