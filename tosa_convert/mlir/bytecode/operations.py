"""The operations of bytecode, with the regions inside of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tosa_convert.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
    HAS_SUCCESSORS,
)
from tosa_convert.mlir.bytecode.varint import decode_varint


class Operation(NamedTuple):
    """An operation, by numbers: of its name, location, attributes and types in the tables of a Bytecode.

    attributes: the number of its dictionary, or -1 for none.
    operands: numbers of values, which a function and the regions inside of it share: a value's number
        is unique among the regions it is visible in. A block's arguments come first.
    first: the number of the first result; the others follow.
    """

    name: int
    location: int
    attributes: int
    types: list[int]
    operands: list[int]
    first: int
    regions: list[Region]


#: The same as a plain tuple, which is made in a fifth of the time.
Fields = tuple[int, int, int, list[int], list[int], int, "list[Region]"]


@dataclass(slots=True)
class Block:
    """arguments: numbers of their types; the values' own numbers begin with `first`."""

    arguments: list[int] = field(default_factory=list)
    first: int = 0
    operations: list[Fields] = field(default_factory=list)


@dataclass(slots=True)
class Region:
    """is_isolated: it uses no value from outside, and numbers its own from 0."""

    is_isolated: bool
    blocks: list[Block] = field(default_factory=list)


def operations(data: bytes) -> Fields:
    """The one operation of the section of operations, with all that is inside of it.

    Not recursive, because modules may nest deeply, and with the commonest numbers, of one to three
    bytes, read in line: this is the longest loop over a module.
    """
    top: list[Fields] = []
    append = top.append
    # The block is: operations that are left, and the number of the next value. The outer ones wait.
    left, number = decode_varint(data, 0)[0] >> 1, 0
    at = decode_varint(data, 0)[1]
    #: Of the region: blocks left. Of the operation: regions left, where its values begin, the list of
    #: its regions, and the block it stands in.
    stack: list[tuple[Any, ...]] = []
    blocks = regions = base = values = 0
    inside: list[Region] = []
    while True:
        if not left:
            if blocks:
                # The next block of the region.
                blocks -= 1
                head, at = decode_varint(data, at)
                left = head >> 1
                block = Block(first=number)
                inside[-1].blocks.append(block)
                append = block.operations.append
                if head & 1:
                    count, at = decode_varint(data, at)
                    for _ in range(count):
                        kind, at = decode_varint(data, at)
                        _, at = decode_varint(data, at)
                        block.arguments.append(kind)
                    number += count
                continue
            if regions:
                # The next region of the operation.
                regions -= 1
                blocks, at = decode_varint(data, at)
                inside.append(Region(not base))
                number = base
                if blocks:
                    count, at = decode_varint(data, at)
                    values = base + count
                continue
            if not stack:
                return top[0]
            append, left, number, blocks, regions, base, inside, values = stack.pop()
            continue
        left -= 1
        # The operation's name, and what it has.
        byte = data[at]
        if byte & 1:
            name = byte >> 1
            at += 1
        else:
            name, at = decode_varint(data, at)
        mask = data[at]
        byte = data[at + 1]
        if byte & 1:
            location = byte >> 1
            at += 2
        elif byte & 2:
            location = (byte | data[at + 2] << 8) >> 2
            at += 3
        elif byte & 4:
            location = (byte | data[at + 2] << 8 | data[at + 3] << 16) >> 3
            at += 4
        else:
            location, at = decode_varint(data, at + 1)
        attributes = -1
        if mask & HAS_ATTRIBUTES:
            attributes = data[at]
            if attributes & 1:
                attributes >>= 1
                at += 1
            elif attributes & 2:
                attributes = (attributes | data[at + 1] << 8) >> 2
                at += 2
            else:
                attributes, at = decode_varint(data, at)
        first = number
        types = _NO_TYPES
        if mask & HAS_RESULTS:
            if data[at] == 3 and data[at + 1] & 1:
                # One result, of one of the first types.
                types = _ONE_TYPE[data[at + 1] >> 1]
                at += 2
                number += 1
            else:
                types = []
                count, at = decode_varint(data, at)
                for _ in range(count):
                    kind, at = decode_varint(data, at)
                    types.append(kind)
                number += count
        operands: list[int] = []
        if mask & HAS_OPERANDS:
            count = data[at]
            if count & 1:
                count >>= 1
                at += 1
            else:
                count, at = decode_varint(data, at)
            for _ in range(count):
                byte = data[at]
                if byte & 1:
                    operands.append(byte >> 1)
                    at += 1
                elif byte & 2:
                    operands.append((byte | data[at + 1] << 8) >> 2)
                    at += 2
                elif byte & 4:
                    operands.append((byte | data[at + 1] << 8 | data[at + 2] << 16) >> 3)
                    at += 3
                else:
                    operand, at = decode_varint(data, at)
                    operands.append(operand)
        if mask & HAS_SUCCESSORS:
            # Successors: of control flow between blocks, which is refused for its blocks.
            count, at = decode_varint(data, at)
            for _ in range(count):
                _, at = decode_varint(data, at)
        if mask & HAS_REGIONS:
            count, at = decode_varint(data, at)
            found: list[Region] = []
            append((name, location, attributes, types, operands, first, found))
            stack.append((append, left, number, blocks, regions, base, inside, values))
            left, blocks, regions, inside = 0, 0, count >> 1, found
            base = 0 if count & 1 else values
            continue
        append((name, location, attributes, types, operands, first, _NO_REGIONS))


_NO_REGIONS: Final[list[Region]] = []
_NO_TYPES: Final[list[int]] = []
_ONE_TYPE: Final = [[kind] for kind in range(128)]
