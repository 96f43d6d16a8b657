"""The names in a module's text, as MLIR gives them: %arg0 and %7 for values, #loc5 for locations."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.attributes import SymbolAttr
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Block, Operation
from tosa_convert.formats.mlir.locations import LocationReader
from tosa_convert.graph.opset import OPERATORS

#: Operations whose results have names in custom form: those that always have several. Source: their
#: `getAsmResultNames`.
NAMED_RESULTS: Final = {
    row.mlir: tuple(result.name for result in row.results)
    for row in OPERATORS
    if len(row.results) > 1 and not any(result.arity for result in row.results)
}


_GLOBAL_LOAD: Final = "ml_program.global_load"
#: Characters of the names of values; a name does not begin with a digit.
_BEGIN_NAMES: Final = frozenset(f"{string.ascii_letters}$._-".encode())
_IN_NAMES: Final = _BEGIN_NAMES | frozenset(string.digits.encode())


class Counters(NamedTuple):
    """The numbers of the next value, of the next argument, and of the next name that is taken.

    taken: names that the blocks around have.
    """

    values: int = 0
    arguments: int = 0
    conflicts: int = 0
    taken: frozenset[str] = frozenset()


class BlockNames(NamedTuple):
    """The names of a block's values.

    values: by the numbers of values, those of the blocks around included. arguments: of the block.
    counters: for the blocks inside.
    """

    values: list[str]
    arguments: list[str]
    counters: Counters


class ValueNamer:
    """Names the values of one module.

    In custom form blocks side by side use the same names, in generic form no two blocks do.
    """

    def __init__(self, bytecode: Bytecode, *, generic: bool) -> None:
        self.bytecode = bytecode
        self.named: dict[int, tuple[str, ...]] = {}
        #: The numbers of the operation whose result has the name of what it reads.
        self.loads: set[int] = set()
        #: Generic form: the counters of each block, by its identity.
        self.starts: dict[int, Counters] | None = None
        if generic:
            self.starts = _distinct(bytecode.root)
        else:
            self.named = {
                number: NAMED_RESULTS[name]
                for number, name in enumerate(bytecode.names)
                if name in NAMED_RESULTS
            }
            self.loads = {n for n, name in enumerate(bytecode.names) if name == _GLOBAL_LOAD}

    def __call__(self, block: Block, counters: Counters, outer: list[str]) -> BlockNames:
        if self.starts is not None:
            counters = self.starts[id(block)]
        number, argument, _, _ = counters
        arguments = [f"%arg{argument + index}" for index in range(len(block.arguments))]
        names = outer[: block.first] + arguments
        named = self.named
        clashes = _Clashes(counters)
        if self.loads:
            clashes.taken.update(name[1:] for name in arguments)
        for fields in block.operations:
            count = len(fields[3])
            if not count:
                continue
            if named and fields[0] in named and count == len(named[fields[0]]):
                names += map(clashes.unused, named[fields[0]])
            elif fields[0] in self.loads:
                names.append(clashes.unused(self._name_of_global(fields[2])))
            elif count == 1:
                names.append(f"%{number}")
                number += 1
            else:
                names += [f"%{number}#{index}" for index in range(count)]
                number += 1
        inner = Counters(
            number, argument + len(arguments), clashes.conflicts, frozenset(clashes.taken)
        )
        return BlockNames(names, arguments, inner)

    def _name_of_global(self, index: int) -> str:
        """Return the name of a global with the characters that the names of values may have."""
        symbol = self.bytecode.attribute(self.bytecode.dictionary(index)["global"])
        assert isinstance(symbol, SymbolAttr)
        text = symbol.name.replace(b" ", b"_")
        found = "".join(chr(byte) if byte in _IN_NAMES else f"{byte:X}" for byte in text)
        return found if text[:1] and text[0] in _BEGIN_NAMES else f"_{found}"


class _Clashes:
    """Finds unused names."""

    def __init__(self, counters: Counters) -> None:
        self.conflicts = counters.conflicts
        self.taken = set(counters.taken)

    def unused(self, name: str) -> str:
        found = name
        while found in self.taken:
            found = f"{name}_{self.conflicts}"
            self.conflicts += 1
        self.taken.add(found)
        return f"%{found}"


def _distinct(root: Operation) -> dict[int, Counters]:
    """Return counters with which no two blocks share a name; MLIR takes the last region first."""
    starts: dict[int, Counters] = {}
    counters = Counters()
    pending = [block for region in root.regions for block in region.blocks]
    while pending:
        block = pending.pop()
        starts[id(block)] = counters
        counters = Counters(
            counters.values + sum(1 for fields in block.operations if fields[3]),
            counters.arguments + len(block.arguments),
        )
        for fields in block.operations:
            for region in fields[6]:
                pending += region.blocks
    return starts


#: Means the location of a block argument, which is not known.
UNKNOWN: Final = -1

_UNKNOWN_TEXT: Final = "unknown"
#: A location as text: all of it, or parts, in which numbers stand for other locations.
_Text = str | tuple["int | str", ...]


class LocationAliases:
    """Return aliases of `used` locations, in the order of use; UNKNOWN is that of block arguments."""

    def __init__(self, bytecode: Bytecode, used: Iterable[int]) -> None:
        self._reader = LocationReader(bytecode, full_paths=True)
        #: Different locations, numbered as they were found, and how deeply each nests.
        self._found: dict[_Text, int] = {}
        self._depths: list[int] = []
        #: The number among those found, by the number in the bytecode.
        self._numbers: dict[int, int] = {}
        indices = list(dict.fromkeys(used))
        plain = self._plain(bytecode, indices)
        numbers, found, depths = self._numbers, self._found, self._depths
        for index in indices:
            text = plain.get(index)
            if text is None:
                self._visit(index)
                continue
            number = numbers[index] = found.setdefault(text, len(found))
            if number == len(depths):
                depths.append(1)
        #: The numbers of those found, in the order of their aliases.
        self._order = sorted(found.values(), key=depths.__getitem__)
        self._names = [""] * len(found)
        for rank, number in enumerate(self._order):
            self._names[number] = f"#loc{rank or ''}"
        names = self._names
        #: What follows an operation, by the number of its location.
        self.after = {index: f" loc({names[number]})" for index, number in numbers.items()}

    def _plain(self, bytecode: Bytecode, indices: list[int]) -> dict[int, str]:
        """Return the texts of the locations that are a file, a line and a column, as most are."""
        # Fast path of `_visit`; equal by test test_plain_locations_are_printed_as_others_are
        data, starts, encoded = bytecode.bytes, bytecode.starts, bytecode.is_encoded
        head = code.FILE_LOCATION << 1 | 1
        plain = [
            index
            for index in indices
            if index >= 0 and data[starts[index]] == head and encoded[index]
        ]
        texts = self._reader(plain)
        return {index: text[len("loc(") : -1] for index, text in zip(plain, texts, strict=True)}

    def _visit(self, index: int) -> int:
        """Add a location after those inside it; returns its number among those found."""
        number = self._numbers.get(index)
        if number is None:
            text, depth = self._nested(index)
            number = self._numbers[index] = self._found.setdefault(text, len(self._found))
            if number == len(self._depths):
                self._depths.append(depth)
        return number

    def _nested(self, index: int) -> tuple[_Text, int]:
        """Return a location as text, and how deeply it nests."""
        if index == UNKNOWN:
            return _UNKNOWN_TEXT, 1
        parts = [
            self._visit(part) if isinstance(part, int) else part
            for part in self._reader.parts(index)
        ]
        depths = [self._depths[part] for part in parts if isinstance(part, int)]
        text: _Text = tuple(parts) if depths else "".join(map(str, parts))
        return text, max(depths, default=0) + 1

    def before(self) -> Iterator[str]:
        """Iterate over definitions at a module's beginning: of locations that block arguments have."""
        if UNKNOWN in self._numbers:
            yield f"{self._names[self._numbers[UNKNOWN]]} = loc({_UNKNOWN_TEXT})\n"

    def at_end(self) -> Iterator[str]:
        """Iterate over the other definitions, which may follow their uses."""
        rows, names, first = list(self._found), self._names, self._numbers.get(UNKNOWN)
        for number in self._order:
            if number == first:
                continue
            text = rows[number]
            if not isinstance(text, str):
                text = "".join(names[part] if isinstance(part, int) else part for part in text)
            yield f"{names[number]} = loc({text})\n"
