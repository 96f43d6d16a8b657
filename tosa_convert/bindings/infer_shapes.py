"""Static shapes for dynamic arguments: set on the arguments, propagated by MLIR's shape inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tosa_convert.bindings.diagnostics import diagnostics
from tosa_convert.bindings.find_operations import (
    children,
    enclosing_module,
    operation_of,
    symbol_name,
)
from tosa_convert.bindings.packages import Bindings, bindings_of
from tosa_convert.bindings.write_bytecode import bytecode_of
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.model import INT32_MAX
from tosa_convert.mlir.locations import plain_location
from tosa_convert.mlir.names import Namer, signature_names
from tosa_convert.mlir.select_function import FUNCTION, select

_PIPELINE: Final = "builtin.module(func.func(tosa-infer-shapes))"
_CAST: Final = "tensor.cast"


def resolve(
    module_or_func: Any, shapes: Mapping[str, tuple[int, ...]], *, func: str | None = None
) -> tuple[Any, str]:
    """Copy the module of a function, with static shapes for the function's arguments.

    The module given does not change. What the module says of its TOSA version is copied with it.

    Args:
        module_or_func: A module, a func.func or the operation of either.
        shapes: Argument -> its sizes. An argument goes by the name that it gets in a file, whether names
            are retained or generated (TosaInput_k), or by its position: `arg0`, `arg1`, ...
        func: The name of the function; see `mlir.select_function.select`.

    Returns:
        The operation of the copied module, and the name of the function in it.

    Raises:
        TosaConvertError: "unknown-argument" or "unsupported-shape" with a finding for each shape that
            does not fit, "missing-bindings" if the bindings do not have the pass tosa-infer-shapes,
            "malformed-mlir" if MLIR's verifier rejects the result, and the codes of `select`.
    """
    bindings = bindings_of(module_or_func)
    operation = operation_of(bindings, module_or_func)
    module = enclosing_module(operation)
    selection = select(bytecode_of(bindings, operation), func)
    if selection.findings:
        raise TosaConvertError(selection.findings)
    name = selection.functions[0].name
    if module is None:
        raise fail(
            "not-an-mlir-object",
            plain_location(str(operation.location)),
            f"function @{name} is not in a module, and shape inference runs on modules",
            "insert the function into a module, or pass it without input shapes",
        )
    with module.context, module.location:
        # False: do not insert the copy, even if the caller has set an insertion point.
        copy = module.clone(False)
        copy = getattr(copy, "operation", copy)
        function = next(
            item
            for item in children(bindings, copy)
            if item.name == FUNCTION and symbol_name(item) == name
        )
        _set_argument_types(bindings, function, shapes)
        _run_shape_inference(bindings, copy)
        _drop_result_casts(bindings, function)
        try:
            copy.verify()
        except bindings.ir.MLIRError as error:
            raise diagnostics(bindings, error, f"@{name}") from None
    # The module, not the function: an operation does not keep its parent alive.
    return copy, name


def _set_argument_types(
    bindings: Bindings, function: Any, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    ir = bindings.ir
    block = function.regions[0].blocks[0]
    names, indices = _argument_names(bindings, function, len(block.arguments))
    where = plain_location(str(function.location))
    findings = []
    for key, sizes in shapes.items():
        if key not in indices:
            message = f'no argument is called "{key}"'
            hint = "arguments: " + ", ".join(f'"{name}"' for name in names)
            findings.append(Finding("unknown-argument", where, message, hint))
            continue
        argument = block.arguments[indices[key]]
        mismatch = _mismatch(ir, argument.type, sizes)
        if mismatch:
            findings.append(Finding("unsupported-shape", where, f'argument "{key}": {mismatch}'))
            continue
        element = argument.type.element_type
        argument.set_type(ir.RankedTensorType.get(list(sizes), element))
    if findings:
        raise TosaConvertError(findings)
    _update_function_type(ir, function)


def _argument_names(
    bindings: Bindings, function: Any, count: int
) -> tuple[list[str], dict[str, int]]:
    """The arguments' names in a file, and the index of the argument for every name that is accepted."""
    retained = signature_names(bytecode_of(bindings, function), "arg_attrs", count)
    namer, generated = Namer(), Namer()
    names = [name or namer.input() for name in retained]
    indices = {f"arg{index}": index for index in range(count)}
    indices |= {generated.input(): index for index in range(count)}
    indices |= {name: index for index, name in enumerate(names)}
    return names, indices


def _mismatch(ir: Any, argument_type: Any, sizes: tuple[int, ...]) -> str:
    """Why an argument of this type cannot have these sizes, or ""."""
    shape = "x".join(map(str, sizes))
    if any(size < 0 for size in sizes):
        return f"the shape {shape} is not static"
    if any(size > INT32_MAX for size in sizes):
        return f"the shape {shape} has a dimension over {INT32_MAX}"
    if isinstance(argument_type, ir.UnrankedTensorType):
        return ""
    if not isinstance(argument_type, ir.RankedTensorType):
        return f"it is {argument_type}, not a tensor"
    dynamic = ir.ShapedType.get_dynamic_size()
    declared = list(argument_type.shape)
    if len(declared) != len(sizes) or any(
        size not in (dynamic, given) for size, given in zip(declared, sizes, strict=True)
    ):
        return f"the shape {shape} does not fit its type {argument_type}"
    return ""


def _update_function_type(ir: Any, function: Any) -> None:
    """Make the function's type that of its arguments and of the values that it returns."""
    block = function.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operands
    function_type = ir.FunctionType.get(
        [argument.type for argument in block.arguments], [value.type for value in returned]
    )
    function.attributes["function_type"] = ir.TypeAttr.get(function_type)


def _run_shape_inference(bindings: Bindings, module: Any) -> None:
    try:
        passes = bindings.pass_manager.parse(_PIPELINE)
    except (ValueError, bindings.ir.MLIRError):
        raise fail(
            "missing-bindings",
            "",
            f"{bindings} does not have the pass tosa-infer-shapes, which infers dynamic shapes",
            "pip install torch-mlir and read the module with it, or infer the shapes beforehand",
        ) from None
    try:
        passes.run(module)
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, "tosa-infer-shapes") from None


def _drop_result_casts(bindings: Bindings, function: Any) -> None:
    """Return the inferred types: the pass casts results back to the types that were declared."""
    ir = bindings.ir
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    for index in range(len(terminator.operands)):
        value = terminator.operands[index]
        owner = value.owner
        owner = getattr(owner, "operation", owner)
        if isinstance(owner, ir.Operation) and owner.name == _CAST:
            terminator.operands[index] = owner.operands[0]
            if not list(value.uses):
                owner.erase()
    _update_function_type(ir, function)
