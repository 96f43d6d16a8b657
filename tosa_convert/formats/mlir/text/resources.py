"""The resources of a text: `{-# dialect_resources: { builtin: { name: "0x..." } } #-}` at its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.formats.mlir.text.parse.elements import hex_bytes

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.formats.mlir.text.parse.cursor import TextCursor

_BEGIN: Final = re.compile(rb"^[ \t]*\{-#", re.MULTILINE)
_KEY: Final = re.compile(rb"[\w$.-]+")
_DIALECTS: Final = b"dialect_resources"
#: The data of a resource begins with its alignment in this many bytes.
_ALIGNMENT_BYTES: Final = 4


class _Entry(NamedTuple):
    """Where a text has the hexadecimal digits of a resource."""

    start: int
    end: int


class Resources:
    """The dialects' resources of one text. begin: where their section begins, or the text ends."""

    def __init__(self, cursor: TextCursor, encoder: Encoder) -> None:
        self.cursor = cursor
        self.encoder = encoder
        self._entries: dict[bytes, _Entry] = {}
        self._numbers: dict[bytes, bytes] = {}
        found = _BEGIN.search(cursor.data)
        self.begin = len(cursor.data)
        if found is not None:
            self.begin = found.start()
            cursor.at = found.end()
            self._sections()
            cursor.at = 0

    def number(self, name: bytes, at: int) -> bytes:
        """Return the encoded index of a resource, declared without data if the text has none.

        at: where it is used.
        """
        number = self._numbers.get(name)
        if number is None:
            entry = self._entries.get(name)
            number = (
                self.encoder.add_resource(name) if entry is None else self._with_data(name, entry)
            )
            self._numbers[name] = number
        return number

    def _with_data(self, name: bytes, entry: _Entry) -> bytes:
        data = hex_bytes(self.cursor, entry.start, entry.end)
        if len(data) < _ALIGNMENT_BYTES:
            self.cursor.refuse("a resource has no alignment, expected 4 bytes or more", entry.start)
        alignment = int.from_bytes(data[:_ALIGNMENT_BYTES], "little")
        if alignment.bit_count() != 1:
            message = f"a resource is aligned to {alignment} bytes, expected a power of two"
            self.cursor.refuse(message, entry.start)
        return self.encoder.add_resource(name, data[_ALIGNMENT_BYTES:], alignment)

    # -- the section --------------------------------------------------------------------------

    def _sections(self) -> None:
        """Parse the kinds of resources; those of other tools are skipped."""
        cursor = self.cursor
        while not cursor.accept(b"#-}"):
            kind = cursor.word()
            if not kind:
                raise cursor.unexpected("'dialect_resources', 'external_resources' or '#-}'")
            cursor.expect(b":")
            if kind == _DIALECTS:
                cursor.expect(b"{")
                while not cursor.accept(b"}"):
                    if not cursor.word():
                        raise cursor.unexpected("the name of a dialect")
                    cursor.expect(b":")
                    self._of_dialect()
                    cursor.accept(b",")
            else:
                cursor.skip()
                cursor.skip_balanced(b"{", "'{'")
            cursor.accept(b",")

    def _of_dialect(self) -> None:
        cursor = self.cursor
        cursor.expect(b"{")
        while not cursor.accept(b"}"):
            cursor.skip()
            at = cursor.at
            name = cursor.string()
            if name is None:
                found = cursor.match(_KEY)
                if found is None:
                    raise cursor.unexpected("the name of a resource")
                name = found[0]
            if name in self._entries:
                cursor.refuse("the resource is there twice", at)
            cursor.expect(b":")
            span = cursor.string_span()
            if span is None or bytes(cursor.data[span[0] : span[0] + 2]).lower() != b"0x":
                raise cursor.unexpected("the bytes of a resource in hexadecimal")
            self._entries[name] = _Entry(span[0] + len("0x"), span[1])
            cursor.accept(b",")
