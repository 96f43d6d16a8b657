"""Locations of MLIR text, added to a bytecode."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.encode import LocationEntries
from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor

#: Lines and columns are at most this.
_LARGEST: Final = 0xFFFFFFFF
#: Bytes that are searched for line ends at once.
_BLOCK: Final = 1 << 16

_NUMBER: Final = re.compile(rb"[0-9]+")
_ALIAS: Final = re.compile(rb"#[\w$.-]+(?!\s*<)")
_PLAIN: Final = re.compile(rb'[ \t]*loc\("([^"\\\n]*)":([0-9]{1,9}):([0-9]{1,9})\)')
_PLAIN_ALIAS: Final = re.compile(rb"[ \t\r\n]*(#[A-Za-z0-9_$][\w$.-]*)[ \t]*=(?=[ \t]*loc\()")
_CLOSED: Final = ord(")")
#: Levels that a location takes by which an alias is defined, and that of its use.
_LEVELS: Final = 4


class LocationParser:
    """Parses the locations of one text.

    entries: of the bytecode. attribute: parses an attribute, for the metadata of fused locations and for
    aliases.
    """

    def __init__(
        self,
        cursor: TextCursor,
        entries: LocationEntries,
        aliases: Aliases,
        attribute: Callable[[], bytes],
    ) -> None:
        self.cursor = cursor
        self.entries = entries
        self.encoder = entries.encoder
        self.aliases = aliases
        self.attribute = attribute
        #: How many lines end before `_counted`, and where the last of them does; -1 if there is none.
        self._lines, self._line_end, self._counted = 0, -1, 0
        self._head = b""
        #: The beginnings of places in files, by the file's name.
        self._files: dict[bytes, bytes] = {}
        #: The parts of fused locations with metadata.
        self._fused: dict[bytes, tuple[bytes, list[bytes]]] = {}

    def optional(self) -> bytes | None:
        """Parse the location `loc(...)` and return its encoded index, or None if none is next."""
        cursor = self.cursor
        if not cursor.peek(b"loc("):
            return None
        # Fast path of `_location`; equal by test test_plain_locations_of_text_equal_others
        plain = _PLAIN.match(cursor.data, cursor.at)
        if plain is not None:
            cursor.at = plain.end()
            return self._place_of(plain)
        cursor.at += len(b"loc(")
        number = self._location()
        cursor.expect(b")")
        return number

    def _place_of(self, plain: re.Match[bytes]) -> bytes:
        name, line, column = plain.groups()
        head = self._files.get(name)
        if head is None:
            head = self.encoder.numbers[code.FILE_LOCATION] + self.entries.string(name)
            self._files[name] = head
        numbers = self.encoder.numbers
        return self.encoder.attributes(head + numbers[int(line)] + numbers[int(column)])

    def ending(self, at: int, start: int, end: int) -> bytes | None:
        """Return the location of an operation in a line that ends with it, or None for a rare one."""
        if start == end:
            return self.here(at)
        cursor, known = self.cursor, None
        # Fast path of `optional`; equal by test test_ordinary_lines_equal_others
        name = bytes(cursor.data[start + len(b"loc(") : end - 1])
        if name[:1] == b"#" and cursor.data[end - 1] == _CLOSED:
            known = self._alias(name)
        if known is None:
            before, cursor.at = cursor.at, start
            known = self.optional()
            known, cursor.at = known if cursor.at == end else None, before
        return known

    def _alias(self, name: bytes) -> bytes | None:
        """Return the location of an alias that is resolved or defined as a plain place, else None."""
        found = self.aliases.known.get(name)
        if isinstance(found, tuple):
            number: bytes = found[0]
            return number
        if found is None or self.cursor.depth + _LEVELS > self.cursor.max_depth:
            return None
        plain = _PLAIN.match(self.cursor.data, found)
        if plain is None:
            return None
        number = self._place_of(plain)
        self.aliases.known[name] = number, found, plain.end()
        return number

    def skip_aliases(self) -> bool:
        """Skip the definitions that are next of aliases of plain places; return whether any is."""
        cursor, known, start = self.cursor, self.aliases.known, self.cursor.at
        # Fast path of `Aliases.next_definition`; equal by test test_ordinary_lines_equal_others
        while (definition := _PLAIN_ALIAS.match(cursor.data, cursor.at)) is not None:
            name, place = definition[1], definition.end()
            found = known.get(name)
            if found == place and self._alias(name) is not None:
                found = known[name]
            if not isinstance(found, tuple) or found[1] != place:
                break
            cursor.at = found[2]
        return cursor.at > start

    def here(self, at: int) -> bytes:
        """Return the number of the location of the text itself at an offset, which never decreases."""
        numbers = self.encoder.numbers
        if not self._head:
            name = self.cursor.source.name.encode("utf-8", "surrogateescape")
            self._head = numbers[code.FILE_LOCATION] + self.entries.string(name)
        while self._counted < at:
            passed = bytes(self.cursor.data[self._counted : min(at, self._counted + _BLOCK)])
            lines = passed.count(b"\n")
            if lines:
                self._lines += lines
                self._line_end = self._counted + passed.rfind(b"\n")
            self._counted += len(passed)
        column = at - self._line_end
        return self.encoder.attributes.add(self._head + numbers[self._lines + 1] + numbers[column])

    # -- kinds of locations -------------------------------------------------------------------

    def _location(self) -> bytes:
        cursor = self.cursor
        cursor.enter()
        try:
            return self._parse()
        finally:
            cursor.depth -= 1

    def _parse(self) -> bytes:
        cursor = self.cursor
        name = cursor.string()
        if name is not None:
            if cursor.accept(b":"):
                return self._place(name)
            child = self.encoder.unknown
            if cursor.accept(b"("):
                child = self._location()
                cursor.expect(b")")
            return self.entries.name(name, child)
        alias = cursor.match(_ALIAS)
        if alias is not None:
            return self.aliases.resolve(alias[0], alias.start(), self.attribute)
        word = cursor.peek_word()
        if word == b"unknown":
            cursor.word()
            return self.encoder.unknown
        if word == b"callsite":
            cursor.word()
            return self._call_site()
        if word == b"fused":
            cursor.word()
            return self._fuse()
        if word == b"loc":
            found = self.optional()
            if found is not None:
                return found
        if cursor.peek(b"#"):
            return self.attribute()
        raise cursor.unexpected("a location")

    def _call_site(self) -> bytes:
        cursor = self.cursor
        cursor.expect(b"(")
        callee = self._location()
        if not cursor.accept_word(b"at"):
            raise cursor.unexpected("'at'")
        caller = self._location()
        cursor.expect(b")")
        return self.entries.make(code.CALLSITE_LOCATION, callee, caller)

    def _fuse(self) -> bytes:
        cursor = self.cursor
        metadata = b""
        if cursor.accept(b"<"):
            metadata = self.attribute()
            cursor.expect(b">")
        cursor.expect(b"[")
        parts: list[bytes] = []
        if not cursor.peek(b"]"):
            parts.append(self._location())
            while cursor.accept(b","):
                cursor.bound(len(parts) + 1, "locations in a fused one")
                parts.append(self._location())
        cursor.expect(b"]")
        return self._with_metadata(metadata, parts) if metadata else self.entries.fuse(parts)

    def _with_metadata(self, metadata: bytes, parts: list[bytes]) -> bytes:
        """Encode a fused location with metadata, without duplicates and unknown ones, as MLIR has it."""
        flat: dict[bytes, None] = {}
        for part in parts:
            same, inner = self._fused.get(part, (b"", []))
            flat.update(dict.fromkeys(inner if same == metadata else [part]))
        if len(flat) > 1:
            flat.pop(self.encoder.unknown, None)
        locations = list(flat) or [self.encoder.unknown]
        count = self.encoder.numbers[len(locations)]
        fused = self.entries.make(code.FUSED_LOCATION_WITH_METADATA, count, *locations, metadata)
        self._fused[fused] = metadata, locations
        return fused

    def _place(self, name: bytes) -> bytes:
        """Parse a place or a range in a file, after the file's name and a colon."""
        cursor = self.cursor
        line = self._number()
        cursor.expect(b":")
        places = [line, self._number()]
        if cursor.accept_word(b"to"):
            end_line = line if cursor.peek(b":") else self._number()
            cursor.expect(b":")
            end = self._number()
            if end_line != line:
                places += end_line, end
            elif end != places[1]:
                places.append(end)
        return self.entries.place(name, places)

    def _number(self) -> int:
        cursor = self.cursor
        found = cursor.match(_NUMBER)
        if found is None:
            raise cursor.unexpected("a line or a column")
        if len(found[0]) > len(str(_LARGEST)) or int(found[0]) > _LARGEST:
            cursor.refuse(f"a line or a column is larger than {_LARGEST}", found.start())
        return int(found[0])
