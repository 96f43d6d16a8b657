"""Which bytes of a file are taken, in memory that grows with what is taken in small pieces."""

from __future__ import annotations

from typing import Final

#: Bytes of a page. A page that is taken as a whole needs no memory of its own.
PAGE: Final = 1 << 14


class Coverage:
    """The bytes of a file, each of which can be taken once.

    Example:
        >>> covered = Coverage(100)
        >>> covered.take(0, 10), covered.take(10, 20), covered.take(19, 21)
        (True, True, False)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        #: Number of a page -> its bytes, 1 where taken; None if all are.
        self._pages: dict[int, bytearray | None] = {}

    def take(self, start: int, end: int) -> bool:
        """Take the bytes if all are free; otherwise take none and return False."""
        pieces = self._pieces(start, end)
        for page, low, high in pieces:
            if page in self._pages:
                marks = self._pages[page]
                if marks is None or marks.find(1, low, high) >= 0:
                    return False
        for page, low, high in pieces:
            if high - low == PAGE:
                self._pages[page] = None
                continue
            marks = self._pages.get(page)
            if marks is None:
                marks = self._pages[page] = bytearray(PAGE)
            marks[low:high] = b"\1" * (high - low)
        return True

    def _pieces(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return the parts of a range that are in each page."""
        return [
            (page, max(0, start - page * PAGE), min(PAGE, end - page * PAGE))
            for page in range(start // PAGE, -(-end // PAGE))
        ]
