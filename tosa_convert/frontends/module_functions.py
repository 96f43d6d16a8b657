"""Functions of MLIR modules that are models: which is lowered, and the names of its values.

Each function takes `ir` of the bindings that parsed the module.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.process.request import Request
from tosa_convert.graph.derived import unused_name

MAIN: Final = "main"
#: The location of an argument that has a name.
_NAMED: Final = re.compile(r'loc\("([^"]+)"\)')


def functions(module: Any) -> list[Any]:
    return [held.operation for held in module.body.operations if held.operation.name == "func.func"]


def symbol(ir: Any, function: Any) -> str:
    """Return the name of a function."""
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def is_public(ir: Any, function: Any) -> bool:
    """Return whether a function can be called from outside of its module."""
    if "sym_visibility" not in function.attributes:
        return True
    return bool(ir.StringAttr(function.attributes["sym_visibility"]).value != "private")


def choose_function(ir: Any, module: Any, request: Request) -> str:
    """Return the name of the function that is converted: by default @main, or the only public one."""
    rows = functions(module)
    names = [symbol(ir, function) for function in rows]
    public = [symbol(ir, function) for function in rows if is_public(ir, function)]
    wanted = request.func or (MAIN if MAIN in names else public[0] if len(public) == 1 else "")
    if wanted in names:
        return wanted
    message = f"the module has the functions {', '.join(names) or 'none'}"
    code = "unknown-function" if request.func else "ambiguous-function"
    raise fail(code, request.shown, message, "choose one with --func")


def argument_names(function: Any) -> list[str]:
    """Return the names of a function's arguments: those of their locations, else arg0, arg1, ..."""
    rows = enumerate(function.regions[0].blocks[0].arguments)
    found = ((position, _NAMED.match(str(argument.location))) for position, argument in rows)
    return unique([name[1] if name else f"arg{position}" for position, name in found])


def result_names(count: int) -> list[str]:
    """Return names for results that have none.

    Example:
        >>> result_names(1), result_names(2)
        (['output'], ['output_0', 'output_1'])
    """
    return ["output"] if count == 1 else [f"output_{position}" for position in range(count)]


def unique(names: list[str]) -> list[str]:
    """Return names of which no two are equal.

    Example:
        >>> unique(["x", "x"])
        ['x', 'x_1']
    """
    found: dict[str, None] = {}
    for position, name in enumerate(names):
        found[unused_name(name, found, first=max(position, 1))] = None
    return list(found)


def set_argument_types(ir: Any, function: Any, request: Request, retype: Any) -> None:
    """Give arguments the sizes that a request has for them, by name or by `arg0`, `arg1`, ..."""
    block = function.regions[0].blocks[0]
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    known = {f"arg{position}": position for position in range(len(block.arguments))}
    known |= {name: position for position, name in enumerate(argument_names(function))}
    inputs = list(kind.inputs)
    for name, sizes in request.input_shapes.items():
        where = f"--input-shape {name}"
        if name not in known:
            message = f"the function has no argument of this name; it has {', '.join(known)}"
            raise fail("unknown-argument", where, message)
        position = known[name]
        try:
            inputs[position] = retype(kind.inputs[position], sizes)
        except ValueError as error:
            raise fail("option-conflict", where, str(error)) from None
    for position, own in enumerate(inputs):
        block.arguments[position].set_type(own)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, kind.results)
    )
