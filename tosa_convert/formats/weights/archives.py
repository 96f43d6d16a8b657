"""Arrays in one file: safetensors, archives of IREE, and GGUF, which is read only."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.weights import npy
from tosa_convert.formats.weights.folder import unique_keys
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.io.options import Limits, WeightForm

#: Kind -> bits of an element. Those that TOSA does not have are read to say what they are.
BITS: Final = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
_OWN_KINDS: Final = {
    "BOOL": "BOOL",
    "MXINT8": "I8",
    "INT48": "I64",
    "BF16": "BF16",
    "FP8E4M3": "F8_E4M3",
    "FP8E5M2": "F8_E5M2",
    "FP8UE8M0": "F8_E8M0",
    "FP6E2M3": "F6_E2M3",
    "FP6E3M2": "F6_E3M2",
    "FP4E2M1": "F4",
}


def _kind(row: DType) -> str:
    if row.is_native:
        return row.name.replace("FP", "F").replace("INT", "I")
    return "I8" if row.is_in_bytes else "U8"


#: Element type -> its kind. Integers that no kind is take the next larger one, other types their bits.
KINDS: Final = {row: _OWN_KINDS.get(row.name) or _kind(row) for row in DTYPES}
#: Most dimensions of an array that is read.
_MOST_DIMENSIONS: Final = 64


class Stored(NamedTuple):
    """An array of a file.

    kind: "" if the file does not say. shape: None if it does not say. offset, nbytes: its place in the
    file. splat: the bytes are one element, which is repeated. load: returns the bytes of the
    elements; they are those of the file, but for formats that mix them with scales.
    """

    kind: str
    shape: tuple[int, ...] | None
    offset: int
    nbytes: int
    load: Callable[[], memoryview]
    splat: bool = False


class Contents(NamedTuple):
    """The arrays of a file by their keys, and the manifest if `weights.write` wrote the file."""

    manifest: bytes | None
    arrays: Mapping[str, Stored]


class Item(NamedTuple):
    """A constant that is to be written under a key."""

    key: str
    shape: tuple[int, ...]
    constant: Constant


def damaged(where: str, offset: int, message: str) -> TosaConvertError:
    hint = "the file is damaged or cut off: write it again"
    return fail("malformed-weights", f"{where}: byte {offset}", message, hint)


def checked_shape(sizes: Any, where: str, offset: int) -> tuple[int, ...]:
    """Return sizes that a file gives as a shape; raise `damaged` if they are not one."""
    good = isinstance(sizes, list) and len(sizes) <= _MOST_DIMENSIONS
    if not good or any(type(size) is not int or not 0 <= size < 1 << 63 for size in sizes):
        raise damaged(where, offset, f"a shape is {str(sizes)[:80]}, expected a list of sizes")
    return tuple(sizes)


def parse_json(text: bytes, where: str, offset: int) -> Any:
    """Parse JSON in which no key occurs twice; raise `damaged` for anything else."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise damaged(where, offset, f"its header is not JSON: {reason}") from None


def is_packed(row: DType, count: int) -> bool:
    """Return whether elements of a type are packed in a safetensors file, which has whole bytes only."""
    return row.is_packed and not row.is_in_bytes and row.bits * count % 8 == 0


def stored_kind(row: DType, count: int) -> str:
    """Return the kind as which so many elements of a type are stored in a safetensors file."""
    return (
        "U8" if row.is_packed and not row.is_in_bytes and not is_packed(row, count) else KINDS[row]
    )


def stored_bytes(constant: Constant, *, packed: bool) -> int:
    return constant.nbytes if packed else npy.stored_bytes(constant.dtype, constant.count)


def stored_pieces(constant: Constant, *, packed: bool) -> Iterator[memoryview]:
    """Iterate over the bytes of the elements of a constant in a file."""
    return constant.chunks() if packed else npy.blocks(constant)


# -- a `.safetensors` file; the tests compare with the library `safetensors` -----------------------

