"""Every byte of a `.tosa` file, damaged or not, with the one field that it belongs to."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tosa_convert.formats.wire.layout import ATTRIBUTES, ENUMS, IDENTIFIER, ROOT, TABLES
from tosa_convert.formats.wire.lift import NO_OFFSET
from tosa_convert.formats.wire.tables import FORMAT, Field
from tosa_convert.graph.lazy_numpy import np

_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")
#: The sizes of a vtable and of its tables.
_SIZES: Final = struct.Struct("<HH")
_NAMES: Final = {enum: {code: name for name, code in rows.items()} for enum, rows in ENUMS.items()}
#: Bytes of an element of a vector.
_ELEMENT: Final = {"[u8]": 1, "[i32]": 4, "[string]": 4, "[table]": 4}
#: Most bytes between two objects that are called padding: nothing is aligned to more.
_MOST_PADDING: Final = 15
#: Numbers of a list, and characters of a text, that a row shows.
_SHOWN_NUMBERS, _SHOWN_CHARACTERS = 8, 60
#: Most errors that are kept.
_MOST_ERRORS: Final = 1000


#: Bytes of a page. A page that is taken as a whole needs no memory of its own.
PAGE: Final = 1 << 14


class Coverage:
    """The bytes of a file, each of which can be taken once."""

    def __init__(self, size: int) -> None:
        self.size = size
        #: Number of a page -> its bytes, 1 where taken; None if all are.
        self._pages: dict[int, bytearray | None] = {}

    def take(self, start: int, end: int) -> bool:
        """Take the bytes if all are free; otherwise take none and return False."""
        pieces = self._pieces(start, end)
        for page, low, high in pieces:
            if page in self._pages:
                marks = self._pages[page]
                if marks is None or marks.find(1, low, high) >= 0:
                    return False
        for page, low, high in pieces:
            if high - low == PAGE:
                self._pages[page] = None
                continue
            marks = self._pages.get(page)
            if marks is None:
                marks = self._pages[page] = bytearray(PAGE)
            marks[low:high] = b"\1" * (high - low)
        return True

    def _pieces(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return the parts of a range that are in each page."""
        return [
            (page, max(0, start - page * PAGE), min(PAGE, end - page * PAGE))
            for page in range(start // PAGE, -(-end // PAGE))
        ]


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Consecutive bytes of a file and what they are.

    start, end: offsets in the file. path: the field, such as `regions[0].blocks[0].name`.
    what: the part of the field, such as "length". value: what the bytes say, or "".
    """

    start: int
    end: int
    path: str
    what: str
    value: str


@dataclass(frozen=True, slots=True)
class ByteError:
    """What is wrong at an offset of the file."""

    offset: int
    path: str
    message: str


class _Form(NamedTuple):
    """What kind of bytes a row has: how its value is shown."""

    what: str
    kind: str = ""
    field: Field | None = None


class Annotation:
    """The rows of a file. They are found when it is made, and described when they are asked for.

    errors: what is wrong, in the order in which it was found; at most 1000.
    """

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.errors: list[ByteError] = []
        self._covered = Coverage(self.size)
        #: The parent of each place in a path, and its name there.
        self._parents = array("q", [-1])
        self._labels: list[str | int] = [""]
        #: The starts, ends, places and forms of rows.
        self._rows = tuple(array("q") for _ in range(4))
        self._forms: list[_Form] = []
        self._form_numbers: dict[_Form, int] = {}
        #: What was described at an offset, so that it is described once: tables, vectors, strings.
        self._seen: dict[int, str] = {}
        self._header()

    # -- rows ----------------------------------------------------------------------------------

    def rows(self) -> Iterator[ByteRange]:
        """Iterate over the rows in the order of the file; together they are all its bytes."""
        starts, ends, places, forms = (np.frombuffer(row, np.int64) for row in self._rows)
        position = 0
        for index in np.argsort(starts, kind="stable").tolist():
            start, end = int(starts[index]), int(ends[index])
            if position < start:
                yield self._gap(position, start)
            form = self._forms[forms[index]]
            path = self._path(int(places[index]))
            yield ByteRange(start, end, path, form.what, self._value(start, end, form))
            position = end
        if position < self.size:
            yield self._gap(position, self.size)

    def _gap(self, start: int, end: int) -> ByteRange:
        is_padding = end - start <= _MOST_PADDING and not any(self.buffer[start:end])
        return ByteRange(start, end, "", "padding" if is_padding else "no field refers to it", "")

    def _path(self, place: int) -> str:
        parts = []
        while place > 0:
            label = self._labels[place]
            parts.append(f"[{label}]" if isinstance(label, int) else f".{label}")
            place = self._parents[place]
        return "".join(reversed(parts)).removeprefix(".")

    def _value(self, start: int, end: int, form: _Form) -> str:
        kind, data = form.kind, self.buffer
        if kind == "text":
            raw = bytes(data[start : min(end, start + 4 * _SHOWN_CHARACTERS)])
            text = raw.decode("utf-8", "backslashreplace")
            cut = text[:_SHOWN_CHARACTERS]
            return repr(cut) + ("..." if end - start > len(cut.encode()) else "")
        if kind == "u16":
            return str(_U16.unpack_from(data, start)[0])
        if kind == "to":
            return f"-> {start + _U32.unpack_from(data, start)[0]:#x}"
        if kind == "vtable":
            return f"-> {start - _I32.unpack_from(data, start)[0]:#x}"
        if kind == "numbers":
            shown = min(end, start + 4 * _SHOWN_NUMBERS)
            numbers = [number for (number,) in _I32.iter_unpack(data[start:shown])]
            return f"{str(numbers)[:-1]}, ...]" if shown < end else str(numbers)
        if kind == "bytes":
            return f"{end - start:,} bytes"
        if kind in FORMAT:
            return self._number(start, form)
        return ""

    def _number(self, start: int, form: _Form) -> str:
        (number,) = struct.unpack_from("<" + FORMAT[form.kind], self.buffer, start)
        enum = form.field.enum if form.field is not None else ""
        name = _NAMES.get(enum, {}).get(number)
        if name is None and form.field is not None and form.field.name == "attribute_type":
            name = ATTRIBUTES[number] if number < len(ATTRIBUTES) else None
        return f"{name} ({number})" if name is not None else str(number)

    # -- claims --------------------------------------------------------------------------------

    def _place(self, parent: int, label: str | int) -> int:
        self._parents.append(parent)
        self._labels.append(label)
        return len(self._labels) - 1

    def _add(self, start: int, end: int, place: int, form: _Form) -> None:
        if start < end:
            number = self._form_numbers.get(form)
            if number is None:
                number = self._form_numbers[form] = len(self._forms)
                self._forms.append(form)
            for column, value in zip(self._rows, (start, end, place, number), strict=True):
                column.append(value)

    def _error(self, offset: int, place: int, message: str) -> None:
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(ByteError(offset, self._path(place), message))

    def _claim(self, start: int, end: int, what: str, place: int) -> bool:
        """Return whether these bytes are in the file and free, so that they can be described as this."""
        if not 0 <= start <= end <= self.size:
            self._error(
                min(max(start, 0), self.size),
                place,
                f"{what} at {start} to {end} is outside of the file of {self.size} bytes",
            )
            return False
        if not self._covered.take(start, end):
            self._error(start, place, f"{what} lies over something else")
            return False
        return True

    def _was_seen(self, at: int, what: str, place: int) -> bool:
        """Return whether the object at this offset was described; an error if it was something else."""
        known = self._seen.get(at)
        if known is not None and known != what:
            self._error(at, place, f"{what} at the place of {known}")
        return known is not None

    # -- the file ------------------------------------------------------------------------------

    def _header(self) -> None:
        if self.size < 8:
            self._error(self.size, 0, "the file ends within the header of 8 bytes")
            return
        self._covered.take(0, 8)
        self._add(0, 4, 0, _Form(f"offset of the root table {ROOT}", "to"))
        self._add(4, 8, 0, _Form("identifier", "text"))
        if bytes(self.buffer[4:8]) != IDENTIFIER:
            self._error(4, 0, f"the identifier is not {IDENTIFIER.decode()}")
        self._table(ROOT, _U32.unpack_from(self.buffer, 0)[0], 0)

    def _table(self, name: str, at: int, place: int) -> None:
        if self._was_seen(at, name, place):
            return
        offsets = self._vtable(name, at, place)
        if offsets is None or not self._claim(at, at + offsets[0], f"table {name}", place):
            return
        self._seen[at] = name
        self._add(at, at + 4, place, _Form(f"table {name}: offset of its vtable", "vtable"))
        end = at + 4
        fields: dict[str, int] = {}
        layout = TABLES[name].fields
        present = sorted((at + offset, slot) for slot, offset in enumerate(offsets[1:]) if offset)
        for start, slot in present:
            row = layout[slot] if slot < len(layout) else None
            width = 0 if row is None else row.width
            problem = _problem(row, start, end, at + offsets[0])
            if row is None or problem:
                name_of_field = f"field {slot}" if row is None else f"field {row.name}"
                self._error(
                    min(start, at + offsets[0]), place, f"{name_of_field} of {name} {problem}"
                )
                continue
            kind = "to" if row.is_offset else row.kind
            what = "offset" if row.is_offset else ""
            self._add(start, start + width, self._place(place, row.name), _Form(what, kind, row))
            fields[row.name] = start
            end = start + width
        between = "no field of the schema" if any(self.buffer[end : at + offsets[0]]) else "padding"
        self._add(end, at + offsets[0], place, _Form(between))
        for row in layout:
            if row.is_offset and row.name in fields:
                self._field(row, fields, place)
        if name == "TosaTensor":
            self._data_after(fields, place)

    def _vtable(self, name: str, at: int, place: int) -> list[int] | None:
        """Return the size of a table and the distance of each slot's value; None if it has no vtable."""
        if not 0 <= at <= self.size - 4:
            self._error(min(at, self.size), place, f"table {name} at {at} is outside of the file")
            return None
        start = at - _I32.unpack_from(self.buffer, at)[0]
        what = f"vtable of {name}"
        if not 0 <= start <= self.size - 4:
            self._error(at, place, f"its {what} at {start} is outside of the file")
            return None
        size, table_size = _SIZES.unpack_from(self.buffer, start)
        if size < 4 or size % 2 or start + size > self.size or table_size < 4:
            self._error(start, place, f"the {what} has an impossible size")
            return None
        if self._seen.get(start) != "vtable":
            if start in self._seen or not self._claim(start, start + size, what, place):
                return None
            self._seen[start] = "vtable"
            self._add(start, start + 2, place, _Form(f"{what}: its size", "u16"))
            self._add(start + 2, start + 4, place, _Form(f"{what}: size of the table", "u16"))
            layout = TABLES[name].fields
            for slot, offset in enumerate(range(start + 4, start + size, 2)):
                field = layout[slot].name if slot < len(layout) else f"slot {slot}"
                self._add(offset, offset + 2, place, _Form(f"{what}: place of {field}", "u16"))
        slots = struct.unpack_from(f"<{(size - 4) // 2}H", self.buffer, start + 4)
        return [table_size, *slots]

    def _field(self, row: Field, fields: dict[str, int], place: int) -> None:
        start = fields[row.name]
        inner = self._place(place, row.name)
        target = start + _U32.unpack_from(self.buffer, start)[0]
        if row.kind == "table":
            self._table(row.table, target, inner)
        elif row.kind == "union":
            at = fields.get("attribute_type")
            number = self.buffer[at] if at is not None else 0
            if 0 < number < len(ATTRIBUTES):
                self._table(ATTRIBUTES[number], target, inner)
            else:
                self._error(start, inner, f"it is of the unknown type {number}")
        elif row.kind == "string":
            self._string(target, inner)
        else:
            self._vector(row, target, inner)

    def _string(self, at: int, place: int) -> None:
        if not self._is_new_object(at, "string", 1, 1, place):
            return
        end = at + 4 + _U32.unpack_from(self.buffer, at)[0]
        self._add(at, at + 4, place, _Form("length of the string", "u32"))
        self._add(at + 4, end, place, _Form("string", "text"))
        self._add(end, end + 1, place, _Form("zero that ends the string"))
        if self.buffer[end]:
            self._error(end, place, "the string is not terminated by a zero")

    def _vector(self, row: Field, at: int, place: int) -> None:
        width = _ELEMENT[row.kind]
        if not self._is_new_object(at, f"vector {row.kind} {row.table}".rstrip(), width, 0, place):
            return
        count = _U32.unpack_from(self.buffer, at)[0]
        start = at + 4
        self._add(at, start, place, _Form("length of the vector", "u32"))
        if row.kind in ("[u8]", "[i32]"):
            kind = "bytes" if row.kind == "[u8]" else "numbers"
            self._add(start, start + count * width, place, _Form("elements", kind))
            return
        for index in range(count):
            element, inner = start + 4 * index, self._place(place, index)
            self._add(element, element + 4, inner, _Form("offset", "to"))
        first = len(self._labels) - count
        for index in range(count):
            element = start + 4 * index
            target = element + _U32.unpack_from(self.buffer, element)[0]
            if row.kind == "[string]":
                self._string(target, first + index)
            else:
                self._table(row.table, target, first + index)

    def _is_new_object(self, at: int, what: str, width: int, more: int, place: int) -> bool:
        """Return whether a string or vector at this offset is whole and was not described before."""
        if self._was_seen(at, what, place):
            return False
        if not 0 <= at <= self.size - 4:
            self._error(min(at, self.size), place, f"{what} at {at} is outside of the file")
            return False
        end = at + 4 + _U32.unpack_from(self.buffer, at)[0] * width + more
        if not self._claim(at, end, what, place):
            return False
        self._seen[at] = what
        return True

    def _data_after(self, fields: dict[str, int], place: int) -> None:
        for name, size_name in (("offset", "size"), ("scale_offset", "scale_size")):
            if name not in fields or size_name not in fields:
                continue
            (offset,) = struct.unpack_from("<Q", self.buffer, fields[name])
            (size,) = struct.unpack_from("<Q", self.buffer, fields[size_name])
            if offset <= NO_OFFSET or not size or self._seen.get(offset) == "data":
                continue
            if self._claim(offset, offset + size, "data after the flatbuffer", place):
                self._seen[offset] = "data"
                inner = self._place(place, "scale_data" if "scale" in name else "data")
                self._add(offset, offset + size, inner, _Form("data after the flatbuffer", "bytes"))


def _problem(row: Field | None, start: int, free: int, end: int) -> str:
    """Describe what is wrong with a field at `start`; bytes from `free` to the table's end are free."""
    if row is None:
        return "is not in the schema"
    if start + row.width > end:
        return "lies outside of its table"
    return "lies over another field" if start < free else ""
