"""What may stand in the JSON: tables and their fields, under the names that flatc gives them.

Follows from the operators' rows and from the graph's own fields; a test proves it equal to the
schema, field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tosa_convert.graph.dtypes import DTYPES, BlockShape
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperatorSpec


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum: its name, and name -> number of its members."""

    name: str
    members: dict[str, int]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table.

    kind: `i32`, `u32`, `u64`, `bool`, `enum`, `string`, `strings`, `i32s`, `bytes`, `union`,
        `table`, or `tables` (a list). enum: the enum of an `enum`.
    table: the table of a `table` or `tables`.
    """

    name: str
    kind: str
    enum: Enum | None = None
    table: str = ""


#: Members that no row stands for: no value at all, and the element type of a shape.
DTYPE: Final = Enum("DType", {"UNKNOWN": 0, "SHAPE": 10} | {row.name: row.code for row in DTYPES})
OP: Final = Enum("Op", {"UNKNOWN": 0} | {row.name: row.code for row in OPERATORS})
BLOCK_SHAPE: Final = Enum(
    "BlockShape", {"UNKNOWN": 0} | {member.name: int(member) for member in BlockShape}
)


def attribute_table(spec: OperatorSpec) -> str:
    """The table of an operator's attributes, which is also the name of its attribute_type."""
    return f"{spec.table}Attribute"


ATTRIBUTE_TYPE: Final = Enum(
    "Attribute", {"NONE": 0} | {attribute_table(row): row.code for row in OPERATORS}
)

_KINDS: Final = {"element": "bytes", "region": "string", "dtype": "enum"}


def _attribute_field(row: AttributeSpec) -> Field:
    kind = _KINDS.get(row.kind, row.kind)
    if row.kind == "dtype":
        return Field(row.name, kind, DTYPE)
    if row.enum is None:
        return Field(row.name, kind)
    members = {"UNKNOWN": 0} | {member.name: int(member) for member in row.enum}
    return Field(row.name, kind, Enum(row.enum.__name__, members))


#: Table -> its fields, in the schema's order.
TABLES: Final[dict[str, tuple[Field, ...]]] = {
    "TosaGraph": (
        Field("version", "table", table="Version"),
        Field("regions", "tables", table="TosaRegion"),
        Field("software_version", "table", table="SoftwareVersion"),
        Field("compatibility", "table", table="SerializationCompatibility"),
    ),
    "Version": (
        Field("_major", "i32"),
        Field("_minor", "i32"),
        Field("_patch", "i32"),
        Field("_draft", "bool"),
    ),
    "SoftwareVersion": (
        Field("_major", "i32"),
        Field("_minor", "i32"),
        Field("_micro", "i32"),
        Field("_modifier", "string"),
    ),
    "SerializationCompatibility": (
        Field("min_reader_version", "table", table="SoftwareVersion"),
        Field("features", "u64"),
    ),
    "TosaRegion": (
        Field("name", "string"),
        Field("blocks", "tables", table="TosaBasicBlock"),
    ),
    "TosaBasicBlock": (
        Field("name", "string"),
        Field("operators", "tables", table="TosaOperator"),
        Field("tensors", "tables", table="TosaTensor"),
        Field("inputs", "strings"),
        Field("outputs", "strings"),
        Field("shapes", "tables", table="TosaShape"),
    ),
    "TosaOperator": (
        Field("op", "enum", OP),
        Field("attribute_type", "enum", ATTRIBUTE_TYPE),
        Field("attribute", "union"),
        Field("inputs", "strings"),
        Field("outputs", "strings"),
        Field("location", "table", table="OpLocation"),
    ),
    "OpLocation": (Field("text", "string"),),
    "TosaTensor": (
        Field("name", "string"),
        Field("shape", "i32s"),
        Field("type", "enum", DTYPE),
        Field("data", "bytes"),
        Field("variable", "bool"),
        Field("is_unranked", "bool"),
        Field("variable_name", "string"),
        Field("offset", "u64"),
        Field("size", "u64"),
        Field("scale_type", "enum", DTYPE),
        Field("scale_data", "bytes"),
        Field("block_shape", "enum", BLOCK_SHAPE),
        Field("scale_offset", "u64"),
        Field("scale_size", "u64"),
    ),
    "TosaShape": (
        Field("name", "string"),
        Field("rank", "u32"),
        Field("data", "bytes"),
    ),
} | {attribute_table(spec): tuple(map(_attribute_field, spec.attributes)) for spec in OPERATORS}
