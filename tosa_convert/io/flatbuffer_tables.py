"""Tables of a flatbuffer of any schema, read field by field; every offset is checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

#: A table of the schemas that are read has fewer fields.
_MOST_FIELDS: Final = 64
#: Bytes of names and lists that any file may describe, and how many more for each of its bytes.
_FREE_BYTES: Final = 1 << 16
_BYTES_PER_BYTE: Final = 16


class FlatbufferError(ValueError):
    """An offset leads out of the buffer, or the buffer describes more than it could hold."""


def root_table(data: bytes | bytearray | memoryview) -> Table:
    view = memoryview(data)
    (start,) = _unpacked("<I", view, 0)
    return Table(view, start, _Budget(_FREE_BYTES + _BYTES_PER_BYTE * len(view)))


class Table:
    """A table of a flatbuffer; its fields go by their position in the schema."""

    __slots__ = ("_budget", "_data", "_fields", "_offset")

    def __init__(self, data: memoryview, offset: int, budget: _Budget) -> None:
        self._data, self._offset, self._budget = data, offset, budget
        (back,) = _unpacked("<i", data, offset)
        start = offset - back
        if start < 0:
            raise FlatbufferError(f"a table at {offset} has no fields")
        (size,) = _unpacked("<H", data, start)
        count = min(max(0, size // 2 - 2), _MOST_FIELDS)
        self._fields = _unpacked(f"<{count}H", data, start + 4)

    def place(self, position: int) -> int:
        """Return where a field is; 0 if it has its default."""
        offset = self._fields[position] if position < len(self._fields) else 0
        return self._offset + offset if offset else 0

    def number(self, position: int, form: str, default: int = 0) -> int:
        at = self.place(position)
        return int(_unpacked(f"<{form}", self._data, at)[0]) if at else default

    def real(self, position: int, default: float = 0.0) -> float:
        """Read a value of FP32, or return `default`."""
        at = self.place(position)
        return float(_unpacked("<f", self._data, at)[0]) if at else default

    def _target(self, at: int) -> int:
        return at + int(_unpacked("<I", self._data, at)[0])

    def table(self, position: int) -> Table | None:
        at = self.place(position)
        return Table(self._data, self._target(at), self._budget) if at else None

    def text(self, position: int) -> str:
        at = self.place(position)
        if not at:
            return ""
        return self._text(self._target(at))

    def _text(self, start: int) -> str:
        (length,) = _unpacked("<I", self._data, start)
        self._budget.spend(length)
        try:
            return bytes(self._data[start + 4 : start + 4 + length]).decode()
        except UnicodeDecodeError:
            raise FlatbufferError(f"the text at {start} is not UTF-8") from None

    def vector(self, position: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        at = self.place(position)
        if not at:
            return 0, 0
        start = self._target(at)
        (length,) = _unpacked("<I", self._data, start)
        if length > len(self._data):
            raise FlatbufferError(f"a list at {start} has {length} elements")
        return start + 4, int(length)

    def integers(self, position: int) -> list[int]:
        return list(map(int, self.numbers(position, "i")))

    def numbers(self, position: int, form: str) -> list[float]:
        start, length = self.vector(position)
        self._budget.spend(length * struct.calcsize(form))
        return list(_unpacked(f"<{length}{form}", self._data, start)) if length else []

    def octets(self, position: int, width: int = 1) -> memoryview:
        """Return the bytes of a vector whose elements have this width in bytes."""
        start, length = self.vector(position)
        if start + width * length > len(self._data):
            raise FlatbufferError(f"a list at {start} leads out of it")
        return self._data[start : start + width * length]

    def texts(self, position: int) -> list[str]:
        start, length = self.vector(position)
        self._budget.spend(4 * length)
        return [self._text(self._target(start + 4 * index)) for index in range(length)]

    def tables(self, position: int) -> Iterator[Table]:
        start, length = self.vector(position)
        for index in range(length):
            yield Table(self._data, self._target(start + 4 * index), self._budget)


class _Budget:
    """How many bytes of names and lists may still be read.

    A small file can describe very many, if its tables share them.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise FlatbufferError("it describes more than it could hold")


def _unpacked(form: str, data: memoryview, at: int) -> tuple[Any, ...]:
    try:
        return struct.unpack_from(form, data, at)
    except struct.error:
        raise FlatbufferError("an offset leads out of it") from None
