"""Flatbuffer -> Graph. Constants are views of the buffer that was given; nothing copies them.

Fields are read in columns, one field of all tables at once, because a Python loop over every field
of every table would take most of the time.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, compress, islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.flatbuffer.read_few import offsets_of_data_after, read_few
from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import ATTRIBUTES, ROOT
from tosa_convert.graph.constant import address_of
from tosa_convert.graph.dtypes import BY_CODE as DTYPE_BY_CODE
from tosa_convert.graph.lazy_numpy import np
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
from tosa_convert.records import replace

if TYPE_CHECKING:
    from tosa_convert.eras.old_operations import Upgrade
    from tosa_convert.formats.flatbuffer.columns import Columns, Positions

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
    """Read a TOSA flatbuffer. The graph's constants are views of `buffer`.

    A file of TOSA 0.80 is read, too; its operators are expressed as those of 1.0.
    """
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
    from tosa_convert.eras.old_operations import Upgrade
    from tosa_convert.formats.flatbuffer.read_080 import read as read_080
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
    for name, field in (
        ("TosaRegion", "blocks"),
        ("TosaBasicBlock", "tensors"),
    ):
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
            if len(at) == len(places) and (np.diff(at) > 0).all():
                # Fast path of locations; equal by test test_locations_in_order_are_read_as_others
                (texts,) = self.table("OpLocation", at, "text")
                return list(texts)
            # Operators of one location may share a table.
            unique, inverse = np.unique(at, return_inverse=True)
            (unique_texts,) = self.table("OpLocation", unique, "text")
            for index, which in zip(present.tolist(), inverse.tolist(), strict=True):
                texts[index] = unique_texts[which]
        return texts

    def attributes(
        self,
        specs: list[OperatorSpec],
        kinds: Positions,
        places: Positions,
        members: _Members,
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
    """Consecutive parts of a list, of these lengths."""
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
