"""The operations of a bytecode, with the regions inside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_PROPERTIES,
    HAS_REGIONS,
    HAS_RESULTS,
    HAS_SUCCESSORS,
    HAS_USE_LISTS,
    Cursor,
    malformed,
)
from tosa_convert.formats.mlir.bytecode.read_sections import Section
from tosa_convert.formats.mlir.bytecode.varints import decode_varint
from tosa_convert.graph.lazy_numpy import FEW

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.operation_columns import (
        JoinProperties,
        OperationColumns,
    )

#: So many operations of columns are made at once.
_AT_ONCE: Final = 1 << 12
#: Blocks of fewer operations are not worth array operations.
_MIN_COLUMNS: Final = FEW


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


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """arguments: the numbers of their types. The values' own numbers begin with `first`.

    locations: those of the arguments that have one.
    columns: all operations of a large block, if they are ordinary.
    """

    first: int = 0
    arguments: list[int] = field(default_factory=list)
    locations: list[int] = field(default_factory=list)
    columns: OperationColumns | None = None
    _operations: list[Fields] = field(default_factory=list)

    @property
    def operations(self) -> list[Fields]:
        """Return the operations; of columns, they are made on the first call."""
        if self.columns is not None and not self._operations:
            self._operations = list(operations_of(self.columns))
        return self._operations

    def without_last(self) -> Iterator[Fields]:
        """Return the operations except the last; of columns, each is made when it is next."""
        if self.columns is None or self._operations:
            return islice(self._operations, max(len(self._operations) - 1, 0))
        return islice(operations_of(self.columns), len(self.columns.names) - 1)

    def append(self, operation: Fields) -> None:
        """Add an operation to a block without columns."""
        self._operations.append(operation)

    def last(self) -> Operation | None:
        if self.columns is not None:
            return Operation(*next(operations_of(self.columns.only(len(self.columns.names) - 1))))
        return Operation(*self._operations[-1]) if self._operations else None

    def types_of(self, values: Sequence[int]) -> list[int]:
        """Return the indices of the types of values of this block; -1 for a value from outside."""
        found = []
        for value in values:
            index, number = value - self.first, -1
            if 0 <= index < len(self.arguments):
                number = self.arguments[index]
            elif index >= 0 and self.columns is not None:
                place = int(self.columns.firsts.searchsorted(value, "right")) - 1
                number = int(self.columns.types[place])
            elif index >= 0:
                place = bisect_right(self._operations, value, key=itemgetter(5)) - 1
                types, first = self._operations[place][3], self._operations[place][5]
                number = types[value - first] if value - first < len(types) else -1
            found.append(number)
        return found


@dataclass(slots=True, eq=False, repr=False)
class Region:
    """is_isolated: it uses no value from outside, and numbers its own from 0."""

    is_isolated: bool
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class _Frame:
    """An operation whose regions are being decoded.

    first_value: the number of each region's first value.
    append, left, value: where its block continues after it. How to add an operation, how many are left,
        and the number of the next value.
    values_end: the number after the last value of the current region and of the blocks around it.
    end: the offset at which the regions end, if they are a section; else -1.
    """

    regions: list[Region]
    regions_left: int
    first_value: int
    append: Callable[[Fields], None]
    left: int
    value: int
    blocks_left: int = 0
    values_end: int = 0
    end: int = -1


#: A place in a block: how to add an operation, how many are left, and the next value.
_Place = tuple[Callable[[Fields], None], int, int]
#: The same, and the offset at which decoding goes on.
_Position = tuple[Callable[[Fields], None], int, int, int]


class _Regions:
    """The bookkeeping of nested regions: which operation's regions are being decoded.

    base: the offset of the section in the file. names: how many names of operations there are.
    are_ordinary: whether the operations of all large blocks so far are.
    """

    def __init__(
        self,
        data: bytes,
        version: int,
        names: int,
        join_properties: JoinProperties,
        base: int = 0,
        where: str = "",
    ) -> None:
        self.data = data
        self.names = names
        self.version = version
        self.base = base
        self.where = where
        self.join_properties = join_properties
        self.stack: list[_Frame] = []
        self.are_ordinary = True

    def enter(self, regions: list[Region], after: _Place, offset: int) -> int:
        """Begin with an operation's regions; return the first's offset. after: how its block goes on."""
        count, offset = decode_varint(self.data, offset)
        frame = _Frame(regions, count >> 1, 0, *after)
        # Isolated regions number their values from 0, others after those of the regions around them.
        is_isolated = count & 1
        if self.stack and not is_isolated:
            frame.first_value = self.stack[-1].values_end
        if is_isolated and self.version >= code.REGIONS_ARE_SECTIONS:
            cursor = Cursor(self.data, offset, len(self.data), self.base, self.where)
            section_id, offset, frame.end = cursor.section()
            if section_id != code.IR:
                cursor.refuse(f"found section {section_id}, expected the operations of a region")
        self.stack.append(frame)
        return offset

    def next_block(self, value: int, offset: int) -> _Position:
        """Go on after a block: in the next one of the operation's regions, or after the operation."""
        data, frame = self.data, self.stack[-1]
        if frame.regions and value > frame.values_end:
            message = f"a region has more than the {frame.values_end} values that it announces"
            raise malformed(self.where, self.base + offset, message)
        while not frame.blocks_left:
            if not frame.regions_left:
                self.stack.pop()
                if frame.end not in (-1, offset):
                    message = (
                        f"the regions of an operation end at byte {self.base + offset}, not here"
                    )
                    raise malformed(self.where, self.base + frame.end, message)
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
            offset = self._arguments(block, offset)
            value += len(block.arguments)
        left = head >> 1
        if left >= _MIN_COLUMNS and self.are_ordinary:
            from tosa_convert.formats.mlir.bytecode.operation_columns import decode_columns

            decoded = decode_columns(data, offset, left, value, self.names, self.join_properties)
            if decoded is not None:
                block.columns, offset = decoded
                return block.append, 0, value + block.columns.result_count(), offset
            # A file could claim many blocks that are not, and each attempt takes time.
            self.are_ordinary = False
        return block.append, left, value, offset

    def _arguments(self, block: Block, offset: int) -> int:
        """Decode a block's arguments; skip the orders of their uses, which mean nothing here."""
        data = self.data
        count, offset = decode_varint(data, offset)
        for _ in range(count):
            type_index, offset = decode_varint(data, offset)
            has_location = 1
            if self.version >= code.ARGUMENTS_OMIT_LOCATIONS:
                type_index, has_location = type_index >> 1, type_index & 1
            if has_location:
                location, offset = decode_varint(data, offset)
                block.locations.append(location)
            block.arguments.append(type_index)
        if self.version >= code.HAS_USE_LIST_ORDERS:
            has_orders = data[offset]
            offset += 1
            if has_orders:
                offset = skip_use_list_orders(data, offset, count)
        return offset


