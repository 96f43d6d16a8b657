"""The numbers of MLIR's bytecode, from https://mlir.llvm.org/docs/BytecodeFormat"""

from __future__ import annotations

from typing import Final, NoReturn

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.io.options import BYTECODE_VERSION, BYTECODE_VERSIONS

MAGIC: Final = b"ML\xefR"

#: The version that MLIR is asked for, and that is written unless another is asked for. In it, an
#: operation's attributes are one dictionary (properties, which each operation orders in its own way,
#: came with version 5), regions are in line, and there are no use-list orders.
VERSION: Final = BYTECODE_VERSION
PRODUCER: Final = b"tosa-convert"

#: Versions that are read and written: every version that MLIR has written.
OLDEST_VERSION: Final = min(BYTECODE_VERSIONS)
NEWEST_VERSION: Final = max(BYTECODE_VERSIONS)
#: The first version in which: a dialect may have a version; isolated regions are sections; operations
#: and blocks may have use-list orders; the table of operation names starts with its total count, and a
#: block argument says whether it has a location; operations have native properties.
DIALECTS_HAVE_VERSIONS: Final = 1
REGIONS_ARE_SECTIONS: Final = 2
HAS_USE_LIST_ORDERS: Final = 3
COUNTS_NAMES: Final = 4
ARGUMENTS_OMIT_LOCATIONS: Final = 4
HAS_NATIVE_PROPERTIES: Final = 5

#: Sections.
STRINGS: Final = 0
DIALECTS: Final = 1
ATTRIBUTES_AND_TYPES: Final = 2
OFFSETS: Final = 3
IR: Final = 4
RESOURCES: Final = 5
RESOURCE_OFFSETS: Final = 6
DIALECT_VERSIONS: Final = 7
PROPERTIES: Final = 8
#: Bit of a section's id: after the size come an alignment and filler up to it.
ALIGNED: Final = 0x80
FILLER: Final = 0xCB

BLOB: Final = 0

#: What an operation has, as bits of the byte after its name.
HAS_ATTRIBUTES: Final = 1
HAS_RESULTS: Final = 2
HAS_OPERANDS: Final = 4
HAS_SUCCESSORS: Final = 8
HAS_REGIONS: Final = 16
HAS_USE_LISTS: Final = 32
HAS_PROPERTIES: Final = 64

#: Attributes of the builtin dialect.
ARRAY: Final = 0
DICTIONARY: Final = 1
STRING: Final = 2
STRING_WITH_TYPE: Final = 3
FLAT_SYMBOL: Final = 4
SYMBOL: Final = 5
TYPE: Final = 6
UNIT: Final = 7
INTEGER: Final = 8
FLOAT: Final = 9
CALLSITE_LOCATION: Final = 10
FILE_LOCATION: Final = 11
FUSED_LOCATION: Final = 12
FUSED_LOCATION_WITH_METADATA: Final = 13
NAME_LOCATION: Final = 14
UNKNOWN_LOCATION: Final = 15
DENSE_RESOURCE: Final = 16
DENSE_ARRAY: Final = 17
DENSE_ELEMENTS: Final = 18
DENSE_STRINGS: Final = 19
FILE_RANGE_LOCATION: Final = 22
NEWEST_ATTRIBUTE: Final = 22

#: Types of the builtin dialect.
INTEGER_TYPE: Final = 0
INDEX_TYPE: Final = 1
FUNCTION_TYPE: Final = 2
BF16_TYPE: Final = 3
F16_TYPE: Final = 4
F32_TYPE: Final = 5
F64_TYPE: Final = 6
COMPLEX_TYPE: Final = 9
MEMREF_TYPE: Final = 10
RANKED_TENSOR_TYPE: Final = 13
RANKED_TENSOR_TYPE_WITH_ENCODING: Final = 14
UNRANKED_TENSOR_TYPE: Final = 18

#: Types of the builtin dialect that have no parts, as MLIR prints them. Older versions of MLIR write
#: those from 21 on as text.
PLAIN_TYPES: Final = {
    INDEX_TYPE: "index",
    BF16_TYPE: "bf16",
    F16_TYPE: "f16",
    F32_TYPE: "f32",
    F64_TYPE: "f64",
    7: "f80",
    8: "f128",
    12: "none",
    21: "tf32",
    22: "f8E5M2",
    23: "f8E4M3",
    24: "f8E4M3FN",
    25: "f8E5M2FNUZ",
    26: "f8E4M3FNUZ",
    27: "f8E4M3B11FNUZ",
    28: "f8E3M4",
    29: "f4E2M1FN",
    30: "f6E2M3FN",
    31: "f6E3M2FN",
    32: "f8E8M0FNU",
}


# -- a bounds-checked position in the bytes of a bytecode, and its errors --------------------------

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
        section_id = head & ~ALIGNED
        if section_id >= len(SECTION_NAMES):
            self.refuse(
                f"found section {section_id}, expected at most {len(SECTION_NAMES) - 1}", at
            )
        size = self.varint("the size of a section")
        if head & ALIGNED:
            alignment = self.varint("the alignment of a section")
            if alignment <= 0 or alignment & (alignment - 1):
                self.refuse(f"found alignment {alignment}, expected a power of two", at)
            self.skip(-(self.base + self.at) % alignment, "the filler before a section")
        start = self.skip(size, f"the section of {SECTION_NAMES[section_id]}")
        return section_id, start, start + size
