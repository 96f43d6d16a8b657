"""The sections of a bytecode, collected piece by piece without copying large data.

A producer of bytecode hands it over in pieces. Its own bytes and the data of constants alternate, so a
large constant is a piece by itself, and the collector keeps a view of it instead of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tosa_convert.formats.mlir.bytecode.format import (
    ALIGNED,
    ATTRIBUTES_AND_TYPES,
    FILLER,
    MAGIC,
    RESOURCES,
)
from tosa_convert.formats.mlir.bytecode.varint import decode_varint, encode_varint

#: Pieces of at most this many bytes are copied, whatever they hold.
COPIED_BYTES: Final = 1 << 12
#: Sections in which data lies between what the producer writes itself.
_WITH_DATA: Final = frozenset({ATTRIBUTES_AND_TYPES, RESOURCES})


@dataclass(slots=True, eq=False, repr=False)
class Section:
    """A section's bytes without the data that is larger than COPIED_BYTES.

    data: the views that are left out, each by its offset in `bytes`. offset: where the file has it.
    """

    bytes: bytes = b""
    data: dict[int, memoryview] = field(default_factory=dict)
    offset: int = 0


class SectionCollector:
    """Sorts the pieces of one bytecode into sections as they arrive."""

    def __init__(self) -> None:
        #: Complete sections by their ids.
        self.sections: dict[int, Section] = {}
        self._section_id = -1
        #: Bytes of the current section that have not arrived yet.
        self._left = 0
        self._copies: list[bytes] = []
        self._length = 0
        self._data: dict[int, memoryview] = {}
        self._after_own_bytes = False
        self._started = False

    def add(self, size: int, copy: Callable[[], bytes], view: Callable[[], memoryview]) -> None:
        """Take one piece: its size in bytes, and two ways to get it."""
        if not size:
            return
        if not self._left:
            self._header(copy())
            return
        self._left -= size
        # The producer's own bytes and data alternate, and the size of data precedes it.
        is_data = self._after_own_bytes and self._section_id in _WITH_DATA
        if is_data and size > COPIED_BYTES and self._is_announced(size):
            self._data[self._length] = view()
        else:
            is_data = is_data and size <= COPIED_BYTES
            self._copies.append(copy())
            self._length += size
        self._after_own_bytes = not is_data
        if not self._left:
            self.sections[self._section_id] = Section(b"".join(self._copies), self._data)

    def _is_announced(self, size: int) -> bool:
        """Return whether the bytes before this piece end with its size, as they do before data."""
        tail = self._copies[-1]
        expected = encode_varint(size)
        return tail.endswith(expected) or tail.rstrip(bytes([FILLER])).endswith(expected)

    def _header(self, piece: bytes) -> None:
        offset = 0
        if not self._started:
            self._started = True
            _, offset = decode_varint(piece, len(MAGIC))
            offset = piece.index(b"\0", offset) + 1
        while offset < len(piece) and not self._left:
            self._section_id = piece[offset] & ~ALIGNED
            is_aligned = piece[offset] & ALIGNED
            self._left, offset = decode_varint(piece, offset + 1)
            if is_aligned:
                # Only the filler up to the alignment follows.
                offset = len(piece)
        self._copies, self._length, self._data, self._after_own_bytes = [], 0, {}, False
