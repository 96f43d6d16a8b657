"""Lowers a module of torch-mlir's `torch` dialect to TOSA, and lists every operator that does not lower.

torch-mlir stops at the first operator that it cannot convert, and says so on the C stderr only. So each
operator is then tried alone, in a function of its own, with the constants and lists that it uses; equal
ones are tried once. This needs torch-mlir, not torch.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import func as func_dialect
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from tosa_convert.frontends.torch.repairs import has_sums, repair, restore_sums
from tosa_convert.frontends.torch.unlowered_report import THE_MODEL as THE_MODEL
from tosa_convert.frontends.torch.unlowered_report import NotLoweredError as NotLoweredError
from tosa_convert.frontends.torch.unlowered_report import Unlowered as Unlowered

#: torch-mlir's pipeline from the backend form of its dialect to TOSA.
TO_TOSA: Final = "builtin.module(torch-backend-to-tosa-backend-pipeline)"
#: The pass at its end that checks what is left.
_CHECK: Final = "torch-verify-tosa-backend-contract"
#: Operators that hold constants and build lists. They have no form of their own in TOSA.
_PARTS: Final = ("torch.constant.", "torch.vtensor.literal", "torch.prim.ListConstruct", "torch_c.")
#: How the text of the type of tensors begins.
TENSOR: Final = "!torch.vtensor"


#: The reason of what torch-mlir refuses without one.
NOT_CONVERTED: Final = "torch-mlir does not convert it to TOSA"
_CRASH: Final = Unlowered(THE_MODEL, "", "torch-mlir crashes on it")


def run_passes(module: Any, pipeline: str) -> None:
    """Run a pipeline on a module in place. Raises ir.MLIRError with the diagnostics."""
    with module.context:
        PassManager.parse(pipeline).run(module.operation)


def new_context() -> Any:
    """Make a context without threads, which a fork would lose."""
    context = ir.Context()
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    return context


def lower_or_list(module: Any, pipeline: str) -> None:
    """Run a pipeline that converts operators.

    A failed conversion leaves the module as it was before the pass, so that its operators can be tried.
    """
    if pipeline == TO_TOSA:
        repair(module)
    if _crashes():
        raise NotLoweredError(list_unlowered(module, pipeline) or {_CRASH: 1})
    try:
        _run_with_calls(module, pipeline)
    except ir.MLIRError as error:
        found = list_unlowered(module, pipeline) or {_first_diagnostic(error): 1}
        raise NotLoweredError(found) from None


def _run_with_calls(module: Any, pipeline: str) -> None:
    """Run a pipeline; the check at its end does not allow the calls that stand for sums of INT64."""
    if not has_sums(module):
        run_passes(module, pipeline)
        return
    with module.context:
        passes = str(PassManager.parse(pipeline))
    run_passes(module, passes.replace(f",{_CHECK}", ""))
    restore_sums(module)
    run_passes(module, f"builtin.module({_CHECK})")


def _crashes() -> bool:
    """Go on in a fork, where this is False; if a signal ends the fork, it is True in the original.

    If the fork ends in another way, the original does, too. Without forks (Windows) this is False.
    """
    if not hasattr(os, "fork"):
        return False
    child = os.fork()
    if not child:
        return False
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    os._exit(os.waitstatus_to_exitcode(status))


def _first_diagnostic(error: Any) -> Unlowered:
    """Return what a failure says if every operator lowers alone."""
    for diagnostic in error.error_diagnostics:
        quoted = str(diagnostic.message).split("'")
        name = quoted[1] if len(quoted) > 2 else "the module"
        return Unlowered(_short(name), str(diagnostic.location), _reason(diagnostic.message))
    return Unlowered("the module", "", str(error).strip() or "torch-mlir gave no reason")


def _short(name: str) -> str:
    return name.removeprefix("torch.")


def operator_name(operation: Any) -> str:
    """Return the framework's name of a torch dialect operation: `aten.add.Tensor`, `onnx.Conv`."""
    if operation.name == "torch.operator":
        return _short(str(ir.StringAttr(operation.attributes["name"]).value))
    return _short(operation.name)


def _reason(message: str) -> str:
    text = str(message).split(": %", 1)[0].strip()
    if text.startswith("failed to legalize operation"):
        return NOT_CONVERTED
    return text


def is_part(operation: Any) -> bool:
    """Return whether an operation holds a constant or builds a list."""
    if operation.name == "torch.operator":
        return operator_name(operation) == "onnx.Constant"
    return str(operation.name).startswith(_PARTS)


def list_unlowered(module: Any, pipeline: str) -> dict[Unlowered, int]:
    """List every operator of the module that the pipeline does not lower, with its count of uses."""
    return Counter(row for _, row in unlowered_operations(module, pipeline))