_LENGTH: Final = struct.Struct("<Q")
_METADATA: Final = "__metadata__"
#: Key of our manifest among the metadata.
_SAFETENSORS_MANIFEST: Final = "tosa-convert"
_ALIGN: Final = 8


def safetensors_layout(items: Sequence[Item]) -> list[Item]:
    """Return the arrays in the order of the file: wide elements first, so that all are aligned."""

    def narrowness(item: Item) -> int:
        return -BITS[stored_kind(item.constant.dtype, item.constant.count)]

    return sorted(items, key=narrowness)


def safetensors_elements(item: Item) -> Iterator[memoryview]:
    return stored_pieces(item.constant, packed=is_packed(item.constant.dtype, item.constant.count))


def safetensors_pieces(items: Sequence[Item], manifest: bytes) -> Iterator[bytes | memoryview]:
    """Iterate over the content of a file with these arrays, in the order of `layout`."""
    header: dict[str, Any] = {_METADATA: {_SAFETENSORS_MANIFEST: manifest.decode()}}
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
        yield from safetensors_elements(item)


def read_safetensors(data: memoryview, where: str, limits: Limits) -> Contents:
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
    manifest = metadata.get(_SAFETENSORS_MANIFEST) if isinstance(metadata, dict) else None
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


# -- an `.irpa` file of IREE; the tests compare with `iree.runtime.ParameterIndex` -----------------
# It has neither types nor shapes. Elements are packed below 8 bits, and INT48 takes 8 bytes.

IRPA_MAGIC: Final = b"IRPA"
#: Magic, version, bytes of the header, next header, flags, number of entries; then offset and length of
#: the entries, of their keys, and of the elements.
_HEADER: Final = struct.Struct("<4sHHQQQQQQQQQQ")
#: Bytes of the entry, type, flags, offset and length of key and metadata, alignment.
_ENTRY: Final = struct.Struct("<QIQQQQQQ")
_SKIP, _SPLAT, _DATA = 0, 1, 2
#: Bytes of all elements, the pattern and the bytes of it.
_SPLAT_OF: Final = struct.Struct("<Q16sB")
_DATA_OF: Final = struct.Struct("<QQ")
_ENTRY_ALIGN: Final = 16
_DATA_ALIGN: Final = 64
#: Key of our manifest, an array of bytes that no program of IREE asks for.
_IRPA_MANIFEST: Final = "tosa-convert.manifest"


def irpa_elements(item: Item) -> Iterator[memoryview]:
    """Iterate over the bytes of an array in the file; those of one element if all are equal."""
    if _is_splat(item):
        return iter((item.constant.buffer,))
    return stored_pieces(item.constant, packed=item.constant.dtype.is_packed)


def _is_splat(item: Item) -> bool:
    # An element below 8 bits, or one of 48 that takes 64, is not a pattern of whole bytes.
    row = item.constant.dtype
    return item.constant.splat and item.constant.count > 0 and row.bits in (8, 16, 32, 64)


def irpa_pieces(items: Sequence[Item], manifest: bytes) -> Iterator[bytes | memoryview]:
    """Iterate over the content of an archive with these arrays."""
    keys, entries = bytearray(), bytearray()
    _add(keys, entries, _IRPA_MANIFEST, _DATA_OF.pack(0, len(manifest)), _DATA)
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
    head = _HEADER.pack(IRPA_MAGIC, 0, 0, _HEADER.size, 0, 0, 1 + len(items), *places)
    yield (head.ljust(first, b"\0") + entries + keys).ljust(data, b"\0")
    yield manifest
    before = len(manifest)
    for item in items:
        if _is_splat(item):
            continue
        yield bytes(-before % _DATA_ALIGN)
        yield from irpa_elements(item)
        before = stored_bytes(item.constant, packed=item.constant.dtype.is_packed)


def _add(keys: bytearray, entries: bytearray, key: str, storage: bytes, kind: int) -> None:
    name = key.encode()
    size = _ENTRY.size + len(storage)
    align = _DATA_ALIGN if kind == _DATA else 0
    entries += b"\0" * (-len(entries) % _ENTRY_ALIGN)
    entries += _ENTRY.pack(size, kind, 0, len(keys), len(name), 0, 0, align) + storage
    keys += name


