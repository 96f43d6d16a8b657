"""The scope of each operator: the folders that names such as `encoder/layer_1/add` have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

from tosa_convert.graph.opset import CONST, CONST_SHAPE

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Operator

#: Where scopes are read from; "auto" takes the names or locations that have more of them.
Scopes = Literal["auto", "names", "locations", "none"]
SCOPES: Final[tuple[Scopes, ...]] = get_args(Scopes)

Path = tuple[str, ...]

#: Deepest nesting of scopes that is shown.
_DEPTH: Final = 24
#: Most characters of a name that are looked at.
_CHARACTERS: Final = 2000
#: A name with dots, as torch has them: identifiers and numbers only, so neither 1.5 nor a file name.
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)
#: A quoted name in a location that is not the name of a file, which a line number follows.
_NAMED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\s*:\s*\d)')
#: A name that was generated for a value that has none.
_GENERATED: Final = re.compile(r"layer_\d+|TosaOutput_\d+|%?\d+")


def scopes_of(block: Block, source: Scopes) -> list[Path]:
    """Return the scope of each operator of a block, outermost folder first; () for none.

    An operator without a name of its own is in the scope that all users of its results are in: what a
    frontend made of one operation belongs together.

    Example:
        >>> scope_of_name("encoder/layer_1/add"), scope_of_name("layers.0.conv"), scope_of_name("x")
        (('encoder', 'layer_1'), ('layers', '0'), ())
    """
    if source == "none":
        return [()] * len(block.operators)
    candidates: list[list[Path | None]] = []
    if source in ("auto", "names"):
        candidates.append([_by_name(operator) for operator in block.operators])
    if source in ("auto", "locations"):
        candidates.append([_by_location(operator) for operator in block.operators])
    best = max(candidates, key=lambda paths: len({path for path in paths if path}))
    paths = _adopted(block, best)
    shown = [path for path, op in zip(paths, block.operators, strict=True) if not _is_constant(op)]
    common = _common(shown)
    return [path[common:] for path in paths]


def scope_of_name(name: str) -> Path:
    """Return the folders of a name: what is before its last slash, or before its last dot.

    The number in `input.25` only tells values of one name apart, as torch does.
    """
    name = name[:_CHARACTERS].partition(";")[0]
    if "/" in name:
        parts = name.split("/")
    elif _DOTTED.fullmatch(name):
        parts = name.split(".")
        if parts[-1][0].isdigit():
            parts.pop()
    else:
        return ()
    return tuple(part for part in parts[:-1] if part)[:_DEPTH]


def _by_name(operator: Operator) -> Path | None:
    """Return the scope in an operator's name, or None if it has no name of its own."""
    if _is_constant(operator) or not operator.outputs or _GENERATED.fullmatch(operator.outputs[0]):
        return None
    return scope_of_name(operator.outputs[0])


def _by_location(operator: Operator) -> Path | None:
    match = _NAMED.search(operator.location[:_CHARACTERS])
    return None if match is None else scope_of_name(match[1])


def _adopted(block: Block, paths: Sequence[Path | None]) -> list[Path]:
    """Return the paths, with that of the users for operators without one."""
    found: list[Path] = [() if path is None else path for path in paths]
    #: Value -> the scope that all users so far are in; None if they are in several.
    wanted: dict[str, Path | None] = dict.fromkeys(block.outputs)
    for number in range(len(found) - 1, -1, -1):
        operator = block.operators[number]
        if paths[number] is None:
            scopes = {wanted.get(name, ()) for name in operator.outputs}
            only = scopes.pop() if len(scopes) == 1 else None
            found[number] = only or ()
        for name in operator.inputs:
            wanted[name] = (
                found[number] if wanted.get(name, found[number]) == found[number] else None
            )
    return found


def _common(paths: Sequence[Path]) -> int:
    """Count the folders that all paths begin with."""
    common = 0
    while paths and all(len(path) > common and path[common] == paths[0][common] for path in paths):
        common += 1
    return common


def _is_constant(operator: Operator) -> bool:
    return operator.spec in (CONST, CONST_SHAPE)
