"""Read what the text of StableHLO and torch-dialect modules declares, without MLIR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.frontends.module_functions import result_names
from tosa_convert.records import NamedTuple

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


class ModuleValue(NamedTuple):
    """An argument or a result: its name, element type, and sizes; None if it is not a tensor."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


class ModuleHeader(NamedTuple):
    """A function of a module: its operations, with those of private functions, and its values."""

    operators: list[str]
    inputs: list[ModuleValue]
    outputs: list[ModuleValue]


def read_module_header(text: str, func: str, where: str) -> ModuleHeader:
    """Describe a function: by default @main, or the only public one.

    Example:
        >>> head = "func.func @f(%x: tensor<?x2xf32>) -> tensor<2xi1> {"
        >>> read_module_header(head, "", "m.mlir").inputs
        [ModuleValue(name='x', dtype='f32', shape=('?', 2))]
    """
    rows = list(_FUNCTION.finditer(text))
    names = [row[2].strip('"') for row in rows]
    public = [name for row, name in zip(rows, names, strict=True) if row[1] != "private"]
    wanted = func or ("main" if "main" in names else public[0] if len(public) == 1 else "")
    if wanted not in names:
        code = "unknown-function" if func else "ambiguous-function"
        message = f"the module has the functions {', '.join(names) or 'none'}"
        raise fail(code, where, message, "choose one with --func")
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
    return ModuleHeader(
        found,
        [_value(kind.strip(), name) for name, _, kind in inputs],
        list(map(_value, results, outputs)),
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


def _value(kind: str, name: str) -> ModuleValue:
    name = name.strip().removeprefix("%")
    if found := _TENSOR.match(kind):
        return ModuleValue(name, found[2], _sizes(found[1].split("x")))
    if found := _TORCH.match(kind):
        return ModuleValue(name, found[2], _sizes(found[1].split(",")))
    return ModuleValue(name, "not a tensor", None)


def _sizes(words: list[str]) -> tuple[int | str, ...]:
    return tuple(int(word) if word.strip().isdigit() else "?" for word in words if word.strip())