def list_operations(module: Any) -> list[Any]:
    """List the operations of a module's functions that have a form of their own in TOSA."""
    functions = (row.operation for row in module.body.operations)
    return [operation for function in functions for operation in _operations(function)]


def unlowered_operations(module: Any, pipeline: str) -> list[tuple[Any, Unlowered]]:
    """Find the operations of the module that the pipeline does not lower."""
    pairs = [
        (function.operation, operation)
        for function in module.body.operations
        for operation in _operations(function.operation)
    ]
    return [
        (operation, Unlowered(operator_name(operation), str(operation.location), reason))
        for (_, operation), reason in zip(pairs, _reasons(pairs, pipeline), strict=True)
        if reason
    ]


def _reasons(pairs: list[tuple[Any, Any]], pipeline: str) -> list[str]:
    """Return why each operator does not lower, or "". Some end the process: they are tried in a fork."""
    if not hasattr(os, "fork"):
        tried: dict[str, str] = {}
        return [_why_not(*pair, pipeline, tried) for pair in pairs]
    reasons: list[str] = []
    while len(reasons) < len(pairs):
        ended, lines = _in_fork(pairs[len(reasons) :], pipeline)
        reasons += lines
        if not ended and len(reasons) < len(pairs):
            reasons.append(_CRASH.reason)
    return reasons


def _in_fork(pairs: list[tuple[Any, Any]], pipeline: str) -> tuple[bool, list[str]]:
    """Try the operators in a fork; return whether it tried all, and the reasons until it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            tried: dict[str, str] = {}
            for pair in pairs:
                line = _why_not(*pair, pipeline, tried).replace("\n", " ")
                os.write(writer, line.encode() + b"\n")
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return os.waitpid(child, 0)[1] == 0, lines


def _operations(function: Any) -> Iterator[Any]:
    for region in function.regions:
        for block in region.blocks:
            for view in block.operations:
                operation = view.operation
                if operation.name.startswith("torch.") and not is_part(operation):
                    yield operation


def _why_not(function: Any, operation: Any, pipeline: str, tried: dict[str, str]) -> str:
    """Return why an operator does not lower, or ""."""
    if len(operation.regions):
        return "torch-mlir does not lower control flow to TOSA"
    arguments = _computed_operands(operation)
    if any(not str(value.type).startswith(TENSOR) for value in arguments):
        # Some of these end the process: a slice whose end is not a constant.
        return "it takes a number that is computed at run time"
    alone = _in_a_function(function, operation, arguments)
    key = alone.operation.get_asm(large_elements_limit=8, large_resource_limit=8)
    if key not in tried:
        try:
            run_passes(alone, pipeline)
            tried[key] = ""
        except ir.MLIRError as error:
            tried[key] = _first_diagnostic(error).reason
    return tried[key]


def _computed_operands(operation: Any) -> list[Any]:
    """Return what the operator takes besides constants, directly or in lists; each once, in order."""
    found: list[Any] = []
    pending = list(reversed(list(operation.operands)))
    while pending:
        value = pending.pop()
        if isinstance(value.owner, ir.Block) or not is_part(value.owner.operation):
            if value not in found:
                found.append(value)
        else:
            pending += reversed(list(value.owner.operation.operands))
    return found


def _in_a_function(function: Any, operation: Any, arguments: list[Any]) -> Any:
    """Make a module whose function takes the computed operands and returns the operator's results."""
    with operation.context, operation.location:
        alone = ir.Module.create()
        results = [result.type for result in operation.results]
        kind = ir.FunctionType.get([value.type for value in arguments], results)
        with ir.InsertionPoint(alone.body):
            target = func_dialect.FuncOp("alone", kind)
        for attribute in function.attributes:  # The versions of ONNX's operator sets.
            name = getattr(attribute, "name", attribute)
            if name.startswith("torch."):
                target.operation.attributes[name] = function.attributes[name]
        block = target.add_entry_block()
        clones = dict(zip(arguments, block.arguments, strict=True))
        made = _clone(operation, block, clones)
        with ir.InsertionPoint(block):
            func_dialect.ReturnOp(list(made.results))
    return alone


def _clone(operation: Any, block: Any, clones: dict[Any, Any]) -> Any:
    """Copy the operator to the end of the block, after copies of the constants that it takes."""
    for value in operation.operands:
        if value not in clones:
            made = _clone(value.owner.operation, block, clones)
            clones.update(zip(value.owner.operation.results, made.results, strict=True))
    made = operation.clone(ir.InsertionPoint(block))
    for index, value in enumerate(operation.operands):
        made.operands[index] = clones[value]
    return made
