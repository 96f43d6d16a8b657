"""The locations of a module as aliases, such as `#loc5`, and the lines that define these.

MLIR numbers aliases by how deeply they nest, and then in the order in which the module uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.locations import LocationReader

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode

#: Means the location of a block argument, which is not known.
UNKNOWN: Final = -1

_UNKNOWN_TEXT: Final = "unknown"
#: A location as text: all of it, or parts, in which numbers stand for other locations.
_Text = str | tuple["int | str", ...]


class LocationAliases:
    """The aliases of the locations that a module uses.

    Args:
        bytecode: the module.
        used: the numbers of locations, in the order of their use; UNKNOWN for block arguments.
    """

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
