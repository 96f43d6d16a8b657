"""Damaged archives of weights: each error has the offset and says what is wrong."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from refusing import refused

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.weights import archives
from tosa_convert.formats.weights.archives import Contents
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

# -- safetensors ------------------------------------------------------------------------------------


def read_safetensors(
    header: Any, body: bytes = bytes(8), limits: Limits = DEFAULT_LIMITS
) -> Contents:
    """Read a file with this header, as JSON or as bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return archives.read_safetensors(
        memoryview(struct.pack("<Q", len(text)) + text + body), "w", limits
    )


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (entry(data_offsets=7), "its data_offsets are 7, after the header are 8 bytes"),
        (entry(data_offsets=None), "its data_offsets are None, after the header are 8 bytes"),
        (entry(data_offsets=[0, "x"]), "its data_offsets are [0, 'x'], after the header"),
        (entry(data_offsets=[0, 4, 8]), "its data_offsets are [0, 4, 8], after the header"),
        (entry(data_offsets=[False, 8]), "its data_offsets are [False, 8], after the header"),
        (entry(data_offsets=[8, 0]), "its data_offsets are [8, 0], after the header are 8 bytes"),
        (entry(data_offsets=[0, 9]), "its data_offsets are [0, 9], after the header are 8 bytes"),
        (entry(shape=7), "a shape is 7, expected a list of sizes"),
        (entry(shape=[-1]), "a shape is [-1], expected a list of sizes"),
        (entry(shape=[True]), "a shape is [True], expected a list of sizes"),
        (entry(shape=[3]), "it has 8 bytes, F32 of shape [3] needs 12"),
        (entry(dtype=7), "its dtype is '7', expected F4"),
        ({"a": 7}, "its entry does not have dtype, shape and data_offsets alone"),
        ({**entry(), "b": entry()["a"]}, "the array 'b' begins at byte 130 instead"),
        (entry(shape=[1], data_offsets=[0, 4]), "4 bytes belong to no array"),
        ([], "its header is not an object of JSON"),
        (b'{"a": 1, "a": 2}', "duplicate key"),
    ],
)
def test_a_damaged_header_of_safetensors_is_refused(header: Any, message: str) -> None:
    with refused("malformed-weights", message):
        read_safetensors(header)


def test_a_file_of_safetensors_that_is_cut_off_is_refused() -> None:
    for data, message in (
        (b"abc", "it has 3 bytes"),
        (struct.pack("<Q", 99), "has 99 bytes, the fil"),
    ):
        with pytest.raises(TosaConvertError, match=message):
            archives.read_safetensors(memoryview(data), "w", DEFAULT_LIMITS)


def test_a_long_header_of_safetensors_needs_a_higher_limit() -> None:
    with pytest.raises(TosaConvertError, match="the limit is 20") as caught:
        read_safetensors(entry(), limits=Limits(manifest_bytes=20))
    assert "--limit manifest-bytes=N" in caught.value.findings[0].hint
    assert list(read_safetensors({"__metadata__": 7, **entry()}).arrays) == ["a"]


# -- GGUF -------------------------------------------------------------------------------------------


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def value(kind: int, rest: bytes, key: bytes = b"k") -> bytes:
    return text(key) + struct.pack("<I", kind) + rest


