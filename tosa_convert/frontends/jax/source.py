"""Where in the user's files an equation comes from."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from tosa_convert.formats.mlir.quoting import quote

#: Packages whose files are not the user's.
_LIBRARIES: Final = ("jax", "jaxlib", "flax", "optax", "equinox", "haiku", "tosa_convert")
#: Files that Python runs without having them.
_NO_FILES: Final = ("<frozen", "<string>", "<attrs")


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


def place_of(equation: Any, outer: Place) -> Place:
    """Return where an equation comes from. outer: that of the call whose jaxpr it is in."""
    stack = str(equation.source_info.name_stack)
    scope = "/".join(filter(None, (outer.scope, stack)))
    file, line = _frame(equation) or (outer.file, outer.line)
    return Place(scope, file, line)


def _frame(equation: Any) -> tuple[str, int] | None:
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if is_of_user(frame.file_name):
            return frame.file_name, frame.line_num
    return None


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
