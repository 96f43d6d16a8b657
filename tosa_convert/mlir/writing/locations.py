"""Locations from the text that a file stores.

Parsed with a parser of our own: the bindings have none, and MLIR's would recurse without bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import (
    CALLSITE_LOCATION,
    FILE_LOCATION,
    FILE_RANGE_LOCATION,
    FUSED_LOCATION,
    NAME_LOCATION,
)
from tosa_convert.mlir.quoting import STRING, unquote
from tosa_convert.options import DEFAULT_LIMITS, Limits

_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<string>{STRING})|(?P<number>[0-9]+)|(?P<word>[a-z]+)|(?P<mark>[:(),<>\[\]]))"
)
#: Much the commonest location has no escapes and no nesting; this is what stands before its line.
_HEAD: Final = re.compile(r'loc\("([^"\\]*)\Z')
#: Digits that its line and its column may have and surely fit.
_DIGITS: Final = 9


class LocationWriter:
    """Adds locations to a file, each distinct text once, and returns their indices.

    A text that is no location becomes a name.
    """

    def __init__(self, encoder: Encoder, limits: Limits = DEFAULT_LIMITS) -> None:
        self.encoder = encoder
        #: Nesting up to which a location is parsed; a deeper one becomes a name.
        self.most_depth = limits.location_depth
        self.attributes = encoder.attributes
        self.numbers = encoder.numbers
        self.known = {"": encoder.unknown, "loc(unknown)": encoder.unknown}
        #: What stands before the lines, as the attribute's beginning.
        self.heads: dict[str, bytes] = {}
        #: What stands behind them, as its end.
        self.columns: dict[str, bytes] = {}
        #: What each fused location has.
        self.fused: dict[bytes, tuple[bytes, ...]] = {}

    def __call__(self, text: str) -> bytes:
        """The location that `text` spells."""
        return self.all((text,))[0]

    def all(self, texts: Iterable[str]) -> list[bytes]:
        """The locations that texts spell; at once, because each operator has one of its own."""
        known, heads, columns, numbers = self.known, self.heads, self.columns, self.numbers
        entries = self.attributes.entries
        places = []
        for text in texts:
            place = known.get(text)
            if place is None:
                head, _, rest = text.partition('":')
                line, _, column = rest.partition(":")
                if len(line) <= _DIGITS and line.isdigit() and line.isascii():
                    start = heads.get(head) or self.head(head)
                    end = columns.get(column) or self.column(column)
                    if start and end:
                        # No location is twice among those of distinct texts.
                        place = numbers[len(entries)]
                        entries.append(start + numbers[int(line)] + end)
                known[text] = place = place or self.parse(text)
            places.append(place)
        return places

    def parse(self, text: str) -> bytes:
        """A location that is not a plain one."""
        try:
            return _Parser(text, self).whole()
        except _NotALocation:
            return self.name(text, self.encoder.unknown)

    def head(self, text: str) -> bytes:
        """The beginning of a plain location, or nothing if it is another one."""
        match = _HEAD.match(text)
        if match is None:
            return b""
        found = self.heads[text] = self.numbers[FILE_LOCATION] + self.string(match[1])
        return found

    def column(self, text: str) -> bytes:
        """The end of a plain location, or nothing if it is another one."""
        digits = text[:-1]
        if not (text.endswith(")") and len(digits) <= _DIGITS):
            return b""
        if not (digits.isdigit() and digits.isascii()):
            return b""
        found = self.columns[text] = self.numbers[int(digits)]
        return found

    def string(self, text: str) -> bytes:
        """A string attribute."""
        return self.encoder.string_attribute(text)

    def make(self, code: int, *parts: bytes) -> bytes:
        """A location of these parts."""
        return self.attributes(self.numbers[code] + b"".join(parts))

    def name(self, name: str, child: bytes) -> bytes:
        """A location that is called something."""
        return self.make(NAME_LOCATION, self.string(name), child)

    def fuse(self, locations: list[bytes]) -> bytes:
        """Several locations: each once, those of others that are fused and none that is unknown.

        This is what MLIR makes of them where it does not read them from bytecode.
        """
        flat = dict.fromkeys(
            part for location in locations for part in self.fused.get(location, (location,))
        )
        flat.pop(self.encoder.unknown, None)
        parts = tuple(flat)
        if len(parts) < 2:
            return parts[0] if parts else self.encoder.unknown
        found = self.make(FUSED_LOCATION, self.numbers[len(parts)], *parts)
        self.fused[found] = parts
        return found


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
        return value

    def whole(self) -> bytes:
        self.expect("loc")
        self.expect("(")
        location = self.location(0)
        self.expect(")")
        if self.peek()[0] != "end":
            raise _NotALocation
        return location

    def location(self, depth: int) -> bytes:
        if depth > self.writer.most_depth:
            raise _NotALocation
        kind, text = self.peek()
        writer = self.writer
        if kind == "string":
            self.position += 1
            name = unquote(text)
            if self.accept(":"):
                return self.file(name)
            child = writer.encoder.unknown
            if self.accept("("):
                child = self.location(depth + 1)
                self.expect(")")
            return writer.name(name, child)
        if self.accept("unknown"):
            return writer.encoder.unknown
        if self.accept("callsite"):
            self.expect("(")
            callee = self.location(depth + 1)
            self.expect("at")
            caller = self.location(depth + 1)
            self.expect(")")
            return writer.make(CALLSITE_LOCATION, callee, caller)
        if self.accept("fused"):
            self.expect("[")
            parts = [self.location(depth + 1)]
            while self.accept(","):
                parts.append(self.location(depth + 1))
            self.expect("]")
            return writer.fuse(parts)
        raise _NotALocation

    def file(self, name: str) -> bytes:
        writer, numbers = self.writer, self.writer.numbers
        line = self.number()
        self.expect(":")
        places = [line, self.number()]
        if self.accept("to"):
            end_line = line if self.peek()[1] == ":" else self.number()
            self.expect(":")
            end = self.number()
            if end_line != line:
                places += end_line, end
            elif end != places[1]:
                places.append(end)
        parts = [writer.string(name), *map(numbers.__getitem__, places)]
        if len(places) == 2:
            return writer.make(FILE_LOCATION, *parts)
        return writer.make(FILE_RANGE_LOCATION, parts[0], numbers[len(places)], *parts[1:])
