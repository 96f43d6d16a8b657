"""The tables of a bytecode: strings, dialects, names of operations, and where its entries begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.operations import Operation, decode_operations
from tosa_convert.mlir.bytecode.sections import Section
from tosa_convert.mlir.bytecode.varint import decode_varint


class Tables:
    """The tables of one bytecode, and its only operation with everything inside it.

    An entry is an attribute or a type; entries of attributes come before those of types.

    strings: all strings of the bytecode. names: the full names of operations.
    bytes, data: the section of attributes and types; see `Section`.
    starts: the offset in `bytes` at which each entry begins, and the end of the last one.
    is_encoded: whether the entry is in its dialect's encoding; otherwise it is text.
    dialect_of: the number of each entry's dialect.
    """

    def __init__(self, sections: Mapping[int, Section]) -> None:
        self.sections = sections
        self.strings = _strings(sections[code.STRINGS].bytes)
        self.dialects: list[str] = []
        self.names: list[str] = []
        self._dialects_and_names(sections[code.DIALECTS].bytes)
        entries = sections[code.ATTRIBUTES_AND_TYPES]
        self.bytes, self.data = entries.bytes, entries.data
        self.starts: list[int] = []
        self.is_encoded: list[bool] = []
        self.dialect_of: list[int] = []
        self.attribute_count = 0
        self._offsets(sections[code.OFFSETS].bytes)
        self.root = Operation(*decode_operations(sections[code.IR].bytes))

    def _dialects_and_names(self, data: bytes) -> None:
        count, offset = decode_varint(data, 0)
        for _ in range(count):
            index, offset = decode_varint(data, offset)
            if index & 1:
                # The dialect's version: a section inside this one.
                size, offset = decode_varint(data, offset + 1)
                offset += size
            self.dialects.append(self.strings[index >> 1].decode("utf-8", "replace"))
        while offset < len(data):
            dialect, offset = decode_varint(data, offset)
            count, offset = decode_varint(data, offset)
            for _ in range(count):
                index, offset = decode_varint(data, offset)
                stem = self.strings[index].decode("utf-8", "replace")
                self.names.append(f"{self.dialects[dialect]}.{stem}")

    def _offsets(self, data: bytes) -> None:
        self.attribute_count, offset = decode_varint(data, 0)
        type_count, offset = decode_varint(data, offset)
        sizes: list[np.ndarray[Any, Any]] = [np.zeros(0, np.int64)]
        left = self.attribute_count + type_count
        while left:
            dialect, offset = decode_varint(data, offset)
            count, offset = decode_varint(data, offset)
            short = np.frombuffer(data, np.uint8, count, offset)
            if (short & 1).all():
                sizes.append((short >> 1).astype(np.int64))
                offset += count
            else:
                numbers = []
                for _ in range(count):
                    number, offset = decode_varint(data, offset)
                    numbers.append(number)
                sizes.append(np.array(numbers, np.int64))
            self.dialect_of += [dialect] * count
            left -= count
        # The lowest bit tells whether the dialect encodes the entry.
        all_sizes = np.concatenate(sizes)
        self.is_encoded = (all_sizes & 1).astype(bool).tolist()
        starts = np.zeros(len(all_sizes) + 1, np.int64)
        np.cumsum(all_sizes >> 1, out=starts[1:])
        if self.data:
            # Entries after data that was left out begin that much earlier in `bytes`.
            places = np.array(sorted(self.data), np.int64)
            removed = np.cumsum([0, *(len(self.data[place]) for place in places.tolist())])
            starts -= removed[np.searchsorted(places + removed[1:], starts, side="right")]
        self.starts = starts.tolist()


def _strings(data: bytes) -> list[bytes]:
    count, offset = decode_varint(data, 0)
    lengths = []
    for _ in range(count):
        length, offset = decode_varint(data, offset)
        lengths.append(length)
    strings = []
    # Lengths are in reverse order.
    for length in reversed(lengths):
        strings.append(data[offset : offset + length - 1])
        offset += length
    return strings
