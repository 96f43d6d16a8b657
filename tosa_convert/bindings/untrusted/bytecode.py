"""The outer structure of MLIR bytecode, checked before MLIR's own parser sees it.

MLIR trusts the counts that a file gives: it makes room for as many strings, operators, attributes and
types as the file says there are, and ends the process if it cannot. Here each count is compared with
the bytes that are left for what it counts. What is inside of the sections is MLIR's own to refuse.

The format: https://mlir.llvm.org/docs/BytecodeFormat/
"""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
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
#: From this version of the format on, dialects may have versions.
_HAS_VERSIONS: Final = 1
#: From this version on, the number of all operators' names is told before them.
_COUNTS_OPERATORS: Final = 4
#: Sizes of attributes that are looked at together.
_RUN: Final = 4096
_HINT: Final = "the file is damaged or was cut off; write it again"


def check(data: memoryview, where: str = "") -> dict[int, tuple[int, int]]:
    """Refuse bytecode whose sections, strings or counts do not fit into the file.

    Returns where each section begins and ends, in the order of the file.

    Costs time in proportion to the number of sections, strings, dialects, attributes and types.
    Raises TosaConvertError("malformed-mlir") with the byte at which it does not fit.
    """
    return _Envelope(data, where).check()


class _Envelope:
    """One file and how far it was read."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data = data
        self.where = where
        self.at = len(MAGIC)
        #: Where the section ends that is read.
        self.end = len(data)

    def check(self) -> dict[int, tuple[int, int]]:
        version = self.number("the version")
        producer = bytes(self.data[self.at : self.at + 4096]).find(b"\0")
        if producer < 0:
            self.refuse("the name of the producer has no end")
        self.at += producer + 1
        sections: dict[int, tuple[int, int]] = {}
        while self.at < len(self.data):
            place = self.at
            kind, start, end = self.section()
            if kind in sections:
                self.refuse(f"there are two sections of {_SECTIONS[kind]}", place)
            sections[kind] = start, end
            self.at = end
        for kind in _REQUIRED:
            if kind not in sections:
                self.refuse(f"there is no section of {_SECTIONS[kind]}")
        self.enter(sections[STRINGS])
        strings = self.strings()
        self.enter(sections[DIALECTS])
        dialects = self.dialects(version, strings)
        self.enter(sections[OFFSETS])
        start, end = sections[ATTRIBUTES_AND_TYPES]
        self.offsets(dialects, end - start)
        if _PROPERTIES in sections:
            self.enter(sections[_PROPERTIES])
            if self.at < self.end:
                self.count("properties")
        return sections

    def refuse(self, message: str, place: int | None = None) -> NoReturn:
        raise self.refusal(message, self.at if place is None else place)

    def refusal(self, message: str, place: int) -> TosaConvertError:
        where = f"{self.where}: byte {place}" if self.where else f"byte {place}"
        return fail("malformed-mlir", where, message, _HINT)

    def enter(self, section: tuple[int, int]) -> None:
        self.at, self.end = section

    def number(self, what: str) -> int:
        """The number at this place: the zeros at the low end of its first byte tell how many follow."""
        at = self.at
        if at >= self.end:
            self.refuse(f"{what} lies outside its section")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        width = (first & -first).bit_length() if first else 9
        if at + width > self.end:
            self.refuse(f"{what} lies outside its section")
        self.at = at + width
        if not first:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + width], "little") >> width

    def count(self, what: str) -> int:
        """A number of things, each of which takes a byte or more of what is left of the section."""
        place = self.at
        found = self.number(f"the number of {what}")
        if found > self.end - self.at:
            self.refuse(
                f"found {found} {what}, and {self.end - self.at} bytes are left for them", place
            )
        return found

    def section(self) -> tuple[int, int, int]:
        """A section's id, where it begins and where it ends."""
        place = self.at
        head = self.data[place]
        kind = head & ~ALIGNED
        if kind >= len(_SECTIONS):
            self.refuse(f"found a section of kind {kind}, expected at most {len(_SECTIONS) - 1}")
        self.at += 1
        size = self.number("the size of a section")
        if head & ALIGNED:
            alignment = self.number("the alignment of a section")
            if alignment <= 0 or alignment & (alignment - 1):
                self.refuse(f"a section is aligned to {alignment}, expected a power of two", place)
            self.at += -self.at % alignment
        if size > self.end - self.at:
            self.refuse(
                f"the section of {_SECTIONS[kind]} has {size} bytes, and {self.end - self.at} are left",
                place,
            )
        return kind, self.at, self.at + size

    def strings(self) -> int:
        """The number of strings, whose lengths add up to what the section has."""
        count = self.count("strings")
        total = 0
        for _ in range(count):
            place = self.at
            size = self.number("the length of a string")
            total += size
            if not size or total > self.end - self.at:
                self.refuse(f"a string of {size} bytes does not fit into its section", place)
        return count

    def index(self, what: str, limit: int, *, shift: int = 0) -> int:
        place = self.at
        found = self.number(what)
        if found >> shift >= limit:
            self.refuse(f"{what} is {found >> shift}, expected less than {limit}", place)
        return found

    def dialects(self, version: int, strings: int) -> int:
        """The number of dialects."""
        count = self.count("dialects")
        for _ in range(count):
            versioned = version >= _HAS_VERSIONS
            found = self.index("a dialect's name", strings, shift=int(versioned))
            if versioned and found & 1:
                self.at = self.section()[2]
        if version >= _COUNTS_OPERATORS:
            self.count("operators' names")
        while self.at < self.end:
            self.index("a dialect", count)
            for _ in range(self.count("operators' names")):
                self.number("an operator's name")
        return count

    def offsets(self, dialects: int, size: int) -> None:
        """Attributes and types, whose sizes add up to no more than the section that has them."""
        kinds = [self.count(what) for what in ("attributes", "types")]
        total = 0
        for count in kinds:
            left = count
            while left > 0:
                self.index("a dialect", dialects)
                place = self.at
                entries = self.count("attributes or types")
                if entries > left:
                    self.refuse(f"found {entries} of a dialect, and only {left} are left", place)
                for first in range(0, entries, _RUN):
                    total = self.sizes(min(_RUN, entries - first), total, size)
                left -= entries

    def sizes(self, count: int, total: int, limit: int) -> int:
        """`total`, and the sizes of so many attributes or types; at most `limit` together."""
        run = np.frombuffer(self.data[self.at : min(self.at + count, self.end)], np.uint8)
        if len(run) == count and (run & 1).all():
            # Nearly all sizes are a byte each.
            together = total + int((run >> 2).sum())
            if together <= limit:
                self.at += count
                return together
        for _ in range(count):
            place = self.at
            total += self.number("the size of an attribute or type") >> 1
            if total > limit:
                self.refuse("an attribute or type lies outside its section", place)
        return total
