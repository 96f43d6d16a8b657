"""A bounds-checked position in the bytes of a bytecode, and the error for a malformed one."""

from __future__ import annotations

from typing import Final, NoReturn

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.mlir.bytecode import format as code

SECTION_NAMES: Final = (
    "strings",
    "dialects",
    "attributes and types",
    "attribute and type offsets",
    "operations",
    "resources",
    "resource offsets",
    "dialect versions",
    "properties",
)
_HINT: Final = "the file is damaged or incomplete; write it again"


def malformed(where: str, offset: int, message: str) -> TosaConvertError:
    """Return the error for a byte of a bytecode file. where: the file, or ""."""
    place = f"{where}: byte {offset}" if where else f"byte {offset}"
    return fail("malformed-mlir", place, message, _HINT)


class Cursor:
    """A position in `data` that never leaves the range it was given.

    at, end: offsets in `data`, in bytes. base: the offset of `data` in the file. where: the file.
    """

    __slots__ = ("at", "base", "data", "end", "where")

    def __init__(
        self, data: bytes | memoryview, at: int, end: int, base: int = 0, where: str = ""
    ) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.base = base
        self.where = where

    def refuse(self, message: str, at: int | None = None) -> NoReturn:
        """Raise the error for the byte at the cursor, or at another offset."""
        raise self.refusal(message, at)

    def refusal(self, message: str, at: int | None = None) -> TosaConvertError:
        """Return the error for the byte at the cursor, or at another offset."""
        return malformed(self.where, self.base + (self.at if at is None else at), message)

    def byte(self, what: str) -> int:
        if self.at >= self.end:
            self.refuse(f"{what} is outside its section")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self, what: str) -> int:
        at = self.at
        if at >= self.end:
            self.refuse(f"{what} is outside its section")
        first = self.data[at]
        width = (first & -first).bit_length() if first else 9
        if at + width > self.end:
            self.refuse(f"{what} is outside its section")
        self.at = at + width
        if first & 1:
            return first >> 1
        if not first:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + width], "little") >> width

    def count(self, what: str) -> int:
        """Decode the count of items, each of which takes at least one of the bytes that are left."""
        at = self.at
        number = self.varint(f"the number of {what}")
        if number > self.end - self.at:
            self.refuse(f"found {number} {what}, but only {self.end - self.at} bytes are left", at)
        return number

    def index(self, what: str, limit: int) -> int:
        at = self.at
        number = self.varint(what)
        if number >= limit:
            self.refuse(f"{what} is {number}, expected less than {limit}", at)
        return number

    def skip(self, size: int, what: str) -> int:
        """Move `size` bytes on; returns the offset before."""
        at = self.at
        if size > self.end - at:
            self.refuse(f"{what} has {size} bytes, but only {self.end - at} are left")
        self.at = at + size
        return at

    def section(self) -> tuple[int, int, int]:
        """Return the id of the section at the cursor and the offsets of its data, and move past it."""
        at = self.at
        head = self.byte("a section")
        section_id = head & ~code.ALIGNED
        if section_id >= len(SECTION_NAMES):
            self.refuse(
                f"found section {section_id}, expected at most {len(SECTION_NAMES) - 1}", at
            )
        size = self.varint("the size of a section")
        if head & code.ALIGNED:
            alignment = self.varint("the alignment of a section")
            if alignment <= 0 or alignment & (alignment - 1):
                self.refuse(f"found alignment {alignment}, expected a power of two", at)
            self.skip(-(self.base + self.at) % alignment, "the filler before a section")
        start = self.skip(size, f"the section of {SECTION_NAMES[section_id]}")
        return section_id, start, start + size


# -- the variable-width integers of MLIR's bytecode ------------------------------------------------
# A varint of 7 bits is the byte n << 1 | 1. One of 7 * w bits takes w bytes, little-endian, whose
# lowest w - 1 bits are zeros, followed by a one. Eight whole bytes follow a zero byte. Signed
# integers are zigzag encoded first. Source: https://mlir.llvm.org/docs/BytecodeFormat

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
    """Return the signed integer that a zigzag code stands for: 0, -1, 1, -2, ... for 0, 1, 2, 3, ..."""
    return number >> 1 ^ -(number & 1)


def to_zigzag(number: int) -> int:
    """Return the zigzag code of an integer from -2^63 to 2^64 - 1: small if that is near zero."""
    return (number << 1 ^ -(number >> 63 & 1)) & 0xFFFFFFFFFFFFFFFF


class Varints(dict[int, bytes]):
    """A cache of encoded numbers: `varints[number]` encodes most numbers once."""

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if number < _KEPT:
            self[number] = encoded
        return encoded
