"""Operations of a module in memory: what a user passed, what it contains and what contains it."""

from __future__ import annotations

from typing import Any

from tosa_convert.errors import fail
from tosa_convert.formats.bindings.packages import Bindings


def operation_of(bindings: Bindings, thing: Any) -> Any:
    """Return the ir.Operation of a module, an operation view or an operation.

    Raises TosaConvertError("not-an-mlir-object") for other objects.
    """
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
    """Return the operations directly inside an operation, from all its blocks."""
    ir = bindings.ir
    if not hasattr(ir, "WalkResult"):
        return [
            view.operation
            for region in operation.regions
            for block in region.blocks
            for view in block.operations
        ]
    # Iterating over a block creates a view of each operation's class, for which the bindings import the
    # modules of the dialects. Walking yields plain operations and is faster.
    visited: list[Any] = []
    append, skip = visited.append, ir.WalkResult.SKIP

    def visit(operation: Any) -> Any:
        append(operation)
        return skip if len(visited) > 1 else ir.WalkResult.ADVANCE

    operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return visited[1:]


def symbol_name(operation: Any) -> str:
    """Return the name of a function or variable, without "@"."""
    return str(operation.attributes["sym_name"].value)


def parent_of(operation: Any) -> Any:
    """Return the operation that an operation is in, or None."""
    try:
        parent = operation.parent
    except ValueError:  # a detached operation
        return None
    return getattr(parent, "operation", parent)


def enclosing_module(operation: Any) -> Any:
    """Return the innermost builtin.module that an operation is or is in, or None."""
    while operation is not None and operation.name != "builtin.module":
        operation = parent_of(operation)
    return operation
