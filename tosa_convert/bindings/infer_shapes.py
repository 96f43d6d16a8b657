"""Static shapes for dynamic arguments, carried through a function by MLIR's own inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tosa_convert.bindings.diagnostics import diagnostics, plain_location
from tosa_convert.bindings.packages import Bindings, bindings_of
from tosa_convert.bindings.select_function import operation_of, select, symbol
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.verify import INT32_MAX
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.naming import Namer
from tosa_convert.mlir.reading.given import signature_names

_INFER: Final = "builtin.module(func.func(tosa-infer-shapes))"
_CAST: Final = "tensor.cast"
_MODULE: Final = "builtin.module"


def resolve(
    module_or_func: Any, shapes: Mapping[str, tuple[int, ...]], *, func: str | None = None
) -> tuple[Any, str]:
    """A copy of the function's module in which arguments have the shapes given for them.

    shapes: argument -> its sizes. An argument goes by the name it gets in a file, whether names are
        retained or generated (TosaInput_k), or by its position: `arg0`, `arg1`, ...

    Returns the copy's module operation and the function's name; the module given is not changed.
    Raises TosaConvertError("unknown-argument") and ("unsupported-shape") for shapes that do not
    match, ("missing-bindings") where the bindings lack the pass.
    """
    bindings = bindings_of(module_or_func)
    operation = operation_of(bindings, module_or_func)
    functions, _, findings = select(bindings, operation, func)
    if findings:
        raise TosaConvertError(findings)
    name = symbol(functions[0])
    while operation.name != _MODULE:
        parent = operation.parent
        operation = getattr(parent, "operation", parent)
    ir = bindings.ir
    with operation.context, operation.location:
        # False: not inserted, even where the caller stands at an insertion point.
        copy = operation.clone(False)
        copy = getattr(copy, "operation", copy)
        (function,), _, _ = select(bindings, copy, name)
        _set_arguments(bindings, function, shapes)
        _infer(bindings, copy)
        _drop_result_casts(bindings, function)
        try:
            copy.verify()
        except ir.MLIRError as error:
            raise diagnostics(bindings, error, f"@{name}") from None
    # The module, not the function: an operation does not keep its parent alive.
    return copy, name


def _set_arguments(
    bindings: Bindings, function: Any, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    ir = bindings.ir
    block = function.regions[0].blocks[0]
    count = len(block.arguments)
    given, namer = signature_names(Bytecode(bindings, function), "arg_attrs", count), Namer()
    generated = Namer()
    names = [name or namer.input() for name in given]
    places = {f"arg{index}": index for index in range(count)}
    places |= {generated.input(): index for index in range(count)}
    places |= {name: index for index, name in enumerate(names)}
    where = plain_location(str(function.location))
    findings = []
    for key, sizes in shapes.items():
        if key not in places:
            findings.append(
                Finding(
                    "unknown-argument",
                    where,
                    f'no argument is called "{key}"',
                    "arguments: " + ", ".join(f'"{name}"' for name in names),
                )
            )
            continue
        argument = block.arguments[places[key]]
        problem = _mismatch(ir, argument.type, sizes)
        if problem:
            findings.append(Finding("unsupported-shape", where, f'argument "{key}": {problem}'))
            continue
        element = argument.type.element_type
        argument.set_type(ir.RankedTensorType.get(list(sizes), element))
    if findings:
        raise TosaConvertError(findings)
    _set_type(ir, function)


def _mismatch(ir: Any, kind: Any, sizes: tuple[int, ...]) -> str:
    """Why an argument of this type cannot have these sizes, or ""."""
    found = "x".join(map(str, sizes))
    if any(size < 0 for size in sizes):
        return f"the shape {found} is not static"
    if any(size > INT32_MAX for size in sizes):
        return f"the shape {found} has a dimension over {INT32_MAX}"
    if isinstance(kind, ir.UnrankedTensorType):
        return ""
    if not isinstance(kind, ir.RankedTensorType):
        return f"it is {kind}, not a tensor"
    dynamic = ir.ShapedType.get_dynamic_size()
    declared = list(kind.shape)
    if len(declared) != len(sizes) or any(
        size not in (dynamic, given) for size, given in zip(declared, sizes, strict=True)
    ):
        return f"the shape {found} does not fit its type {kind}"
    return ""


def _set_type(ir: Any, function: Any) -> None:
    """Make the function's type that of its arguments and of what it returns."""
    block = function.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operands
    kind = ir.FunctionType.get(
        [argument.type for argument in block.arguments], [value.type for value in returned]
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _infer(bindings: Bindings, module: Any) -> None:
    import importlib

    manager = importlib.import_module(f"{bindings.package}.passmanager").PassManager
    try:
        passes = manager.parse(_INFER)
    except (ValueError, bindings.ir.MLIRError):
        raise fail(
            "missing-bindings",
            "",
            f"{bindings} has no pass tosa-infer-shapes, which resolves dynamic shapes",
            "pip install torch-mlir and read the module with it, or resolve the shapes beforehand",
        ) from None
    try:
        passes.run(module)
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, "tosa-infer-shapes") from None


def _drop_result_casts(bindings: Bindings, function: Any) -> None:
    """Return what was inferred: the pass casts results back to the types they were declared with."""
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
    _set_type(ir, function)
