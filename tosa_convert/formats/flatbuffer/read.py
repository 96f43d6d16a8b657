"""Flatbuffer -> Graph. Constants are views of the buffer that was given; nothing copies them."""

from __future__ import annotations

import struct
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, compress, islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import ATTRIBUTES, IDENTIFIER, ROOT, TABLES
from tosa_convert.formats.wire.lift import DEFAULTS
from tosa_convert.formats.wire.tables import FORMAT, Field
from tosa_convert.graph.constant import address_of
from tosa_convert.graph.dtypes import BY_CODE as DTYPE_BY_CODE
from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
    block_path,
    quoted,
)
from tosa_convert.graph.opset import BY_CODE, AttributeValue, OperatorSpec
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from tosa_convert.eras.editor import Upgrade
    from tosa_convert.formats.flatbuffer.columns import Columns, Positions


# -- a flatbuffer of few tables, without numpy; what is unusual is left to `read` ------------------

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
    """Read a sound flatbuffer of few tables; None if it is anything else. Constants become views."""
    # Fast path of read; equal by test test_few_tables_are_read_as_many
    try:
        return _ReaderOfFew(view).graph()
    except (_UnusualError, UnicodeDecodeError):
        return None


def offsets_of_data_after(view: memoryview) -> set[int] | None:
    """Return offsets of data after a flatbuffer of few tables; None if `read_few` does not read it."""
    # Fast path of read.addresses_of_data_after; equal by test test_few_tables_have_the_same_data_after
    reader = _ReaderOfFew(view)
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


class _ReaderOfFew:
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
        first, count = self.vector(at, 4)
        self.charge(count)
        return range(first, first + 4 * count, 4)

    def tables(self, table: str, at: int | tuple[()]) -> list[dict[str, Any]]:
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


#: Fields of a tensor that most tensors leave empty.
_RARE: Final = frozenset(
    ("data", "variable", "is_unranked", "variable_name", "scale_type", "scale_data", "block_shape")
)

#: Memory of a table, in bytes: of the object made from it, and of temporaries.
_MEMORY: Final = {
    "TosaRegion": (200, 100),
    "TosaBasicBlock": (500, 1000),
    "TosaOperator": (160, 100),
    "TosaTensor": (200, 120),
    "TosaShape": (160, 80),
}
#: Memory of a constant besides its data, in bytes.
_CONSTANT_MEMORY: Final = 290
_EMPTY_DICT: Final = sys.getsizeof({})


def read(
    buffer: Any, where: str = "", limits: Limits = DEFAULT_LIMITS, upgrade: Upgrade | None = None
) -> Graph:
    """Read a TOSA flatbuffer, of 0.80 too; the graph's constants are views of `buffer`."""
    view = memoryview(buffer).cast("B")
    if limits.flatbuffer_memory >= DEFAULT_LIMITS.flatbuffer_memory:
        graph = read_few(view)
        if graph is not None:
            return graph
    # Imported for large files, and for the messages of all others.
    from tosa_convert.formats.flatbuffer.columns import Columns

    try:
        reader = _Reader(Columns(view, limits))
        if reader.is_old():
            return _read_old(view, limits, upgrade)
        return reader.graph()
    except TosaConvertError as error:
        if not where:
            raise
        raise TosaConvertError(
            replace(f, where=f"{where}: {f.where}" if f.where else where) for f in error.findings
        ) from None


def _read_old(view: memoryview, limits: Limits, upgrade: Upgrade | None) -> Graph:
    from tosa_convert.eras.editor import Upgrade
    from tosa_convert.formats.flatbuffer.tosa_080 import read as read_080
    from tosa_convert.io import log

    noted = Upgrade() if upgrade is None else upgrade
    graph = read_080(view, limits, noted)
    if upgrade is None and noted:
        log.warning("%s", noted.summary())
    return graph


