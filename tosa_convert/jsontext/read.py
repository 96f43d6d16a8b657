"""JSON in flatc's shape -> Graph.

The same program as the flatbuffer with the same fields: what is absent has the schema's default, and
what would be wrong there is wrong here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, Final

from tosa_convert.errors import TosaConvertError
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
    quoted,
)
from tosa_convert.graph.opset import (
    BY_CODE,
    IDENTITY,
    OPERATORS,
    AttributeSpec,
    AttributeValue,
    OperatorSpec,
)
from tosa_convert.graph.static_shapes import fill_empty_constants
from tosa_convert.graph.versions import INCOMPATIBLE_HINT, READABLE, V1_0, incompatibility
from tosa_convert.jsontext.scan import Rows, Scanner, Stop
from tosa_convert.jsontext.schema import DTYPE, OP, TABLES, Field, attribute_table
from tosa_convert.options import DEFAULT_LIMITS, Limits

#: Bytes of text that a region or block takes, at the least and on average. Each takes memory even
#: where it is empty, so a small file must not have millions of them.
CONTAINER_BYTES: Final = 32
CONTAINERS_FREE: Final = 1000

#: Bytes of memory that things take, a tensor's with its place among others of the block.
_MEMORY: Final = {"TosaOperator": 300, "TosaTensor": 220, "TosaShape": 180}
_DATA_MEMORY: Final = 450
_ATTRIBUTE_MEMORY: Final = 100

#: Offsets 0 and 1 cannot lie behind a flatbuffer: they mean that there is no such data.
_NO_OFFSET: Final = 1
_I32: Final = (-(2**31), 2**31 - 1)
_U8_MAX: Final = 2**8 - 1
_U32_MAX: Final = 2**32 - 1
_U64_MAX: Final = 2**64 - 1

_OP_NAMES: Final = {code: name for name, code in OP.members.items()}
_DTYPE_NAMES: Final = {code: name for name, code in DTYPE.members.items()}
_CODES: Final = {row.name: row.code for row in OPERATORS}
#: (op, attribute_type) as they stand in a file -> operator.
_SPECS: Final = {(row.code, row.code): row for row in OPERATORS} | {
    (_CODES[row.encoded_as], row.code): row for row in OPERATORS
}
#: What an attribute is where its field is absent; enums are 0 then, which is none of their members.
_ABSENT: Final[dict[str, AttributeValue]] = {
    "i32": 0,
    "i32s": (),
    "bool": False,
    "element": b"",
    "bytes": b"",
    "string": "",
    "region": "",
}


def read(buffer: Any, where: str = "", limits: Limits = DEFAULT_LIMITS) -> Graph:
    """Read a TOSA graph in JSON from anything with the buffer protocol.

    Nothing of `buffer` is kept. Beyond JSON, comments, unquoted keys, commas behind the last member
    and a byte order mark are accepted; a null field is an absent one.

    Raises TosaConvertError with all findings that could be told independently, the first MAX_FINDINGS
    of them, each with its line and column (in bytes) and the path of the field.
    """
    with memoryview(buffer) as whole, whole.cast("B") as view:
        reader = _Reader(view, limits)
        graph = None
        with contextlib.suppress(Stop):
            graph = reader.graph()
        # It refers to itself by these: let go of it now and not when cycles are collected.
        reader.rows.clear()
        reader.builders.clear()
        if reader.found or graph is None:
            raise TosaConvertError(reader.findings(where))
    return graph


class _Reader(Scanner):
    """One method for each table that becomes something of a Graph."""

    def __init__(self, buffer: memoryview, limits: Limits) -> None:
        super().__init__(buffer, limits)
        self.containers = 0
        #: The attribute_type of the operator that is being read, once it is known.
        self.attribute_type: int | None = None
        self.builders: dict[str, Callable[[], Any]] = {
            "TosaRegion": self.region,
            "TosaBasicBlock": self.block,
            "TosaOperator": self.operator,
            "TosaTensor": self.tensor,
            "TosaShape": self.shape,
            "Version": self.version,
        }
        self.rows: dict[str, Rows] = {}

    def rows_of(self, table: str) -> Rows:
        rows = self.rows.get(table)
        if rows is None:
            rows = self.rows[table] = {row.name: self.row(row) for row in TABLES[table]}
        return rows

    def row(self, field: Field) -> Callable[[], Any]:
        """The function that reads a field's value."""
        match field.kind:
            case "i32":
                return partial(self.integer, *_I32)
            case "u32":
                return partial(self.integer, 0, _U32_MAX)
            case "u64":
                return partial(self.integer, 0, _U64_MAX)
            case "i32s":
                return partial(self.integers, *_I32)
            case "bool":
                return self.boolean
            case "string":
                return self.string
            case "strings":
                return self.strings
            case "bytes":
                return self.byte_list
            case "union":
                return self.attribute
            case "enum" if field.name == "attribute_type":
                assert field.enum is not None
                return partial(self.type_of_attribute, partial(self.enum, field.enum, _U8_MAX))
            case "enum":
                assert field.enum is not None
                return partial(self.enum, field.enum, _U32_MAX)
        member = self.builders.get(field.table) or partial(self.table_named, field.table)
        return member if field.kind == "table" else partial(self.tables, member)

    def table_named(self, table: str) -> dict[str, Any]:
        return self.table(self.rows_of(table))

    # -- the graph ----------------------------------------------------------------------------

    def graph(self) -> Graph:
        self.space()
        start = self.position
        found = self.table_named("TosaGraph")
        self.end()
        if "version" not in found:
            self.say("the required field version is missing", at=start)
        version = found.get("version", V1_0)
        needs = found.get("compatibility", {})
        problem = incompatibility(
            _software_version(needs.get("min_reader_version")), needs.get("features", 0)
        )
        if problem:
            self.say(problem, INCOMPATIBLE_HINT, code="unsupported-version", at=start)
        producer = _software_version(found.get("software_version"))
        return Graph(version, found.get("regions", []), producer)

    def version(self) -> Version:
        start, before = self.position, len(self.found)
        found = self.table_named("Version")
        draft = found.get("_draft", True)
        major, minor = found.get("_major", -1), found.get("_minor", -1)
        version = Version(major, minor, found.get("_patch", -1), draft)
        if len(self.found) == before and Version(major, minor, 0, draft) not in READABLE:
            # What else was found wrong may be right in that version.
            self.found.clear()
            self.say(
                f"the file is TOSA {version}, we read " + ", ".join(map(str, READABLE)),
                "write it again with a tool that stamps one of these"
                if (major, minor) > (0, 90)
                else "the format changed between the 0.x series and 1.0: export the model again",
                code="unsupported-version",
                at=start,
            )
            raise Stop
        return version

    def container(self) -> None:
        """Count a region or block."""
        self.containers += 1
        if self.containers > CONTAINERS_FREE + self.size // CONTAINER_BYTES:
            raise self.stop(
                f"{self.containers} regions and blocks in a file of {self.size} bytes, "
                "more than can hold anything"
            )

    def region(self) -> Region:
        self.container()
        found = self.table_named("TosaRegion")
        return Region(found.get("name", ""), found.get("blocks", []))

    def block(self) -> Block:
        self.container()
        start = self.position
        found = self.table_named("TosaBasicBlock")
        block = Block(
            found.get("name", ""),
            list(found.get("inputs", ())),
            list(found.get("outputs", ())),
            found.get("operators", []),
        )
        block.tensors = self.by_name(start, "tensor", found.get("tensors", []))
        block.shapes = self.by_name(start, "shape", found.get("shapes", []))
        fill_empty_constants(block)
        return block

    def by_name(self, start: int, kind: str, values: list[Any]) -> dict[str, Any]:
        named = {value.name: value for value in values}
        if len(named) != len(values):
            seen: set[str] = set()
            for value in values:
                if value.name in seen:
                    self.say(
                        f"two {kind}s of the block are called {quoted(value.name)}",
                        code="duplicate-name",
                        at=start,
                    )
                seen.add(value.name)
        return named

    # -- operators ----------------------------------------------------------------------------

    def type_of_attribute(self, enum: Callable[[], int]) -> int:
        self.attribute_type = enum()
        return self.attribute_type

    def attribute(self) -> dict[str, Any] | int:
        """The attributes, or where they stand if their type is not known yet."""
        if self.attribute_type is not None:
            return self.attributes(self.attribute_type)
        start = self.position
        self.skip()
        return start

    def attributes(self, kind: int) -> dict[str, Any]:
        spec = BY_CODE.get(kind)
        if spec is None:
            self.skip()
            return {}
        return self.table_named(attribute_table(spec))

    def operator(self) -> Operator:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaOperator"])
        self.attribute_type = None
        found = self.table_named("TosaOperator")
        attributes = found.get("attribute")
        if isinstance(attributes, int):
            if self.attribute_type is None:
                self.say("attribute_type is missing, so its attributes have no meaning", at=start)
            else:
                end = self.position
                self.position = attributes
                self.path.append(".attribute")
                attributes = self.attributes(self.attribute_type)
                self.path.pop()
                self.position = end
        spec = IDENTITY
        values: dict[str, AttributeValue] = {}
        if len(self.found) == before:
            spec = self.spec(start, found.get("op", 0), self.attribute_type)
        if len(self.found) == before and spec.attributes:
            values = self.attribute_values(start, spec, attributes)
        location = found.get("location")
        return Operator(
            spec,
            found.get("inputs", ()),
            found.get("outputs", ()),
            values,
            "" if location is None else location.get("text", ""),
        )

    def spec(self, start: int, code: int, kind: int | None) -> OperatorSpec:
        spec = _SPECS.get((code, kind or 0))
        if spec is not None:
            return spec
        expected = BY_CODE.get(code)
        if expected is None:
            known = _OP_NAMES.get(code)
            self.say(
                f"operator code {code}{f' ({known})' if known else ''} is not an operator of TOSA 1.1",
                "the file is damaged, or newer than this program",
                code="unsupported-operator",
                at=start,
            )
        elif kind is None:
            self.say(
                f"attribute_type is missing, {expected} has {attribute_table(expected)}",
                code="malformed-operator",
                at=start,
            )
        else:
            row = BY_CODE.get(kind)
            self.say(
                f"{expected} has attributes of {attribute_table(row) if row else f'type {kind}'}, "
                f"expected {attribute_table(expected)}",
                code="malformed-operator",
                at=start,
            )
        return IDENTITY

    def attribute_values(
        self, start: int, spec: OperatorSpec, found: Any
    ) -> dict[str, AttributeValue]:
        if found is None:
            self.say(f"{spec} has no attributes", code="malformed-operator", at=start)
            return {}
        values: dict[str, AttributeValue] = {}
        for row in spec.attributes:
            value = found.get(row.name)
            if row.enum is not None:
                value = self.enum_value(start, row, row.enum, value or 0)
            elif row.kind == "dtype":
                value = self.dtype_value(start, row, value or 0)
            elif value is None:
                value = _ABSENT[row.kind]
            elif isinstance(value, memoryview):
                value = bytes(value)
            values[row.name] = value
        self.charge(_ATTRIBUTE_MEMORY * len(values))
        return values

    def enum_value(
        self, start: int, row: AttributeSpec, enum: type[IntEnum], value: int
    ) -> IntEnum:
        try:
            return enum(value)
        except ValueError:
            self.say(
                f'attribute "{row.name}" is {value or "missing"}, expected '
                + ", ".join(f"{member.name} ({int(member)})" for member in enum),
                code="malformed-operator",
                at=start,
            )
            return next(iter(enum))

    def dtype_value(self, start: int, row: AttributeSpec, value: int) -> DType:
        found = DTYPE_BY_CODE.get(value)
        if found is None:
            self.say(
                f'attribute "{row.name}" is {_dtype_text(value)}',
                code="malformed-operator",
                at=start,
            )
            return INT64
        return found

    # -- tensors and shapes -------------------------------------------------------------------

    def tensor(self) -> Tensor:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaTensor"])
        found = self.table_named("TosaTensor")
        name = found.get("name", "")
        dims = found.get("shape", ())
        code = found.get("type", 0)
        unranked = found.get("is_unranked", False)
        tensor = Tensor(
            name,
            DTYPE_BY_CODE.get(code, INT64),
            None if unranked else dims,
            None,
            None,
            found.get("variable", False),
            found.get("variable_name", ""),
        )
        if len(self.found) != before:
            return tensor
        self.path.append(f" {quoted(name)}")
        if code not in DTYPE_BY_CODE:
            self.bad_tensor(start, f"its type is {_dtype_text(code)}")
        elif unranked and dims:
            self.bad_tensor(start, f"it is unranked and has shape {list(dims)}")
        else:
            self.tensor_data(start, tensor, found)
        self.path.pop()
        return tensor

    def bad_tensor(self, start: int, message: str) -> None:
        self.say(message, code="malformed-tensor", at=start)

    def tensor_data(self, start: int, tensor: Tensor, found: dict[str, Any]) -> None:
        block, code = found.get("block_shape", 0), found.get("scale_type", 0)
        if block or code:
            tensor.scale = self.scale(start, block, code)
        count = tensor.element_count()
        data = self.data(start, found, "")
        if data is not None and len(data):
            tensor.data = self.constant(start, tensor.dtype, count, tensor.shape, data)
        scales = self.data(start, found, "scale_")
        if scales is None or not len(scales):
            return
        if tensor.scale is not None:
            blocks = None if count is None else -(-count // int(tensor.scale.shape))
            tensor.scale.data = self.constant(
                start, tensor.scale.dtype, blocks, tensor.shape, scales
            )
        elif not (block or code):
            self.bad_tensor(start, "it has scales and no block shape")

    def data(self, start: int, found: dict[str, Any], prefix: str) -> memoryview | None:
        """A tensor's data or scales; what lies behind a flatbuffer did not come along."""
        data: memoryview | None = found.get(f"{prefix}data")
        offset, size = found.get(f"{prefix}offset", 0), found.get(f"{prefix}size", 0)
        if offset > _NO_OFFSET and size and (data is None or not len(data)):
            self.say(
                f"its data is {size} bytes at {offset} of a flatbuffer, and JSON has no such place",
                "convert the .tosa file itself: this JSON was made without its weights",
                code="missing-data",
                at=start,
            )
        return data

    def scale(self, start: int, block: int, code: int) -> BlockScale | None:
        dtype = DTYPE_BY_CODE.get(code)
        try:
            shape = BlockShape(block)
        except ValueError:
            shape = None
        if dtype is None or shape is None:
            self.bad_tensor(
                start,
                f"block shape {block} with scales of type {_dtype_text(code)}, expected "
                + ", ".join(member.name for member in BlockShape),
            )
            return None
        return BlockScale(dtype, shape)

    def constant(
        self,
        start: int,
        dtype: DType,
        count: int | None,
        dims: tuple[int, ...] | None,
        data: memoryview,
    ) -> Constant | None:
        if count is None:
            self.say(
                f"{len(data)} bytes of data for the dynamic shape {list(dims or ())}",
                "constant data needs a static shape",
                code="data-length",
                at=start,
            )
            return None
        needed = dtype.wire_bytes(count)
        if len(data) < needed:
            self.say(
                f"{len(data)} bytes of data, {count} x {dtype} need {needed}",
                "the weight is truncated; write the file again",
                code="data-length",
                at=start,
            )
            return None
        self.charge(_DATA_MEMORY)
        # Writers pad to 8 bytes. Keep that much, so that a file can be written back as it was.
        padding = len(data) - needed
        return Constant(dtype, count, data[:needed], padding=padding if padding < 8 else 0)

    def shape(self) -> ShapeValue:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaShape"])
        found = self.table_named("TosaShape")
        shape = ShapeValue(found.get("name", ""), found.get("rank", 0))
        data = found.get("data")
        if len(self.found) != before or data is None or not len(data):
            return shape
        if len(data) < 8 * shape.rank:
            self.path.append(f" {quoted(shape.name)}")
            self.say(
                f"{len(data)} bytes of data, {shape.rank} sizes need {8 * shape.rank}",
                code="data-length",
                at=start,
            )
            self.path.pop()
        else:
            shape.data = Constant(INT64, shape.rank, data[: 8 * shape.rank])
        return shape


def _dtype_text(code: int) -> str:
    name = _DTYPE_NAMES.get(code)
    if name is None:
        return f"code {code}, which is no DType"
    return f"{name}, which {NOT_ELEMENT_TYPES.get(name, 'is unknown')}"


def _software_version(row: dict[str, Any] | None) -> SoftwareVersion | None:
    if row is None:
        return None
    return SoftwareVersion(
        row.get("_major", -1),
        row.get("_minor", -1),
        row.get("_micro", -1),
        row.get("_modifier", ""),
    )
