"""Checks of the sections of MLIR bytecode before MLIR's own parser reads it.

MLIR trusts the counts in a file: it allocates memory for as many strings, operators, attributes and
types as the file declares, and ends the process if it cannot. Here each count is compared with the
number of bytes that are left for the entries. Errors inside the sections are left to MLIR.

The format: https://mlir.llvm.org/docs/BytecodeFormat/
"""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.mlir.bytecode.format import (
    ALIGNED,
    ATTRIBUTES_AND_TYPES,
    DIALECTS,
    IR,
    MAGIC,
    OFFSETS,
    STRINGS,
)

_PROPERTIES: Final = 8
#: Names of the sections, by their ids.
_SECTIONS: Final = (
    "strings",
    "dialects",
    "attributes and types",
    "offsets of attributes and types",
    "operations",
    "resources",
    "offsets of resources",
    "dialect versions",
    "properties",
)
_REQUIRED: Final = (STRINGS, DIALECTS, ATTRIBUTES_AND_TYPES, OFFSETS, IR)
#: Since version 1 of the format, dialects may have versions.
_HAS_VERSIONS: Final = 1
#: Since version 4, the op-name table starts with its total count.
_COUNTS_OPERATORS: Final = 4
#: Sizes of attributes that are read at once.
_RUN: Final = 4096
_HINT: Final = "the file is damaged or was cut off; write it again"


def check(data: memoryview, where: str = "") -> dict[int, tuple[int, int]]:
    """Refuse bytecode whose sections, strings or counts do not fit into the file.

    The time is proportional to the number of sections, strings, dialects, attributes and types.

    Args:
        data: The content of the file, which starts with the magic number of bytecode.
        where: The path of the file, or "".

    Returns:
        The start and end of each section, as offsets, by its id and in the order of the file.

    Raises:
        TosaConvertError: "malformed-mlir", with the offset of the first byte that is wrong.
    """
    return _Checker(data, where).check()


