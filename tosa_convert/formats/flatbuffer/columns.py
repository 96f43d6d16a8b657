"""Bounds-checked columns of an untrusted flatbuffer, within a budget: tables may be shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.wire.layout import IDENTIFIER, TABLES
from tosa_convert.formats.wire.tables import Field, Table
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.io.options import Limits

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]
    Texts = npt.NDArray[np.object_]

#: Memory in bytes: of a number in a column, in temporary arrays ...
_NUMBER: Final = 72
#: ... of an integer in a tuple, of a tuple, and of an entry of a list ...
_INTEGER: Final = 40
_TUPLE: Final = 56
_ENTRY: Final = 10
#: ... and of a short string with its entries in the arrays of known strings.
_STRING: Final = 130

_largest: Final = np.maximum.reduce
_least: Final = np.minimum.reduce
_bits: Final = np.bitwise_or.reduce

_DTYPES: Final = {"bool": "u1", "u8": "u1", "i32": "<i4", "u32": "<u4", "u64": "<u8"}
_HINT: Final = "the file is damaged or is not a TOSA flatbuffer; make it again"
_LIMIT_HINT: Final = (
    "the file is damaged or hostile; if it is neither, --limit flatbuffer-memory=N allows more"
)


class KnownStrings:
    """Finds strings by their positions. A string that is found twice is one object.

    Strings are read many at a time, so they are kept in few arrays. A dict with an entry for each would
    take twice the time.
    """

    def __init__(self) -> None:
        #: Positions in ascending order, and the strings there. No position is in two of these.
        self._runs: list[tuple[Positions, Texts]] = []

    def add(self, places: Positions, texts: list[str]) -> None:
        """Note strings at positions that are in ascending order and not yet known."""
        if texts:
            self._runs.append((places, np.array(texts, object)))

    def find(self, places: Positions) -> list[str] | None:
        """Return the strings at these positions; None if one of them is not known."""
        found: Texts = np.empty(len(places), object)
        count = 0
        for index, texts, is_there in self._matches(places):
            if is_there.all():
                strings: list[str] = texts[index].tolist()
                return strings
            found[is_there] = texts[index[is_there]]
            count += int(np.count_nonzero(is_there))
        return found.tolist() if count == len(places) else None

    def unknown(self, places: Positions) -> Positions:
        is_unknown = np.ones(len(places), bool)
        for _, _, is_there in self._matches(places):
            is_unknown &= ~is_there
        return places if is_unknown.all() else places[is_unknown]

    def _matches(
        self, places: Positions
    ) -> Iterator[tuple[Positions, Texts, npt.NDArray[np.bool_]]]:
        """Find runs that have some positions: their indices, the strings, and which it has."""
        for known, texts in self._runs:
            index = np.searchsorted(known, places)
            index[index == len(known)] = 0
            is_there = known[index] == places
            if is_there.any():
                yield index, texts, is_there


class Columns:
    """The bytes of a file, as columns of fields. layouts: the tables that a file may have."""

    def __init__(
        self, buffer: memoryview, limits: Limits, layouts: Mapping[str, Table] = TABLES
    ) -> None:
        self.buffer = buffer
        self.layouts = layouts
        self.size = buffer.nbytes
        # Files of many small operators or constants and no weights take 6 to 9 times their size,
        # all others less.
        self.budget = limits.flatbuffer_memory + limits.flatbuffer_memory_per_byte * self.size
        self._views = {
            name: np.frombuffer(buffer, name, count=self.size // np.dtype(name).itemsize)
            for name in ("u1", "<i2", "<u2", "<i4", "<u4", "<u8")
        }
        self._strings = KnownStrings()

    def bad(self, offset: int, message: str) -> TosaConvertError:
        return fail("malformed-flatbuffer", f"byte {offset}", message, _HINT)

    def charge(self, memory: int, what: str) -> None:
        """Charge bytes of memory to the budget; a negative number returns what was released."""
        self.budget -= memory
        if self.budget < 0:
            message = (
                f"a file of {self.size} bytes describes more than it could hold: "
                "it refers to the same tables over and over"
            )
            raise fail("malformed-flatbuffer", what, message, _LIMIT_HINT)

    def values(self, name: str, positions: Positions, what: str) -> npt.NDArray[np.int64]:
        """Read a value of numpy type `name` at each position; u64 is clamped to the int64 range."""
        view = self._views[name]
        width = view.itemsize
        # Read as unsigned, a negative position is larger than any file.
        if len(positions) and (
            int(_largest(positions.view(np.uint64))) > self.size - width
            or int(_bits(positions)) & (width - 1)
        ):
            raise self.misplaced(positions, width, what)
        numbers = view[positions >> (width.bit_length() - 1)]
        if name == "<u8":
            numbers = np.minimum(numbers, np.uint64(2**63 - 1))
        result: Positions = numbers.astype(np.int64)
        return result

    def misplaced(self, positions: Positions, width: int, what: str) -> TosaConvertError:
        """Return the error for the first position outside the file, else for the first unaligned one."""
        outside = (positions < 0) | (positions > self.size - width)
        if outside.any():
            offset = int(positions[outside.argmax()])
            return self.bad(offset, f"{what} lies outside the file of {self.size} bytes")
        offset = int(positions[(positions % width != 0).argmax()])
        return self.bad(offset, f"{what} is not aligned to {width} bytes")

    def root(self, table: str) -> Positions:
        """Check the header, and return the position of the root table."""
        if self.size < 8:
            message = f"the file ends after {self.size} bytes, within the header"
            raise self.bad(self.size, message)
        found = bytes(self.buffer[4:8])
        if found != IDENTIFIER:
            raise self.bad(4, f"the identifier is {found!r}, expected {IDENTIFIER!r}")
        return self.follow(np.zeros(1, np.int64), f"the root table {table}")

    def follow(self, fields: Positions, what: str) -> Positions:
        distances = self.values("<u4", fields, f"the offset of {what}")
        if len(fields) and not distances.all():
            raise self.bad(int(fields[(distances == 0).argmax()]), f"the offset of {what} is 0")
        return fields + distances

    def fields(self, table: str, tables: Positions, names: tuple[str, ...]) -> Iterator[Positions]:
        """Yield for each name the position of that field in each table, or -1 if it is absent."""
        vtables = tables - self.values("<i4", tables, f"table {table}")
        if not len(tables):
            unique, inverse = vtables, vtables
        elif (vtables == vtables[0]).all():
            unique, inverse = vtables[:1], np.zeros(1, np.int64)
        else:
            unique, inverse = np.unique(vtables, return_inverse=True)
        offsets = self.vtables(table, names, unique)
        ends = tables + offsets[:, 0][inverse]
        if len(ends) and int(_largest(ends)) > self.size:
            offset = int(tables[ends.argmax()])
            raise self.bad(offset, f"a {table} lies partly outside the file of {self.size} bytes")
        for index in range(1, 1 + len(names)):
            distance = offsets[:, index]
            if len(distance) == 1:
                yield tables + distance if distance[0] else np.full(len(tables), -1)
            else:
                distance = distance[inverse]
                yield np.where(distance == 0, -1, tables + distance)

    def vtables(self, table: str, names: tuple[str, ...], at: Positions) -> Positions:
        """Return a row for each: the table's size, and each field's distance from its start or 0."""
        what = f"the vtable of a {table}"
        self.charge(len(at) * (1 + len(names)) * 8, what)
        sizes = self.values("<u2", at, what)
        table_sizes = self.values("<u2", at + 2, what)
        wrong = (sizes < 4) | (sizes % 2 != 0) | (at + sizes > self.size) | (table_sizes < 4)
        if wrong.any():
            raise self.bad(int(at[wrong.argmax()]), f"{what} has an impossible size")
        found = np.zeros((len(at), 1 + len(names)), np.int64)
        found[:, 0] = table_sizes
        for index, name in enumerate(names):
            field = self.layouts[table][name]
            present = sizes >= 6 + 2 * field.slot
            slots = at[present] + 4 + 2 * field.slot
            distances = found[:, index + 1]
            distances[present] = self.values("<u2", slots, what)
            beyond = (distances != 0) & ((distances < 4) | (distances + field.width > table_sizes))
            if beyond.any():
                raise self.bad(int(at[beyond.argmax()]), f"{table}.{name} lies outside its table")
        return found

    def read(self, table: str, tables: Positions, *fields: str) -> list[Any]:
        """Read fields of each table as lists; a table, vector of tables or union is its position."""
        layout, results = self.layouts[table], list[Any]()
        for name, places in zip(fields, self.fields(table, tables, fields), strict=True):
            field, what = layout[name], f"{table}.{name}"
            if field.required and len(places) and int(places.min()) < 0:
                raise self.bad(int(tables[places.argmin()]), f"{what} is required and absent")
            match field.kind:
                case "string":
                    results.append(self.strings(places, what))
                case "[string]":
                    results.append(self.string_lists(places, what))
                case "[i32]" | "[i16]":
                    results.append(self.int_lists(places, what, int(field.kind[2:4]) // 8))
                case "[u8]" if table.endswith("Attribute"):
                    results.append(self.copies_of(places, what))
                case "[u8]":
                    results.append(self.bytes_of(places, what))
                case "[table]" | "table" | "union":
                    results.append(places)
                case _ if len(places) and int(places.max()) < 0:
                    results.append([field.default] * len(places))
                case _:
                    results.append(self.scalars(table, field, places).tolist())
        return results

    def scalars(self, table: str, field: Field, places: Positions) -> npt.NDArray[np.int64]:
        """Return the field's value in each table, or its default if it is absent."""
        what = f"{table}.{field.name}"
        if len(places) and int(_least(places)) >= 0:
            return self.values(_DTYPES[field.kind], places, what)
        numbers = np.full(len(places), field.default, np.int64)
        present = places >= 0
        numbers[present] = self.values(_DTYPES[field.kind], places[present], what)
        return numbers

    def vectors(
        self, places: Positions, width: int, what: str
    ) -> tuple[Positions, npt.NDArray[np.int64]]:
        """Return the position and number of each vector's elements; 0 and 0 if it is absent."""
        if len(places) and int(_least(places)) < 0:
            starts = np.zeros(len(places), np.int64)
            lengths = np.zeros(len(places), np.int64)
            present = places >= 0
            starts[present], lengths[present] = self.vectors(places[present], width, what)
            return starts, lengths
        at = self.follow(places, what)
        counts = self.values("<u4", at, f"the length of {what}")
        starts = at + 4
        ends = starts + counts * width
        if len(ends) and int(_largest(ends)) > self.size:
            worst = int((ends > self.size).argmax())
            raise self.bad(
                int(at[worst]),
                f"{what} has {int(counts[worst])} elements of {width} bytes, "
                f"which the file of {self.size} bytes does not hold",
            )
        return starts, counts

    def elements(
        self, starts: Positions, lengths: npt.NDArray[np.int64], width: int, what: str
    ) -> Positions:
        total = int(lengths.sum())
        self.charge(_NUMBER * total, what)
        ends = np.cumsum(lengths)
        within = np.arange(total, dtype=np.int64) - np.repeat(ends - lengths, lengths)
        return np.repeat(starts, lengths) + within * width

    def tables(self, places: Positions, what: str) -> tuple[Positions, list[int]]:
        """Return the positions of the tables in all vectors, and their number in each vector."""
        starts, lengths = self.vectors(places, 4, what)
        return self.follow(self.elements(starts, lengths, 4, what), what), lengths.tolist()

    def string_lists(self, places: Positions, what: str) -> list[tuple[str, ...]]:
        """Return each vector of strings as a tuple; () if it is absent."""
        starts, lengths = self.vectors(places, 4, what)
        elements = self.elements(starts, lengths, 4, what)
        texts = self.strings(elements, what)
        left = iter(texts)
        lists = [tuple(islice(left, length)) for length in lengths.tolist()]
        self.charge(len(lists) * _TUPLE - len(elements) * (_NUMBER - _ENTRY), what)
        return lists

    def strings(self, places: Positions, what: str) -> list[str]:
        """Return the string that each field refers to; "" if it is absent."""
        if len(places) and int(_least(places)) < 0:
            texts = np.full(len(places), "", object)
            present = places >= 0
            texts[present] = self.strings(places[present], what)
            return list(texts)
        at = self.follow(places, what)
        self.charge(2 * _NUMBER * len(at), what)
        found = self.known_strings(at)
        if found is None:
            found = self.read_strings(at, what)
        self.charge(-2 * _NUMBER * len(at), what)
        return found

    def read_strings(self, at: Positions, what: str) -> list[str]:
        fresh = self._strings.unknown(_distinct(at))
        lengths = self.values("<u4", fresh, f"the length of {what}")
        ends = fresh + 4 + lengths
        if int(_largest(ends)) >= self.size:
            offset = int(fresh[(ends >= self.size).argmax()])
            raise self.bad(offset, f"{what} runs over the end of the file")
        total = int(lengths.sum())
        self.charge(len(fresh) * _STRING + total, what)
        open_ended = self._views["u1"][ends] != 0
        if open_ended.any():
            end = int(ends[open_ended.argmax()])
            raise self.bad(end, f"{what} is not terminated by a zero")
        texts = self.all_at_once(fresh, ends, total, what)
        if texts is None:
            texts = self.one_by_one(fresh, ends, what)
        self._strings.add(fresh, texts)
        if fresh is not at:
            found = self.known_strings(at)
            assert found is not None
            return found
        return texts

    def known_strings(self, at: Positions) -> list[str] | None:
        """Return the strings at these positions; None if one of them has not been read yet."""
        if _is_constant(at):
            found = self._strings.find(at[:1])
            return None if found is None else found * len(at)
        return self._strings.find(at)

    def one_by_one(self, places: Positions, ends: Positions, what: str) -> list[str]:
        """Read the strings between these positions."""
        texts = []
        for place, end in zip(places.tolist(), ends.tolist(), strict=True):
            try:
                text = str(self.buffer[place + 4 : end], "utf-8")
                if not text.isascii():
                    # Python stores every character of a string as wide as the widest.
                    self.charge(3 * len(text), what)
            except UnicodeDecodeError as error:
                raise self.bad(place + 4 + error.start, f"{what} is not UTF-8") from None
            texts.append(text)
        return texts

    def all_at_once(
        self, places: Positions, ends: Positions, total: int, what: str
    ) -> list[str] | None:
        """Read the strings together; return None if they are not ASCII that lies close together."""
        # Fast path of one_by_one; equal by test test_strings_are_read_alike_together_and_one_by_one
        first = int(_least(places))
        raw = self.buffer[first : int(_largest(ends))]
        # Between two strings lie at least a length and a terminating zero.
        if len(raw) > 2 * total + 16 * len(places):
            return None
        self.charge(2 * len(raw), what)
        text = str(raw, "latin-1")
        if not text.isascii():
            self.charge(-2 * len(raw), what)
            return None
        texts = [
            text[start:end]
            for start, end in zip(
                (places + (4 - first)).tolist(), (ends - first).tolist(), strict=True
            )
        ]
        self.charge(-2 * len(raw), what)
        return texts

    def bytes_of(self, places: Positions, what: str) -> Iterable[memoryview | None]:
        """Return each vector of bytes as a view, None if absent; charge views of more than the file."""
        starts, lengths = self.vectors(places, 1, what)
        self.charge(max(0, int(lengths.sum()) - self.size), what)
        if not lengths.any() and len(places) and int(_least(places)) >= 0:
            return [self.buffer[:0]] * len(places)
        # -1 and 0 are cached objects, so absent and empty vectors take no memory here.
        marks = np.where(places < 0, -1, np.where(lengths == 0, 0, starts)).tolist()
        buffer = self.buffer
        nothing = buffer[:0]
        return (
            buffer[start : start + length] if start > 0 else nothing if start == 0 else None
            for start, length in zip(marks, lengths.tolist(), strict=True)
        )

    def copies_of(self, places: Positions, what: str) -> list[bytes]:
        """Copy each vector of bytes; shared vectors become one object; b"" if it is absent."""
        starts, lengths = self.vectors(places, 1, what)
        # The length precedes the elements, so vectors that start at one position are the same.
        unique, first, inverse = np.unique(starts, return_index=True, return_inverse=True)
        lengths = lengths[first]
        self.charge(len(unique) * _TUPLE + int(lengths.sum()), what)
        copies = [
            bytes(self.buffer[start : start + length])
            for start, length in zip(unique.tolist(), lengths.tolist(), strict=True)
        ]
        return list(map(copies.__getitem__, inverse.tolist()))

    def int_lists(self, places: Positions, what: str, width: int) -> list[tuple[int, ...]]:
        """Return each vector of integers of so many bytes as a tuple; () if it is absent."""
        starts, lengths = self.vectors(places, width, what)
        # The length precedes the elements, so vectors that start at one position are the same.
        if _is_constant(starts):
            unique, lengths, inverse = starts[:1], lengths[:1], None
        else:
            unique, first, inverse = np.unique(starts, return_index=True, return_inverse=True)
            lengths = lengths[first]
        elements = self.elements(unique, lengths, width, what)
        numbers = self.values(f"<i{width}", elements, what).tolist()
        left = iter(numbers)
        lists = [tuple(islice(left, length)) for length in lengths.tolist()]
        self.charge(len(lists) * _TUPLE - len(numbers) * (_NUMBER - _INTEGER), what)
        if inverse is None:
            return lists * len(starts)
        return list(map(lists.__getitem__, inverse.tolist()))


def _distinct(positions: Positions) -> Positions:
    """Return the positions in ascending order, each once; there is at least one."""
    if _is_constant(positions):
        return positions[:1]
    return positions if bool((positions[1:] > positions[:-1]).all()) else np.unique(positions)


def _is_constant(positions: Positions) -> bool:
    """Return whether there are positions, and all are the same."""
    return bool(
        len(positions) and positions[0] == positions[-1] and (positions == positions[0]).all()
    )
