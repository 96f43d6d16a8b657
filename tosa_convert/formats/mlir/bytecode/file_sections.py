"""The sections of a bytecode file, which may be hostile.

Each section lies inside the file, which is proven here. The data of large constants is left out of the
sections and becomes views of the file, so that sections stay small, whatever the weights.

The format: https://mlir.llvm.org/docs/BytecodeFormat
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.cursor import SECTION_NAMES, Cursor
from tosa_convert.formats.mlir.bytecode.entries import entry_sizes
from tosa_convert.formats.mlir.bytecode.sections import COPIED_BYTES, Section
from tosa_convert.formats.mlir.bytecode.varint import decode_varint

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
    """Read the version, producer and sections of a file; the order of sections does not matter.

    Raises TosaConvertError("malformed-mlir") with a byte offset, and ("unsupported-version") for a
    version of the format that is not known.
    """
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
    """Return the sections of a file that was just written, whose large data is not copied.

    pieces: what `Encoder.finish` returns. A piece never holds parts of two sections.
    """
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
    """Find where the file has the data of large dense attributes."""
    start, end = places[code.ATTRIBUTES_AND_TYPES]
    sizes = entry_sizes(offsets, end - start, where)
    found: list[tuple[int, int]] = []
    for index in (sizes.lengths > COPIED_BYTES).nonzero()[0].tolist():
        if not sizes.is_encoded[index]:
            continue
        at, stop = start + int(sizes.starts[index]), start + int(sizes.starts[index + 1])
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
    """Find where the file has the data of large resources."""
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
