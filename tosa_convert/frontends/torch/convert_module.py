"""Lowers modules of the `torch` dialect, whose operators of TorchScript and ONNX torch-mlir replaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import getitem
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.fx.traceback import preserve_node_meta
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
from tosa_convert.frontends.torch.export import exported, is_fixed, placeholder_values
from tosa_convert.frontends.torch.refusals import NotLoweredError, place
from tosa_convert.frontends.unlowered import THE_MODEL, grouped, unlowered

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


# -- a function of the dialect as a program of torch.export ----------------------------------------
# Each operation is called as the operator of torch that it names, under the location that it has. One
# that torch does not have is declared to torch, with results of the types in the module, so that it is
# named among those that do not lower.

#: Element types of the dialect; numbers that stand for them, which torch gives its types in C++.
KINDS: Final = {
    **{f"si{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": getattr(torch, f"float{bits}") for bits in (16, 32, 64)},
    "ui8": torch.uint8,
    "i1": torch.bool,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
    "f8E5M2": torch.float8_e5m2,
    "f8E4M3FN": torch.float8_e4m3fn,
}
_NUMBERS: Final = {
    **dict(enumerate((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))),
    **dict(enumerate((torch.float16, torch.float32, torch.float64), 5)),
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
}
TENSOR: Final = re.compile(r"^!torch\.v?tensor<\[([^\]]*)\],(.*)>$", re.DOTALL)
_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_RESOURCE: Final = re.compile(r'^\s*([\w.$-]+|"[^"]*"): "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_NAME: Final = re.compile(r"^dense_resource<(.*)> : ", re.DOTALL)
#: What torch's schemas call arguments that say how a tensor is stored.
_STORAGE: Final = ("Layout", "MemoryFormat", "Device")
#: What a schema of torch calls a type of the dialect; others are tensors, or None.
_SCHEMA: Final = {
    **{f"!torch.{name}": name for name in ("int", "float", "bool", "str")},
    **{f"!torch.list<{name}>": f"{name}[]" for name in ("int", "float", "bool")},
    "!torch.list<vtensor>": "Tensor[]",
}
#: The size that is tried for one that is not fixed.
_TRIED: Final = 7
_REGIONS: Final = "branches and loops of the torch dialect are not lowered"
_NO_TENSOR: Final = "it takes or gives something else than tensors of known types"


def operator_name(operation: Any) -> str:
    name = operation.name
    if name == "torch.operator":
        name = str(ir.StringAttr(operation.attributes["name"]).value)
    return str(name.removeprefix("torch."))


def import_function(function: Any, text: str) -> Any:
    return _Importer(text).program(function)


class _Importer:
    def __init__(self, text: str) -> None:
        self._resources = {row[1].strip('"'): row[2] for row in _RESOURCE.finditer(text)}
        self._values: dict[Any, Any] = {}
        self._graph = torch.fx.Graph()
        self._constants: dict[str, Any] = {}

    def program(self, function: Any) -> Any:
        block = function.regions[0].blocks[0]
        arguments = []
        for position, argument in enumerate(block.arguments):
            arguments.append(_zeros(argument.type))
            self._values[argument] = self._graph.placeholder(f"arg{position}")
        for view in block.operations:
            operation = view.operation
            if operation.name == "func.return":
                results = tuple(self._values[value] for value in operation.operands)
                self._graph.output(results)
                continue
            try:
                found = self._imported(operation)
            except (LookupError, TypeError, ValueError) as error:
                name, reason = operator_name(operation), str(error) or _NO_TENSOR
                where = place(str(operation.location))
                raise NotLoweredError(unlowered(name, where, reason)) from None
            results = operation.results
            self._values.update(zip(results, found if len(results) != 1 else [found], strict=True))
        module = torch.fx.GraphModule(self._constants, self._graph)
        opened = [
            {axis: torch.export.Dim.AUTO for axis, size in enumerate(sizes) if size < 0}
            for sizes, _ in (_sizes_and_kind(argument.type) for argument in block.arguments)
        ]
        shapes = {"arguments": tuple(opened)} if any(opened) else None
        with preserve_node_meta():
            program = exported(_run_by_node(module), tuple(arguments), dynamic_shapes=shapes)
        _refuse_fixed(program, opened)
        return program

    def _imported(self, operation: Any) -> Any:
        """Return what an operation gives: a node, or a number, a text or a list."""
        name, operands = operation.name, [self._values[value] for value in operation.operands]
        if name == "torch.constant.none":
            return None
        if name.startswith("torch.constant."):
            return operation.attributes["value"].value
        if name == "torch.vtensor.literal":
            label = f"constant_{len(self._constants)}"
            self._constants[label] = self._literal(operation)
            return self._graph.get_attr(label)
        if name in ("torch.prim.ListConstruct", "torch.prim.TupleConstruct"):
            return operands
        if len(operation.regions):
            raise ValueError(_REGIONS)
        target = _operator(operator_name(operation)) or _declared(operation)
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        for row, value in zip(target._schema.arguments, operands, strict=False):
            kind = str(row.real_type)
            if "ScalarType" in kind and isinstance(value, int):
                value = _NUMBERS[value]
            elif any(word in kind for word in _STORAGE):
                value = None
            if row.kwarg_only:
                keywords[row.name] = value
            else:
                args.append(value)
        node = self._graph.call_function(target, tuple(args), keywords)
        node.meta["stack_trace"] = _trace(str(operation.location))
        if len(operation.results) == 1:
            return node
        results = range(len(operation.results))
        return [self._graph.call_function(getitem, (node, place)) for place in results]

    def _literal(self, operation: Any) -> Any:
        value = operation.attributes["value"]
        sizes, kind = _sizes_and_kind(operation.results[0].type)
        named = _NAME.match(str(value)) if not isinstance(value, ir.DenseElementsAttr) else None
        if named:
            # The data follows its alignment, which takes four bytes.
            data = bytearray.fromhex(self._resources[named[1].strip('"')])[4:]
            return torch.frombuffer(data, dtype=kind).reshape(sizes)
        if kind is torch.bfloat16:
            value = ir.Attribute.parse(str(value).replace("bf16", "f32"))
        return torch.from_numpy(np.array(value)).to(kind).reshape(sizes)


def _run_by_node(graph: Any) -> Any:
    """Return a module that calls a graph node by node: torch keeps the locations of these."""
    module = torch.nn.Module()
    module.calls = graph
    module.forward = lambda *arguments: torch.fx.Interpreter(graph).run(*arguments)
    return module


def _refuse_fixed(program: Any, opened: Sequence[dict[int, Any]]) -> None:
    """Refuse a program for which torch fixes a size that is open in the module, at the one it tried."""
    for value, axes in zip(placeholder_values(program).values(), opened, strict=True):
        if any(is_fixed(value.shape[axis]) for axis in axes):
            reason = "torch.export fixes a size that is not fixed in the module"
            raise NotLoweredError(unlowered(THE_MODEL, "", reason, "give it: --input-shape"))


def _sizes_and_kind(text: Any) -> tuple[list[int], Any]:
    """Return the sizes and the element type of a tensor, -1 for a size that is not fixed."""
    found = TENSOR.match(str(text))
    if found is None or found[2] not in KINDS:
        raise ValueError(f"it is {text}, expected a tensor with sizes and an element type")
    return [-1 if one == "?" else int(one) for one in found[1].split(",") if one], KINDS[found[2]]


def _zeros(kind: Any) -> Any:
    sizes, dtype = _sizes_and_kind(kind)
    return torch.zeros([_TRIED if size < 0 else size for size in sizes], dtype=dtype)


def _operator(name: str) -> Any:
    """Return torch's operator of a name: `aten.add.Tensor`; None if it has none."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except AttributeError:
        return None


