"""A `.gguf` file: values by name, a table of tensors, and their elements. It is read, and not written.

The layout was determined from files that the library `gguf` writes, and the tests compare with it. Read
are the types that TOSA has, and MXFP4, whose blocks of 32 elements become block-scaled tensors.
"""

from __future__ import annotations

import math
import struct
from functools import partial
from typing import Final

from tosa_convert.formats.weights.archive import BITS, Contents, Stored, damaged
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.io.options import Limits

MAGIC: Final = b"GGUF"
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
_MOST_DIMENSIONS: Final = 8


def read(data: memoryview, where: str, limits: Limits) -> Contents:
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
        if magic != MAGIC or version not in _VERSIONS:
            message = f"it begins with {magic!r} and version {version}, expected {MAGIC!r} and "
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
        """Skip a value."""
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
        if rank > _MOST_DIMENSIONS:
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
