"""JSON in flatc's form -> Graph, with the fields and defaults of the flatbuffer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.json.values import FieldReaders, Scanner, Stop
from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import ATTRIBUTES, ENUMS, ROOT, TABLES
from tosa_convert.formats.wire.lift import DEFAULTS
from tosa_convert.formats.wire.tables import Field
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
    quoted,
)
from tosa_convert.graph.opset import BY_CODE, IDENTITY, AttributeValue
from tosa_convert.graph.versions import V1_0
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

#: Bytes of text that a region or block takes on average, at the least. Even an empty one takes
#: memory, so a small file must not have millions of them.
CONTAINER_BYTES: Final = 64
CONTAINERS_FREE: Final = 1000

#: Memory of an object in bytes, with its entry in the block.
_MEMORY: Final = {"TosaOperator": 300, "TosaTensor": 220, "TosaShape": 180}
_CONSTANT_MEMORY: Final = 450
_ATTRIBUTE_MEMORY: Final = 100

_RANGES: Final = {
    "u8": (0, 2**8 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
}
#: The tag of a union is written like an enum.
_TAG: Final = "attribute_type"
_TAG_MEMBERS: Final = {name: number for number, name in enumerate(ATTRIBUTES)}


def read(buffer: Any, where: str = "", limits: Limits = DEFAULT_LIMITS) -> Graph:
    """Read TOSA in JSON, also with comments, unquoted keys and null fields; keep nothing of `buffer`."""
    with memoryview(buffer) as whole, whole.cast("B") as view:
        reader = _Reader(view, limits)
        graph = None
        with contextlib.suppress(Stop):
            graph = reader.graph()
        # These refer to the reader; without them it is released now, and not by the next collection.
        reader.readers.clear()
        reader.builders.clear()
        if reader.found or graph is None:
            raise TosaConvertError(reader.findings(where))
    return graph


class _Reader(Scanner):
    """One method for each table that becomes an object of the graph."""

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
            "SoftwareVersion": self.software_version,
        }
        #: Table -> readers of its fields, for the tables that have occurred.
        self.readers: dict[str, FieldReaders] = {}

    def fields_of(self, table: str) -> dict[str, Any]:
        """Read the fields of the table that starts here, with defaults for those that are absent."""
        readers = self.readers.get(table)
        if readers is None:
            fields = TABLES[table].fields
            readers = self.readers[table] = {field.name: self.reader_of(field) for field in fields}
        return DEFAULTS[table] | self.table(readers)

    def reader_of(self, field: Field) -> Callable[[], Any]:
        if field.name == _TAG:
            return self.union_tag
        if field.enum:
            return partial(self.enum, field.enum, ENUMS[field.enum], _RANGES[field.kind][1])
        match field.kind:
            case "bool":
                return self.boolean
            case "string":
                return self.string
            case "[string]":
                return self.strings
            case "[i32]":
                return partial(self.integers, *_RANGES["i32"])
            case "[u8]":
                return self.byte_list
            case "union":
                return self.union
            case "table":
                return self.builder_of(field.table)
            case "[table]":
                return partial(self.tables, self.builder_of(field.table))
        return partial(self.integer, *_RANGES[field.kind])

    def builder_of(self, table: str) -> Callable[[], Any]:
        return self.builders.get(table) or partial(self.fields_of, table)

    # -- the graph ----------------------------------------------------------------------------

    def graph(self) -> Graph:
        self.space()
        start = self.position
        fields = self.fields_of(ROOT)
        self.end()
        for field in TABLES[ROOT].fields:
            if field.required and fields[field.name] is None:
                self.add(f"the required field {field.name} is missing", at=start)
        needs = fields["compatibility"] or DEFAULTS["SerializationCompatibility"]
        report = partial(self.add_at, start)
        lift.check_compatibility(needs["min_reader_version"], needs["features"], report)
        version = fields["version"] or V1_0
        return Graph(version, list(fields["regions"]), fields["software_version"])

    def version(self) -> Version:
        start, before = self.position, len(self.found)
        fields = self.fields_of("Version")
        numbers = (fields["_major"], fields["_minor"], fields["_patch"])
        if len(self.found) != before:
            return V1_0
        return lift.version(*numbers, fields["_draft"], partial(self.refuse_version, start))

    def refuse_version(self, start: int, code: str, message: str, hint: str = "") -> None:
        # Other findings may be valid in that version.
        self.found.clear()
        self.add_at(start, code, message, hint)
        raise Stop

    def software_version(self) -> SoftwareVersion:
        fields = self.fields_of("SoftwareVersion")
        return SoftwareVersion(
            fields["_major"], fields["_minor"], fields["_micro"], fields["_modifier"]
        )

    def container(self) -> None:
        self.containers += 1
        if self.containers > CONTAINERS_FREE + self.size // CONTAINER_BYTES:
            raise self.stop(
                f"{self.containers} regions and blocks in a file of {self.size} bytes: "
                "most of them must be empty"
            )

    def region(self) -> Region:
        self.container()
        fields = self.fields_of("TosaRegion")
        return Region(fields["name"], list(fields["blocks"]))

    def block(self) -> Block:
        self.container()
        start = self.position
        fields = self.fields_of("TosaBasicBlock")
        return lift.block(
            fields["name"],
            fields["inputs"],
            fields["outputs"],
            list(fields["operators"]),
            fields["tensors"],
            fields["shapes"],
            partial(self.add_at, start),
        )

    # -- operators ----------------------------------------------------------------------------

    def operator(self) -> Operator:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaOperator"])
        self.attribute_type = None
        fields = self.fields_of("TosaOperator")
        attributes = fields["attribute"]
        if isinstance(attributes, int):
            attributes = self.deferred_union(start, attributes)
        spec = IDENTITY
        values: dict[str, AttributeValue] = {}
        report = partial(self.add_at, start)
        if len(self.found) == before:
            spec = lift.operator_spec(fields["op"], self.attribute_type or 0, report)
        if len(self.found) == before and spec.attributes:
            values = lift.attribute_values(spec, attributes, report)
            self.charge(_ATTRIBUTE_MEMORY * len(values))
        location = fields["location"]
        return Operator(
            spec,
            fields["inputs"],
            fields["outputs"],
            values,
            "" if location is None else location["text"],
        )

    def union_tag(self) -> int:
        self.attribute_type = self.enum("Attribute", _TAG_MEMBERS, _RANGES["u8"][1])
        return self.attribute_type

    def union(self) -> dict[str, Any] | int:
        """Read the fields of the attributes, or return their position if their type is not known yet."""
        if self.attribute_type is not None:
            return self.attribute_fields(self.attribute_type)
        start = self.position
        self.skip()
        return start

    def deferred_union(self, start: int, position: int) -> dict[str, Any] | None:
        """Read the attributes that were skipped at `position`; None if their type is missing."""
        if self.attribute_type is None:
            self.add("attribute_type is missing, so its attributes have no meaning", at=start)
            return None
        end = self.position
        self.position = position
        self.path.append(".attribute")
        fields = self.attribute_fields(self.attribute_type)
        self.path.pop()
        self.position = end
        return fields

    def attribute_fields(self, kind: int) -> dict[str, Any]:
        if kind not in BY_CODE:
            self.skip()
            return {}
        return self.fields_of(ATTRIBUTES[kind])

    # -- tensors and shapes -------------------------------------------------------------------

    def tensor(self) -> Tensor:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaTensor"])
        fields = lift.TensorFields(**self.fields_of("TosaTensor"))
        # A consequence of a wrong field does not get its own finding.
        report: lift.Report = _ignore if len(self.found) != before else partial(self.add_at, start)
        self.path.append(f" {quoted(fields.name)}")
        tensor = lift.tensor(fields, _out_of_line, report)
        self.path.pop()
        if tensor.data is not None:
            self.charge(_CONSTANT_MEMORY)
        if tensor.scale is not None and tensor.scale.data is not None:
            self.charge(_CONSTANT_MEMORY)
        return tensor

    def shape(self) -> ShapeValue:
        start, before = self.position, len(self.found)
        self.charge(_MEMORY["TosaShape"])
        fields = self.fields_of("TosaShape")
        report: lift.Report = _ignore if len(self.found) != before else partial(self.add_at, start)
        self.path.append(f" {quoted(fields['name'])}")
        shape = lift.shape_value(fields["name"], fields["rank"], fields["data"], report)
        self.path.pop()
        return shape


def _ignore(code: str, message: str, hint: str = "") -> None:
    pass


def _out_of_line(
    offset: int, size: int, inside: memoryview | bytes | None, report: lift.Report
) -> memoryview | bytes | None:
    """Report data that lay after a flatbuffer, unless the text has it inside, too."""
    if not inside:
        report(
            "missing-data",
            f"its data is {size} bytes at {offset} of a flatbuffer, and JSON has no such place",
            "convert the .tosa file itself: this JSON was made without its weights",
        )
    return inside
