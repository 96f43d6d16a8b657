"""A flatbuffer that is laid out but not written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.constant import Constant

#: Alignment of constants' data in the file, in bytes; the schema asks for 8.
DATA_ALIGN: Final = 16
#: Alignment of data after the flatbuffer, in bytes; existing readers were tested with it.
TAIL_ALIGN: Final = 8

_U32: Final = struct.Struct("<I")
_ZEROS: Final = memoryview(bytes(2 * DATA_ALIGN))
_GAPS: Final = [bytes(size) for size in range(DATA_ALIGN)]


class Plan:
    """A file's tables, and the position of each constant's data.

    size: bytes of the whole file. out_of_line: the data lies after the flatbuffer.
    """

    __slots__ = ("data", "head", "out_of_line", "size")

    def __init__(
        self, head: bytearray, data: list[tuple[int, Constant]], size: int, out_of_line: bool
    ) -> None:
        self.head = head
        self.data = data
        self.size = size
        self.out_of_line = out_of_line

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """Iterate over the file's bytes in order; constants come as views of their own buffers."""
        yield self.head
        position = len(self.head)
        for start, constant in self.data:
            size = constant.nbytes + constant.padding
            if self.out_of_line:
                yield _ZEROS[: start - position]
            else:
                yield _GAPS[start - 4 - position] + _U32.pack(size)
            if constant.is_view:
                yield constant.buffer
            else:
                yield from constant.chunks()
            if constant.padding:
                yield _ZEROS[: constant.padding]
            position = start + size
