"""Encode and decode the variable-width integers of MLIR's bytecode.

A varint of 7 bits is the byte n << 1 | 1. One of 7 * w bits takes w bytes, little-endian, whose lowest
w - 1 bits are zeros, followed by a one. Eight whole bytes follow a zero byte. Signed integers are zigzag
encoded first. Source: https://mlir.llvm.org/docs/BytecodeFormat
"""

from __future__ import annotations

from typing import Final

#: Larger numbers are not kept: few are used twice.
_KEPT: Final = 1 << 22


def decode_varint(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Decode the integer at an offset, and return it with the offset after it."""
    first = data[offset]
    if first & 1:
        return first >> 1, offset + 1
    if not first:
        return int.from_bytes(data[offset + 1 : offset + 9], "little"), offset + 9
    width = (first & -first).bit_length()
    return int.from_bytes(data[offset : offset + width], "little") >> width, offset + width


def encode_varint(number: int) -> bytes:
    """Return the shortest encoding of an integer from 0 to 2^64 - 1."""
    if number < 1 << 7:
        return bytes((number << 1 | 1,))
    width = (number.bit_length() + 6) // 7
    if width > 8:
        return b"\0" + number.to_bytes(8, "little")
    return (number << width | 1 << (width - 1)).to_bytes(width, "little")


def from_zigzag(number: int) -> int:
    """Return the signed integer of a zigzag code: the codes 0, 1, 2, 3 are 0, -1, 1, -2."""
    return number >> 1 ^ -(number & 1)


def to_zigzag(number: int) -> int:
    """Return the zigzag code of an integer from -2^63 to 2^64 - 1: small if that is near zero."""
    return (number << 1 ^ -(number >> 63 & 1)) & 0xFFFFFFFFFFFFFFFF


class Varints(dict[int, bytes]):
    """Cache encoded numbers: `varints[number]` encodes most numbers once."""

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if number < _KEPT:
            self[number] = encoded
        return encoded
