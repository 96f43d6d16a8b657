"""Which function of a module."""

from __future__ import annotations

from typing import Any

from tosa_convert.bindings.diagnostics import plain_location
from tosa_convert.bindings.packages import Bindings
from tosa_convert.errors import Finding, fail
from tosa_convert.graph.opset import VARIABLE


def operation_of(bindings: Bindings, thing: Any) -> Any:
    """The ir.Operation of a module, an operation view or an operation."""
    operation = getattr(thing, "operation", thing)
    if not isinstance(operation, bindings.ir.Operation):
        raise fail(
            "not-an-mlir-object",
            "",
            f"found a {type(thing).__name__} of {bindings}, expected a module or a function",
            "give an ir.Module, a func.FuncOp or the ir.Operation of one",
        )
    return operation


def children(bindings: Bindings, operation: Any) -> list[Any]:
    """The operations directly inside of an operation, of all its blocks."""
    ir = bindings.ir
    if not hasattr(ir, "WalkResult"):
        return [
            view.operation
            for region in operation.regions
            for block in region.blocks
            for view in block.operations
        ]
    # A block's list makes a view of each operation's own class, for which the bindings import the
    # modules of the dialects; walking gives plain operations, in less time.
    found: list[Any] = []
    append, skip = found.append, ir.WalkResult.SKIP

    def visit(child: Any) -> Any:
        append(child)
        return skip if len(found) > 1 else ir.WalkResult.ADVANCE

    operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def symbol(operation: Any) -> str:
    return str(operation.attributes["sym_name"].value)


def select(
    bindings: Bindings, operation: Any, func: str | None
) -> tuple[list[Any], list[Any], list[Finding]]:
    """The function to export, the variables it may use, and no findings.

    Where there is no choice between several: all of them, and a finding for each, so that what else
    is wrong with them can be told at once.
    """
    if operation.name == "func.func":
        parent = operation.parent
        module = getattr(parent, "operation", parent)
        siblings = children(bindings, module) if module is not None else []
        functions = [operation]
    elif operation.name == "builtin.module":
        siblings = children(bindings, operation)
        functions = [found for found in siblings if found.name == "func.func"]
    else:
        raise fail(
            "not-an-mlir-object",
            plain_location(str(operation.location)),
            f"found the operation '{operation.name}', expected a builtin.module or a func.func",
        )
    variables = [found for found in siblings if found.name == VARIABLE.mlir]
    bodies = [found for found in functions if any(len(r.blocks) for r in found.regions)]
    if len(bodies) == 1 and func is None:
        return bodies, variables, []
    # Asking for a symbol takes the bindings some milliseconds, the first time.
    listing = ", ".join(f"@{symbol(found)}" for found in bodies)
    if func is not None:
        chosen = [found for found in bodies if symbol(found) == func.removeprefix("@")]
        if not chosen:
            raise fail(
                "unknown-function",
                "",
                f"no function @{func.removeprefix('@')} with a body; "
                f"found {listing or 'no function with a body'}",
            )
        return chosen[:1], variables, []
    if not bodies:
        declared = ", ".join(f"@{symbol(found)}" for found in functions)
        raise fail(
            "no-function",
            plain_location(str(operation.location)),
            f"found {'only declarations: ' + declared if declared else 'no func.func'}"
            ", expected a function with a body at the top of the module",
        )
    findings = [
        Finding(
            "ambiguous-function",
            plain_location(str(found.location)),
            f"function @{symbol(found)} is one of {len(bodies)} with a body: {listing}",
            f"choose one: --func {symbol(found)}, or func={symbol(found)!r}",
        )
        for found in bodies
    ]
    return bodies, variables, findings
