"""Read what the text of StableHLO and torch-dialect modules declares, without MLIR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.header import Header, ModelValue
from tosa_convert.frontends.process.request import Request, by_position
from tosa_convert.graph.derived import unused_name

# -- functions of MLIR modules that are models: which is lowered, and the names of its values ------
# Each function takes `ir` of the bindings that parsed the module.

MAIN: Final = "main"
#: The location of an argument that has a name.
_NAMED: Final = re.compile(r'loc\("([^"]+)"\)')


def functions(module: Any) -> list[Any]:
    return [held.operation for held in module.body.operations if held.operation.name == "func.func"]


def symbol(ir: Any, function: Any) -> str:
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
    return _chosen(names, public, request.func, request.shown)


def _chosen(names: list[str], public: list[str], func: str, where: str) -> str:
    wanted = func or (MAIN if MAIN in names else public[0] if len(public) == 1 else "")
    if wanted in names:
        return wanted
    message = f"the module has the functions {', '.join(names) or 'none'}"
    code = "unknown-function" if func else "ambiguous-function"
    raise fail(code, where, message, "choose one with --func")


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
    names = argument_names(function)
    inputs = list(kind.inputs)
    for position, sizes in by_position([([n], None) for n in names], request.input_shapes).items():
        try:
            inputs[position] = retype(kind.inputs[position], sizes)
        except ValueError as error:
            where = f"--input-shape {names[position]}"
            raise fail("option-conflict", where, str(error)) from None
    for position, own in enumerate(inputs):
        block.arguments[position].set_type(own)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, kind.results)
    )


_FUNCTION: Final = re.compile(
    r"^[ \t]*func\.func[ \t]+(?:(public|private|nested)[ \t]+)?@([\w.$-]+|\"[^\"\n]+\")[ \t]*(?=\()",
    re.MULTILINE,
)
#: An operation of a framework's dialect at the start of a line or after its results.
_OPERATION: Final = re.compile(
    r"^[ \t]*(?:%[\w$.:, %#-]+=[ \t]*)?\"?((?:torch|stablehlo|chlo|mhlo|vhlo)\.[\w.]+)"
    r"(?:[ \t]+\"([\w.]+)\")?",
    re.MULTILINE,
)
#: Operations that compute nothing: constants, lists, and ends of blocks.
_NO_OPERATOR: Final = re.compile(
    r"constant(?:\..*)?|vtensor\.literal|prim\.\w+Construct|onnx\.Constant|(?:\w+\.)?return"
)
#: What the names of operators are shown without.
_DIALECT: Final = re.compile(r"^(?:stablehlo|mhlo|torch)\.")
#: Operations of StableHLO of which no form lowers.
NEVER_LOWERED: Final = frozenset(
    (
        *("async_done", "async_start", "infeed", "outfeed", "recv", "rng", "rng_bit_generator"),
        "send",
    )
)
#: Strings, and the signs that nest and separate types.
_SIGN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|[()<>\[\]{},]')
_OPENED: Final = "(<[{"
_CLOSED: Final = ")>]}"
_TENSOR: Final = re.compile(r"tensor<((?:(?:\d+|\?)x)*)((?:[^,<>]|<[^<>]*>)+)")
_TORCH: Final = re.compile(r"!torch\.v?tensor<\[([\d?, ]*)\],\s*([\w.]+)")


def read_module_header(text: str, func: str, where: str) -> Header:
    """Describe a function: by default @main, or the only public one.

    Example:
        >>> head = "func.func @f(%x: tensor<?x2xf32>) -> tensor<2xi1> {"
        >>> [str(value) for value in read_module_header(head, "", "m.mlir").inputs]
        ['f32 [?, 2]']
    """
    rows = list(_FUNCTION.finditer(text))
    names = [row[2].strip('"') for row in rows]
    public = [name for row, name in zip(rows, names, strict=True) if row[1] != "private"]
    wanted = _chosen(names, public, func, where)
    found: list[str] = []
    ends = [*(row.start() for row in rows[1:]), len(text)]
    for row, name, end in zip(rows, names, ends, strict=True):
        if name == wanted or row[1] == "private":
            found += _operators(text, row.end(), end)
    chosen = rows[names.index(wanted)]
    arguments, position = _listed(text, chosen.end())
    after = re.compile(r"\s*->\s*").match(text, position)
    results = _results(text, after.end()) if after else []
    inputs = [row.partition(":") for row in arguments]
    outputs = result_names(len(results))
    return Header(
        found,
        [_value(kind.strip(), name) for name, _, kind in inputs],
        map(_value, results, outputs),
        [name for name in found if name in NEVER_LOWERED],
    )


def _operators(text: str, start: int, end: int) -> Iterator[str]:
    for row in _OPERATION.finditer(text, start, end):
        name = row[2] if row[1] == "torch.operator" and row[2] else row[1]
        name = _DIALECT.sub("", name)
        if not _NO_OPERATOR.fullmatch(name):
            yield name


def _listed(text: str, start: int) -> tuple[list[str], int]:
    """Return the items of the list in parentheses that begins here, and where it ends."""
    depth, begin, items = 0, start + 1, []
    for sign in _SIGN.finditer(text, start):
        if sign[0] in _OPENED:
            depth += 1
        elif sign[0] in _CLOSED:
            depth -= 1
        if depth == 0 or (depth == 1 and sign[0] == ","):
            items.append(text[begin : sign.start()].strip())
            begin = sign.end()
        if depth == 0:
            return [item for item in items if item], begin
    raise ValueError("a list of types does not end")


def _results(text: str, start: int) -> list[str]:
    if text.startswith("(", start):
        return _listed(text, start)[0]
    return [text[start : text.find("\n", start)].strip()]


def _value(kind: str, name: str) -> ModelValue:
    name = name.strip().removeprefix("%")
    if found := _TENSOR.match(kind):
        return ModelValue(name, found[2], _sizes(found[1].split("x")))
    if found := _TORCH.match(kind):
        return ModelValue(name, found[2], _sizes(found[1].split(",")))
    return ModelValue(name, "not a tensor", None)


def _sizes(words: list[str]) -> tuple[int | str, ...]:
    return tuple(int(word) if word.strip().isdigit() else "?" for word in words if word.strip())
