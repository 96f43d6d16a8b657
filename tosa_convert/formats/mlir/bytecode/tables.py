"""The tables of a bytecode: strings, dialects, names of operations, entries and resources."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import Final, NoReturn

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.cursor import Cursor, malformed
from tosa_convert.formats.mlir.bytecode.sections import BytecodeFile, Section, entry_sizes
from tosa_convert.formats.mlir.bytecode.varint import decode_varint
from tosa_convert.records import NamedTuple

#: Bytes of the name of a dialect or of an operation in its dialect.
_NAME_BYTES: Final = 256


class Tables:
    """The tables of one bytecode. Every count and index in them has been checked.

    An entry is an attribute or a type; entries of attributes come before those of types.

    strings: all strings of the bytecode. names: the full names of operations.
    is_registered: whether the dialect of the writer knew the operation of each name.
    bytes, data: the section of attributes and types; see `Section`.
    starts: the offset in `bytes` at which each entry begins, and the end of the last one.
    is_encoded: 1 if the entry is in its dialect's encoding, 0 if it is text.
    dialect_of: the number of each entry's dialect.
    """

    def __init__(self, file: BytecodeFile) -> None:
        self.file = file
        self.strings = _strings(self.cursor(code.STRINGS))
        self.dialects: list[str] = []
        self.names: list[str] = []
        self.is_registered: list[bool] = []
        self._dialects_and_names(self.cursor(code.DIALECTS))
        entries = file.sections[code.ATTRIBUTES_AND_TYPES]
        self.bytes, self.data = entries.bytes, entries.data
        # Arrays take a fifth of the memory of lists, and there are two or three entries an operation.
        self.starts = array("q")
        self.is_encoded = b""
        self.dialect_of = array("q")
        self.attribute_count = 0
        self._entries(entries)

    def cursor(self, section_id: int) -> Cursor:
        """Return a cursor at a section's start; of no bytes if the file does not have the section."""
        section = self.file.sections.get(section_id, Section())
        return Cursor(section.bytes, 0, len(section.bytes), section.offset, self.file.where)

    def _dialects_and_names(self, cursor: Cursor) -> None:
        version, strings = self.file.version, len(self.strings)
        for _ in range(cursor.count("dialects")):
            at = cursor.at
            index = cursor.varint("a dialect's name")
            has_version = False
            if version >= code.DIALECTS_HAVE_VERSIONS:
                index, has_version = index >> 1, bool(index & 1)
            if index >= strings:
                cursor.refuse(f"a dialect's name is string {index} of {strings}", at)
            if has_version:
                cursor.section()
            self.dialects.append(self._name(cursor, index))
        if version >= code.COUNTS_NAMES:
            cursor.count("operation names")
        while cursor.at < cursor.end:
            dialect = self.dialects[cursor.index("the dialect of operations", len(self.dialects))]
            for _ in range(cursor.count("operation names")):
                at = cursor.at
                index = cursor.varint("an operation's name")
                is_registered = True
                if version >= code.HAS_NATIVE_PROPERTIES:
                    index, is_registered = index >> 1, bool(index & 1)
                if index >= strings:
                    cursor.refuse(f"an operation's name is string {index} of {strings}", at)
                self.names.append(f"{dialect}.{self._name(cursor, index)}")
                self.is_registered.append(is_registered)

    def _name(self, cursor: Cursor, index: int) -> str:
        """Return the name of a dialect or an operation, which many entries of the file may share."""
        raw = self.strings[index]
        if len(raw) > _NAME_BYTES:
            cursor.refuse(f"a name has {len(raw)} bytes, expected at most {_NAME_BYTES}")
        return raw.decode("utf-8", "replace")

    def _entries(self, entries: Section) -> None:
        left_out = sum(map(len, entries.data.values()))
        sizes = entry_sizes(
            self.file.sections[code.OFFSETS], len(entries.bytes) + left_out, self.file.where
        )
        largest = max(sizes.dialects, default=-1)
        if largest >= len(self.dialects):
            cursor = self.cursor(code.OFFSETS)
            cursor.refuse(f"an attribute or type is of dialect {largest}, "
                          f"expected less than {len(self.dialects)}")  # fmt: skip
        self.attribute_count = sizes.attribute_count
        self.is_encoded = sizes.is_encoded
        self.dialect_of = sizes.dialects
        self.starts = sizes.starts
        # Entries after data that was left out begin that much earlier in `bytes`.
        places = sorted(self.data)
        removed = list(accumulate(len(self.data[place]) for place in places))
        firsts = [
            bisect_left(self.starts, place + total)
            for place, total in zip(places, removed, strict=True)
        ]
        for first, end, total in zip(firsts, [*firsts, len(self.starts)][1:], removed, strict=True):
            self.starts[first:end] = array("q", [at - total for at in self.starts[first:end]])

    def file_offset(self, offset: int) -> int:
        """Return where the file has a byte of `bytes`."""
        entries = self.file.sections[code.ATTRIBUTES_AND_TYPES]
        left_out = sum(len(view) for place, view in self.data.items() if place < offset)
        return entries.offset + offset + left_out

    # -- the bytes of entries -----------------------------------------------------------------

    def refuse(self, index: int, message: str) -> NoReturn:
        """Raise the error for an entry: an attribute, or a type after all attributes."""
        offset = self.file_offset(self.starts[index]) if index < len(self.starts) else 0
        raise malformed(self.file.where, offset, message)

    def refuse_data(self, offset: int, message: str) -> NoReturn:
        """Raise the error for an offset in `bytes`."""
        raise malformed(self.file.where, self.file_offset(offset), f"found {message}")

    def _expect(self, count: int, what: str, offset: int, end: int) -> None:
        """Refuse a count of which the bytes up to `end` cannot be: each takes one at least."""
        if count > end - offset:
            self.refuse_data(offset, f"{count} {what}, but only {end - offset} bytes are left")

    def _numbers(self, count: int, offset: int, end: int = -1) -> tuple[list[int], int]:
        """Decode at most `count` numbers, fewer if they reach `end`; return the offset after them."""
        numbers: list[int] = []
        while len(numbers) < count and offset != end:
            number, offset = decode_varint(self.bytes, offset)
            numbers.append(number)
        return numbers, offset

    def _data(self, size: int, offset: int, end: int) -> tuple[memoryview, int]:
        """Return data, and the offset in `bytes` after it."""
        left_out = self.data.get(offset) if self.data else None
        if left_out is not None and len(left_out) == size:
            return left_out, offset
        self._expect(size, "bytes of data", offset, end)
        return memoryview(self.bytes)[offset : offset + size], offset + size

    def _text(self, entry: int) -> str:
        """Return an attribute or a type that the file has as text, which a zero ends."""
        raw = self.bytes[self.starts[entry] : self.starts[entry + 1]]
        if len(raw) < 2 or raw[-1]:
            self.refuse(entry, "the text of an attribute or a type is empty or has no end")
        return raw[:-1].decode("utf-8", "replace")


