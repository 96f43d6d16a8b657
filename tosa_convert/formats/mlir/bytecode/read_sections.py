"""The sections of a bytecode, proven to be inside the file; large constants become views."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import Final, NamedTuple, NoReturn

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.format import SECTION_NAMES, Cursor, malformed
from tosa_convert.formats.mlir.bytecode.varints import decode_varint
from tosa_convert.graph.lazy_numpy import FEW, np

#: Pieces of at most this many bytes are copied, whatever they hold.
COPIED_BYTES: Final = 1 << 12


@dataclass(slots=True, eq=False, repr=False)
class Section:
    """A section's bytes without the data that is larger than COPIED_BYTES.

    data: the views that are left out, each by its offset in `bytes`. offset: where the file has it.
    """

    bytes: bytes = b""
    data: dict[int, memoryview] = field(default_factory=dict)
    offset: int = 0


#: Sizes that are decoded together.
_RUN = 1 << 16


class EntrySizes(NamedTuple):
    """The entries of a bytecode, attributes before types.

    attribute_count: how many are attributes.
    starts: offsets of each in the section as the file has it, and the end of the last.
    is_encoded: a byte for each: whether the dialect encodes it; otherwise it is text.
    dialects: their numbers.
    """

    attribute_count: int
    starts: array[int]
    is_encoded: bytes
    dialects: array[int]

    def longer(self, length: int) -> list[int]:
        """Return the indices of the entries of more bytes."""
        if len(self.starts) < FEW:
            return [i for i, (at, end) in enumerate(pairwise(self.starts)) if end - at > length]
        # Fast path of the comparisons; equal by test test_few_operations_are_treated_as_many
        found: list[int] = np.flatnonzero(
            np.diff(np.frombuffer(self.starts, "q")) > length
        ).tolist()
        return found


def entry_sizes(offsets: Section, limit: int, where: str = "") -> EntrySizes:
    """Decode the section of offsets. limit: bytes of the section of attributes and types."""
    cursor = Cursor(offsets.bytes, 0, len(offsets.bytes), offsets.offset, where)
    attribute_count = cursor.count("attributes")
    left = attribute_count + cursor.count("types")
    starts, is_encoded, dialects = array("q", (0,)), bytearray(), array("q")
    while left:
        dialect = cursor.varint("a dialect")
        at = cursor.at
        count = cursor.count("attributes or types")
        if not 0 < count <= left:
            cursor.refuse(
                f"found {count} attributes or types of a dialect, expected 1 to {left}", at
            )
        for first in range(0, count, _RUN):
            run = _sizes(cursor, min(_RUN, count - first))
            _add_run(run, starts, is_encoded)
            if starts[-1] > limit:
                cursor.refuse(
                    f"attributes and types have {starts[-1]} bytes, their section has {limit}"
                )
        # Dialects are checked where they are used: their number is not known here.
        dialects.extend(array("q", (min(dialect, 1 << 62),)) * count)
        left -= count
    return EntrySizes(attribute_count, starts, bytes(is_encoded), dialects)


def _add_run(run: bytes | list[int], starts: array[int], is_encoded: bytearray) -> None:
    """Add entries of the sizes that `_sizes` returns."""
    if len(run) < FEW:
        ends = accumulate((number >> 1 for number in run), initial=starts[-1])
        starts.extend(islice(ends, 1, None))
        is_encoded += bytes(number & 1 for number in run)
        return
    # Fast path of the numbers one by one; equal by test test_few_operations_are_treated_as_many
    raw = np.frombuffer(run, np.uint8) if isinstance(run, bytes) else run
    numbers = np.array(raw, np.int64)
    starts.frombytes((starts[-1] + np.cumsum(numbers >> 1)).tobytes())
    is_encoded += (numbers & 1).astype(np.uint8).tobytes()


def _sizes(cursor: Cursor, count: int) -> bytes | list[int]:
    """Decode the next `count` sizes, which include the bit for the encoding."""
    short = bytes(cursor.data[cursor.at : min(cursor.at + count, cursor.end)])
    # Fast path of `varint`; equal by test test_short_and_long_sizes_of_entries_are_equal
    if len(short) == count and not short.translate(None, _ODD):
        cursor.at += count
        return short.translate(_HALVES)
    numbers = []
    for _ in range(count):
        number = cursor.varint("the size of an attribute or type")
        if number >> 62:
            cursor.refuse(f"an attribute or type has {number >> 1} bytes")
        numbers.append(number)
    return numbers


#: The bytes of numbers that take one byte, and the number of each byte.
_ODD: Final = bytes(range(1, 256, 2))
_HALVES: Final = bytes(byte >> 1 for byte in range(256))


_REQUIRED: Final = (code.STRINGS, code.DIALECTS, code.ATTRIBUTES_AND_TYPES, code.OFFSETS, code.IR)
#: Sections that every file may lack.
_OPTIONAL: Final = (code.RESOURCES, code.RESOURCE_OFFSETS, code.PROPERTIES)
#: Bytes in which a producer's name must end.
_PRODUCER_BYTES: Final = 4096


class BytecodeFile(NamedTuple):
    """A bytecode file. sections: by their ids. where: the file, for messages."""

    version: int
    producer: str
    sections: dict[int, Section]
    where: str = ""


def read_sections(data: memoryview, where: str = "") -> BytecodeFile:
    """Read version, producer and sections, in any order; refuse damage and unknown versions."""
    cursor = Cursor(data, len(code.MAGIC), len(data), 0, where)
    version = cursor.varint("the version")
    if version > code.NEWEST_VERSION:
        raise fail(
            "unsupported-version",
            f"{where}: byte {len(code.MAGIC)}" if where else f"byte {len(code.MAGIC)}",
            f"found version {version} of MLIR's bytecode; readable versions are "
            f"{code.OLDEST_VERSION} to {code.NEWEST_VERSION}",
            f"write the file with --emit-bytecode-version={code.NEWEST_VERSION}",
        )
    length = bytes(data[cursor.at : cursor.at + _PRODUCER_BYTES]).find(b"\0")
    if length < 0:
        cursor.refuse("the producer's name has no end")
    producer = bytes(data[cursor.at : cursor.at + length]).decode("utf-8", "replace")
    cursor.at += length + 1
    places: dict[int, tuple[int, int]] = {}
    while cursor.at < cursor.end:
        at = cursor.at
        section_id, start, end = cursor.section()
        if section_id in places:
            cursor.refuse(f"found a second section of {SECTION_NAMES[section_id]}", at)
        places[section_id] = start, end
    for section_id in _REQUIRED:
        if section_id not in places:
            cursor.refuse(f"the section of {SECTION_NAMES[section_id]} is missing")
    sections: dict[int, Section] = {
        section_id: Section(bytes(data[slice(*places[section_id])]), {}, places[section_id][0])
        for section_id in (*_REQUIRED, *_OPTIONAL)
        if section_id in places and section_id not in (code.ATTRIBUTES_AND_TYPES, code.RESOURCES)
    }
    dense = _dense_data(data, places, sections[code.OFFSETS], where)
    sections[code.ATTRIBUTES_AND_TYPES] = _without(data, places[code.ATTRIBUTES_AND_TYPES], dense)
    if code.RESOURCES in places:
        blobs = _blobs(data, places, sections.get(code.RESOURCE_OFFSETS, Section()), where)
        sections[code.RESOURCES] = _without(data, places[code.RESOURCES], blobs)
    return BytecodeFile(version, producer, sections, where)


def sections_in_pieces(pieces: Iterable[bytes | memoryview]) -> BytecodeFile:
    """Return the sections of a file that `Encoder.finish` wrote, without copying large data."""
    rows = iter(pieces)
    first = bytes(next(rows))
    version, start = decode_varint(first, len(code.MAGIC))
    sections: dict[int, Section] = {}
    for head in rows:
        if not head:
            continue
        section_id = head[0] & ~code.ALIGNED
        left, _ = decode_varint(bytes(head), 1)
        copies: list[bytes | memoryview] = []
        views: dict[int, memoryview] = {}
        length = 0
        while left:
            piece = next(rows)
            left -= len(piece)
            if isinstance(piece, memoryview) and len(piece) > COPIED_BYTES:
                views[length] = piece
            else:
                copies.append(piece)
                length += len(piece)
        sections[section_id] = Section(b"".join(copies), views)
    return BytecodeFile(version, first[start:-1].decode(), sections)


def _without(data: memoryview, place: tuple[int, int], left_out: list[tuple[int, int]]) -> Section:
    """Return the section at a place without the given ranges of the file, which become views."""
    pieces: list[bytes] = []
    views: dict[int, memoryview] = {}
    at, end = place
    length = 0
    for start, stop in left_out:
        pieces.append(bytes(data[at:start]))
        length += start - at
        views[length] = data[start:stop]
        at = stop
    pieces.append(bytes(data[at:end]))
    return Section(b"".join(pieces), views, place[0])


def _dense_data(
    data: memoryview, places: dict[int, tuple[int, int]], offsets: Section, where: str
) -> list[tuple[int, int]]:
    start, end = places[code.ATTRIBUTES_AND_TYPES]
    sizes = entry_sizes(offsets, end - start, where)
    found: list[tuple[int, int]] = []
    for index in sizes.longer(COPIED_BYTES):
        if not sizes.is_encoded[index]:
            continue
        at, stop = start + sizes.starts[index], start + sizes.starts[index + 1]
        cursor = Cursor(data, at, stop, 0, where)
        # Another dialect may use the same number for something else; it is then not read as data.
        if cursor.varint("the kind of an attribute") != code.DENSE_ELEMENTS:
            continue
        cursor.varint("the type of an attribute")
        size = cursor.varint("the size of an attribute's data")
        if size > COPIED_BYTES and cursor.at + size == stop:
            found.append((cursor.at, stop))
    return found


def _blobs(
    data: memoryview, places: dict[int, tuple[int, int]], offsets: Section, where: str
) -> list[tuple[int, int]]:
    at, end = places[code.RESOURCES]
    cursor = Cursor(offsets.bytes, 0, len(offsets.bytes), offsets.offset, where)
    found: list[tuple[int, int]] = []
    if not cursor.end:
        return found
    cursor.varint("the number of external resource groups")
    while cursor.at < cursor.end:
        cursor.varint("the owner of resources")
        for _ in range(cursor.count("resources")):
            cursor.varint("the name of a resource")
            size = cursor.varint("the size of a resource")
            kind = cursor.byte("the kind of a resource")
            if size > end - at:
                cursor.refuse(f"a resource has {size} bytes, but only {end - at} are left")
            if kind == code.BLOB and size > COPIED_BYTES:
                blob = Cursor(data, at, at + size, 0, where)
                blob.varint("the alignment of a resource")
                length = blob.varint("the length of a resource")
                if length > blob.end - blob.at:
                    blob.refuse(
                        f"a resource has {length} bytes, but only {blob.end - blob.at} are left"
                    )
                if length > COPIED_BYTES:
                    found.append((at + size - length, at + size))
            at += size
    return found


# -- the tables of a bytecode: strings, dialects, names of operations, entries and resources -------

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
    """Decode the dialects' resources, in the order of their indices."""
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
