"""Where in the user's files an equation of JAX or an operation of StableHLO comes from."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from tosa_convert.formats.mlir.names import quote

#: Packages whose files are not the user's.
_LIBRARIES: Final = ("jax", "jaxlib", "flax", "optax", "equinox", "haiku", "keras", "tosa_convert")
#: Files that Python runs without having them.
_NO_FILES: Final = ("<frozen", "<string>", "<attrs")
#: A quoted text in a location of MLIR, and the line if it is a file.
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?::(\d+):\d+)?')
#: How the function that is lowered is called, and so the beginning of each name.
_MAIN: Final = "jit(main)"
#: A function that JAX compiles separately; it is not a named scope.
_CALL: Final = re.compile(r"jit\(.*\)")


class Place(NamedTuple):
    """Where an equation comes from.

    scope: the modules and named scopes around it, with slashes.
    file, line: the innermost call in the user's files; "" and 0 if it is unknown.
    """

    scope: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    def location(self, primitive: str, has_full_path: bool) -> str:
        """Return an MLIR location, such as `loc("Dense_0/add"("net.py":12:0))`."""
        name = _quoted("/".join(filter(None, (self.scope, primitive))))
        if not self.file:
            return f"loc({name})"
        file = self.file if has_full_path else os.path.basename(self.file)
        return f"loc({name}({_quoted(file)}:{self.line}:0))"


def place_of_equation(equation: Any, outer: Place) -> Place:
    """Return where an equation comes from. outer: that of the call whose jaxpr it is in."""
    stack = str(equation.source_info.name_stack)
    scope = "/".join(filter(None, (outer.scope, stack)))
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if is_of_user(frame.file_name):
            return Place(scope, frame.file_name, frame.line_num)
    return Place(scope, outer.file, outer.line)


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


def place_of_location(location: str) -> Place:
    """Return the scopes of an operation, and the innermost call in the user's files.

    Example:
        >>> place_of_location('loc("jit(main)/mul"(callsite("f"("/home/net.py":3:1) at unknown)))')
        Place(scope='mul', file='/home/net.py', line=3)
    """
    files = ((file, int(line)) for file, line in _QUOTED.findall(location) if line)
    place = next((place for place in files if is_of_user(place[0])), ("", 0))
    return Place(scope_of(location), *place)


def is_of_user(file: str) -> bool:
    """Return whether a file of a traceback belongs to no library."""
    return not file.startswith((*_library_folders(), *_NO_FILES))


@cache
def _library_folders() -> tuple[str, ...]:
    """Return the folders of libraries and of Python itself, with a separator at the end."""
    found = [os.path.join(os.path.dirname(os.__file__), "importlib", "")]
    found.append(os.path.join(os.path.dirname(os.__file__), "contextlib.py"))
    for name in _LIBRARIES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found.append(os.path.join(folder, ""))
    return tuple(found)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"))
