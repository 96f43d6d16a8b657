"""The fields of an encoded protocol buffer, without its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: The value of a field: a number, or the bytes of a text, a message, or a packed list.
Value = int | memoryview

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
#: A number has at most 64 bits, 7 in each byte.
_MOST_BYTES: Final = 10


def fields(data: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Iterate over the number and the value of each field, in the order of the data.

    Example:
        >>> [(number, value) for number, value in fields(bytes([0x08, 0x96, 0x01]))]
        [(1, 150)]
    """
    for number, value, _, _ in spans(data):
        yield number, value


def spans(data: bytes | memoryview) -> Iterator[tuple[int, Value, int, int]]:
    """Iterate over fields as `fields` does, with the places where each begins and ends.

    Raises ValueError, too.

    A value of bytes ends where its field ends.

    Example:
        >>> list(spans(bytes([0x08, 0x96, 0x01, 0x10, 0x02])))
        [(1, 150, 0, 3), (2, 2, 3, 5)]
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        start = position
        tag, position = _varint(view, position)
        kind = tag & 7
        value: Value
        if kind == _VARINT:
            value, position = _varint(view, position)
            yield tag >> 3, value, start, position
            continue
        if kind == _BYTES:
            size, position = _varint(view, position)
        elif kind in (_FIXED_32, _FIXED_64):
            size = 4 if kind == _FIXED_32 else 8
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")
        if size > len(view) - position:
            raise ValueError("a field ends after the data")
        value = view[position : position + size]
        position += size
        yield tag >> 3, value, start, position


def encoded_number(number: int, value: int) -> bytes:
    """Encode a field with an integer that is not negative."""
    return _encoded(number << 3 | _VARINT) + _encoded(value)


def encoded_bytes(number: int, *pieces: bytes | memoryview) -> list[bytes | memoryview]:
    """Encode a field with a text or a message, in pieces that follow one another."""
    size = sum(map(len, pieces))
    return [_encoded(number << 3 | _BYTES) + _encoded(size), *pieces]


def _encoded(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def numbers(value: Value) -> list[int]:
    """Return the integers of a repeated field: one, or all of them packed."""
    if isinstance(value, int):
        return [value]
    found = []
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        found.append(number)
    return found


def message(value: Value) -> memoryview:
    """Return the bytes of a field that holds a message or a text. Raises ValueError for an integer."""
    if isinstance(value, int):
        raise ValueError("a field has a number, expected bytes")
    return value


def text(value: Value) -> str:
    """Return the text of a field."""
    return bytes(message(value)).decode(errors="replace")


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    number = 0
    for index, byte in enumerate(view[position : position + _MOST_BYTES]):
        number |= (byte & 127) << (7 * index)
        if byte < 128:
            return number, position + index + 1
    raise ValueError("a number has no end")
