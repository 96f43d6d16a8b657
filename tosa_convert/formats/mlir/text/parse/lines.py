"""Lines of MLIR text that differ from an earlier one only in their values and their location.

Most lines of a large program do. They are added without being parsed again.
"""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.formats.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_OPERANDS, HAS_RESULTS
from tosa_convert.formats.mlir.text.parse.operations import OperationParser, ParsedOperation
from tosa_convert.records import NamedTuple

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