def skip_use_list_orders(data: bytes, offset: int, value_count: int) -> int:
    orders = 1
    if value_count > 1:
        orders, offset = decode_varint(data, offset)
    for _ in range(orders):
        if value_count > 1:
            _, offset = decode_varint(data, offset)
        count, offset = decode_varint(data, offset)
        for _ in range(count >> 1):
            _, offset = decode_varint(data, offset)
    return offset


def _decode(data: bytes, regions_of: _Regions) -> list[Fields]:
    """Decode operations with all inside, without recursion; IndexError at the end of the data."""
    top: list[Fields] = []
    append = top.append
    head, offset = decode_varint(data, 0)
    left, value = head >> 1, 0
    stack, join_properties = regions_of.stack, regions_of.join_properties
    while True:
        if not left:
            if not stack:
                if offset > len(data):
                    raise IndexError  # the last number is cut off
                return top
            append, left, value, offset = regions_of.next_block(value, offset)
            continue
        left -= 1
        name, offset = decode_varint(data, offset)
        mask = data[offset]
        location, offset = decode_varint(data, offset + 1)
        attributes = -1
        if mask & HAS_ATTRIBUTES:
            attributes, offset = decode_varint(data, offset)
        if mask & HAS_PROPERTIES:
            properties, offset = decode_varint(data, offset)
            attributes = join_properties(name, attributes, properties)
        first, types = value, _NO_TYPES
        if mask & HAS_RESULTS:
            types, offset = _numbers(data, offset)
            value += len(types)
        operands: list[int] = []
        if mask & HAS_OPERANDS:
            operands, offset = _numbers(data, offset)
        regions = _NO_REGIONS
        if mask & _RARE:
            offset = _skip_successors_and_uses(data, offset, mask, len(types))
            if mask & HAS_REGIONS:
                regions = []
                offset = regions_of.enter(regions, (append, left, value), offset)
                left = 0
        append((name, location, attributes, types, operands, first, regions))


