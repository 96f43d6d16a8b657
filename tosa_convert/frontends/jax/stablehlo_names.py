"""Names and places of operations of StableHLO, out of the text of their locations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tosa_convert.frontends.jax.source import Place, is_of_user

#: A quoted text, and the line if it is a file.
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?::(\d+):\d+)?')
#: How the function that is lowered is called, and so the beginning of each name.
_MAIN: Final = "jit(main)"
#: A function that JAX compiles separately; it is not a named scope.
_CALL: Final = re.compile(r"jit\(.*\)")


def scope_of(location: str) -> str:
    """Return the named scopes and the primitive of an operation, with slashes; "" for none.

    Example:
        >>> scope_of('loc("jit(main)/head/mul"(callsite("f"("net.py":3:1) at "g"("net.py":9:0))))')
        'head/mul'
        >>> scope_of('loc(callsite("max" at "jit(main)/head/jit(relu)"("f"("net.py":3:1))))')
        'head/max'
    """
    names = [name for name, line in _QUOTED.findall(location) if not line]
    scopes = [name for name in names if name.startswith(_MAIN)]
    if not scopes:
        return ""
    words = scopes[0].removeprefix(_MAIN).split("/")
    if names[0] != scopes[0]:
        words.append(names[0])
    return "/".join(word for word in words if word and not _CALL.fullmatch(word))


def place_of(location: str) -> Place:
    """Return the scopes of an operation, and the innermost call in the user's files.

    Example:
        >>> place_of('loc("jit(main)/mul"(callsite("f"("/home/net.py":3:1) at unknown)))')
        Place(scope='mul', file='/home/net.py', line=3)
    """
    files = [(file, int(line)) for file, line in _QUOTED.findall(location) if line]
    return Place(scope_of(location), *_first_of_user(files))


def _first_of_user(files: Iterable[tuple[str, int]]) -> tuple[str, int]:
    return next(((file, line) for file, line in files if is_of_user(file)), ("", 0))


def unused(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if it is taken. The result is taken afterwards."""
    found, number = name, 1
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found