def read_irpa(data: memoryview, where: str, limits: Limits) -> Contents:
    """Read the table of an archive. The arrays share its bytes."""
    if len(data) < _HEADER.size:
        raise damaged(where, 0, f"it has {len(data)} bytes, its header has {_HEADER.size}")
    magic, major, minor, _, following, _, count, *places = _HEADER.unpack_from(data)
    if magic != IRPA_MAGIC or major:
        found = f"{magic!r} of version {major}.{minor}"
        raise damaged(where, 0, f"it begins with {found}, expected {IRPA_MAGIC!r} of version 0")
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
    own = arrays.pop(_IRPA_MANIFEST, None)
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


# -- a `.gguf` file, which is only read; the tests compare with the library `gguf` -----------------
# Types are those that TOSA has, and MXFP4, whose blocks of 32 elements become block-scaled tensors.

GGUF_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
#: Number of a type of a tensor -> its kind.
_KINDS: Final = {
    0: "F32",
    1: "F16",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    30: "BF16",
}
_MXFP4: Final = 39
#: Elements and bytes of a block of MXFP4: its scale, and two elements in each other byte.
_BLOCK, _BLOCK_BYTES = 32, 17
#: Quantised types that people meet, for messages.
_QUANTISED: Final = {
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    20: "IQ4_NL",
    23: "IQ4_XS",
    40: "NVFP4",
}
#: Number of a type of a value -> its bytes; strings and arrays have a length of their own.
_VALUE_BYTES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY, _UINT32 = 8, 9, 4
_ALIGNMENT: Final = b"general.alignment"
_MOST_GGUF_DIMENSIONS: Final = 8


def read_gguf(data: memoryview, where: str, limits: Limits) -> Contents:
    """Read the table of a file. The arrays share its bytes, but for block-scaled ones."""
    return _Reader(data, where).contents()