def decode_operations(
    section: Section, version: int, names: int, join_properties: JoinProperties, where: str = ""
) -> Operation:
    """Decode the one operation of the section of operations, with everything inside it."""
    data = section.bytes
    try:
        if decode_varint(data, 0)[0] & 1:
            raise malformed(
                where, section.offset, "the outermost block has arguments, expected none"
            )
        top = _decode(data, _Regions(data, version, names, join_properties, section.offset, where))
    except IndexError:
        end = section.offset + len(data)
        raise malformed(where, end, "the section ends in the middle of an operation") from None
    if len(top) != 1:
        message = f"found {len(top)} operations at the top, expected one"
        raise malformed(where, section.offset, message)
    return Operation(*top[0])


def blocks_of(operation: Operation) -> Iterator[Block]:
    """Iterate over all blocks inside an operation, however deep."""
    pending = [operation.regions]
    while pending:
        for region in pending.pop():
            for block in region.blocks:
                yield block
                if block.columns is None:
                    pending += [fields[6] for fields in block.operations if fields[6]]


def largest_numbers(operation: Operation) -> tuple[int, int, int]:
    """Return the largest indices of a name, of a location and of a dictionary in an operation."""
    largest = [operation.name, operation.location, operation.attributes]
    for block in blocks_of(operation):
        if block.columns is not None:
            for field_index, column in enumerate(block.columns.numbers()):
                largest[field_index] = max(largest[field_index], int(column.max()))
        elif block.operations:
            for field_index in range(3):
                found = max(map(itemgetter(field_index), block.operations))
                largest[field_index] = max(largest[field_index], found)
    return largest[0], largest[1], largest[2]


def attributes_and_results(body: Block) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over operations: the numbers of name and dictionary, how many results, and the first."""
    columns = body.columns
    if columns is None:
        for name, _, attributes, types, _, first, _ in body.operations:
            yield name, attributes, len(types), first
        return
    from tosa_convert.graph.lazy_numpy import np

    chosen = np.flatnonzero(columns.attributes != -1)
    fields = columns.names, columns.attributes, columns.types >= 0, columns.firsts
    yield from zip(*(field[chosen].tolist() for field in fields), strict=True)


def operations_of(columns: OperationColumns) -> Iterator[Fields]:
    fields = (*columns.numbers(), columns.types, columns.operand_counts, columns.firsts)
    before = 0
    for first_row in range(0, len(columns.names), _AT_ONCE):
        rows = slice(first_row, first_row + _AT_ONCE)
        after, end = before + int(columns.operand_counts[rows].sum()), 0
        operands, before = columns.operands[before:after].tolist(), after
        for name, location, attributes, type_index, count, first in zip(
            *(column[rows].tolist() for column in fields), strict=True
        ):
            types = [type_index] if type_index >= 0 else _NO_TYPES
            start, end = end, end + count
            yield name, location, attributes, types, operands[start:end], first, _NO_REGIONS


def _skip_successors_and_uses(data: bytes, offset: int, mask: int, result_count: int) -> int:
    """Return the offset after what follows an operation's operands and means nothing here."""
    if mask & HAS_SUCCESSORS:
        # Control flow between blocks, which is refused for its blocks.
        _, offset = _numbers(data, offset)
    if mask & HAS_USE_LISTS:
        offset = skip_use_list_orders(data, offset, result_count)
    return offset


def _numbers(data: bytes, offset: int) -> tuple[list[int], int]:
    """Decode a list of varints after their count; return it and the offset after it."""
    count, offset = decode_varint(data, offset)
    numbers = []
    for _ in range(count):
        number, offset = decode_varint(data, offset)
        numbers.append(number)
    return numbers, offset


#: What few operations have.
_RARE: Final = HAS_SUCCESSORS | HAS_USE_LISTS | HAS_REGIONS
_NO_REGIONS: Final[list[Region]] = []
_NO_TYPES: Final[list[int]] = []
