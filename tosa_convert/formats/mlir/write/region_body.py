"""The encoding of a region while its function is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.encode import Encoder, LocationEntries
from tosa_convert.formats.mlir.bytecode.format import HAS_OPERANDS
from tosa_convert.formats.mlir.bytecode.varints import encode_varint
from tosa_convert.formats.mlir.names import PLAIN_LOCATION
from tosa_convert.formats.mlir.types import TypeWriter
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.model import Block, Operator, Region, Tensor
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import numpy.typing as npt

    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers
    from tosa_convert.formats.mlir.text.parse.cursor import TextCursor

#: The count at the beginning of the encoding of one operand, or of one result.
ONE: Final = encode_varint(1)


@dataclass(slots=True, eq=False, repr=False)
class Body:
    """A region at one place of the module.

    shared: its constants that become resources once MLIR has parsed the module, by their operators.
    children: the regions that its operators run, in order.
    needed: whether it or a region inside it shares a constant.
    parts: its encoding before `finish`: bytes, and the regions of one operator. pieces, size: after it.
    """

    region: Region
    depth: int = 0
    parts: list[bytes | tuple[Body, ...]] = field(default_factory=list)
    pieces: list[bytes | Body] = field(default_factory=list)
    size: int = 0
    shared: dict[Operator, Tensor] = field(default_factory=dict)
    children: list[Body] = field(default_factory=list)
    needed: bool = False

    @property
    def block(self) -> Block:
        return self.region.blocks[0]

    def finish(self, encoder: Encoder) -> None:
        """Put the parts together, once the regions inside it are finished."""
        for part in self.parts:
            if isinstance(part, bytes):
                self.pieces.append(part)
                self.size += len(part)
            else:
                inside = sum(child.size for child in part)
                head = encoder.isolated_regions(len(part), inside)
                self.pieces += head, *part
                self.size += len(head) + inside
        self.needed = bool(self.shared) or any(child.needed for child in self.children)

    def encoding(self) -> Iterator[bytes]:
        pending: list[Iterator[bytes | Body]] = [iter(self.pieces)]
        while pending:
            for piece in pending[-1]:
                if isinstance(piece, Body):
                    pending.append(iter(piece.pieces))
                    break
                yield piece
            else:
                pending.pop()


class ResultTypes(dict[tuple[DType, tuple[int, ...] | None], bytes]):
    """The encodings of one result, by the dtype and shape of its tensor."""

    def __init__(self, types: TypeWriter) -> None:
        self.types = types

    def __missing__(self, key: tuple[DType, tuple[int, ...] | None]) -> bytes:
        encoded = self[key] = ONE + self.types.tensor(Tensor("", *key))
        return encoded


def terminating(encoder: Encoder, name: str, values: list[bytes]) -> bytes:
    """Encode the operation that ends a block and returns these values."""
    head = encoder.operation(name) + bytes((HAS_OPERANDS if values else 0,)) + encoder.unknown
    return head + (encoder.numbers[len(values)] + b"".join(values) if values else b"")


# -- locations of a graph, which are text, added to a bytecode -------------------------------------

#: Bytes of metadata that are printed in full, and what in it may be shortened nevertheless.
_PRINTED: Final = 200
_SHORTENED: Final = re.compile(rb"loc\(|dense|sparse|->|(?:[\[{][^\[{]*){16}")


class LocationWriter(LocationEntries):
    """Adds locations to a bytecode, each distinct text once, and returns their encoded numbers.

    A text that is not a location, or is nested deeper than `limits.location_depth`, becomes the name of
    one.
    """

    def __init__(self, encoder: Encoder, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(encoder)
        self.max_depth = limits.location_depth
        self.cache = {"": encoder.unknown, "loc(unknown)": encoder.unknown}
        #: Texts that are not in the cache yet, and the numbers of their entries.
        self.uncached: list[tuple[Sequence[str], Numbers]] = []
        self.is_empty = True

    def __call__(self, text: str) -> bytes:
        return self.all((text,))[0]

    def all(self, texts: Sequence[str]) -> list[bytes]:
        """Encode the locations that are printed as `texts`, in one pass: most operators' differ."""
        for known, numbers in self.uncached:
            self.remember(known, numbers)
        self.uncached.clear()
        self.is_empty = False
        cache = self.cache
        fresh = [text for text in dict.fromkeys(texts) if text not in cache]
        if not self.add_plain(fresh):
            for text in fresh:
                if not self.add_plain([text]):
                    cache[text] = self.parse(text)
        return list(map(cache.__getitem__, texts))

    def together(self, texts: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Encode locations as integers and how many bytes each has; see `varint.integers_of`."""
        # Fast path of all; equal by test test_locations_as_integers_equal_others
        from tosa_convert.formats.mlir.bytecode.operation_columns import (
            encode_together,
            integers_of,
        )

        numbers = self.add_run(texts) if self.is_empty else None
        if numbers is None:
            return integers_of(self.all(texts))
        self.is_empty = False
        self.uncached.append((texts, numbers))
        return encode_together(numbers)

    def add_run(self, texts: Sequence[str]) -> Numbers | None:
        """Add many new locations in one file; the numbers of their entries, None if one is not."""
        if len(texts) < FEW:
            return None
        plain = encode_plain(texts, self.head)
        if plain is None:
            return None
        return plain.which + self.attributes.add_run(plain.joined, plain.sizes)

    def remember(self, texts: Sequence[str], numbers: Numbers) -> None:
        encoded = map(self.numbers.__getitem__, numbers.tolist())
        self.cache.update(zip(texts, encoded, strict=True))

    def add_plain(self, texts: list[str]) -> bool:
        """Add new locations that are all just a file, a line and a column; False if one is not."""
        run = self.add_run(texts)
        if run is not None:
            self.remember(texts, run)
            return True
        # Fast path of `parse`; equal by test test_plain_locations_equal_parsed_ones
        found = list(map(PLAIN_LOCATION.fullmatch, texts))
        places = [match.groups() for match in found if match is not None]
        if len(places) != len(texts):
            return False
        heads = {start: self.head(start) for start in dict.fromkeys(place[0] for place in places)}
        numbers, add = self.numbers, self.attributes.add
        # Distinct texts are distinct locations, so no equal entry exists.
        for text, (start, line, column) in zip(texts, places, strict=True):
            self.cache[text] = add(heads[start] + numbers[int(line)] + numbers[int(column)])
        return True

    def parse(self, text: str) -> bytes:
        """Parse a location that is not just a file, a line and a column, and encode it."""
        # Most programs have no other locations.
        from tosa_convert.formats.mlir.text.parse.attributes import LocationParser
        from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor

        data = memoryview(text.encode())
        # The outermost location counts, too.
        cursor = TextCursor(data, "", self.max_depth + 1)
        try:
            parser = LocationParser(cursor, self, Aliases(cursor), partial(self._metadata, cursor))
            found = parser.optional()
        except TosaConvertError:
            found = None
        if found is None or cursor.at != len(data):
            return self.name(text, self.encoder.unknown)
        return found

    def _metadata(self, cursor: TextCursor) -> bytes:
        """Parse the metadata of a fused location."""
        from tosa_convert.formats.mlir.text.parse.attributes import AttributeParser
        from tosa_convert.formats.mlir.text.parse.cursor import Aliases
        from tosa_convert.formats.mlir.text.parse.elements import Resources, TypeParser

        at, aliases = cursor.at, Aliases(cursor)
        resources, types = (
            Resources(cursor, self.encoder),
            TypeParser(cursor, self.encoder, aliases),
        )
        cursor.at = at
        attribute = AttributeParser(cursor, self.encoder, aliases, types, resources)()
        # What text does not print in full must not be lost.
        metadata = bytes(cursor.data[at : cursor.at])
        if len(metadata) > _PRINTED or _SHORTENED.search(metadata):
            raise cursor.unexpected("metadata that is printed in full")
        return attribute

    def head(self, start: str) -> bytes:
        return self.numbers[code.FILE_LOCATION] + self.string(start[len('loc("') : -1])


# -- locations in one file, all at once ------------------------------------------------------------

#: An encoding of more bytes is not joined with others at once.
_MAX_HEAD: Final = 7


class PlainLocations(NamedTuple):
    """Locations in one file.

    joined: the encodings of those that differ, one after the other. sizes: how many bytes each takes.
    which: the one that each text is, by its number among these.
    """

    joined: bytes
    sizes: Numbers
    which: Numbers


def encode_plain(texts: Sequence[str], head: Callable[[str], bytes]) -> PlainLocations | None:
    """Encode locations in one file, each after the `head` of it; None if one is anything else."""
    # Fast path of LocationWriter.add_plain; equal by test test_locations_in_one_file_equal_others
    from tosa_convert.formats.mlir.bytecode.operation_columns import encode_together, join_together

    first_text = PLAIN_LOCATION.fullmatch(texts[0])
    if first_text is None:
        return None
    start = first_text[1]
    rows = "\n" + "\n".join(texts) + "\n"
    if not rows.isascii() or rows.count(f"\n{start}:") != len(texts):
        return None
    raw = np.frombuffer(rows.encode(), np.uint8)
    ends, colons = np.flatnonzero(raw == ord("\n")), np.flatnonzero(raw == ord(":"))
    if len(ends) != len(texts) + 1 or len(colons) != 2 * len(texts):
        return None
    first, second, last = colons[0::2], colons[1::2], ends[1:] - 1
    # Each text has a colon after its start, and so the other one after that.
    if (first != ends[:-1] + 1 + len(start)).any() or (raw[last] != ord(")")).any():
        return None
    line, column = _numbers_between(raw, first + 1, second), _numbers_between(raw, second + 1, last)
    if line is None or column is None:
        return None
    encoded_head = head(start)
    if len(encoded_head) > _MAX_HEAD:
        return None
    chosen, which = _distinct(line, column)
    parts = [encode_together(line[chosen]), encode_together(column[chosen])]
    encoded = np.full((len(chosen), 3), int.from_bytes(encoded_head, "little"))
    widths = np.full((len(chosen), 3), len(encoded_head))
    for position, (numbers, sizes) in enumerate(parts, 1):
        encoded[:, position], widths[:, position] = numbers, sizes
    joined = join_together(encoded.ravel(), widths.ravel())
    return PlainLocations(joined, widths.sum(1), which)


def _distinct(line: Numbers, column: Numbers) -> tuple[Numbers, Numbers]:
    """Find the first positions of different places, in order; and each place's index among these."""
    keys = line << 32 | column
    if (keys[1:] > keys[:-1]).all():
        everything = np.arange(len(keys))
        return everything, everything
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return first[order], ranks[which]


def _numbers_between(raw: npt.NDArray[np.uint8], start: Numbers, end: Numbers) -> Numbers | None:
    """Parse the decimal integers between these places; None if anything else is between two of them."""
    lengths = end - start
    if not 0 < int(lengths.min()) <= int(lengths.max()) <= 9:
        return None
    numbers = np.zeros(len(start), np.int64)
    for position in range(int(lengths.max())):
        chosen = np.flatnonzero(lengths > position)
        digits = raw[start[chosen] + position].astype(np.int64) - ord("0")
        if int(digits.min()) < 0 or int(digits.max()) > 9:
            return None
        numbers[chosen] = numbers[chosen] * 10 + digits
    return numbers
