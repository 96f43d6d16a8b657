"""Lowers a module of torch-mlir's `torch` dialect: text and bytecode, operators of torch and of ONNX.

torch-mlir parses it, and makes operators of torch of those of TorchScript and of ONNX.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from tosa_convert.errors import fail
from tosa_convert.frontends.module_header import (
    argument_names,
    choose_function,
    functions,
    result_names,
    set_argument_types,
    symbol,
)
from tosa_convert.frontends.process.request import Interface, Request
from tosa_convert.frontends.torch.convert import lower_program
from tosa_convert.frontends.torch.import_module import TENSOR, import_function
from tosa_convert.frontends.torch.refusals import NotLoweredError, place
from tosa_convert.frontends.unlowered import grouped, unlowered

#: The module in the folder that runs for `--check`.
_RUNS: Final = "module.mlir"
_INLINE: Final = "builtin.module(inline,symbol-dce)"
_WEIGHTS_OUTSIDE: Final = (
    "iree-turbine wrote its weights as globals outside: export the module before its parameters are"
    " externalised"
)
#: What an operation's name begins with -> the passes that make operators of torch of it, on tensors that
#: nothing writes to.
_PIPELINES: Final = {
    "torch.onnx.": "builtin.module(torch-onnx-to-torch-backend-pipeline)",
    "torch.nn_module": "builtin.module(torchscript-module-to-torch-backend-pipeline)",
    "torch.copy.": "builtin.module(torchdynamo-export-to-torch-backend-pipeline)",
    "torch.overwrite.": "builtin.module(torchdynamo-export-to-torch-backend-pipeline)",
}
_SHAPES_ONLY: Final = "torch.bind_symbolic_shape"


def lower(request: Request, folder: Path) -> Interface:
    """Lower a function of a module, by default @main or the only one that is public."""
    context = ir.Context()
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    with context, ir.Location.unknown():
        module = _read(request, context)
        name = choose_function(ir, module, request)
        function = _keep_one(module, name)
        if request.input_shapes:
            set_argument_types(ir, function, request, _with_sizes)
        names = argument_names(function)
        text = module.operation.get_asm(enable_debug_info=False)
        (folder / _RUNS).write_text(text, encoding="utf-8")
        try:
            function = _of_torch(module, function)
            program = import_function(function, text)
            interface = lower_program(program, request, folder, _RUNS)
        except NotLoweredError as error:
            interface = Interface(not_lowered=grouped(error.found, "torch"))
    for row in interface.not_lowered:  # The message begins with the file.
        row.where = row.where.replace(f"{request.source}:", "line ")
    for value, own in zip(interface.inputs, names, strict=False):
        value.name = own
    for value, own in zip(interface.outputs, result_names(len(interface.outputs)), strict=True):
        value.name = own
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
    is_script = any(row.operation.name == "torch.class_type" for row in module.body.operations)
    for row in functions(module):
        if symbol(ir, row) == name:
            row.attributes["sym_visibility"] = ir.StringAttr.get("public")
        elif not is_script:
            row.attributes["sym_visibility"] = ir.StringAttr.get("private")
    PassManager.parse(_INLINE).run(module.operation)
    (function,) = [row for row in functions(module) if symbol(ir, row) == name]
    for view in list(function.regions[0].blocks[0].operations):
        if view.operation.name == _SHAPES_ONLY:
            view.operation.erase()
    return function


def _of_torch(module: Any, function: Any) -> Any:
    """Return a function with operators of torch alone, on tensors that nothing writes to."""
    held = [*functions(module), *(row.operation for row in module.body.operations)]
    names = [
        f"torch.{ir.StringAttr(view.operation.attributes['name']).value}"
        if view.operation.name == "torch.operator"
        else view.operation.name
        for row in held
        for region in row.regions
        for block in region.blocks
        for view in block.operations
    ]
    for prefix, pipeline in _PIPELINES.items():
        if not any(name.startswith(prefix) for name in (*names, *(row.name for row in held))):
            continue
        try:
            PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            for found in error.error_diagnostics:
                name = next(
                    iter(re.findall(r"'(?:torch\.)?([^']+)'", str(found.message))), "the module"
                )
                where = place(str(found.location))
                row = unlowered(name, where, f"torch-mlir: {found.message}")
                raise NotLoweredError(row) from None
            raise
        (function,) = functions(module)
    return function


def _with_sizes(kind: Any, sizes: tuple[int, ...]) -> Any:
    found = TENSOR.match(str(kind))
    if found is None or len(found[1].split(",")) != len(sizes):
        raise ValueError(f"the argument is {kind}, found {len(sizes)} sizes")
    return ir.Type.parse(f"!torch.vtensor<[{','.join(map(str, sizes))}],{found[2]}>")