class _Checker:
    """Reads one file from its start to its end."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data = data
        self.where = where
        #: The offset of the next byte.
        self.offset = len(MAGIC)
        #: The end of the current section.
        self.end = len(data)

    def check(self) -> dict[int, tuple[int, int]]:
        version = self.number("the version")
        producer = bytes(self.data[self.offset : self.offset + 4096]).find(b"\0")
        if producer < 0:
            self.refuse("the name of the producer is not terminated")
        self.offset += producer + 1
        sections: dict[int, tuple[int, int]] = {}
        while self.offset < len(self.data):
            first = self.offset
            section, start, end = self.section()
            if section in sections:
                self.refuse(f"duplicate section of {_SECTIONS[section]}", first)
            sections[section] = start, end
            self.offset = end
        for section in _REQUIRED:
            if section not in sections:
                self.refuse(f"the section of {_SECTIONS[section]} is missing")
        self.enter(sections[STRINGS])
        strings = self.strings()
        self.enter(sections[DIALECTS])
        dialects = self.dialects(version, strings)
        self.enter(sections[OFFSETS])
        start, end = sections[ATTRIBUTES_AND_TYPES]
        self.offsets(dialects, end - start)
        if _PROPERTIES in sections:
            self.enter(sections[_PROPERTIES])
            if self.offset < self.end:
                self.count("properties")
        return sections

    def refuse(self, message: str, offset: int | None = None) -> NoReturn:
        """Raise the error at an offset, by default at the next byte."""
        offset = self.offset if offset is None else offset
        where = f"{self.where}: byte {offset}" if self.where else f"byte {offset}"
        raise fail("malformed-mlir", where, message, _HINT)

    def enter(self, section: tuple[int, int]) -> None:
        """Continue at the start of a section."""
        self.offset, self.end = section

    def number(self, what: str) -> int:
        """The next varint. what: its meaning, for errors."""
        start = self.offset
        if start >= self.end:
            self.refuse(f"{what} is outside its section")
        first = self.data[start]
        if first & 1:
            self.offset = start + 1
            return first >> 1
        # The zeros at the low end of the first byte say how many bytes follow.
        width = (first & -first).bit_length() if first else 9
        if start + width > self.end:
            self.refuse(f"{what} is outside its section")
        self.offset = start + width
        if not first:
            return int.from_bytes(self.data[start + 1 : start + 9], "little")
        return int.from_bytes(self.data[start : start + width], "little") >> width

    def count(self, what: str) -> int:
        """The next varint, which counts entries; each takes at least one byte of the section."""
        start = self.offset
        count = self.number(f"the number of {what}")
        left = self.end - self.offset
        if count > left:
            self.refuse(f"found {count} {what}, but only {left} bytes are left for them", start)
        return count

    def section(self) -> tuple[int, int, int]:
        """The id, start and end of the next section."""
        first = self.offset
        head = self.data[first]
        section = head & ~ALIGNED
        if section >= len(_SECTIONS):
            self.refuse(f"found section id {section}, expected at most {len(_SECTIONS) - 1}")
        self.offset += 1
        size = self.number("the size of a section")
        if head & ALIGNED:
            alignment = self.number("the alignment of a section")
            if alignment <= 0 or alignment & (alignment - 1):
                self.refuse(f"a section is aligned to {alignment}, expected a power of two", first)
            self.offset += -self.offset % alignment
        left = self.end - self.offset
        if size > left:
            self.refuse(
                f"the section of {_SECTIONS[section]} has {size} bytes, but only {left} are left",
                first,
            )
        return section, self.offset, self.offset + size

    def strings(self) -> int:
        """The number of strings. The sum of their lengths must fit into the section."""
        count = self.count("strings")
        total = 0
        for _ in range(count):
            start = self.offset
            size = self.number("the length of a string")
            total += size
            if not size or total > self.end - self.offset:
                self.refuse(f"a string of {size} bytes does not fit into its section", start)
        return count

    def index(self, what: str, limit: int, *, shift: int = 0) -> int:
        """The next varint, which is an index below `limit` after a shift to the right."""
        start = self.offset
        number = self.number(what)
        if number >> shift >= limit:
            self.refuse(f"{what} is {number >> shift}, expected less than {limit}", start)
        return number

    def dialects(self, version: int, strings: int) -> int:
        """The number of dialects."""
        count = self.count("dialects")
        for _ in range(count):
            versioned = version >= _HAS_VERSIONS
            name = self.index("a dialect's name", strings, shift=int(versioned))
            if versioned and name & 1:
                self.offset = self.section()[2]
        if version >= _COUNTS_OPERATORS:
            self.count("operators' names")
        while self.offset < self.end:
            self.index("a dialect", count)
            for _ in range(self.count("operators' names")):
                self.number("an operator's name")
        return count

    def offsets(self, dialects: int, size: int) -> None:
        """Check the sizes of attributes and types, whose sum is at most the size of their section."""
        counts = [self.count(what) for what in ("attributes", "types")]
        total = 0
        for count in counts:
            left = count
            while left > 0:
                self.index("a dialect", dialects)
                start = self.offset
                entries = self.count("attributes or types")
                if entries > left:
                    self.refuse(f"found {entries} of a dialect, but only {left} are left", start)
                for first in range(0, entries, _RUN):
                    total = self.sizes(min(_RUN, entries - first), total, size)
                left -= entries

    def sizes(self, count: int, total: int, limit: int) -> int:
        """`total` plus the sizes of the next `count` attributes or types; at most `limit`."""
        run = np.frombuffer(self.data[self.offset : min(self.offset + count, self.end)], np.uint8)
        if len(run) == count and (run & 1).all():
            # Nearly all sizes take one byte each.
            together = total + int((run >> 2).sum())
            if together <= limit:
                self.offset += count
                return together
        for _ in range(count):
            start = self.offset
            total += self.number("the size of an attribute or type") >> 1
            if total > limit:
                self.refuse("an attribute or type is outside its section", start)
        return total
