"""Operations of MLIR text: their generic form, what the custom forms share, and their encoding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_OPERANDS, HAS_RESULTS
from tosa_convert.formats.mlir.text.parse.attributes import AttributeParser, Dictionary
from tosa_convert.formats.mlir.text.parse.cursor import TextCursor
from tosa_convert.formats.mlir.text.parse.elements import Parsed

#: Digits of the number in a name such as %0#1.
_INDEX_DIGITS = 12
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


@dataclass(slots=True, eq=False, repr=False)
class ParsedRegion:
    """A region, of which only names and types of values are kept beside its encoding.

    A value is its number in the bytecode. The values of a region that may use those around it follow
    them: how many these will be is not known yet, so that `room` numbers are left for each region.

    parent: the region around it whose values it may use; None if it is isolated.
    room: more than any region of the text has values.
    names: values by their names in the text, with those of the regions around.
    groups: how many values a name has, if it has several.
    types: the types of the values of this region, and of each region around it.
    blocks: how many it has. count, rows: the operations of the last one: how many, and their encoding.
    hint: what to do if it uses a value that is not defined.
    """

    parent: ParsedRegion | None
    room: int
    first: int = 0
    names: dict[bytes, int] = field(default_factory=dict)
    groups: dict[bytes, int] = field(default_factory=dict)
    types: list[list[bytes]] = field(default_factory=lambda: [[]])
    blocks: int = 0
    count: int = 0
    hint: str = ""
    rows: list[bytearray] = field(default_factory=lambda: [bytearray()])
    _own: list[bytes] = field(default_factory=list)
    _arguments: bytes = b""
    _closed: list[bytes | bytearray] = field(default_factory=list)
    _has_inner: bool = False

    def __post_init__(self) -> None:
        parent = self.parent
        if parent is not None:
            parent._has_inner = True
            self.first = parent.first + self.room
            self.names, self.groups = parent.names, parent.groups
            self.types = [*parent.types, []]

    # -- values -------------------------------------------------------------------------------

    def find(self, name: bytes) -> int | None:
        """Find the value of a name, here or in the regions around; None if there is none."""
        value = self.names.get(name)
        if value is None and b"#" in name:
            head, _, number = name.partition(b"#")
            index = int(number[:_INDEX_DIGITS])
            if index < self.groups.get(head, 0) and number == b"%d" % index:
                return self.names[head] + index
        return value

    def types_of(self, values: Sequence[int]) -> list[bytes]:
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
        has |= code.HAS_ATTRIBUTES
        parts.append(encoder.dictionary(operation.attributes.items()))
    if operation.types:
        has |= code.HAS_RESULTS
        parts += numbers[len(operation.types)], *operation.types
    if operation.operands:
        has |= code.HAS_OPERANDS
        parts.append(numbers[len(operation.operands)])
        parts += map(numbers.__getitem__, operation.operands)
    if operation.regions:
        has |= code.HAS_REGIONS
        is_isolated = operation.regions[0].parent is None
        parts.append(numbers[len(operation.regions) << 1 | is_isolated])
    parts[1] = bytes((has,))
    return parts


#: Digits of a number of results that are read: more are too many anyway.
_DIGITS: Final = 12

_VALUE: Final = re.compile(rb"%[\w$.-]+(?:#([0-9]+))?")
_RESULT: Final = re.compile(rb"(%[\w$.-]+)(?:[ \t]*:[ \t]*([0-9]+))?")
#: Operands in a row, so few that what is made of them at once is small.
_OPERANDS: Final = re.compile(rb"%[\w$.-]+(?:#[0-9]+)?(?:[ \t]*,[ \t]*%[\w$.-]+(?:#[0-9]+)?){0,99}")
_LABEL: Final = re.compile(rb"\^[\w$.-]+")
#: Up to which names an operation that isolates its regions from values outside is known.
_ISOLATED: Final = frozenset({"builtin.module", "func.func"})

#: A parser of an operation that has regions: yields each region when its text is next, and is resumed
#: after it.
Steps = Iterator[ParsedRegion]
ResultNames = list[tuple[bytes, int]]


class OperationParser:
    """What parsers of operations share: values, signatures, regions, and the generic form.

    region: the region that is being parsed.
    """

    def __init__(self, cursor: TextCursor, attributes: AttributeParser) -> None:
        self.cursor = cursor
        self.attributes = attributes
        self.types = attributes.types
        self.encoder = attributes.encoder
        # Each value has a type or a name in the text.
        self.region = ParsedRegion(None, 2 * len(cursor.data) + 1)
        self.region.begin_block((), self.encoder)
        #: The type of the results of operations whose form is not known.
        self.unknown_type = self.types.number("none")
        self._results_left = len(cursor.data)
        #: How many regions, how many blocks, and how many results besides the first of each operation.
        self._regions = self._blocks = self._others = 0

    # -- values -------------------------------------------------------------------------------

    def operands(self) -> list[int]:
        """Parse the values that are next, separated by commas; none if there is none."""
        cursor = self.cursor
        region = self.region
        names = region.names
        parsed: list[int] = []
        while True:
            cursor.skip()
            # Fast path of `value`; equal by test test_operands_in_a_row_equal_single_ones
            found = _OPERANDS.match(cursor.data, cursor.at)
            if found is None and not parsed:
                return parsed
            row = found[0].split(b",") if found else []
            values = [names.get(name.strip()) for name in row]
            if None in values:
                values = [region.find(name.strip()) for name in row]
            if found is None or None in values:
                parsed.append(self.value())
            else:
                cursor.at = found.end()
                parsed += values  # type: ignore[arg-type]
            if not cursor.accept(b","):
                return parsed

    def value(self) -> int:
        cursor = self.cursor
        found = cursor.match(_VALUE)
        if found is None:
            raise cursor.unexpected("a value such as %0")
        value = self.region.find(found[0])
        if value is None:
            name = found[0].decode()
            message = f"the value {name} is used here, but no operation before defines it"
            cursor.refuse(message, found.start(), self.region.hint)
        return value

    def result_names(self) -> ResultNames:
        """Parse the names before an equals sign, each with its number of results."""
        cursor = self.cursor
        names: ResultNames = []
        if not cursor.peek(b"%"):
            return names
        while True:
            found = cursor.match(_RESULT)
            if found is None:
                raise cursor.unexpected("the name of a result")
            count = int((found[2] or b"1")[:_DIGITS])
            # Each has a type in the text, so that few characters cannot be many results.
            self._results_left -= count
            if not count or self._results_left < 0:
                cursor.refuse("found a number of results that no operation has", found.start(2))
            names.append((found[1], count))
            if not cursor.accept(b","):
                cursor.expect(b"=")
                return names

    def define(self, names: ResultNames, types: list[bytes], at: int) -> None:
        count = sum([number for _, number in names])
        if names and count != len(types):
            self.cursor.refuse(
                f"found names for {count} results, but the operation has {len(types)}", at
            )
        if len(types) > 1:
            self._others += len(types) - 1
            self.cursor.bound(self._others, "results besides the first", in_all=True)
        value = self.region.add(types)
        for name, count in names:
            self.name(name, value, at, count)
            value += count

    def name(self, name: bytes, value: int, at: int, count: int = 1) -> None:
        """Give a value its name, or a few values that follow one another."""
        if name in self.region.names:
            self.cursor.refuse(f"the value {name.decode()} is defined twice", at)
        self.region.name(name, value, count)

    # -- signatures ---------------------------------------------------------------------------

    def signature(self, operands: list[int]) -> list[bytes]:
        """Parse the types of results in `: (T, T) -> T`; its other types are those of the operands."""
        cursor = self.cursor
        cursor.expect(b":", "':' and the types of operands and results")
        cursor.skip()
        at = cursor.at
        inputs = self.types.in_parentheses()
        cursor.expect(b"->")
        results = self.types.results()
        self.check_types(operands, [parsed.number for parsed in inputs], at)
        return [parsed.number for parsed in results]

    def check_types(self, operands: list[int], types: list[bytes], at: int) -> None:
        defined = self.region.types_of(operands)
        if defined == types:
            return
        if len(operands) != len(types):
            message = f"found {len(types)} types of operands for {len(operands)} operands"
            self.cursor.refuse(message, at)
        for index, (found, type_) in enumerate(zip(defined, types, strict=True)):
            if found not in (type_, self.unknown_type):
                message = f"operand {index} has another type where it is defined than here"
                self.cursor.refuse(message, at)

    # -- regions ------------------------------------------------------------------------------

    def new_region(self, operation: str) -> ParsedRegion:
        """Return a new region of an operation that is inside the current region."""
        outer = self.region
        self._regions += 1
        self.cursor.bound(self._regions, "regions", in_all=True)
        return ParsedRegion(None if operation in _ISOLATED else outer, outer.room)

    def arguments(self) -> list[tuple[bytes, Parsed, Dictionary, bytes, int]]:
        """Parse arguments in parentheses: name, if any, type, attributes, location, offset of each."""
        cursor = self.cursor
        found: list[tuple[bytes, Parsed, Dictionary, bytes, int]] = []
        cursor.expect(b"(")
        while not cursor.accept(b")"):
            if found:
                cursor.expect(b",", "',' or ')'")
            cursor.skip()
            at = cursor.at
            name = cursor.match(_VALUE)
            if name is not None:
                cursor.expect(b":")
            type_ = self.types()
            others = self.attributes.optional_dictionary()
            location = self.attributes.locations.optional() or self.encoder.unknown
            found.append((name[0] if name else b"", type_, others, location, at))
            cursor.bound(len(found), "arguments")
        return found

    def begin_block(
        self, region: ParsedRegion, arguments: Sequence[tuple[bytes, bytes, bytes, int]] = ()
    ) -> None:
        """Add a block. arguments: name, type, location and offset of each."""
        self._blocks += 1
        self.cursor.bound(self._blocks, "blocks", in_all=True)
        region.begin_block([argument[1:3] for argument in arguments], self.encoder)
        outer, self.region = self.region, region
        first = region.add([type_ for _, type_, _, _ in arguments])
        for index, (name, _, _, at) in enumerate(arguments):
            if name:
                self.name(name, first + index, at)
        self.region = outer

    def label(self, region: ParsedRegion) -> bool:
        """Begin the block whose label is next, if one is."""
        cursor = self.cursor
        if cursor.match(_LABEL) is None:
            return False
        arguments: list[tuple[bytes, bytes, bytes, int]] = []
        if cursor.peek(b"("):
            arguments = [
                (name, type_.number, location, at)
                for name, type_, _, location, at in self.arguments()
            ]
        cursor.expect(b":")
        cursor.bound(region.blocks + 1, "blocks in a region")
        self.begin_block(region, arguments)
        return True

    # -- the generic form ---------------------------------------------------------------------

    def generic(self, operation: ParsedOperation, at: int) -> Steps:
        """Complete an operation in generic form, after its name."""
        cursor = self.cursor
        cursor.expect(b"(")
        operation.operands = self.operands()
        cursor.expect(b")")
        if cursor.accept(b"["):
            # Blocks to branch to, which no TOSA program has: the function is refused for its blocks.
            cursor.at -= 1
            cursor.skip_balanced(b"[", "'['")
        if cursor.accept(b"<"):
            operation.attributes = self.attributes.dictionary()
            cursor.expect(b">")
        if cursor.accept(b"("):
            while True:
                cursor.expect(b"{")
                region = self.new_region(operation.name)
                operation.regions.append(region)
                cursor.bound(len(operation.regions), "regions of an operation")
                yield region
                if not cursor.accept(b","):
                    break
            cursor.expect(b")")
        cursor.skip()
        others_at = cursor.at
        others = self.attributes.optional_dictionary()
        for name in others:
            if name in operation.attributes:
                cursor.refuse(f"the attribute {name} is there twice", others_at)
        operation.attributes.update(others)
        operation.types = self.signature(operation.operands)


# -- lines that differ from an earlier one only in values and location, as most do -----------------

#: Bytes of a line behind its operands, and how many lines are remembered.
_BYTES: Final = 400
_MOST: Final = 20_000
#: An operator with one result, in custom or generic form: its result, its name, its operands, and what
#: follows these. The next line is neither its location nor a comment.
_LINE: Final = re.compile(
    rb'[ \t]*(%%[\w$.-]+) = ("?tosa\.\w+"?[ (])(?:(%%[\w$.-]+(?:, %%[\w$.-]+){0,15})(?=[ )]))?'
    rb"([^\r\n%%]{0,%d})\r?\n(?=[ \t]*[^ \t\r\nl/])" % _BYTES
)
_LOCATION: Final = b" loc("


class _Known(NamedTuple):
    """What a line means apart from its values and location.

    types: those of its operands. head, middle: the encoding before and after the location. results: the
    encoded types of its results.
    """

    types: list[bytes]
    head: bytes
    middle: bytes
    results: list[bytes]


class LineParser:
    """Adds operators whose lines are known. The first line of each kind is parsed as all others are."""

    def __init__(self, operations: OperationParser) -> None:
        self.operations = operations
        #: By the text: the name of the operator, and all that follows the operands but the location.
        self._known: dict[bytes, _Known] = {}
        #: The line that is not known, and where its text but the location ends.
        self._unknown, self._end = b"", -1

    # Fast path of _ModuleParser._operation; equal by test test_ordinary_lines_equal_others
    def __call__(self) -> bool:
        """Add the operators that are next, up to one that is not known; return whether any is."""
        operations, cursor = self.operations, self.operations.cursor
        region, numbers, here = operations.region, operations.encoder.numbers, cursor.at
        names, own, first = region.names, region.types[-1], region.first
        flat = region.parent is None
        data, rows, located = cursor.data, region.rows[-1], operations.attributes.locations.ending
        while (line := _LINE.match(data, cursor.at)) is not None:
            result, word, operands, rest = line.groups()
            head, found, _ = rest.rpartition(_LOCATION)
            known = self._known.get(word + (head if found else rest))
            if known is None:
                self._unknown = word + (head if found else rest)
                self._end = line.start(4) + len(head if found else rest)
                break
            values = [names.get(name) for name in operands.split(b", ")] if operands else []
            if None in values or result in names:
                break
            types = [own[value] for value in values] if flat else region.types_of(values)  # type: ignore[index,arg-type]
            if types != known.types or not (flat or min(values, default=first) >= first):  # type: ignore[type-var,operator]
                break
            end = line.end(4)
            place = located(line.start(2), line.start(4) + len(head) + 1 if found else end, end)
            if place is None:
                break
            region.name(result, first + len(own))
            own += known.results
            region.count += 1
            values_ = map(numbers.__getitem__, values)  # type: ignore[arg-type]
            rows += b"".join([known.head, place, known.middle, *values_])
            cursor.at = line.end()
        return cursor.at > here

    def ends(self) -> bool:
        """Return whether a line that was not known ends here, but for its location."""
        is_whole, self._end = self.operations.cursor.at == self._end, -1
        return is_whole

    def remember(self, operation: ParsedOperation) -> None:
        """Remember the line that was not known, all of which but its location is this operation."""
        if operation.regions or len(self._known) >= _MOST:
            return
        encoder = self.operations.encoder
        numbers, values = encoder.numbers, operation.operands
        has, middle = HAS_RESULTS, b""
        if operation.attributes:
            has, middle = has | HAS_ATTRIBUTES, encoder.dictionary(operation.attributes.items())
        middle += numbers[1] + operation.types[0]
        if values:
            has, middle = has | HAS_OPERANDS, middle + numbers[len(values)]
        self._known[self._unknown] = _Known(
            self.operations.region.types_of(values),
            encoder.operation(operation.name) + bytes((has,)),
            middle,
            operation.types.copy(),
        )