def row(name: bytes = b"a", sizes: tuple[int, ...] = (2,), kind: int = 0) -> bytes:
    """Return a row of the table, of a tensor at the beginning of the elements."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, 0)


def file(*parts: bytes, rows: int = 0, version: int = 3, elements: int = 100) -> bytes:
    """Return a file whose last parts are rows of its table; the others are values."""
    head = b"GGUF" + struct.pack("<IQQ", version, rows, len(parts) - rows)
    return head + b"".join(parts) + bytes(elements)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GG", "byte 2: error: the file ends within its table"),
        (b"GGUX" + bytes(20), "byte 0: error: it begins with b'GGUX' and version 0"),
        (file(version=9), "version 9, expected b'GGUF' and version 2 or 3, little-endian"),
        (file(value(4, struct.pack("<I", 0), b"general.alignment")), "its alignment is 0"),
        (file(value(99, b"")), "a value of type 99"),
        (file(value(9, struct.pack("<IQ", 99, 1))), "an array of values of type 99"),
        (file(value(9, struct.pack("<IQ", 12, 2**61))), f"{2**64} bytes lead out of the file"),
        (file(row(b"\xff"), rows=1), "byte 24: error: a name is not UTF-8"),
        (file(row(sizes=(1,) * 9), rows=1), "'a' has 9 dimensions"),
        (file(row(), row(), rows=2), "byte 57: error: 'a' occurs twice"),
        (file(row(sizes=(31,), kind=39), rows=1), "'a' has no whole blocks: (31,)"),
        (file(row(sizes=(), kind=39), rows=1), "'a' has no whole blocks: ()"),
        (file(row(sizes=(99,)), rows=1), "'a' has 396 bytes at byte 64, the file 157"),
    ],
)
def test_a_damaged_gguf_file_is_refused(data: bytes, message: str) -> None:
    with refused("malformed-weights", message):
        archives.read_gguf(memoryview(data), "w", DEFAULT_LIMITS)


def test_values_of_a_gguf_file_are_skipped() -> None:
    values = (
        value(4, struct.pack("<I", 64), b"general.alignment"),
        value(9, struct.pack("<IQ", 8, 2) + text(b"x") + text(b"yy")),
        value(9, struct.pack("<IQ", 0, 3) + b"abc"),
        value(0, b"a"),
        value(8, text(b"abc")),
    )
    data = bytearray(file(*values, row(), row(b"q", kind=8), rows=2, elements=200))
    start = -(-(len(data) - 200) // 64) * 64
    data[start : start + 8] = struct.pack("<2f", 1.5, -2)
    found = archives.read_gguf(memoryview(data), "w", DEFAULT_LIMITS).arrays
    assert struct.unpack("<2f", found["a"].load()) == (1.5, -2)
    assert (found["q"].kind, found["q"].shape) == ("GGUF Q8_0", (2,))


# -- archives of IREE ---------------------------------------------------------------------------------


def archive(
    *entries: bytes,
    keys: bytes = b"a",
    storage: bytes = bytes(8),
    count: int | None = None,
    magic: bytes = b"IRPA",
    version: int = 0,
    following: int = 0,
) -> bytes:
    """Return an archive; each entry is padded to 16 bytes."""
    table = b"".join(one + bytes(-len(one) % 16) for one in entries)
    first = 128
    places = (
        first,
        len(table),
        first + len(table),
        len(keys),
        first + len(table) + len(keys),
        len(storage),
    )
    numbers = len(entries) if count is None else count
    head = struct.pack("<4sHHQQQQ6Q", magic, version, 0, first, following, 0, numbers, *places)
    return head.ljust(first, b"\0") + table + keys + storage


def of_kind(
    kind: int, rest: bytes = b"", *, size: int = -1, key: tuple[int, int] = (0, 1)
) -> bytes:
    length = 60 + len(rest) if size < 0 else size
    return struct.pack("<QIQQQQQQ", length, kind, 0, *key, 0, 0, 0) + rest


DATA, SPLAT = struct.pack("<QQ", 0, 8), struct.pack("<Q16sB", 8, b"\1\2" + bytes(14), 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"IRPA", "it has 4 bytes, its header has"),
        (archive(magic=b"IRPB"), "it begins with b'IRPB' of version 0.0"),
        (archive(version=1), "it begins with b'IRPA' of version 1.0"),
        (archive(following=5), "it is several archives in one file"),
        (archive(count=3), "it lists 3 entries in 0 bytes"),
        (archive(of_kind(2, DATA))[:-1], "its elements are 8 bytes at byte"),
        (archive(of_kind(2, DATA, size=99)), "an entry of type 2 has 99 bytes, expected 76"),
        (archive(of_kind(7)), "an entry has type 7, expected data or a splat"),
        (archive(of_kind(2, DATA), keys=b"\xff"), "a key is not UTF-8"),
        (
            archive(of_kind(2, DATA, key=(0, 2))),
            "the key 'a' leads out of the file or occurs twice",
        ),
        (
            archive(of_kind(2, DATA), of_kind(2, DATA)),
            "the key 'a' leads out of the file or occurs tw",
        ),
        (archive(of_kind(2, DATA), storage=b""), "the array 'a' leads out of the file"),
        (archive(of_kind(1, SPLAT[:-1] + b"\x00")), "the pattern of 'a' has 0 bytes"),
        (archive(of_kind(1, SPLAT[:-1] + b"\x11")), "the pattern of 'a' has 17 bytes"),
    ],
)
def test_a_damaged_archive_of_iree_is_refused(data: bytes, message: str) -> None:
    with refused("malformed-weights", message):
        archives.read_irpa(memoryview(data), "w", DEFAULT_LIMITS)


def test_entries_that_say_nothing_are_skipped() -> None:
    data = archive(of_kind(0), of_kind(1, SPLAT), of_kind(2, DATA, key=(1, 1)), keys=b"ab")
    found = archives.read_irpa(memoryview(data), "w", DEFAULT_LIMITS).arrays
    assert {key: (bytes(row.load()), row.splat) for key, row in found.items()} == {
        "a": (b"\1\2", True),
        "b": (bytes(8), False),
    }