def addresses_of_data_after(buffer: memoryview, limits: Limits = DEFAULT_LIMITS) -> set[int]:
    """Return the addresses in memory of the data that tensors have after the flatbuffer."""
    is_few = limits.flatbuffer_memory >= DEFAULT_LIMITS.flatbuffer_memory
    few = offsets_of_data_after(buffer) if is_few else None
    if few is not None:
        return {address_of(buffer) + offset for offset in few} if few else few
    from tosa_convert.formats.flatbuffer.columns import Columns

    reader = _Reader(Columns(buffer, limits))
    columns = reader.columns
    (places,) = reader.table(ROOT, columns.root(ROOT), "regions")
    for name, field in (("TosaRegion", "blocks"), ("TosaBasicBlock", "tensors")):
        tables, _ = columns.tables(places, name)
        (places,) = reader.table(name, tables, field)
    tables, _ = columns.tables(places, "TosaBasicBlock.tensors")
    start = address_of(buffer)
    found = reader.table("TosaTensor", tables, "offset", "size", "scale_offset", "scale_size")
    return {
        start + offset
        for offsets, sizes in (found[:2], found[2:])
        for offset, size in zip(offsets, sizes, strict=True)
        if offset > lift.NO_OFFSET and size
    }


class _Reader:
    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.findings = Findings()
        #: Bytes after the flatbuffer that tensors refer to, counted once for each reference.
        self.out_of_line_bytes = 0

    def table(self, name: str, tables: Positions, *fields: str) -> list[Any]:
        """Read the named fields of each table, as `Columns.read` does, within its memory."""
        memory = sum(_MEMORY.get(name, ()))
        self.columns.charge(len(tables) * memory, f"table {name}")
        return self.columns.read(name, tables, *fields)

    # -- findings -----------------------------------------------------------------------------

    def add(self, where: str, code: str, message: str, hint: str = "") -> None:
        self.findings.add(code, where, message, hint)

    def add_for_operator(
        self,
        members: _Members,
        index: int,
        spec: OperatorSpec | None,
        code: str,
        message: str,
        hint: str = "",
    ) -> None:
        what = "operator" if spec is None else f"operator {spec}"
        self.add(members.path(index, what), code, message, hint)

    def add_for_value(
        self, members: _Members, index: int, what: str, name: str, *finding: str
    ) -> None:
        self.add(f"{members.path(index, what)} {quoted(name)}", *finding)

    # -- the graph ----------------------------------------------------------------------------

    def is_old(self) -> bool:
        columns = self.columns
        (place,) = columns.fields(ROOT, columns.root(ROOT), ("version",))
        if place[0] < 0:
            return False
        table = columns.follow(place, "TosaGraph.version")
        major, minor = self.table("Version", table, "_major", "_minor")
        return (major[0], minor[0]) == lift.OLD_VERSION

    def graph(self) -> Graph:
        columns = self.columns
        root = columns.root(ROOT)
        version_at, regions_at, software_at, compatibility_at = self.table(
            ROOT, root, "version", "regions", "software_version", "compatibility"
        )
        version = self.version(columns.follow(version_at, "TosaGraph.version"))
        if compatibility_at[0] >= 0:
            self.compatibility(columns.follow(compatibility_at, "TosaGraph.compatibility"))
        producer = self.software_version(software_at, "TosaGraph.software_version")
        tables, _ = columns.tables(regions_at, "TosaGraph.regions")
        names, blocks_at = self.table("TosaRegion", tables, "name", "blocks")
        block_tables, counts = columns.tables(blocks_at, "TosaRegion.blocks")
        blocks = _split(self.blocks(block_tables, names, counts), counts)
        self.findings.raise_if_any()
        return Graph(version, list(map(Region, names, blocks)), producer)

    def version(self, table: Positions) -> Version:
        major, minor, patch, draft = (
            column[0]
            for column in self.table("Version", table, "_major", "_minor", "_patch", "_draft")
        )
        return lift.version(major, minor, patch, bool(draft), partial(_refuse, "version"))

    def compatibility(self, table: Positions) -> None:
        reader_at, features = self.table(
            "SerializationCompatibility", table, "min_reader_version", "features"
        )
        reader = self.software_version(reader_at, "SerializationCompatibility.min_reader_version")
        lift.check_compatibility(reader, features[0], partial(_refuse, "compatibility"))

    def software_version(self, place: Positions, what: str) -> SoftwareVersion | None:
        if place[0] < 0:
            return None
        fields = ("_major", "_minor", "_micro", "_modifier")
        table = self.columns.follow(place, what)
        return SoftwareVersion(*(col[0] for col in self.table("SoftwareVersion", table, *fields)))

    def blocks(self, tables: Positions, regions: list[str], counts: list[int]) -> list[Block]:
        columns = self.columns
        names, operators_at, tensors_at, inputs, outputs, shapes_at = self.table(
            "TosaBasicBlock", tables, "name", "operators", "tensors", "inputs", "outputs", "shapes"
        )
        operator_tables, operator_counts = columns.tables(operators_at, "TosaBasicBlock.operators")
        tensor_tables, tensor_counts = columns.tables(tensors_at, "TosaBasicBlock.tensors")
        shape_tables, shape_counts = columns.tables(shapes_at, "TosaBasicBlock.shapes")
        owners = [
            region for region, count in zip(regions, counts, strict=True) for _ in range(count)
        ]
        paths = [block_path(region, name) for region, name in zip(owners, names, strict=True)]
        operators = _split(
            self.operators(operator_tables, _Members(paths, operator_counts)), operator_counts
        )
        tensors = _split(self.tensors(tensor_tables, _Members(paths, tensor_counts)), tensor_counts)
        shapes = _split(self.shapes(shape_tables, _Members(paths, shape_counts)), shape_counts)
        reports = [partial(self.add, path) for path in paths]
        return list(map(lift.block, names, inputs, outputs, operators, tensors, shapes, reports))

    # -- operators ----------------------------------------------------------------------------

    def operators(self, tables: Positions, members: _Members) -> list[Operator]:
        codes, kinds, attribute_at, inputs, outputs, location_at = self.table(
            "TosaOperator",
            tables,
            "op",
            "attribute_type",
            "attribute",
            "inputs",
            "outputs",
            "location",
        )
        locations = self.locations(location_at)
        pairs = list(zip(codes, kinds, strict=True))
        try:
            specs = list(map(lift.SPECS.__getitem__, pairs))
        except KeyError:
            specs = [
                lift.operator_spec(*pair, partial(self.add_for_operator, members, index, None))
                for index, pair in enumerate(pairs)
            ]
        attributes = self.attributes(specs, np.array(kinds, np.int64), attribute_at, members)
        self.columns.charge(-len(tables) * _MEMORY["TosaOperator"][1], "")
        return list(map(Operator, specs, inputs, outputs, attributes, locations))

    def locations(self, places: Positions) -> list[str]:
        present = np.flatnonzero(places >= 0)
        texts: list[str] = [""] * len(places)
        if len(present):
            at = self.columns.follow(places[present], "TosaOperator.location")
            # Operators of one location may share a table.
            unique, inverse = np.unique(at, return_inverse=True)
            (unique_texts,) = self.table("OpLocation", unique, "text")
            for index, which in zip(present.tolist(), inverse.tolist(), strict=True):
                texts[index] = unique_texts[which]
        return texts

    def attributes(
        self, specs: list[OperatorSpec], kinds: Positions, places: Positions, members: _Members
    ) -> list[dict[str, AttributeValue]]:
        """Read the attributes of each operator from all tables of a kind at once."""
        # Fast path of lift.attribute_values; equal by test test_every_operator_is_lifted_alike
        results: list[dict[str, AttributeValue]] = [{} for _ in specs]
        for kind in np.unique(kinds).tolist():
            spec = BY_CODE.get(kind)
            if spec is None or not spec.attributes:
                continue
            of_kind = kinds == kind
            for index in np.flatnonzero(of_kind & (places < 0)).tolist():
                lift.attribute_values(
                    spec, None, partial(self.add_for_operator, members, index, spec)
                )
            present = np.flatnonzero(of_kind & (places >= 0))
            if len(present):
                at = self.columns.follow(places[present], ATTRIBUTES[kind])
                # Operators of equal attributes may share a table.
                unique, first, inverse = np.unique(at, return_index=True, return_inverse=True)
                owners = present[first].tolist()
                self.columns.charge(
                    (len(owners) + len(present)) * _dict_memory(spec), ATTRIBUTES[kind]
                )
                shared = self.attribute_tables(spec, unique, owners, members)
                for index, which in zip(present.tolist(), inverse.tolist(), strict=True):
                    results[index] = shared[which].copy()
        return results

    def attribute_tables(
        self, spec: OperatorSpec, tables: Positions, owners: list[int], members: _Members
    ) -> list[dict[str, AttributeValue]]:
        """Read the attributes in each of these tables; owners: the first operator that has each."""
        results: list[dict[str, AttributeValue]] = [{} for _ in owners]
        names = (row.name for row in spec.attributes)
        columns = self.table(ATTRIBUTES[spec.code], tables, *names)
        for row, column in zip(spec.attributes, columns, strict=True):
            for which, value in enumerate(lift.attribute_column(row, column)):
                if value is None:
                    report = partial(self.add_for_operator, members, owners[which], spec)
                    value = lift.attribute_value(row, column[which], report)
                results[which][row.name] = value
        return results

    # -- tensors and shapes -------------------------------------------------------------------

    def tensors(self, tables: Positions, members: _Members) -> list[Tensor]:
        fields = lift.TensorFields._fields
        columns = [list(column) for column in self.table("TosaTensor", tables, *fields)]
        names, shapes, codes = columns[:3]
        # Fast path of lift.tensor; equal by test test_every_tensor_is_lifted_alike
        # Most tensors are a name, a type and a shape: nothing can be wrong, nothing is to be added.
        dtypes = list(map(DTYPE_BY_CODE.get, codes))
        results = list(map(Tensor, names, dtypes, shapes))  # type: ignore[arg-type]
        numbers = range(len(results))
        others = {index for index, dtype in enumerate(dtypes) if dtype is None}
        for field, column in zip(fields[3:], columns[3:], strict=True):
            if field == "offset" and max(column, default=0) > lift.NO_OFFSET:
                others.update(i for i, value in enumerate(column) if value > lift.NO_OFFSET)
            elif field in _RARE and any(column):
                others.update(compress(numbers, column))
        chosen = sorted(others)
        rows = zip(*([column[index] for index in chosen] for column in columns), strict=True)
        for index, values in zip(chosen, map(lift.TensorFields._make, rows), strict=True):
            report = partial(self.add_for_value, members, index, "tensor", names[index])
            tensor = results[index] = lift.tensor(values, self.out_of_line, report)
            if tensor.data is not None:
                self.columns.charge(_CONSTANT_MEMORY, "TosaTensor.data")
            if tensor.scale is not None and tensor.scale.data is not None:
                self.columns.charge(_CONSTANT_MEMORY, "TosaTensor.scale_data")
        self.columns.charge(-len(tables) * _MEMORY["TosaTensor"][1], "")
        return results

    def out_of_line(
        self, offset: int, size: int, inside: memoryview | bytes | None, report: lift.Report
    ) -> memoryview | None:
        """Return data after the flatbuffer, which takes precedence over data inside."""
        file_size = self.columns.size
        # Views cost little, but reading all of them must not read a byte many times.
        self.out_of_line_bytes += size
        if self.out_of_line_bytes > file_size:
            self.columns.charge(min(size, file_size), "TosaTensor.offset")
        if size > file_size - offset:
            message = f"its data is {size} bytes at {offset}, the file ends at {file_size}"
            hint = "the data after the flatbuffer was cut off; copy the whole file"
            report("missing-data", message, hint)
            return None
        return self.columns.buffer[offset : offset + size]

    def shapes(self, tables: Positions, members: _Members) -> list[ShapeValue]:
        results = []
        columns = self.table("TosaShape", tables, "name", "rank", "data")
        for index, (name, rank, data) in enumerate(zip(*columns, strict=True)):
            report = partial(self.add_for_value, members, index, "shape", name)
            shape = lift.shape_value(name, rank, data, report)
            if shape.data is not None:
                self.columns.charge(_CONSTANT_MEMORY, "TosaShape.data")
            results.append(shape)
        return results


def _refuse(where: str, code: str, message: str, hint: str = "") -> NoReturn:
    raise fail(code, where, message, hint)


def _dict_memory(spec: OperatorSpec) -> int:
    """Return the bytes that a dict of the operator's attributes takes beyond an empty one."""
    return sys.getsizeof(dict.fromkeys(row.name for row in spec.attributes)) - _EMPTY_DICT


def _split(values: list[Any], counts: Sequence[int]) -> list[list[Any]]:
    """Split a list into consecutive parts of these lengths."""
    if len(counts) == 1:
        return [values]
    left = iter(values)
    return [list(islice(left, count)) for count in counts]


class _Members:
    """The operators, tensors or shapes of all blocks, which are read together."""

    def __init__(self, paths: list[str], counts: list[int]) -> None:
        self.paths = paths
        self.ends = list(accumulate(counts))

    def path(self, index: int, what: str) -> str:
        """Return the block of member `index` and its number there, for messages."""
        block = bisect_right(self.ends, index)
        start = self.ends[block - 1] if block else 0
        return f"{self.paths[block]} {what} #{index - start}"
