"""Locations from the text that a file stores.

Parsed with a parser of our own: the bindings have none, and MLIR's would recurse without bound.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.quoting import STRING, unquote

#: Nesting at which a location is kept as a name instead of being parsed.
MAX_DEPTH: Final = 64

_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<string>{STRING})|(?P<number>\d+)|(?P<word>[a-z]+)|(?P<mark>[:(),<>\[\]]))"
)
#: Much the commonest location: no escapes, no nesting.
_PLAIN: Final = re.compile(r'loc\("([^"\\]*)":(\d{1,9}):(\d{1,9})\)\Z')


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
