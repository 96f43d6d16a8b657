"""Flatbuffer -> Graph. Constants stay where they are: views of the buffer that was given."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import accumulate, compress
from typing import Any, Final

import numpy as np

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, fail
from tosa_convert.flatbuffer.check import Columns, Positions
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BY_CODE as DTYPE_BY_CODE
from tosa_convert.graph.dtypes import INT64, NOT_ELEMENT_TYPES, BlockShape, DType
from tosa_convert.graph.model import (
    Block,
    BlockScale,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
    block_path,
    quoted,
    sizes,
)
from tosa_convert.graph.opset import (
    BY_CODE,
    IDENTITY,
    OPERATORS,
    AttributeValue,
    OperatorSpec,
)
from tosa_convert.graph.static_shapes import fill_empty_constants
from tosa_convert.graph.versions import INCOMPATIBLE_HINT, READABLE, incompatibility
from tosa_convert.options import DEFAULT_LIMITS, Limits
from tosa_convert.wire.layout import ATTRIBUTES, ENUMS, ROOT, TABLES

#: Offsets 0 and 1 cannot lie behind a flatbuffer: readers in the field take `data` then.
_NO_OFFSET: Final = 1
#: Fields of a tensor that most leave empty.
_SPECIAL: Final = frozenset(
    ("data", "variable", "is_unranked", "variable_name", "scale_type", "scale_data", "block_shape")
)

#: Bytes of memory that a table takes: what is made of it, and what is needed meanwhile.
_MEMORY: Final = {
    "TosaRegion": (200, 100),
    "TosaBasicBlock": (500, 1000),
    "TosaOperator": (160, 100),
    "TosaTensor": (200, 120),
    "TosaShape": (160, 80),
}
#: ... and the data of a tensor or shape.
_DATA_MEMORY: Final = 290
_EMPTY_DICT: Final = sys.getsizeof({})

_OP_NAMES: Final = {code: name for name, code in ENUMS["Op"].items()}
_DTYPE_NAMES: Final = {code: name for name, code in ENUMS["DType"].items()}


def read(buffer: Any, where: str = "", limits: Limits = DEFAULT_LIMITS) -> Graph:
    """Read a TOSA flatbuffer from anything with the buffer protocol.

    The graph's constants are views of `buffer`; whoever gives a mapped file keeps it unchanged.
    Raises TosaConvertError with all findings of the first kind that occurs: first the file's
    structure, then its version, then operators, tensors and shapes. Of more than MAX_FINDINGS, the
    first ones.
    """
    view = memoryview(buffer).cast("B")
    try:
        return _Reader(Columns(view, limits)).graph()
    except TosaConvertError as error:
        if not where:
            raise
        raise TosaConvertError(
            replace(f, where=f"{where}: {f.where}" if f.where else where) for f in error.findings
        ) from None


class _Reader:
    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.findings: list[Finding] = []
        #: Bytes behind the flatbuffer that tensors refer to.
        self.tails = 0

    def table(self, name: str, tables: Positions, *fields: str) -> list[Any]:
        """The named fields of each table: lists of Python values, in the order asked for."""
        columns = self.columns
        layout = TABLES[name]
        kept, meanwhile = _MEMORY.get(name, (0, 0))
        columns.charge(len(tables) * (kept + meanwhile), f"table {name}")
        results: list[Any] = []
        for field_name, places in zip(fields, columns.fields(name, tables, fields), strict=True):
            field = layout[field_name]
            what = f"{name}.{field_name}"
            if field.required and len(places) and int(places.min()) < 0:
                raise columns.bad(int(tables[places.argmin()]), f"{what} is required and absent")
            match field.kind:
                case "string":
                    results.append(columns.strings(places, what))
                case "[string]":
                    results.append(columns.string_lists(places, what))
                case "[i32]":
                    results.append(columns.int_lists(places, what))
                case "[u8]":
                    # Attributes are kept; of data, only views are.
                    copied = name.endswith("Attribute")
                    results.append(
                        columns.copies_of(places, what)
                        if copied
                        else columns.bytes_of(places, what)
                    )
                case "[table]" | "table" | "union":
                    results.append(places)
                case _:
                    results.append(columns.scalars(name, field, places).tolist())
        return results

    def graph(self) -> Graph:
        columns = self.columns
        root = columns.root(ROOT)
        version_at, regions_at, software_at, needs_at = self.table(
            ROOT, root, "version", "regions", "software_version", "compatibility"
        )
        version = self.version(columns.follow(version_at, "TosaGraph.version"))
        if needs_at[0] >= 0:
            self.compatibility(columns.follow(needs_at, "TosaGraph.compatibility"))
        producer = self.software_version(software_at, "TosaGraph.software_version")
        tables, _ = columns.tables(regions_at, "TosaGraph.regions")
        names, blocks_at = self.table("TosaRegion", tables, "name", "blocks")
        block_tables, counts = columns.tables(blocks_at, "TosaRegion.blocks")
        regions = [Region(name) for name in names]
        blocks = self.blocks(block_tables, names, counts)
        position = 0
        for region, count in zip(regions, counts, strict=True):
            region.blocks = blocks[position : position + count]
            position += count
        if self.findings:
            raise TosaConvertError(self.findings)
        return Graph(version, regions, producer)

    def software_version(self, place: Positions, what: str) -> SoftwareVersion | None:
        if place[0] < 0:
            return None
        major, minor, micro, modifier = self.table(
            "SoftwareVersion",
            self.columns.follow(place, what),
            "_major",
            "_minor",
            "_micro",
            "_modifier",
        )
        return SoftwareVersion(major[0], minor[0], micro[0], modifier[0])

    def compatibility(self, table: Positions) -> None:
        reader_at, used = self.table(
            "SerializationCompatibility", table, "min_reader_version", "features"
        )
        reader = self.software_version(reader_at, "SerializationCompatibility.min_reader_version")
        problem = incompatibility(reader, used[0])
        if problem:
            raise fail("unsupported-version", "compatibility", problem, INCOMPATIBLE_HINT)

    def version(self, table: Positions) -> Version:
        major, minor, patch, draft = (
            column[0]
            for column in self.table("Version", table, "_major", "_minor", "_patch", "_draft")
        )
        version = Version(major, minor, patch, bool(draft))
        comparable = Version(major, minor, 0, bool(draft))
        if comparable not in READABLE:
            raise fail(
                "unsupported-version",
                "version",
                f"the file is TOSA {version}, we read " + ", ".join(map(str, READABLE)),
                "write it again with a tool that stamps one of these"
                if (major, minor) > (0, 90)
                else "the format changed between the 0.x series and 1.0: export the model again",
            )
        return version

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
        blocks = []
        for index, name in enumerate(names):
            block = Block(name, list(inputs[index]), list(outputs[index]), operators[index])
            block.tensors = self.by_name(paths[index], "tensor", tensors[index])
            block.shapes = self.by_name(paths[index], "shape", shapes[index])
            fill_empty_constants(block)
            blocks.append(block)
        return blocks

    def by_name(self, path: str, kind: str, values: list[Any]) -> dict[str, Any]:
        named = {value.name: value for value in values}
        if len(named) != len(values):
            seen: set[str] = set()
            for value in values:
                if value.name in seen:
                    self.say(
                        "duplicate-name",
                        path,
                        f'two {kind}s of the block are called "{value.name}"',
                    )
                seen.add(value.name)
        return named

    def say(self, code: str, where: str, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code, where, message, hint))
        if len(self.findings) == MAX_FINDINGS:
            raise TosaConvertError(self.findings)

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
        specs: list[OperatorSpec] = []
        for index, (code, kind) in enumerate(zip(codes, kinds, strict=True)):
            spec = _SPECS.get((code, kind))
            if spec is None:
                self.bad_operator(members.path(index, "operator"), code, kind)
                spec = IDENTITY
            specs.append(spec)
        attributes = self.attributes(specs, np.array(kinds, np.int64), attribute_at, members)
        self.columns.charge(-len(tables) * _MEMORY["TosaOperator"][1], "")
        return list(map(Operator, specs, inputs, outputs, attributes, locations))

    def bad_operator(self, where: str, code: int, kind: int) -> None:
        if code not in BY_CODE:
            known = _OP_NAMES.get(code)
            self.say(
                "unsupported-operator",
                where,
                f"operator code {code}{f' ({known})' if known else ''} is not an operator of TOSA 1.1",
                "the file is damaged, or newer than this program",
            )
        else:
            found = ATTRIBUTES[kind] if 0 <= kind < len(ATTRIBUTES) else f"type {kind}"
            self.say(
                "malformed-operator",
                where,
                f"{BY_CODE[code]} has attributes of {found}, expected {BY_CODE[code].table}Attribute",
            )

    def locations(self, places: Positions) -> list[str]:
        present = np.flatnonzero(places >= 0)
        texts = [""] * len(places)
        if len(present):
            at = self.columns.follow(places[present], "TosaOperator.location")
            unique, inverse = np.unique(at, return_inverse=True)
            (known,) = self.table("OpLocation", unique, "text")
            for index, which in zip(present.tolist(), inverse.tolist(), strict=True):
                texts[index] = known[which]
        return texts

    def attributes(
        self,
        specs: list[OperatorSpec],
        kinds: Positions,
        places: Positions,
        members: _Members,
    ) -> list[dict[str, AttributeValue]]:
        results: list[dict[str, AttributeValue]] = [{} for _ in specs]
        for kind in np.unique(kinds).tolist():
            if kind not in BY_CODE or not BY_CODE[kind].attributes:
                continue
            spec = BY_CODE[kind]
            present = np.flatnonzero((kinds == kind) & (places >= 0))
            for index in np.flatnonzero((kinds == kind) & (places < 0)).tolist():
                self.say(
                    "malformed-operator",
                    members.path(index, f"operator {spec}"),
                    "it has no attributes",
                )
            if not len(present):
                continue
            table = f"{spec.table}Attribute"
            names = [row.name for row in spec.attributes]
            at = self.columns.follow(places[present], table)
            # Writers let operators of equal attributes share a table.
            unique, first, inverse = np.unique(at, return_index=True, return_inverse=True)
            found = self.table(table, unique, *names)
            owners = present[first].tolist()
            shared: list[dict[str, AttributeValue]] = [{} for _ in owners]
            self.columns.charge(
                (len(owners) + len(present)) * (sys.getsizeof(dict.fromkeys(names)) - _EMPTY_DICT),
                table,
            )
            for row, column in zip(spec.attributes, found, strict=True):
                convert = _CONVERT.get(row.kind)
                for which, (index, value) in enumerate(zip(owners, column, strict=True)):
                    if convert is not None:
                        value = convert(value)
                    elif row.enum is not None:
                        value = self.enum_value(
                            row.enum, value, row.name, members, index, specs[index]
                        )
                    elif row.kind == "dtype":
                        value = self.dtype_value(value, row.name, members, index, specs[index])
                    shared[which][row.name] = value
            for index, which in zip(present.tolist(), inverse.tolist(), strict=True):
                results[index] = shared[which].copy()
        return results

    def enum_value(
        self,
        enum: type[IntEnum],
        value: int,
        name: str,
        members: _Members,
        index: int,
        spec: OperatorSpec,
    ) -> IntEnum:
        try:
            return enum(value)
        except ValueError:
            self.say(
                "malformed-operator",
                members.path(index, f"operator {spec}"),
                f'attribute "{name}" is {value}, expected '
                + ", ".join(f"{member.name} ({int(member)})" for member in enum),
            )
            return next(iter(enum))

    def dtype_value(
        self,
        value: int,
        name: str,
        members: _Members,
        index: int,
        spec: OperatorSpec,
    ) -> DType:
        found = DTYPE_BY_CODE.get(value)
        if found is None:
            self.say(
                "malformed-operator",
                members.path(index, f"operator {spec}"),
                f'attribute "{name}" is {_dtype_text(value)}',
            )
            return INT64
        return found

    # -- tensors and shapes -------------------------------------------------------------------

    def tensors(self, tables: Positions, members: _Members) -> list[Tensor]:
        fields = (
            "name",
            "shape",
            "type",
            "data",
            "variable",
            "is_unranked",
            "variable_name",
            "offset",
            "size",
            "scale_type",
            "scale_data",
            "block_shape",
            "scale_offset",
            "scale_size",
        )
        columns = [list(column) for column in self.table("TosaTensor", tables, *fields)]
        names, shapes, codes = columns[:3]
        dtypes = list(map(DTYPE_BY_CODE.get, codes))
        # Most tensors are a name and a type: nothing that could be wrong, nothing to add.
        results = list(map(Tensor, names, dtypes, shapes))  # type: ignore[arg-type]
        every = range(len(results))
        odd = {index for index, dtype in enumerate(dtypes) if dtype is None}
        for field_name, column in zip(fields[3:], columns[3:], strict=True):
            if field_name == "offset":
                odd.update(index for index, value in enumerate(column) if value > _NO_OFFSET)
            elif field_name in _SPECIAL:
                odd.update(compress(every, column))
        for index in sorted(odd):
            where = f"{members.path(index, 'tensor')} {quoted(names[index])}"
            if dtypes[index] is None:
                self.say("malformed-tensor", where, f"its type is {_dtype_text(codes[index])}")
            else:
                self.complete(where, results[index], *(column[index] for column in columns[3:]))
        if None in dtypes:
            raise TosaConvertError(self.findings)
        self.columns.charge(-len(tables) * _MEMORY["TosaTensor"][1], "")
        return results

    def complete(
        self,
        where: str,
        tensor: Tensor,
        data: memoryview | None,
        variable: int,
        unranked: int,
        symbol: str,
        offset: int,
        size: int,
        scale_code: int,
        scales: memoryview | None,
        block: int,
        scale_offset: int,
        scale_size: int,
    ) -> None:
        """Add to a tensor what it has besides its name, its type and its shape."""
        dims = tensor.shape or ()
        if unranked:
            tensor.shape = None
            if dims:
                self.say("malformed-tensor", where, f"it is unranked and has shape {sizes(dims)}")
        tensor.variable, tensor.variable_name = bool(variable), symbol
        if block or scale_code:
            tensor.scale = self.scale(where, block, scale_code)
        if offset > _NO_OFFSET:
            data = self.tail(where, offset, size) if size else None
        if data is not None and len(data):
            tensor.data = self.constant(where, tensor.dtype, tensor.element_count(), dims, data)
        if tensor.scale is not None:
            if scale_offset > _NO_OFFSET:
                scales = self.tail(where, scale_offset, scale_size) if scale_size else None
            if scales is not None and len(scales):
                count = tensor.element_count()
                blocks = None if count is None else -(-count // int(tensor.scale.shape))
                tensor.scale.data = self.constant(
                    f"{where} scales", tensor.scale.dtype, blocks, dims, scales
                )
        elif scales is not None and len(scales) and not block and not scale_code:
            self.say("malformed-tensor", where, "it has scales and no block shape")

    def scale(self, where: str, block: int, code: int) -> BlockScale | None:
        dtype = DTYPE_BY_CODE.get(code)
        try:
            shape = BlockShape(block)
        except ValueError:
            shape = None
        if dtype is None or shape is None:
            self.say(
                "malformed-tensor",
                where,
                f"block shape {block} with scales of type {_dtype_text(code)}, expected "
                + ", ".join(member.name for member in BlockShape),
            )
            return None
        return BlockScale(dtype, shape)

    def tail(self, where: str, offset: int, size: int) -> memoryview | None:
        """Data behind the flatbuffer."""
        file_size = self.columns.size
        # Views cost little, but whoever looks at all of them should not look at a byte too often.
        self.tails += size
        self.columns.charge(min(size, file_size) if self.tails > file_size else 0, where)
        if offset > file_size or size > file_size - offset:
            self.say(
                "missing-data",
                where,
                f"its data is {size} bytes at {offset}, the file ends at {file_size}",
                "the data behind the flatbuffer was cut off; copy the whole file",
            )
            return None
        return self.columns.buffer[offset : offset + size]

    def constant(
        self,
        where: str,
        dtype: DType,
        count: int | None,
        dims: tuple[int, ...],
        data: memoryview,
    ) -> Constant | None:
        if count is None:
            self.say(
                "data-length",
                where,
                f"{len(data)} bytes of data for the dynamic shape {sizes(dims)}",
                "constant data needs a static shape",
            )
            return None
        needed = dtype.wire_bytes(count)
        if len(data) < needed:
            self.say(
                "data-length",
                where,
                f"{len(data)} bytes of data, {count} x {dtype} need {needed}",
                "the weight is truncated; write the file again",
            )
            return None
        self.columns.charge(_DATA_MEMORY, where)
        # Writers pad to 8 bytes. Keep that much, so that a file can be written back as it was.
        padding = len(data) - needed
        return Constant(dtype, count, data[:needed], padding=padding if padding < 8 else 0)

    def shapes(self, tables: Positions, members: _Members) -> list[ShapeValue]:
        results = []
        columns = self.table("TosaShape", tables, "name", "rank", "data")
        for index, (name, rank, data) in enumerate(zip(*columns, strict=True)):
            where = f"{members.path(index, 'shape')} {quoted(name)}"
            shape = ShapeValue(name, rank)
            if data is not None and len(data):
                if len(data) < 8 * rank:
                    self.say(
                        "data-length",
                        where,
                        f"{len(data)} bytes of data, {rank} sizes need {8 * rank}",
                    )
                else:
                    self.columns.charge(_DATA_MEMORY, where)
                    shape.data = Constant(INT64, rank, data[: 8 * rank])
            results.append(shape)
        return results


def _split(values: list[Any], counts: Sequence[int]) -> list[list[Any]]:
    parts = []
    position = 0
    for count in counts:
        parts.append(values[position : position + count])
        position += count
    return parts


class _Members:
    """The members of all blocks taken together: operators, tensors or shapes."""

    def __init__(self, paths: list[str], counts: list[int]) -> None:
        self.paths = paths
        self.ends = list(accumulate(counts))

    def path(self, index: int, kind: str) -> str:
        """Where member `index` stands, for messages."""
        block = bisect_right(self.ends, index)
        start = self.ends[block - 1] if block else 0
        return f"{self.paths[block]} {kind} #{index - start}"


def _dtype_text(code: int) -> str:
    name = _DTYPE_NAMES.get(code)
    if name is None:
        return f"code {code}, which is no DType"
    return f"{name}, which {NOT_ELEMENT_TYPES.get(name, 'is unknown')}"


_CODES: Final = {row.name: row.code for row in OPERATORS}
#: (code, type of attributes) as they stand in a file -> operator.
_SPECS: Final = {(row.code, row.code): row for row in OPERATORS} | {
    (_CODES[row.encoded_as], row.code): row for row in OPERATORS
}

_CONVERT: Final[dict[str, Any]] = {
    "i32": int,
    "i32s": tuple,
    "bool": bool,
    "element": bytes,
    "bytes": bytes,
    "string": str,
    "region": str,
}
