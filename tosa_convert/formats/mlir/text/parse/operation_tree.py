"""Operations parsed from text, until their values can be numbered; and their encoding in bytecode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
)


class Value(NamedTuple):
    """An argument of a block or a result of an operation: number `number` of those of its region.

    region: the region's key; the region itself would refer to it. type: the encoded number of its type.
    """

    region: int
    number: int
    type: bytes


@dataclass(slots=True)
class ParsedOperation:
    """An operation. Its location, attributes and types are encoded numbers."""

    name: str
    location: bytes
    attributes: dict[str, bytes]
    types: list[bytes]
    operands: list[Value]
    regions: list[ParsedRegion] = field(default_factory=list)


@dataclass(slots=True)
class ParsedBlock:
    """A block.

    arguments: the encoded types and locations. count: how many operations it has.
    operations: those that refer to values without numbers yet; the others are encoded, in a row.
    """

    arguments: list[tuple[bytes, bytes]] = field(default_factory=list)
    operations: list[ParsedOperation | bytearray] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, eq=False)
class ParsedRegion:
    """A region.

    parent: the region around it whose values it may use; None if it is isolated.
    names: its values by their names in the text. count: how many values it has.
    hint: what to do if it uses a value that is not defined.
    """

    parent: ParsedRegion | None
    blocks: list[ParsedBlock] = field(default_factory=list)
    names: dict[bytes, Value] = field(default_factory=dict)
    count: int = 0
    hint: str = ""

    def find(self, name: bytes) -> Value | None:
        """Find the value of a name, here or in the regions around; None if there is none."""
        region: ParsedRegion | None = self
        while region is not None:
            value = region.names.get(name)
            if value is not None:
                return value
            region = region.parent
        return None

    def append(self, operation: ParsedOperation, encoder: Encoder) -> None:
        """Add an operation to the last block. It is encoded at once if that is possible.

        The values of a region that may use those around it are numbered after all of them.
        """
        block = self.blocks[-1]
        block.count += 1
        if self.parent is not None or any(
            region.parent is not None for region in operation.regions
        ):
            block.operations.append(operation)
            return
        if not block.operations or not isinstance(block.operations[-1], bytearray):
            block.operations.append(bytearray())
        row = block.operations[-1]
        assert isinstance(row, bytearray)
        if operation.regions:
            for piece in encoded(operation, encoder, {id(self): 0}):
                row += piece
        else:
            row += b"".join(_head(operation, encoder, {id(self): 0}))

    def add(self, type_: bytes) -> Value:
        """Add a value, which has no name yet."""
        value = Value(id(self), self.count, type_)
        self.count += 1
        return value


def encoded(
    root: ParsedOperation, encoder: Encoder, firsts: dict[int, int]
) -> Iterator[bytes | bytearray]:
    """Return the pieces of an operation's encoding. Not recursive, because modules may nest deeply.

    firsts: the numbers of the first values of the regions around it.
    """
    numbers = encoder.numbers
    yield from _head(root, encoder, firsts)
    pending: list[Iterator[ParsedOperation | ParsedRegion | ParsedBlock | bytearray]] = [
        iter(root.regions)
    ]
    while pending:
        for item in pending[-1]:
            if isinstance(item, ParsedRegion):
                outer = item.parent
                firsts[id(item)] = 0 if outer is None else firsts[id(outer)] + outer.count
                item.parent = None  # a region and what is in it refer to one another no longer
                yield numbers[len(item.blocks)]
                if item.blocks:
                    yield numbers[item.count]
                pending.append(iter(item.blocks))
                break
            if isinstance(item, ParsedBlock):
                yield numbers[item.count << 1 | bool(item.arguments)]
                if item.arguments:
                    yield numbers[len(item.arguments)]
                    yield b"".join([part for argument in item.arguments for part in argument])
                pending.append(iter(item.operations))
                break
            if isinstance(item, bytearray):
                yield item
                continue
            yield from _head(item, encoder, firsts)
            if item.regions:
                pending.append(iter(item.regions))
                break
        else:
            pending.pop()


def _head(operation: ParsedOperation, encoder: Encoder, firsts: dict[int, int]) -> list[bytes]:
    """Encode an operation up to its regions. firsts: the indices of the regions' first values."""
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
        parts += [numbers[firsts[region] + index] for region, index, _ in operation.operands]
    if operation.regions:
        has |= HAS_REGIONS
        is_isolated = operation.regions[0].parent is None
        parts.append(numbers[len(operation.regions) << 1 | is_isolated])
    parts[1] = bytes((has,))
    return parts
