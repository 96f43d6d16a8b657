"""Bounds-checked, vectorised access to a flatbuffer that nobody has vouched for.

Every read takes a column: one field of many tables, one element of many vectors. A column is checked
with a few array operations, so proving a file safe costs about as much as reading it. What is wrong
is reported with its byte offset.

Sharing is legal in a flatbuffer, and a small file can use it to describe an enormous graph. So what
is read is charged, in bytes of memory that it will take, against a budget that is proportional to the
file's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.flatbuffer.layout import IDENTIFIER, TABLES
from tosa_convert.flatbuffer.tables import Field

Positions = npt.NDArray[np.int64]

#: Bytes of memory that reading may take for each byte of the file, and for any file at all. Files
#: of many small operators or constants and no weights take 6 to 9 times their size, all others less.
MEMORY_PER_BYTE: Final = 12
MEMORY_FREE: Final = 32 << 20

#: What things take: a number of a column while it is looked at, an integer in a tuple, a tuple, an entry of a list, and a
#: short string and its place among those that are known.
_NUMBER: Final = 72
_INTEGER: Final = 40
_TUPLE: Final = 56
_ENTRY: Final = 10
_STRING: Final = 130

_DTYPES: Final = {"bool": "u1", "u8": "u1", "i32": "<i4", "u32": "<u4", "u64": "<u8"}
_HINT: Final = "the file is damaged or is not a TOSA flatbuffer; make it again"


class Columns:
    """The bytes of a file, as columns of fields."""

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.size = buffer.nbytes
        self.budget = MEMORY_FREE + MEMORY_PER_BYTE * self.size
        self._views = {
            name: np.frombuffer(buffer, name, count=self.size // np.dtype(name).itemsize)
            for name in ("u1", "<u2", "<i4", "<u4", "<u8")
        }
        self._strings: dict[int, str] = {}

    def bad(self, offset: int, message: str) -> TosaConvertError:
        """The error for the byte at `offset`."""
        return fail("malformed-flatbuffer", f"byte {offset}", message, _HINT)

    def charge(self, memory: int, what: str) -> None:
        """Count bytes of memory against the budget; what is negative was let go again."""
        self.budget -= memory
        if self.budget < 0:
            raise fail(
                "malformed-flatbuffer",
                what,
                f"a file of {self.size} bytes describes more than it could hold: "
                "its tables refer to one another over and over",
                _HINT,
            )

    def values(self, name: str, positions: Positions, what: str) -> npt.NDArray[np.int64]:
        """One number of numpy type `name` at each position; u64 beyond int64 are clamped."""
        view = self._views[name]
        width = view.itemsize
        if len(positions):
            outside = (positions < 0) | (positions > self.size - width)
            if outside.any():
                offset = int(positions[outside.argmax()])
                raise self.bad(offset, f"{what} lies outside the file of {self.size} bytes")
            skewed = positions % width
            if skewed.any():
                offset = int(positions[(skewed != 0).argmax()])
                raise self.bad(offset, f"{what} is not aligned to {width} bytes")
        numbers = view[positions // width]
        if name == "<u8":
            numbers = np.minimum(numbers, np.uint64(2**63 - 1))
        result: Positions = numbers.astype(np.int64)
        return result

    def root(self, table: str) -> Positions:
        """Where the root table lies; checks the header."""
        if self.size < 8:
            raise fail(
                "malformed-flatbuffer",
                f"byte {self.size}",
                f"the file ends after {self.size} bytes, before the header does",
                _HINT,
            )
        if bytes(self.buffer[4:8]) != IDENTIFIER:
            raise self.bad(
                4,
                f"the identifier is {bytes(self.buffer[4:8])!r}, expected {IDENTIFIER!r}",
            )
        return self.follow(np.zeros(1, np.int64), f"the root table {table}")

    def follow(self, fields: Positions, what: str) -> Positions:
        """Where the offsets stored at `fields` point to."""
        distances = self.values("<u4", fields, f"the offset of {what}")
        if len(fields) and not distances.all():
            raise self.bad(int(fields[(distances == 0).argmax()]), f"the offset of {what} is 0")
        return fields + distances

    def fields(self, table: str, tables: Positions, names: tuple[str, ...]) -> Iterator[Positions]:
        """For each name the places of that field in each table, in turn; -1 where it is absent."""
        layout = TABLES[table]
        vtables = tables - self.values("<i4", tables, f"table {table}")
        unique, inverse = np.unique(vtables, return_inverse=True)
        sizes = self.values("<u2", unique, f"the vtable of a {table}")
        table_sizes = self.values("<u2", unique + 2, f"the vtable of a {table}")
        wrong = (sizes < 4) | (sizes % 2 != 0) | (unique + sizes > self.size) | (table_sizes < 4)
        if wrong.any():
            offset = int(unique[wrong.argmax()])
            raise self.bad(offset, f"the vtable of a {table} has an impossible size")
        ends = tables + table_sizes[inverse]
        if len(ends) and int(ends.max()) > self.size:
            offset = int(tables[ends.argmax()])
            raise self.bad(offset, f"a {table} lies partly outside the file of {self.size} bytes")
        for name in names:
            field = layout[name]
            present = sizes >= 6 + 2 * field.slot
            offsets = np.zeros(len(unique), np.int64)
            slots = unique[present] + 4 + 2 * field.slot
            offsets[present] = self.values("<u2", slots, f"the vtable of a {table}")
            beyond = (offsets != 0) & ((offsets < 4) | (offsets + field.width > table_sizes))
            if beyond.any():
                offset = int(unique[beyond.argmax()])
                raise self.bad(offset, f"{table}.{name} lies outside its table")
            distance = offsets[inverse]
            yield np.where(distance == 0, -1, tables + distance)

    def scalars(self, table: str, field: Field, places: Positions) -> npt.NDArray[np.int64]:
        """The field's number in each table, its default where absent."""
        numbers = np.full(len(places), field.default, np.int64)
        present = places >= 0
        if present.any():
            what = f"{table}.{field.name}"
            numbers[present] = self.values(_DTYPES[field.kind], places[present], what)
        return numbers

    def vectors(
        self, places: Positions, width: int, what: str
    ) -> tuple[Positions, npt.NDArray[np.int64]]:
        """Where each vector's elements start, and how many there are; 0 where absent."""
        starts = np.zeros(len(places), np.int64)
        lengths = np.zeros(len(places), np.int64)
        present = places >= 0
        if present.any():
            at = self.follow(places[present], what)
            counts = self.values("<u4", at, f"the length of {what}")
            over = at + 4 + counts * width > self.size
            if over.any():
                worst = int(over.argmax())
                raise self.bad(
                    int(at[worst]),
                    f"{what} has {int(counts[worst])} elements of {width} bytes, "
                    f"which the file of {self.size} bytes does not hold",
                )
            starts[present] = at + 4
            lengths[present] = counts
        return starts, lengths

    def elements(
        self, starts: Positions, lengths: npt.NDArray[np.int64], width: int, what: str
    ) -> Positions:
        """The places of all elements of all vectors, one vector after the other."""
        total = int(lengths.sum())
        self.charge(_NUMBER * total, what)
        ends = np.cumsum(lengths)
        within = np.arange(total, dtype=np.int64) - np.repeat(ends - lengths, lengths)
        return np.repeat(starts, lengths) + within * width

    def tables(self, places: Positions, what: str) -> tuple[Positions, list[int]]:
        """The members of all vectors of tables, and how many each vector has."""
        starts, lengths = self.vectors(places, 4, what)
        return self.follow(self.elements(starts, lengths, 4, what), what), lengths.tolist()

    def string_lists(self, places: Positions, what: str) -> list[tuple[str, ...]]:
        """Each vector of strings as a tuple; () where absent."""
        starts, lengths = self.vectors(places, 4, what)
        elements = self.elements(starts, lengths, 4, what)
        texts = self.strings(elements, what)
        lists = []
        position = 0
        for length in lengths.tolist():
            lists.append(tuple(texts[position : position + length]))
            position += length
        self.charge(len(lists) * _TUPLE - len(elements) * (_NUMBER - _ENTRY), what)
        return lists

    def strings(self, places: Positions, what: str) -> list[str]:
        """The string that each place refers to; "" where absent."""
        present = places >= 0
        if not present.all():
            texts = [""] * len(places)
            for index, text in zip(
                np.flatnonzero(present).tolist(), self.strings(places[present], what), strict=True
            ):
                texts[index] = text
            return texts
        at = self.follow(places, what)
        known = self._strings
        unique = np.unique(at)
        self.charge(_NUMBER * len(unique), what)
        fresh = np.array([where for where in unique.tolist() if where not in known], np.int64)
        self.charge(-_NUMBER * len(unique), what)
        if len(fresh):
            lengths = self.values("<u4", fresh, f"the length of {what}")
            ends = fresh + 4 + lengths
            over = ends >= self.size
            if over.any():
                offset = int(fresh[over.argmax()])
                raise self.bad(offset, f"{what} runs over the end of the file")
            self.charge(len(fresh) * _STRING + int(lengths.sum()), what)
            for where, end in zip(fresh.tolist(), ends.tolist(), strict=True):
                if self.buffer[end]:
                    raise self.bad(end, f"{what} is not terminated by a zero")
                try:
                    text = known[where] = str(self.buffer[where + 4 : end], "utf-8")
                    if not text.isascii():
                        # Each character takes as much as the widest.
                        self.charge(3 * len(text), what)
                except UnicodeDecodeError as error:
                    raise self.bad(where + 4 + error.start, f"{what} is not UTF-8") from None
        return [known[where] for where in at.tolist()]

    def bytes_of(self, places: Positions, what: str) -> Iterator[memoryview | None]:
        """Each vector of bytes as a view, made when it is asked for; None where absent.

        Views cost nothing, but whoever looks at all of them should not look at each byte over and
        over: what is more than the file is charged.
        """
        starts, lengths = self.vectors(places, 1, what)
        self.charge(max(0, int(lengths.sum()) - self.size), what)
        # Small numbers are objects that exist already.
        kept = np.where(places < 0, -1, np.where(lengths == 0, 0, starts)).tolist()
        buffer = self.buffer
        return (
            buffer[start : start + length] if start >= 0 else None
            for start, length in zip(kept, lengths.tolist(), strict=True)
        )

    def copies_of(self, places: Positions, what: str) -> list[bytes]:
        """Each vector of bytes, equal places as one object; nothing where absent."""
        starts, lengths = self.vectors(places, 1, what)
        # The length stands before the start, so vectors that start alike are one.
        unique, first, inverse = np.unique(starts, return_index=True, return_inverse=True)
        lengths = lengths[first]
        self.charge(len(unique) * _TUPLE + int(lengths.sum()), what)
        copies = [
            bytes(self.buffer[start : start + length])
            for start, length in zip(unique.tolist(), lengths.tolist(), strict=True)
        ]
        return list(map(copies.__getitem__, inverse.tolist()))

    def int_lists(self, places: Positions, what: str) -> list[tuple[int, ...]]:
        """Each vector of int32 as a tuple, equal places as one tuple; () where absent."""
        starts, lengths = self.vectors(places, 4, what)
        # The length stands before the start, so vectors that start alike are one.
        unique, first, inverse = np.unique(starts, return_index=True, return_inverse=True)
        lengths = lengths[first]
        numbers = self.values("<i4", self.elements(unique, lengths, 4, what), what).tolist()
        lists = []
        position = 0
        for length in lengths.tolist():
            lists.append(tuple(numbers[position : position + length]))
            position += length
        self.charge(len(lists) * _TUPLE - len(numbers) * (_NUMBER - _INTEGER), what)
        return list(map(lists.__getitem__, inverse.tolist()))
