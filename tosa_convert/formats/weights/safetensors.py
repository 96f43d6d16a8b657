"""A `.safetensors` file: the length of a header, the header as JSON, and the elements of all arrays.

The format is that of the library `safetensors`, whose reader and writer the tests compare with.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.formats.weights.archive import (
    BITS,
    Contents,
    Item,
    Stored,
    checked_shape,
    damaged,
    is_packed,
    parse_json,
    stored_bytes,
    stored_kind,
    stored_pieces,
)
from tosa_convert.io.options import Limits

_LENGTH: Final = struct.Struct("<Q")
_METADATA: Final = "__metadata__"
#: Key of our manifest among the metadata.
_MANIFEST: Final = "tosa-convert"
_ALIGN: Final = 8


def layout(items: Sequence[Item]) -> list[Item]:
    """Return the arrays in the order of the file: wide elements first, so that all are aligned."""

    def narrowness(item: Item) -> int:
        return -BITS[stored_kind(item.constant.dtype, item.constant.count)]

    return sorted(items, key=narrowness)


def elements(item: Item) -> Iterator[memoryview]:
    """Iterate over the bytes of an array in the file."""
    return stored_pieces(item.constant, packed=is_packed(item.constant.dtype, item.constant.count))


def pieces(items: Sequence[Item], manifest: bytes) -> Iterator[bytes | memoryview]:
    """Iterate over the content of a file with these arrays, in the order of `layout`."""
    header: dict[str, Any] = {_METADATA: {_MANIFEST: manifest.decode()}}
    end = 0
    for item in items:
        row, count = item.constant.dtype, item.constant.count
        start, end = end, end + stored_bytes(item.constant, packed=is_packed(row, count))
        header[item.key] = {
            "dtype": stored_kind(row, count),
            "shape": list(item.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % _ALIGN)
    yield _LENGTH.pack(len(text)) + text
    for item in items:
        yield from elements(item)


def read(data: memoryview, where: str, limits: Limits) -> Contents:
    """Read the header of a file. The arrays share its bytes."""
    if len(data) < _LENGTH.size:
        raise damaged(where, 0, f"it has {len(data)} bytes, its header begins with {_LENGTH.size}")
    (size,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + size
    if start > len(data):
        raise damaged(where, 0, f"its header has {size} bytes, the file {len(data)}")
    if size > limits.manifest_bytes:
        message = f"its header has {size} bytes, the limit is {limits.manifest_bytes}"
        hint = "to accept it, raise the limit: --limit manifest-bytes=N"
        raise fail("malformed-weights", f"{where}: byte 0", message, hint)
    header = parse_json(bytes(data[_LENGTH.size : start]), where, _LENGTH.size)
    if not isinstance(header, dict):
        raise damaged(where, _LENGTH.size, "its header is not an object of JSON")
    metadata = header.pop(_METADATA, None)
    manifest = metadata.get(_MANIFEST) if isinstance(metadata, dict) else None
    arrays = {key: _array(data, where, start, key, row) for key, row in header.items()}
    _refuse_gaps(arrays, where, start, len(data))
    return Contents(manifest.encode() if isinstance(manifest, str) else None, arrays)


def _array(data: memoryview, where: str, start: int, key: str, row: Any) -> Stored:
    where = f"{where}: {key[:80]!r}"
    at = _LENGTH.size
    if not isinstance(row, dict) or {*row} != {"dtype", "shape", "data_offsets"}:
        raise damaged(where, at, "its entry does not have dtype, shape and data_offsets alone")
    kind, shape, offsets = row["dtype"], checked_shape(row["shape"], where, at), row["data_offsets"]
    if not isinstance(kind, str) or kind not in BITS:
        raise damaged(where, at, f"its dtype is {str(kind)[:40]!r}, expected " + ", ".join(BITS))
    left = len(data) - start
    is_pair = isinstance(offsets, list) and [type(place) for place in offsets] == [int, int]
    if not is_pair or not 0 <= offsets[0] <= offsets[1] <= left:
        message = f"its data_offsets are {str(offsets)[:80]}, after the header are {left} bytes"
        raise damaged(where, at, message)
    begin, end = offsets
    bits = math.prod(shape) * BITS[kind]
    if bits != 8 * (end - begin):
        message = f"it has {end - begin} bytes, {kind} of shape {list(shape)} needs {bits / 8:g}"
        raise damaged(where, start + begin, message)
    view = data[start + begin : start + end]
    return Stored(kind, shape, start + begin, end - begin, lambda: view)


def _refuse_gaps(arrays: dict[str, Stored], where: str, start: int, end: int) -> None:
    """Refuse arrays that share bytes and bytes of no array, as the library does."""
    at = start
    for key, row in sorted(arrays.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if row.offset != at:
            raise damaged(where, at, f"the array {key[:80]!r} begins at byte {row.offset} instead")
        at += row.nbytes
    if at != end:
        raise damaged(where, at, f"{end - at} bytes belong to no array")
