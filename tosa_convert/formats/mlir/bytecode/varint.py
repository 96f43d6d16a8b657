"""The variable-width integers of MLIR's bytecode.

A varint of 7 bits is the byte n << 1 | 1. One of 7 * w bits takes w bytes, little-endian, whose lowest
w - 1 bits are zeros, followed by a one. Eight whole bytes follow a zero byte. Signed integers are zigzag
encoded first. Source: https://mlir.llvm.org/docs/BytecodeFormat
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]

#: So many numbers are worth encoding at once.
_FIRST: Final = 1024
#: Larger numbers that are encoded one at a time are not kept: few are used twice.
_KEPT: Final = 1 << 14
#: Bytes of the longest number that `varints_at` decodes.
LONGEST: Final = 4


def decode_varint(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Decode the integer at an offset, and return it with the offset after it."""
    first = data[offset]
    if first & 1:
        return first >> 1, offset + 1
    if not first:
        return int.from_bytes(data[offset + 1 : offset + 9], "little"), offset + 9
    width = (first & -first).bit_length()
    return int.from_bytes(data[offset : offset + width], "little") >> width, offset + width


def words_of(data: bytes) -> npt.NDArray[np.uint32]:
    """Return the four bytes from each byte of the data on, zeros after its end, for `varints_at`."""
    return np.ndarray(len(data) + LONGEST + 1, "<u4", data + bytes(2 * LONGEST), strides=(1,))


def varints_at(words: npt.NDArray[np.uint32], at: Numbers | slice) -> tuple[Numbers, Numbers]:
    """Decode the integers at many places, and return them with the places after them.

    words: see `words_of`. at: places at most `LONGEST` bytes beyond the end of the data. The place after
    a number of more than `LONGEST` bytes is the same one, and so is that after the data has ended. The
    place after a number that is cut off lies beyond the end.
    """
    # Fast path of decode_varint; equal by test test_varints_decoded_together_equal_others
    found = words[at].astype(np.int64)
    widths = _WIDTHS[found & 15]
    places = np.arange(len(words))[at] if isinstance(at, slice) else at
    return found >> widths & _MASKS[widths], places + widths


#: Which of 8 bytes belong to an integer, by how many it has.
_IS_BYTE: Final = np.arange(8) < np.arange(9)[:, None]
#: The bytes of a number, by the lowest bits of its first byte; 0 for more than `LONGEST`.
_WIDTHS: Final = np.array([0, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1], np.int64)
_MASKS: Final = np.array([0, *((1 << 7 * width) - 1 for width in range(1, LONGEST + 1))], np.int64)


def encode_varint(number: int) -> bytes:
    """Return the shortest encoding of an integer from 0 to 2^64 - 1."""
    if number < 1 << 7:
        return bytes((number << 1 | 1,))
    width = (number.bit_length() + 6) // 7
    if width > 8:
        return b"\0" + number.to_bytes(8, "little")
    return (number << width | 1 << (width - 1)).to_bytes(width, "little")


def encode_together(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Encode integers below 2^49 as little-endian integers, with how many bytes each takes."""
    # Fast path of encode_varint; equal by test test_numbers_joined_together_equal_others
    widths = np.ones(len(numbers), np.int64)
    most = int(numbers.max(initial=0))
    for width in range(1, 7):
        if most >> 7 * width:
            widths += numbers >= 1 << 7 * width
    return numbers << widths | 1 << widths - 1, widths


def integers_of(pieces: list[bytes]) -> tuple[Numbers, Numbers]:
    """Pieces of at most 7 bytes as little-endian integers, and how many bytes each has."""
    widths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    rows = np.zeros((len(pieces), 8), np.uint8)
    rows[_IS_BYTE[widths]] = np.frombuffer(b"".join(pieces), np.uint8)
    return rows.view("<i8").ravel(), widths


def join_together(encoded: Numbers, widths: Numbers) -> bytes:
    """Join the lowest bytes of integers, one after the other; widths: how many of each, 7 at most."""
    # Most are short, and half as many bytes to choose from take half the time.
    size = 4 if int(widths.max(initial=0)) <= 4 else 8
    rows = encoded.astype(f"<i{size}").view(np.uint8).reshape(-1, size)
    joined: bytes = rows[_IS_BYTE[widths, :size]].tobytes()
    return joined


def from_zigzag(number: int) -> int:
    """Return the signed integer that a zigzag code stands for: 0, -1, 1, -2, ... for 0, 1, 2, 3, ..."""
    return number >> 1 ^ -(number & 1)


def to_zigzag(number: int) -> int:
    """Return the zigzag code of an integer from -2^63 to 2^64 - 1: small if that is near zero."""
    return (number << 1 ^ -(number >> 63 & 1)) & 0xFFFFFFFFFFFFFFFF


class Varints(dict[int, bytes]):
    """A cache of encoded numbers: `varints[number]` encodes most numbers once.

    limit: numbers below it are encoded many at a time, which takes a fraction of the time.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.filled = 0

    def __missing__(self, number: int) -> bytes:
        # A number far beyond those that were encoded may be the only one of its size.
        if number < min(self.limit, 2 * self.filled + _FIRST):
            self.fill(min(self.limit, number + number // 4 + 64))
            return self[number]
        encoded = encode_varint(number)
        if number < _KEPT:
            self[number] = encoded
        return encoded

    def fill(self, count: int) -> None:
        start = self.filled
        for width in range(1, 5):
            stop, marker = min(count, 1 << 7 * width), 1 << (width - 1)
            if start < stop:
                # Fast path of encode_varint; equal by test test_varints_encoded_together_equal_others
                numbers = np.arange(start, stop, dtype="<u4") << width | marker
                encoded = numbers.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :width]
                self.update(zip(range(start, stop), _rows(encoded), strict=True))
            start = max(start, stop)
        self.filled = start


def _rows(matrix: npt.NDArray[np.uint8]) -> list[bytes]:
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"V{matrix.shape[1]}").ravel().tolist()
    return rows