def _declared(operation: Any) -> Any:
    """Declare an operator to torch; its results have the types that they have in the module."""
    name = operator_name(operation).replace(".", "::", 1)
    kinds = [_sizes_and_kind(result.type) for result in operation.results]
    words = [_SCHEMA.get(str(value.type), "Tensor?") for value in operation.operands]
    takes = ", ".join(f"{word} a{place}" for place, word in enumerate(words))
    gives = ", ".join("Tensor" for _ in kinds)
    torch.library.define(name, f"({takes}) -> ({gives})")

    def fake(*given: Any) -> Any:
        like = next((one.shape for one in given if isinstance(one, torch.Tensor)), ())
        made = [torch.empty(_known(sizes, like), dtype=kind) for sizes, kind in kinds]
        return made[0] if len(made) == 1 else tuple(made)

    torch.library.register_fake(name)(fake)
    return _operator(operator_name(operation))


def _known(sizes: Sequence[int], like: Sequence[Any]) -> list[Any]:
    """Return sizes; one that is not fixed is that of another tensor, or the one that is tried."""
    other = [*like, *[_TRIED] * len(sizes)]
    return [other[axis] if size < 0 else size for axis, size in enumerate(sizes)]


def _trace(location: str) -> str:
    """Return a location as Python writes a trace: the outermost frame first."""
    frames = reversed(_FRAME.findall(location))
    return "\n".join(f'File "{path}", line {line}, in module' for path, line in frames)