def _strings(cursor: Cursor) -> list[bytes]:
    count = cursor.count("strings")
    # Lengths are in reverse order, and include a terminating zero.
    lengths = [cursor.varint("the length of a string") for _ in range(count)]
    data = bytes(cursor.data)
    strings = []
    for length in reversed(lengths):
        if not length:
            cursor.refuse("found a string of 0 bytes, expected a terminating zero")
        at = cursor.skip(length, "a string")
        strings.append(data[at : at + length - 1])
    return strings


class Resource(NamedTuple):
    """A resource.

    data: None if the module declares the resource without data, or if it is not bytes.
    alignment: of the data, in bytes.
    """

    name: bytes
    data: memoryview | None
    alignment: int = 1


def decode_resources(tables: Tables) -> list[Resource]:
    """Decode the dialects' resources, in the order of their indices.

    Raises TosaConvertError("malformed-mlir").
    """
    cursor = tables.cursor(code.RESOURCE_OFFSETS)
    resources: list[Resource] = []
    if not cursor.end:
        return resources
    section = tables.file.sections.get(code.RESOURCES, Section())
    left_out = sorted(section.data.items(), reverse=True)
    # Groups of other tools' resources come before those of dialects. A group: its owner and its entries.
    external_groups = cursor.varint("the number of external resource groups")
    at = 0
    group = 0
    while cursor.at < cursor.end:
        cursor.varint("the owner of resources")
        for _ in range(cursor.count("resources")):
            name = cursor.index("the name of a resource", len(tables.strings))
            size = cursor.varint("the size of a resource")
            is_blob = cursor.byte("the kind of a resource") == code.BLOB
            data: memoryview | None = None
            alignment = 1
            if left_out and left_out[-1][0] == at + size - len(left_out[-1][1]):
                data = left_out.pop()[1]
                alignment, _ = decode_varint(section.bytes, at)
                at += size - len(data)
            else:
                if is_blob and size:
                    alignment, data = _blob(section, at, size, tables)
                at += size
            if group >= external_groups:
                resource = Resource(tables.strings[name], data if is_blob else None, alignment)
                resources.append(resource)
        group += 1
    return resources


def _blob(section: Section, at: int, size: int, tables: Tables) -> tuple[int, memoryview]:
    """Read the alignment and the data of an entry: alignment, length, filler, then the data."""
    end = at + size
    cursor = Cursor(
        section.bytes, at, min(end, len(section.bytes)), section.offset, tables.file.where
    )
    alignment = cursor.varint("the alignment of a resource")
    length = cursor.varint("the length of a resource")
    if length > end - cursor.at or end > len(section.bytes):
        cursor.refuse(f"a resource has {length} bytes, but only {cursor.end - cursor.at} are left")
    return alignment, memoryview(section.bytes)[end - length : end]
