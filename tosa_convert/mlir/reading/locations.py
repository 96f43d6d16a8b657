"""Locations as text, and back.

The format stores one line of text for each operator. We store MLIR's own spelling, with file names
cut to their last component so that a file's bytes do not depend on where it was made, and we parse
it back with a parser of our own: the bindings have none, and MLIR's would recurse without bound.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any, Final

from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.quoting import STRING, quote, unescape, unquote

_QUOTED: Final = re.compile(rf"({STRING})(:\d+:\d+)?")

#: Whether the module that is read may have names that are not UTF-8: the bindings end the process when
#: they are asked for such a file's name, and printing it is safe.
careful: Final = ContextVar("careful", default=False)


class LocationReader:
    """Locations of MLIR as text. `full_paths` keeps file names as they are."""

    def __init__(self, bindings: Bindings, *, full_paths: bool = False) -> None:
        self.full_paths = full_paths
        self.file_class: Any = () if careful.get() else getattr(bindings.ir, "FileLineColLoc", ())
        self.files: dict[str, str | None] = {}

    def __call__(self, location: Any) -> str:
        """The text, `loc(...)`."""
        if isinstance(location, self.file_class):
            # Much the commonest kind; printing it takes six times as long.
            start_line, start_col = location.start_line, location.start_col
            is_point = location.end_line == start_line and location.end_col == start_col
            # The bindings give numbers from 2^31 on as negative ones.
            if is_point and start_line >= 0 and start_col >= 0:
                name = self.file(location.filename)
                if name is not None:
                    return f'loc("{name}":{start_line}:{start_col})'
        text = str(location)
        while text.startswith('loc("loc('):
            # A name that is a location: LocationWriter could not parse it, or another tool, which
            # does not parse what it reads, put one around it and maybe more behind it.
            quoted = _QUOTED.match(text, 4)
            assert quoted is not None
            name = unquote(quoted[1])
            if quoted.end() < len(text) - 1 and not name.endswith(")"):
                break
            text = name
        return text if self.full_paths else _QUOTED.sub(_last_component, text)

    def file(self, name: str) -> str | None:
        """A file name ready to be quoted, or None if it needs MLIR's escapes."""
        if name not in self.files:
            plain = name if self.full_paths else _basename(name)
            self.files[name] = plain if quote(plain.encode()) == f'"{plain}"' else None
        return self.files[name]


def _basename(name: str) -> str:
    return re.split(r"[/\\]", name)[-1] or name


def _last_component(match: re.Match[str]) -> str:
    if match[2] is None:
        return match[0]
    name = unescape(match[1])
    return quote(re.split(rb"[/\\]", name)[-1] or name) + match[2]
