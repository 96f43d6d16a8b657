"""Where the attributes and types of a bytecode begin, and how they are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tosa_convert.formats.mlir.bytecode.cursor import Cursor
from tosa_convert.formats.mlir.bytecode.sections import Section

if TYPE_CHECKING:
    import numpy.typing as npt

#: Sizes that are decoded together.
_RUN = 1 << 16


class EntrySizes(NamedTuple):
    """The entries of a bytecode, attributes before types.

    attribute_count: how many are attributes. lengths: bytes of each entry in the file.
    starts: offsets of each in the section as the file has it, and the end of the last.
    is_encoded: whether the dialect encodes it; otherwise it is text. dialects: their numbers.
    """

    attribute_count: int
    lengths: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    is_encoded: npt.NDArray[np.bool_]
    dialects: npt.NDArray[np.int64]


def entry_sizes(offsets: Section, limit: int, where: str = "") -> EntrySizes:
    """Decode the section of offsets.

    limit: bytes of the section of attributes and types; all entries together fit into it.

    Raises TosaConvertError("malformed-mlir").
    """
    cursor = Cursor(offsets.bytes, 0, len(offsets.bytes), offsets.offset, where)
    attribute_count = cursor.count("attributes")
    left = attribute_count + cursor.count("types")
    runs: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    dialects: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    total = 0
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
            total += int((run >> 1).sum())
            if total > limit:
                cursor.refuse(f"attributes and types have {total} bytes, their section has {limit}")
            runs.append(run)
        # Dialects are checked where they are used: their number is not known here.
        dialects.append(np.full(count, min(dialect, 1 << 62), np.int64))
        left -= count
    sizes = np.concatenate(runs)
    lengths = sizes >> 1
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return EntrySizes(
        attribute_count, lengths, starts, (sizes & 1).astype(np.bool_), np.concatenate(dialects)
    )


def _sizes(cursor: Cursor, count: int) -> npt.NDArray[np.int64]:
    """Decode the next `count` sizes, which include the bit for the encoding."""
    short: npt.NDArray[Any] = np.frombuffer(
        cursor.data, np.uint8, min(count, cursor.end - cursor.at), cursor.at
    )
    # Fast path of `varint`; equal by test test_short_and_long_sizes_of_entries_are_equal
    if len(short) == count and (short & 1).all():
        cursor.at += count
        return (short >> 1).astype(np.int64)
    numbers = []
    for _ in range(count):
        number = cursor.varint("the size of an attribute or type")
        if number >> 62:
            cursor.refuse(f"an attribute or type has {number >> 1} bytes")
        numbers.append(number)
    return np.array(numbers, np.int64)
