"""A flatbuffer of few tables -> Graph, a table at a time and without numpy.

Whatever is unusual, such as damage, ends this reading; `read` then says what is wrong. So this module
has no messages, and accepts no file that `read` refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import ATTRIBUTES, IDENTIFIER, ROOT, TABLES
from tosa_convert.formats.wire.lift import DEFAULTS
from tosa_convert.formats.wire.tables import FORMAT, Field
from tosa_convert.graph.lazy_numpy import FEW
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
)

#: Tables and elements of vectors for each operator, of which there may be `FEW`.
_PARTS: Final = 20
_U16: Final = struct.Struct("<H").unpack_from
_U32: Final = struct.Struct("<I").unpack_from
_I32: Final = struct.Struct("<i").unpack_from
_READ: Final = {kind: struct.Struct(f"<{code}").unpack_from for kind, code in FORMAT.items()}
#: Numbers in columns are signed.
_LARGEST: Final = 2**63 - 1


class _UnusualError(Exception):
    """There is something that another reader has to judge."""


def read_few(view: memoryview) -> Graph | None:
    """Read a sound flatbuffer of few tables; None if it is anything else.

    view: the bytes of the file, of which the constants become views.
    """
    # Fast path of read; equal by test test_few_tables_are_read_as_many
    try:
        return _Reader(view).graph()
    except (_UnusualError, UnicodeDecodeError):
        return None


def offsets_of_data_after(view: memoryview) -> set[int] | None:
    """Return the offsets of the data that tensors have after a flatbuffer of few tables.

    None if `read_few` would not read it.
    """
    # Fast path of read.addresses_of_data_after; equal by test test_few_tables_have_the_same_data_after
    reader = _Reader(view)
    try:
        root = reader.table(ROOT, reader.follow(0))
        regions = reader.tables("TosaRegion", root["regions"])
        blocks = [b for row in regions for b in reader.tables("TosaBasicBlock", row["blocks"])]
        tensors = [t for row in blocks for t in reader.tables("TosaTensor", row["tensors"])]
    except (_UnusualError, UnicodeDecodeError):
        return None
    names = (("offset", "size"), ("scale_offset", "scale_size"))
    places = [(row[offset], row[size]) for row in tensors for offset, size in names]
    return {offset for offset, size in places if offset > lift.NO_OFFSET and size}


class _Reader:
    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.size = len(view)
        #: Tables and elements that may still be read, and bytes of strings and data.
        self.parts_left = FEW * _PARTS
        self.bytes_left = self.size
        #: What was read, by its position: parts of a file may be shared.
        self.strings: dict[int, str] = {}
        self.numbers: dict[int, tuple[int, ...]] = {}
        self.distances: dict[tuple[str, int], list[tuple[Field, int]]] = {}

    # -- bytes --------------------------------------------------------------------------------

    def charge(self, parts: int, size: int = 0) -> None:
        """Count what is read: a small file may describe a large program."""
        self.parts_left -= parts
        self.bytes_left -= size
        if self.parts_left < 0 or self.bytes_left < 0:
            raise _UnusualError

    def u32(self, at: int) -> int:
        if at & 3 or not 0 <= at <= self.size - 4:
            raise _UnusualError
        number: int = _U32(self.view, at)[0]
        return number

    def follow(self, at: int) -> int:
        """Return the position to which the offset at a position points."""
        distance = self.u32(at)
        if not distance:
            raise _UnusualError
        return at + distance

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Return the position of the first element of a vector, and how many it has."""
        at = self.follow(at)
        count = self.u32(at)
        if at + 4 + count * width > self.size:
            raise _UnusualError
        return at + 4, count

    def string(self, at: int) -> str:
        at = self.follow(at)
        text = self.strings.get(at)
        if text is None:
            end = at + 4 + self.u32(at)
            if end >= self.size or self.view[end]:
                raise _UnusualError
            self.charge(1, end - at)
            text = self.strings[at] = str(self.view[at + 4 : end], "utf-8")
        return text

    def integers(self, at: int) -> tuple[int, ...]:
        first, count = self.vector(at, 4)
        found = self.numbers.get(first)
        if found is None:
            self.charge(count)
            found = self.numbers[first] = struct.unpack_from(f"<{count}i", self.view, first)
        return found

    def data(self, at: int) -> memoryview:
        first, count = self.vector(at, 1)
        self.charge(1, count)
        return self.view[first : first + count]

    def table_fields(self, table: str, vtable: int) -> list[tuple[Field, int]]:
        """Return the present fields of tables of one vtable, with their distances from the start."""
        if vtable & 1 or not 0 <= vtable <= self.size - 4:
            raise _UnusualError
        (size,), (table_size,) = _U16(self.view, vtable), _U16(self.view, vtable + 2)
        if size < 4 or size & 1 or vtable + size > self.size or table_size < 4:
            raise _UnusualError
        found = []
        for field in TABLES[table].fields:
            slot = 4 + 2 * field.slot
            distance = _U16(self.view, vtable + slot)[0] if slot + 2 <= size else 0
            if distance and (distance < 4 or distance + field.width > table_size):
                raise _UnusualError
            if field.required and not distance:
                raise _UnusualError
            if distance:
                found.append((field, distance))
        # The size of the table, in the form of a field.
        return [(_SIZE, table_size), *found]

    def table(self, table: str, at: int) -> dict[str, Any]:
        """Read the fields of a table; a table and a vector of tables are the field's position."""
        self.charge(1)
        if at & 3 or not 0 <= at <= self.size - 4:
            raise _UnusualError
        key = table, at - _I32(self.view, at)[0]
        fields = self.distances.get(key)
        if fields is None:
            fields = self.distances[key] = self.table_fields(*key)
        if at + fields[0][1] > self.size:
            raise _UnusualError
        values = DEFAULTS[table].copy()
        for field, distance in fields[1:]:
            place, kind = at + distance, field.kind
            if kind == "string":
                values[field.name] = self.string(place)
            elif kind in _READ:
                if place & field.width - 1:
                    raise _UnusualError
                values[field.name] = min(_READ[kind](self.view, place)[0], _LARGEST)
            elif kind == "[string]":
                values[field.name] = tuple(map(self.string, self.elements(place)))
            elif kind == "[i32]":
                values[field.name] = self.integers(place)
            elif kind == "[u8]":
                values[field.name] = self.data(place)
            else:
                values[field.name] = place
        return values

    def elements(self, at: int) -> Sequence[int]:
        """Return the positions of the elements of a vector of offsets."""
        first, count = self.vector(at, 4)
        self.charge(count)
        return range(first, first + 4 * count, 4)

    def tables(self, table: str, at: int | tuple[()]) -> list[dict[str, Any]]:
        """Read the tables of a vector; () is one that is absent."""
        if isinstance(at, tuple):
            return []
        return [self.table(table, self.follow(place)) for place in self.elements(at)]

    # -- the graph ----------------------------------------------------------------------------

    def graph(self) -> Graph:
        if self.size < 8 or bytes(self.view[4:8]) != IDENTIFIER:
            raise _UnusualError
        root = self.table(ROOT, self.follow(0))
        stated = self.table("Version", self.follow(root["version"]))
        version = lift.version(
            stated["_major"], stated["_minor"], stated["_patch"], bool(stated["_draft"]), _unusual
        )
        if root["compatibility"] is not None:
            asked = self.table("SerializationCompatibility", self.follow(root["compatibility"]))
            reader = self.software(asked["min_reader_version"])
            lift.check_compatibility(reader, asked["features"], _unusual)
        producer = self.software(root["software_version"])
        regions = [
            Region(
                row["name"],
                [self.block(block) for block in self.tables("TosaBasicBlock", row["blocks"])],
            )
            for row in self.tables("TosaRegion", root["regions"])
        ]
        return Graph(version, regions, producer)

    def software(self, at: int | None) -> SoftwareVersion | None:
        if at is None:
            return None
        return SoftwareVersion(*self.table("SoftwareVersion", self.follow(at)).values())

    def block(self, row: dict[str, Any]) -> Block:
        operators = [
            self.operator(found) for found in self.tables("TosaOperator", row["operators"])
        ]
        tensors = [self.tensor(found) for found in self.tables("TosaTensor", row["tensors"])]
        shapes = [self.shape(found) for found in self.tables("TosaShape", row["shapes"])]
        return lift.block(
            row["name"], row["inputs"], row["outputs"], operators, tensors, shapes, _unusual
        )

    def operator(self, row: dict[str, Any]) -> Operator:
        spec = lift.operator_spec(row["op"], row["attribute_type"], _unusual)
        fields = None
        if spec.attributes and row["attribute"] is not None:
            fields = self.table(ATTRIBUTES[spec.code], self.follow(row["attribute"]))
        location = ""
        if row["location"] is not None:
            location = self.table("OpLocation", self.follow(row["location"]))["text"]
        attributes = lift.attribute_values(spec, fields, _unusual)
        return Operator(spec, row["inputs"], row["outputs"], attributes, location)

    def tensor(self, row: dict[str, Any]) -> Tensor:
        return lift.tensor(lift.TensorFields(**row), self.out_of_line, _unusual)

    def out_of_line(
        self, offset: int, size: int, inside: memoryview | bytes | None, report: lift.Report
    ) -> memoryview:
        self.charge(1, size)
        if size > self.size - offset:
            raise _UnusualError
        return self.view[offset : offset + size]

    def shape(self, row: dict[str, Any]) -> ShapeValue:
        return lift.shape_value(row["name"], row["rank"], row["data"], _unusual)


_SIZE: Final = Field("", 0, "")


def _unusual(code: str, message: str, hint: str = "") -> NoReturn:
    raise _UnusualError
