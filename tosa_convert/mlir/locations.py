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

#: Nesting at which a location is kept as a name instead of being parsed.
MAX_DEPTH: Final = 64

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_QUOTED: Final = re.compile(rf"({_STRING})(:\d+:\d+)?")
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<string>{_STRING})|(?P<number>\d+)|(?P<word>[a-z]+)|(?P<mark>[:(),<>\[\]]))"
)
#: Much the commonest location: no escapes, no nesting.
_PLAIN: Final = re.compile(r'loc\("([^"\\]*)":(\d{1,9}):(\d{1,9})\)\Z')
_ESCAPE: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\ntr]))')
_ESCAPES: Final = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t", b"r": b"\r"}


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
    name = _unescape(match[1])
    return quote(re.split(rb"[/\\]", name)[-1] or name) + match[2]


def _unescape(text: str) -> bytes:
    def replace(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else _ESCAPES[found[2]]

    return _ESCAPE.sub(replace, text[1:-1].encode("utf-8", "replace"))


def unquote(text: str) -> str:
    """The string that a quoted MLIR string spells."""
    return _unescape(text).decode("utf-8", "replace")


def quote(raw: bytes) -> str:
    """A string as MLIR quotes it: printable ASCII as it is, all other bytes in hexadecimal."""
    escaped = (
        "\\\\"
        if byte == 0x5C
        else chr(byte)
        if 32 <= byte < 127 and byte != 0x22
        else f"\\{byte:02X}"
        for byte in raw
    )
    return '"' + "".join(escaped) + '"'


class LocationWriter:
    """Builds locations in a context, each distinct text once."""

    def __init__(self, bindings: Bindings, context: Any) -> None:
        self.ir = bindings.ir
        self.context = context
        self.file = self.ir.Location.file
        self.unknown = self.ir.Location.unknown(context)
        self.known: dict[str, Any] = {"": self.unknown, "loc(unknown)": self.unknown}

    def __call__(self, text: str) -> Any:
        """The location that `text` spells; a text that is no location becomes a name."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self._parse(text)
        return found

    def _parse(self, text: str) -> Any:
        plain = _PLAIN.match(text)
        if plain is not None:
            name, line, column = plain.groups()
            return self.file(name, int(line), int(column), context=self.context)
        try:
            parser = _Parser(text, self)
            location = parser.whole()
        except _NotALocation:
            return self.ir.Location.name(text, context=self.context)
        return location


class _NotALocation(Exception):
    pass


class _Parser:
    """`loc(` location `)`, where a location is one of

    unknown | "file":line:col [to [line]:col] | "name" [( location )]
    | callsite( location at location ) | fused[ location, ... ]
    """

    def __init__(self, text: str, writer: LocationWriter) -> None:
        self.writer = writer
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NotALocation
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()
        self.position = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def accept(self, text: str) -> bool:
        if self.peek()[1] == text and self.peek()[0] in ("mark", "word"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise _NotALocation

    def take(self, kind: str) -> str:
        found, text = self.peek()
        if found != kind:
            raise _NotALocation
        self.position += 1
        return text

    def number(self) -> int:
        value = int(self.take("number")[:11])
        if value > 0xFFFFFFFF:
            raise _NotALocation
        # The bindings take a signed number, and MLIR what its bits say as an unsigned one.
        return value - (1 << 32 if value >> 31 else 0)

    def whole(self) -> Any:
        self.expect("loc")
        self.expect("(")
        location = self.location(0)
        self.expect(")")
        if self.peek()[0] != "end":
            raise _NotALocation
        return location

    def location(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _NotALocation
        kind, text = self.peek()
        location, context = self.writer.ir.Location, self.writer.context
        if kind == "string":
            self.position += 1
            name = unquote(text)
            if self.accept(":"):
                return self.file(name)
            if self.accept("("):
                child = self.location(depth + 1)
                self.expect(")")
                return location.name(name, child, context=context)
            return location.name(name, context=context)
        if self.accept("unknown"):
            return self.writer.unknown
        if self.accept("callsite"):
            self.expect("(")
            callee = self.location(depth + 1)
            self.expect("at")
            caller = self.location(depth + 1)
            self.expect(")")
            return location.callsite(callee, [caller], context=context)
        if self.accept("fused"):
            self.expect("[")
            parts = [self.location(depth + 1)]
            while self.accept(","):
                parts.append(self.location(depth + 1))
            self.expect("]")
            return location.fused(parts, context=context)
        raise _NotALocation

    def file(self, name: str) -> Any:
        location, context = self.writer.ir.Location, self.writer.context
        line = self.number()
        self.expect(":")
        column = self.number()
        if not self.accept("to"):
            return location.file(name, line, column, context=context)
        end_line = line if self.peek()[1] == ":" else self.number()
        self.expect(":")
        return location.file(name, line, column, end_line, self.number(), context=context)
