"""Which function of a module is exported, and which variables it may use."""

from __future__ import annotations

from typing import Any, NamedTuple

from tosa_convert.bindings.packages import Bindings
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.opset import VARIABLE
from tosa_convert.mlir.locations import plain_location


class Selection(NamedTuple):
    """What a module offers for export.

    functions: the function to export, or every candidate if there are several.
    variables: the tosa.variable operations of the module.
    findings: one for each candidate if there are several, else none. They are not raised at once, so
        that other problems of the candidates can be reported together with them.
    """

    functions: list[Any]
    variables: list[Any]
    findings: list[Finding]


def operation_of(bindings: Bindings, thing: Any) -> Any:
    """The ir.Operation of a module, an operation view or an operation.

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
    """The operations directly inside an operation, from all its blocks."""
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
    """The name of a function or variable, without "@"."""
    return str(operation.attributes["sym_name"].value)


def parent_of(operation: Any) -> Any:
    """The operation that an operation is in, or None."""
    try:
        parent = operation.parent
    except ValueError:  # a detached operation
        return None
    return getattr(parent, "operation", parent)


def enclosing_module(operation: Any) -> Any:
    """The innermost builtin.module that an operation is or is in, or None."""
    while operation is not None and operation.name != "builtin.module":
        operation = parent_of(operation)
    return operation


def select(bindings: Bindings, operation: Any, func: str | None) -> Selection:
    """The function of a module to export.

    Args:
        bindings: The bindings of the operation.
        operation: A builtin.module, or the func.func to export.
        func: The name of the function, with or without "@". None selects the only function with a body,
            or the only public one.

    Raises:
        TosaConvertError: "not-an-mlir-object" for an operation of another kind, "unknown-function" if
            no function with a body has the name, "no-function" if there is no function with a body.
    """
    functions, variables = _functions_and_variables(bindings, operation)
    with_body = [
        function for function in functions if any(len(region.blocks) for region in function.regions)
    ]
    if func is not None:
        return Selection([_called(func, with_body)], variables, [])
    if not with_body:
        raise _no_function(operation, functions)
    # A symbol is asked for only if it is needed: the first time takes the bindings milliseconds.
    candidates = with_body
    if len(with_body) > 1:
        candidates = [function for function in with_body if _is_public(function)] or with_body
    if len(candidates) == 1:
        return Selection(candidates, variables, [])
    return Selection(candidates, variables, _ambiguous(candidates))


def _functions_and_variables(bindings: Bindings, operation: Any) -> tuple[list[Any], list[Any]]:
    """The functions to select from, and the variables of their module."""
    if operation.name == "func.func":
        module = parent_of(operation)
        siblings = children(bindings, module) if module is not None else []
        functions = [operation]
    elif operation.name == "builtin.module":
        siblings = children(bindings, operation)
        functions = [sibling for sibling in siblings if sibling.name == "func.func"]
    else:
        raise fail(
            "not-an-mlir-object",
            plain_location(str(operation.location)),
            f"found the operation '{operation.name}', expected a builtin.module or a func.func",
        )
    return functions, [sibling for sibling in siblings if sibling.name == VARIABLE.mlir]


def _is_public(function: Any) -> bool:
    attributes = function.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def _called(func: str, functions: list[Any]) -> Any:
    """The function of a name."""
    name = func.removeprefix("@")
    for function in functions:
        if symbol_name(function) == name:
            return function
    raise fail(
        "unknown-function",
        "",
        f"no function @{name} with a body; "
        f"found {_listing(functions) or 'no function with a body'}",
    )


def _no_function(operation: Any, functions: list[Any]) -> TosaConvertError:
    found = f"only declarations: {_listing(functions)}" if functions else "no func.func"
    return fail(
        "no-function",
        plain_location(str(operation.location)),
        f"found {found}, expected a function with a body at the top level of the module",
    )


def _ambiguous(functions: list[Any]) -> list[Finding]:
    listing = _listing(functions)
    return [
        Finding(
            "ambiguous-function",
            plain_location(str(function.location)),
            f"function @{name} is one of {len(functions)} that could be exported: {listing}",
            f"choose one: --func {name}, or func={name!r}",
        )
        for function, name in ((function, symbol_name(function)) for function in functions)
    ]


def _listing(functions: list[Any]) -> str:
    return ", ".join(f"@{symbol_name(function)}" for function in functions)
