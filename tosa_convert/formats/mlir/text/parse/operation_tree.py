"""Operations parsed from text, and their encoding in bytecode as soon as they are complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
)

#: Digits of the number in a name such as %0#1.
_DIGITS = 12
#: Pieces of more bytes are not joined to others, so that nested regions are not copied often.
_LARGE = 1 << 16


@dataclass(slots=True)
class ParsedOperation:
    """An operation. Its location, attributes and types are encoded numbers; operands are values."""

    name: str
    location: bytes
    attributes: dict[str, bytes]
    types: list[bytes]
    operands: list[int]
    regions: list[ParsedRegion] = field(default_factory=list)


class ParsedRegion:
    """A region, of which only names and types of values are kept beside its encoding.

    A value is its number in the bytecode. The values of a region that may use those around it follow
    them: how many these will be is not known yet, so that `room` numbers are left for each region.

    parent: the region around it whose values it may use; None if it is isolated.
    room: more than any region of the text has values.
    names: values by their names in the text, with those of the regions around.
    groups: how many values a name stands for, if it is several.
    types: the types of the values of this region, and of each region around it.
    blocks: how many it has. count, rows: the operations of the last one: how many, and their encoding.
    hint: what to do if it uses a value that is not defined.
    """

    __slots__ = (
        "_arguments",
        "_closed",
        "_has_inner",
        "_own",
        "blocks",
        "count",
        "first",
        "groups",
        "hint",
        "names",
        "parent",
        "room",
        "rows",
        "types",
    )

    def __init__(self, parent: ParsedRegion | None, room: int) -> None:
        self.parent = parent
        self.room = room
        self.first = 0
        self.names: dict[bytes, int] = {}
        self.groups: dict[bytes, int] = {}
        self.types: list[list[bytes]] = [[]]
        self.blocks = self.count = 0
        self.hint = ""
        self._own: list[bytes] = []
        self._arguments = b""
        self._closed: list[bytes | bytearray] = []
        self.rows = [bytearray()]
        self._has_inner = False
        if parent is not None:
            parent._has_inner = True
            self.first = parent.first + room
            self.names, self.groups = parent.names, parent.groups
            self.types = [*parent.types, []]

    # -- values -------------------------------------------------------------------------------

    def find(self, name: bytes) -> int | None:
        """Find the value of a name, here or in the regions around; None if there is none."""
        value = self.names.get(name)
        if value is None and b"#" in name:
            head, _, number = name.partition(b"#")
            index = int(number[:_DIGITS])
            if index < self.groups.get(head, 0) and number == b"%d" % index:
                return self.names[head] + index
        return value

    def types_of(self, values: Sequence[int]) -> list[bytes]:
        """Return the encoded types of values."""
        if len(self.types) == 1:
            return list(map(self.types[0].__getitem__, values))
        room = self.room
        return [self.types[value // room][value % room] for value in values]

    def name(self, name: bytes, value: int, count: int = 1) -> None:
        """Give a name to a value, or to a few that follow one another."""
        self.names[name] = value
        if count > 1:
            self.groups[name] = count
        if self.parent is not None:
            self._own.append(name)

    def add(self, types: Sequence[bytes]) -> int:
        """Add values of these types, which have no names yet; returns the first of them."""
        own = self.types[-1]
        first = self.first + len(own)
        own += types
        return first

    # -- blocks and operations ----------------------------------------------------------------

    def begin_block(self, arguments: Sequence[tuple[bytes, bytes]], encoder: Encoder) -> None:
        """Begin a block whose arguments have these encoded types and locations."""
        self._end_block(encoder)
        self.blocks += 1
        self._arguments = b"".join([part for argument in arguments for part in argument])
        if arguments:
            self._arguments = encoder.numbers[len(arguments)] + self._arguments

    def _end_block(self, encoder: Encoder) -> None:
        if self.blocks:
            head = encoder.numbers[self.count << 1 | bool(self._arguments)] + self._arguments
            self._closed += head, *self.rows
            self.count, self.rows = 0, [bytearray()]

    def append(self, operation: ParsedOperation, encoder: Encoder) -> None:
        """Add an operation to the last block."""
        self.count += 1
        self.rows[-1] += b"".join(_head(operation, encoder))
        for region in operation.regions:
            for piece in region.encoded(encoder):
                if len(piece) > _LARGE:
                    self.rows += bytearray(piece), bytearray()
                else:
                    self.rows[-1] += piece

    def close(self, encoder: Encoder) -> None:
        """End the region: nothing is added to it, and its names mean nothing outside it."""
        self._end_block(encoder)
        for name in self._own:
            del self.names[name]
            self.groups.pop(name, None)
        self.names, self.groups, self._own, self.types = {}, {}, [], self.types[-1:]

    def encoded(self, encoder: Encoder) -> Iterator[bytes | bytearray]:
        """Return the pieces of a closed region's encoding, from the number of its blocks on."""
        numbers = encoder.numbers
        yield numbers[self.blocks]
        if self.blocks:
            yield numbers[self.room if self._has_inner else len(self.types[-1])]
        yield from self._closed


def _head(operation: ParsedOperation, encoder: Encoder) -> list[bytes]:
    """Encode an operation up to its regions."""
    numbers = encoder.numbers
    has, parts = 0, [encoder.operation(operation.name), b"", operation.location]
    if operation.attributes:
        has |= HAS_ATTRIBUTES
        parts.append(encoder.dictionary(operation.attributes.items()))
    if operation.types:
        has |= HAS_RESULTS
        parts += numbers[len(operation.types)], *operation.types
    if operation.operands:
        has |= HAS_OPERANDS
        parts.append(numbers[len(operation.operands)])
        parts += map(numbers.__getitem__, operation.operands)
    if operation.regions:
        has |= HAS_REGIONS
        is_isolated = operation.regions[0].parent is None
        parts.append(numbers[len(operation.regions) << 1 | is_isolated])
    parts[1] = bytes((has,))
    return parts