class _Reader:
    """Reads a file from its start."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where, self.at = data, where, 0

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise damaged(self.where, self.at, "the file ends within its table")
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += size
        return int(value)

    def text(self) -> bytes:
        return bytes(self.skip(self.number("Q")))

    def skip(self, size: int) -> memoryview:
        if size > len(self.data) - self.at:
            message = f"{size} bytes lead out of the file, which has {len(self.data)}"
            raise damaged(self.where, self.at, message)
        self.at += size
        return self.data[self.at - size : self.at]

    def contents(self) -> Contents:
        magic, version = bytes(self.skip(min(4, len(self.data)))), self.number("I")
        if magic != GGUF_MAGIC or version not in _VERSIONS:
            message = (
                f"it begins with {magic!r} and version {version}, expected {GGUF_MAGIC!r} and "
            )
            raise damaged(self.where, 0, message + "version 2 or 3, little-endian")
        tensors, values = self.number("Q"), self.number("Q")
        alignment = 32
        for _ in range(values):
            key, kind = self.text(), self.number("I")
            if key == _ALIGNMENT and kind == _UINT32:
                alignment = self.number("I")
            else:
                self.value(kind)
        if not 0 < alignment <= 1 << 20:
            raise damaged(self.where, self.at, f"its alignment is {alignment}")
        rows = [self.tensor() for _ in range(tensors)]
        start = self.at + -self.at % alignment
        arrays: dict[str, Stored] = {}
        for name, shape, kind, offset, place in rows:
            self.add(arrays, name, shape, kind, start + offset, place)
        return Contents(None, arrays)

    def value(self, kind: int) -> None:
        if kind == _STRING:
            self.text()
        elif kind == _ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element in _VALUE_BYTES:
                self.skip(count * _VALUE_BYTES[element])
            elif element == _STRING:
                for _ in range(count):
                    self.text()
            else:
                raise damaged(self.where, self.at, f"an array of values of type {element}")
        elif kind in _VALUE_BYTES:
            self.skip(_VALUE_BYTES[kind])
        else:
            raise damaged(self.where, self.at, f"a value of type {kind}")

    def tensor(self) -> tuple[str, tuple[int, ...], int, int, int]:
        """Read a row of the table: name, shape, type, offset in bytes, and where the row is."""
        place = self.at
        try:
            key = self.text().decode()
        except UnicodeDecodeError:
            raise damaged(self.where, place, "a name is not UTF-8") from None
        rank = self.number("I")
        if rank > _MOST_GGUF_DIMENSIONS:
            raise damaged(self.where, place, f"{key[:80]!r} has {rank} dimensions")
        # The fastest dimension is first.
        shape = tuple(self.number("Q") for _ in range(rank))[::-1]
        return key, shape, self.number("I"), self.number("Q"), place

    def add(
        self,
        arrays: dict[str, Stored],
        key: str,
        shape: tuple[int, ...],
        kind: int,
        start: int,
        place: int,
    ) -> None:
        """Add a tensor to the arrays, and its scales if it is block-scaled."""
        count = math.prod(shape)
        if key in arrays:
            raise damaged(self.where, place, f"{key[:80]!r} occurs twice")
        if kind == _MXFP4:
            if not shape or shape[-1] % _BLOCK:
                raise damaged(self.where, place, f"{key[:80]!r} has no whole blocks: {shape}")
            size = count // _BLOCK * _BLOCK_BYTES
        elif kind in _KINDS:
            size = count * BITS[_KINDS[kind]] // 8
        else:
            # It may be one that the program does not have.
            name = _QUANTISED.get(kind, f"type {kind}")
            empty = memoryview(b"")
            arrays[key] = Stored(f"GGUF {name}", shape, start, 0, lambda: empty)
            return
        if start + size > len(self.data):
            message = f"{key[:80]!r} has {size} bytes at byte {start}, the file {len(self.data)}"
            raise damaged(self.where, place, message)
        view = self.data[start : start + size]
        if kind != _MXFP4:
            arrays[key] = Stored(_KINDS[kind], shape, start, size, lambda: view)
            return
        blocks = count // _BLOCK
        arrays[key] = Stored("F4", shape, start, count // 2, partial(_elements, view))
        arrays[f"{key}.scale"] = Stored("F8_E8M0", (blocks,), start, blocks, partial(_scales, view))


def _elements(blocks: memoryview) -> memoryview:
    """Return the elements of blocks in order: a block has its first half in the lower bits."""
    raw = np.frombuffer(blocks, np.uint8).reshape(-1, _BLOCK_BYTES)[:, 1:]
    halves = np.concatenate((raw & 15, raw >> 4), axis=1)
    return np.ascontiguousarray(halves[:, ::2] | halves[:, 1::2] << 4).reshape(-1).data


def _scales(blocks: memoryview) -> memoryview:
    return np.frombuffer(blocks, np.uint8).reshape(-1, _BLOCK_BYTES)[:, 0].copy().data


# -- the formats of weights in one file: how each is read, and how it is written -------------------

#: Form of weights -> what returns the arrays of a file: its bytes and its name for messages are given.
READERS: Final[dict[str, Callable[[memoryview, str, Limits], Contents]]] = {
    "safetensors": read_safetensors,
    "irpa": read_irpa,
    "gguf": read_gguf,
}


class Writer(NamedTuple):
    """Writes a format.

    layout: puts arrays in the order of the file. elements: the bytes of an array. pieces: the content of
    a file of these arrays and a manifest.
    """

    layout: Callable[[Sequence[Item]], list[Item]]
    elements: Callable[[Item], Iterator[memoryview]]
    pieces: Callable[[Sequence[Item], bytes], Iterator[bytes | memoryview]]


#: Form of weights -> how it is written.
WRITERS: Final[dict[WeightForm, Writer]] = {
    "safetensors": Writer(safetensors_layout, safetensors_elements, safetensors_pieces),
    "irpa": Writer(list, irpa_elements, irpa_pieces),
}
