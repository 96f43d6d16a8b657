"""Lowers a module of torch-mlir's `torch` dialect: text and bytecode, operators of torch and of ONNX.

It needs torch-mlir, not torch.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from torch_mlir import ir

from tosa_convert.errors import fail
from tosa_convert.frontends.module_header import (
    argument_names,
    choose_function,
    functions,
    result_names,
    set_argument_types,
    symbol,
)
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request, Value
from tosa_convert.frontends.torch.cut import Cutter
from tosa_convert.frontends.torch.dialect import (
    TO_TOSA,
    NotLoweredError,
    Unlowered,
    list_operations,
    lower_or_list,
    new_context,
    operator_name,
    run_passes,
)
from tosa_convert.frontends.torch.unlowered_report import report

#: The module in the folder that runs for `--check`.
_RUNS: Final = "module.mlir"
_INLINE: Final = "builtin.module(inline,symbol-dce)"
_WEIGHTS_OUTSIDE: Final = (
    "iree-turbine wrote its weights as globals outside: export the module before its parameters are"
    " externalised"
)
#: To the form of the torch dialect that has a lowering: from ONNX, from TorchScript, from torch.export.
_FROM_ONNX: Final = "builtin.module(torch-onnx-to-torch-backend-pipeline)"
_FROM_SCRIPT: Final = "builtin.module(torchscript-module-to-torch-backend-pipeline)"
_FROM_TORCH: Final = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline)"
)
#: Infers the sizes of all tensors again from those of the arguments.
_REFINE: Final = "builtin.module(torch-function-to-torch-backend-pipeline)"
_SIZES: Final = re.compile(r"^(!torch\.v?tensor<\[)([^\]]*)(\],.*>)$", re.DOTALL)
_ELEMENT: Final = re.compile(r"^!torch\.v?tensor<\[[^\]]*\],(\w+)")
_SHAPES_ONLY: Final = "torch.bind_symbolic_shape"
#: Operators that torch-mlir lowers to constants.
_RANDOM: Final = re.compile(
    r"^(?:aten|prims|torchvision)\.(?:rand|bernoulli|uniform|normal|multinomial|exponential)"
)
#: Operators for whose elements a sign does not matter; for others torch-mlir takes them for signed.
_MOVES: Final = re.compile(
    r"^aten\.(?:\w*view|reshape|permute|transpose|t|\w*squeeze|expand|slice|select|cat|stack|clone|flip"
    r"|gather|index_select|repeat|where|eq|ne|bitwise_\w+|broadcast_to|constant_pad_nd)\b"
)


def lower(request: Request, folder: Path) -> Interface:
    """Lower a function of a module, by default @main or the only one that is public."""
    context = new_context()
    with context, ir.Location.unknown():
        module = _read(request, context)
        function = _keep_one(module, choose_function(ir, module, request))
        if request.input_shapes:
            set_argument_types(ir, function, request, _with_sizes)
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        inputs = [
            Value(name=name, dtype=_element(given))
            for name, given in zip(argument_names(function), kind.inputs, strict=True)
        ]
        text = module.operation.get_asm(enable_debug_info=False)
        (folder / _RUNS).write_text(text, encoding="utf-8")
        cutter = Cutter() if request.partial else None
        try:
            _lower(module, cutter, resized=bool(request.input_shapes))
        except NotLoweredError as error:
            rows = report(error.found)
            for row in rows:  # The message begins with the file.
                row.where = row.where.replace(f"{request.source}:", "line ")
            return Interface(not_lowered=rows)
    module.operation.write_bytecode(str(folder / PROGRAM_FILE))
    outputs = [Value(name=name) for name in result_names(len(kind.results))]
    interface = Interface(inputs=inputs, outputs=outputs, model=_RUNS)
    if cutter is not None:
        cutter.add_to(interface)
    return interface


def _read(request: Request, context: Any) -> Any:
    """Parse a module; its operations have the places in the file."""
    try:
        return ir.Module.parseFile(request.source, context)
    except (ir.MLIRError, ValueError) as error:
        text = str(error).replace(request.source, request.shown)
        lines = [line for line in text.splitlines() if line.strip()]
        if unknown := re.search(r"Dialect `(\w+)' not found", text):
            message = (
                f"it has operations of the dialect {unknown[1]}, which torch-mlir does not have"
            )
            hint = _WEIGHTS_OUTSIDE if unknown[1] == "util" else "write the module without them"
            raise fail("not-lowered", request.shown, message, hint) from None
        said = "; ".join(lines[1:3] or lines[:1] or [type(error).__name__])
        message = f"torch-mlir's parser refuses it: {said}"
        hint = "a module of another release may have other operators: write it again with this one"
        raise fail("malformed-mlir", request.shown, message, hint) from None


def _keep_one(module: Any, name: str) -> Any:
    """Remove the functions that one does not call, and what only says how sizes belong together."""
    for row in functions(module):
        if symbol(ir, row) == name:
            row.attributes["sym_visibility"] = ir.StringAttr.get("public")
        elif not _is_script(module):
            row.attributes["sym_visibility"] = ir.StringAttr.get("private")
    run_passes(module, _INLINE)
    (function,) = [row for row in functions(module) if symbol(ir, row) == name]
    for view in list(function.regions[0].blocks[0].operations):
        if view.operation.name == _SHAPES_ONLY:
            view.operation.erase()
    return function


def _is_script(module: Any) -> bool:
    return any(row.operation.name == "torch.class_type" for row in module.body.operations)


def _with_sizes(kind: Any, sizes: tuple[int, ...]) -> Any:
    found = _SIZES.match(str(kind))
    if found is None or len(found[2].split(",")) != len(sizes):
        raise ValueError(f"the argument is {kind}, found {len(sizes)} sizes")
    return ir.Type.parse(f"{found[1]}{','.join(map(str, sizes))}{found[3]}")


def _element(kind: Any) -> str:
    """Return the element type of a tensor of torch, in numpy's words."""
    found = _ELEMENT.match(str(kind))
    name = found[1] if found else ""
    prefixes = (("si", "int"), ("ui", "uint"), ("bf", "bfloat"), ("f", "float"))
    for short, long in prefixes:
        if re.fullmatch(short + r"\d+", name):
            return long + name.removeprefix(short)
    return "bool" if name == "i1" else name


