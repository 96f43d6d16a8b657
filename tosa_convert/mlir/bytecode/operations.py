"""The operations of a bytecode, with the regions inside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tosa_convert.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
    HAS_SUCCESSORS,
)
from tosa_convert.mlir.bytecode.varint import decode_varint


class Operation(NamedTuple):
    """An operation. Its name, location, attributes and types are numbers in the tables of a Bytecode.

    attributes: the number of its dictionary, or -1 for none.
    operands: numbers of values. A function and the regions inside it share them: a value's number is
        unique among the regions in which it is visible. A block's arguments come first.
    first: the number of the first result; the others follow.
    """

    name: int
    location: int
    attributes: int
    types: list[int]
    operands: list[int]
    first: int
    regions: list[Region]


#: The same as a plain tuple, which takes a fifth of the time to create.
Fields = tuple[int, int, int, list[int], list[int], int, "list[Region]"]


@dataclass(slots=True)
class Block:
    """arguments: the numbers of their types. The values' own numbers begin with `first`."""

    arguments: list[int] = field(default_factory=list)
    first: int = 0
    operations: list[Fields] = field(default_factory=list)


@dataclass(slots=True)
class Region:
    """is_isolated: it uses no value from outside, and numbers its own from 0."""

    is_isolated: bool
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """An operation whose regions are being decoded.

    first_value: the number of each region's first value.
    append, left, value: where its block continues after it. How to add an operation, how many are left,
        and the number of the next value.
    values_end: the number after the last value of the current region and of the blocks around it.
    """

    regions: list[Region]
    regions_left: int
    first_value: int
    append: Callable[[Fields], None]
    left: int
    value: int
    blocks_left: int = 0
    values_end: int = 0


#: Where decoding goes on: how to add an operation, how many are left, the next value, and the offset.
_Position = tuple[Callable[[Fields], None], int, int, int]


def _leave_block(data: bytes, stack: list[_Frame], value: int, offset: int) -> _Position:
    """Go on after a block: in the next one of the operation's regions, or after the operation."""
    frame = stack[-1]
    while not frame.blocks_left:
        if not frame.regions_left:
            stack.pop()
            return frame.append, frame.left, frame.value, offset
        frame.regions_left -= 1
        frame.regions.append(Region(not frame.first_value))
        value = frame.first_value
        frame.blocks_left, offset = decode_varint(data, offset)
        if frame.blocks_left:
            count, offset = decode_varint(data, offset)
            frame.values_end = frame.first_value + count
    frame.blocks_left -= 1
    head, offset = decode_varint(data, offset)
    block = Block(first=value)
    frame.regions[-1].blocks.append(block)
    if head & 1:
        count, offset = decode_varint(data, offset)
        for _ in range(count):
            type_index, offset = decode_varint(data, offset)
            # Its location.
            _, offset = decode_varint(data, offset)
            block.arguments.append(type_index)
        value += count
    return block.operations.append, head >> 1, value, offset


# Long because this is the longest loop over a module: the commonest varints, of one to three bytes, are
# decoded in line instead of by a call.
def decode_operations(data: bytes) -> Fields:
    """The one operation of the section of operations, with everything inside it.

    Not recursive, because modules may nest deeply.
    """
    top: list[Fields] = []
    append = top.append
    head, offset = decode_varint(data, 0)
    left, value = head >> 1, 0
    stack: list[_Frame] = []
    while True:
        if not left:
            if not stack:
                return top[0]
            append, left, value, offset = _leave_block(data, stack, value, offset)
            continue
        left -= 1
        # Fast path of `decode_varint`; equal by test test_varints_decoded_in_line_equal_decode_varint
        # The operation's name, and what it has.
        byte = data[offset]
        if byte & 1:
            name = byte >> 1
            offset += 1
        else:
            name, offset = decode_varint(data, offset)
        mask = data[offset]
        byte = data[offset + 1]
        if byte & 1:
            location = byte >> 1
            offset += 2
        elif byte & 2:
            location = (byte | data[offset + 2] << 8) >> 2
            offset += 3
        elif byte & 4:
            location = (byte | data[offset + 2] << 8 | data[offset + 3] << 16) >> 3
            offset += 4
        else:
            location, offset = decode_varint(data, offset + 1)
        attributes = -1
        if mask & HAS_ATTRIBUTES:
            attributes = data[offset]
            if attributes & 1:
                attributes >>= 1
                offset += 1
            elif attributes & 2:
                attributes = (attributes | data[offset + 1] << 8) >> 2
                offset += 2
            else:
                attributes, offset = decode_varint(data, offset)
        first = value
        types = _NO_TYPES
        if mask & HAS_RESULTS:
            if data[offset] == 3 and data[offset + 1] & 1:
                # One result, of one of the first types.
                types = _ONE_TYPE[data[offset + 1] >> 1]
                offset += 2
                value += 1
            else:
                types, offset = _numbers(data, offset)
                value += len(types)
        operands: list[int] = []
        if mask & HAS_OPERANDS:
            count = data[offset]
            if count & 1:
                count >>= 1
                offset += 1
            else:
                count, offset = decode_varint(data, offset)
            for _ in range(count):
                byte = data[offset]
                if byte & 1:
                    operands.append(byte >> 1)
                    offset += 1
                elif byte & 2:
                    operands.append((byte | data[offset + 1] << 8) >> 2)
                    offset += 2
                elif byte & 4:
                    operands.append((byte | data[offset + 1] << 8 | data[offset + 2] << 16) >> 3)
                    offset += 3
                else:
                    operand, offset = decode_varint(data, offset)
                    operands.append(operand)
        if mask & HAS_SUCCESSORS:
            # Control flow between blocks, which is refused for its blocks.
            _, offset = _numbers(data, offset)
        if mask & HAS_REGIONS:
            count, offset = decode_varint(data, offset)
            regions: list[Region] = []
            append((name, location, attributes, types, operands, first, regions))
            # Isolated regions number their values from 0, others after those of the regions around them.
            first_value = 0 if count & 1 or not stack else stack[-1].values_end
            stack.append(_Frame(regions, count >> 1, first_value, append, left, value))
            left = 0
            continue
        append((name, location, attributes, types, operands, first, _NO_REGIONS))


def _numbers(data: bytes, offset: int) -> tuple[list[int], int]:
    """A list of numbers after their count, and the offset after them."""
    count, offset = decode_varint(data, offset)
    numbers = []
    for _ in range(count):
        number, offset = decode_varint(data, offset)
        numbers.append(number)
    return numbers, offset


_NO_REGIONS: Final[list[Region]] = []
_NO_TYPES: Final[list[int]] = []
_ONE_TYPE: Final = [[number] for number in range(128)]
