"""An `.irpa` file of IREE: a header, a table of entries, their keys, and the elements of all arrays.

The layout was determined from archives that `iree.runtime.ParameterIndex` writes, and the tests compare
with it. An archive has bytes, and neither types nor shapes: the program knows them. Elements are laid
out as IREE lays out tensors: below 8 bits packed, and INT48 in 8 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.formats.weights.archive import (
    Contents,
    Item,
    Stored,
    damaged,
    stored_bytes,
    stored_pieces,
)
from tosa_convert.io.options import Limits

MAGIC: Final = b"IRPA"
#: Magic, version, bytes of the header, next header, flags, number of entries; then offset and length of
#: the entries, of their keys, and of the elements.
_HEADER: Final = struct.Struct("<4sHHQQQQQQQQQQ")
#: Bytes of the entry, type, flags, offset and length of key and metadata, alignment.
_ENTRY: Final = struct.Struct("<QIQQQQQQ")
_SKIP, _SPLAT, _DATA = 0, 1, 2
#: Bytes of all elements, the pattern and the bytes of it.
_SPLAT_OF: Final = struct.Struct("<Q16sB")
#: Offset and length of the elements.
_DATA_OF: Final = struct.Struct("<QQ")
_ENTRY_ALIGN: Final = 16
_DATA_ALIGN: Final = 64
#: Key of our manifest, an array of bytes that no program of IREE asks for.
_MANIFEST: Final = "tosa-convert.manifest"


def layout(items: Sequence[Item]) -> list[Item]:
    """Return the arrays in the order of the file."""
    return list(items)


def elements(item: Item) -> Iterator[memoryview]:
    """Iterate over the bytes of an array in the file; those of one element if all are equal."""
    if _is_splat(item):
        return iter((item.constant.buffer,))
    return stored_pieces(item.constant, packed=item.constant.dtype.is_packed)


def _is_splat(item: Item) -> bool:
    # An element below 8 bits, or one of 48 that takes 64, is not a pattern of whole bytes.
    row = item.constant.dtype
    return item.constant.splat and item.constant.count > 0 and row.bits in (8, 16, 32, 64)


def pieces(items: Sequence[Item], manifest: bytes) -> Iterator[bytes | memoryview]:
    """Iterate over the content of an archive with these arrays."""
    keys, entries = bytearray(), bytearray()
    _add(keys, entries, _MANIFEST, _DATA_OF.pack(0, len(manifest)), _DATA)
    end = len(manifest)
    for item in items:
        size = stored_bytes(item.constant, packed=item.constant.dtype.is_packed)
        if _is_splat(item):
            element = bytes(item.constant.buffer)
            _add(keys, entries, item.key, _SPLAT_OF.pack(size, element, len(element)), _SPLAT)
            continue
        start = end + -end % _DATA_ALIGN
        _add(keys, entries, item.key, _DATA_OF.pack(start, size), _DATA)
        end = start + size
    first = _HEADER.size + -_HEADER.size % _ENTRY_ALIGN
    names = first + len(entries)
    data = names + len(keys) + -(names + len(keys)) % _DATA_ALIGN
    places = first, len(entries), names, len(keys), data, end
    head = _HEADER.pack(MAGIC, 0, 0, _HEADER.size, 0, 0, 1 + len(items), *places)
    yield (head.ljust(first, b"\0") + entries + keys).ljust(data, b"\0")
    yield manifest
    before = len(manifest)
    for item in items:
        if _is_splat(item):
            continue
        yield bytes(-before % _DATA_ALIGN)
        yield from elements(item)
        before = stored_bytes(item.constant, packed=item.constant.dtype.is_packed)


def _add(keys: bytearray, entries: bytearray, key: str, storage: bytes, kind: int) -> None:
    name = key.encode()
    size = _ENTRY.size + len(storage)
    align = _DATA_ALIGN if kind == _DATA else 0
    entries += b"\0" * (-len(entries) % _ENTRY_ALIGN)
    entries += _ENTRY.pack(size, kind, 0, len(keys), len(name), 0, 0, align) + storage
    keys += name


def read(data: memoryview, where: str, limits: Limits) -> Contents:
    """Read the table of an archive. The arrays share its bytes."""
    if len(data) < _HEADER.size:
        raise damaged(where, 0, f"it has {len(data)} bytes, its header has {_HEADER.size}")
    magic, major, minor, _, following, _, count, *places = _HEADER.unpack_from(data)
    if magic != MAGIC or major:
        found = f"{magic!r} of version {major}.{minor}"
        raise damaged(where, 0, f"it begins with {found}, expected {MAGIC!r} of version 0")
    if following:
        message = "it is several archives in one file"
        hint = "make one of them: iree-convert-parameters --parameters=FILE --output=ONE.irpa"
        raise fail("malformed-weights", f"{where}: byte 16", message, hint)
    segments = []
    for number, name in enumerate(("entries", "keys", "elements")):
        start, size = places[2 * number : 2 * number + 2]
        if start + size > len(data):
            message = f"its {name} are {size} bytes at byte {start}, the file has {len(data)}"
            raise damaged(where, 40 + 16 * number, message)
        segments.append(data[start : start + size])
    if count * _ENTRY.size > len(segments[0]):
        raise damaged(where, 32, f"it lists {count} entries in {len(segments[0])} bytes")
    arrays: dict[str, Stored] = {}
    at = 0
    for _ in range(count):
        at += -at % _ENTRY_ALIGN
        at = _read_entry(arrays, segments, places, at, where)
    own = arrays.pop(_MANIFEST, None)
    if own is None or own.nbytes > limits.manifest_bytes:
        return Contents(None, arrays)
    return Contents(bytes(own.load()), arrays)


def _read_entry(
    arrays: dict[str, Stored], segments: list[memoryview], places: list[int], at: int, where: str
) -> int:
    """Read the entry at an offset in the table into `arrays`; return where it ends."""
    table, keys, storage = segments
    place = places[0] + at
    if at + _ENTRY.size > len(table):
        raise damaged(where, place, "an entry leads out of the table")
    size, kind, _, start, length, *_ = _ENTRY.unpack_from(table, at)
    form = {_SPLAT: _SPLAT_OF, _DATA: _DATA_OF}.get(kind)
    needed = _ENTRY.size + (form.size if form else 0)
    if not needed <= size <= len(table) - at:
        raise damaged(where, place, f"an entry of type {kind} has {size} bytes, expected {needed}")
    if kind == _SKIP:
        return int(at + size)
    if form is None:
        raise damaged(where, place + 8, f"an entry has type {kind}, expected data or a splat")
    try:
        key = bytes(keys[start : start + length]).decode()
    except UnicodeDecodeError:
        raise damaged(where, place, "a key is not UTF-8") from None
    if start + length > len(keys) or key in arrays:
        raise damaged(where, place, f"the key {key[:80]!r} leads out of the file or occurs twice")
    fields = form.unpack_from(table, at + _ENTRY.size)
    if kind == _SPLAT:
        count, pattern, width = fields
        if not 0 < width <= len(pattern):
            raise damaged(where, place, f"the pattern of {key[:80]!r} has {width} bytes")
        element = memoryview(pattern[:width])
        arrays[key] = Stored("", None, place, count, lambda: element, splat=True)
    else:
        offset, count = fields
        if offset + count > len(storage):
            raise damaged(where, place, f"the array {key[:80]!r} leads out of the file")
        view = storage[offset : offset + count]
        arrays[key] = Stored("", None, places[4] + offset, count, lambda: view)
    return int(at + size)