def _lower(module: Any, cutter: Cutter | None, *, resized: bool) -> None:
    """Lower a module in place."""
    is_onnx = any(operator_name(row).startswith("onnx.") for row in list_operations(module))
    first = _FROM_ONNX if is_onnx else _FROM_SCRIPT if _is_script(module) else _FROM_TORCH
    if cutter is not None:
        cutter.module = module
    found: dict[Unlowered, int] = {}
    for pipeline in (first, *([_REFINE] if resized else []), TO_TOSA):
        found |= _wrong(module)
        if cutter is not None and not found:
            cutter.lower(pipeline)
            continue
        try:
            lower_or_list(module, pipeline)
        except NotLoweredError as error:
            raise NotLoweredError({**error.found, **found}) from None
    if found:
        raise NotLoweredError(found)


def _wrong(module: Any) -> dict[Unlowered, int]:
    """Count the operators that torch-mlir would lower to other values."""
    found: Counter[Unlowered] = Counter()
    for operation in list_operations(module):
        name, reason = operator_name(operation), ""
        if _RANDOM.match(name) and any(True for _ in operation.results[0].uses):
            reason = "it draws random numbers"
        elif any(map(_is_unsigned, operation.operands)) and not _MOVES.match(name):
            reason = "torch-mlir takes unsigned integers for signed ones"
        if reason:
            found[Unlowered(name, str(operation.location), reason)] += 1
    return found


def _is_unsigned(value: Any) -> bool:
    return _element(value.type).startswith("uint")
