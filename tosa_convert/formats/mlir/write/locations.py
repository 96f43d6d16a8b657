"""Locations of a graph, which are text, added to a bytecode."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.encode import Encoder, LocationEntries
from tosa_convert.formats.mlir.bytecode.varint import encode_together, integers_of, join_together
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import numpy.typing as npt

    from tosa_convert.formats.mlir.bytecode.varint import Numbers


#: The commonest location by far has no escapes and no nesting, and numbers that are known to fit.
_PLAIN: Final = re.compile(r'(loc\("[^"\\:]*"):([0-9]{1,9}):([0-9]{1,9})\)')
#: An encoding of more bytes is not joined with others at once.
_MAX_HEAD: Final = 7
#: Fewer locations are not worth array operations.
_MIN_TOGETHER: Final = 64


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
        """Encode the location that is printed as `text`."""
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
        numbers = self.add_run(texts) if self.is_empty else None
        if numbers is None:
            return integers_of(self.all(texts))
        self.is_empty = False
        self.uncached.append((texts, numbers))
        return encode_together(numbers)

    def add_run(self, texts: Sequence[str]) -> Numbers | None:
        """Add many new locations in one file; the numbers of their entries, None if one is not."""
        if len(texts) < _MIN_TOGETHER:
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
        found = list(map(_PLAIN.fullmatch, texts))
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
        from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor
        from tosa_convert.formats.mlir.text.parse.locations import LocationParser, no_attribute

        data = memoryview(text.encode())
        # The outermost location counts, too.
        cursor = TextCursor(data, "", self.max_depth + 1)
        try:
            parser = LocationParser(cursor, self, Aliases(cursor), partial(no_attribute, cursor))
            found = parser.optional()
        except TosaConvertError:
            found = None
        if found is None or cursor.at != len(data):
            return self.name(text, self.encoder.unknown)
        return found

    def head(self, start: str) -> bytes:
        return self.numbers[code.FILE_LOCATION] + self.string(start[len('loc("') : -1])


class PlainLocations(NamedTuple):
    """Locations in one file.

    joined: the encodings of those that differ, one after the other. sizes: how many bytes each takes.
    which: the one that each text is, by its number among these.
    """

    joined: bytes
    sizes: Numbers
    which: Numbers


def encode_plain(texts: Sequence[str], head: Callable[[str], bytes]) -> PlainLocations | None:
    """Encode locations in one file; None if one of them is anything else.

    head: encodes what precedes the line.
    """
    # Fast path of LocationWriter.add_plain; equal by test test_locations_in_one_file_equal_others
    first_text = _PLAIN.fullmatch(texts[0])
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
