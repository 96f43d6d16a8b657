"""Fields of a `.tosa` file -> Graph: what each value means, whatever encodes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tosa_convert.formats.wire.layout import ATTRIBUTES, ENUMS, TABLES
from tosa_convert.formats.wire.tables import Field
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BY_CODE as DTYPE_BY_CODE
from tosa_convert.graph.dtypes import ENUMS as ENUM_CLASSES
from tosa_convert.graph.dtypes import INT64, NOT_ELEMENT_TYPES, BlockShape, DType
from tosa_convert.graph.model import (
    Block,
    BlockScale,
    Operator,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
    quoted,
    sizes,
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
from tosa_convert.graph.versions import INCOMPATIBLE_HINT, READABLE, incompatibility

#: The version of the format before 1.0 whose flatbuffers are read.
OLD_VERSION: Final = (0, 80)
#: The largest `offset` that means "no data after the flatbuffer": 0 is the schema's default, and
#: existing readers use `data` for 1, too.
NO_OFFSET: Final = 1

_OP_NAMES: Final = {code: name for name, code in ENUMS["Op"].items()}
_DTYPE_NAMES: Final = {code: name for name, code in ENUMS["DType"].items()}
_CODES: Final = {row.name: row.code for row in OPERATORS}
#: (op, attribute_type) of a file -> operator. Some operators have two forms: the code that schema
#: and dialect give them, and the one in existing files.
SPECS: Final = {(row.code, row.code): row for row in OPERATORS} | {
    (_CODES[row.encoded_as], row.code): row for row in OPERATORS
}
_MEMBERS: Final[dict[type[IntEnum], dict[int, AttributeValue]]] = {
    enum: {int(member): member for member in enum} for enum in ENUM_CLASSES.values()
}

Named = TypeVar("Named", Tensor, ShapeValue)


def default_of(field: Field) -> Any:
    """Return the value of an absent field: its default, something empty, or None for a table."""
    match field.kind:
        case "bool":
            return bool(field.default)
        case "string":
            return ""
        case "[u8]":
            return b""
        case "[i32]" | "[string]" | "[table]":
            return ()
        case "table" | "union":
            return None
        case _:
            return field.default


#: Table -> field -> its value where the file leaves it out.
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    name: {field.name: default_of(field) for field in table.fields}
    for name, table in TABLES.items()
}


class Report(Protocol):
    """Takes a finding about the current fields; it may raise to end the reading."""

    def __call__(self, code: str, message: str, hint: str = "") -> None: ...


# -- versions --------------------------------------------------------------------------------------


def version(major: int, minor: int, patch: int, draft: bool, report: Report) -> Version:
    """Return the version of the specification; reports one that is not readable."""
    found = Version(major, minor, patch, draft)
    if Version(major, minor, 0, draft) not in READABLE:
        fields = {"major": major, "minor": minor, "patch": patch}
        absent = [f"no {name}" for name, number in fields.items() if number < 0]
        which = "no" if len(absent) == len(fields) else " and ".join(absent)
        said = f"states {which} version of TOSA" if absent else f"is TOSA {found}"
        message = f"the file {said}; readable versions are " + ", ".join(map(str, READABLE))
        report("unsupported-version", message, _version_hint(major, minor))
    return found


def _version_hint(major: int, minor: int) -> str:
    if (major, minor) == OLD_VERSION:
        # Its flatbuffer does not come here.
        return (
            "of TOSA 0.80 only the flatbuffer is read: make it with the schema of 0.80, "
            "`flatc -b tosa.fbs FILE.json`"
        )
    if (major, minor) > (0, 90):
        return "write it again with a tool that stamps one of these"
    return "the format changed between the 0.x series and 1.0: export the model again"


def check_compatibility(reader: SoftwareVersion | None, features: int, report: Report) -> None:
    """Report a file that asks for a newer reader, or for features that this one does not have."""
    problem = incompatibility(reader, features)
    if problem:
        report("unsupported-version", problem, INCOMPATIBLE_HINT)


# -- operators -------------------------------------------------------------------------------------


def operator_spec(code: int, attribute_type: int, report: Report) -> OperatorSpec:
    """Return the operator of these two fields; reports an unknown one and returns IDENTITY."""
    spec = SPECS.get((code, attribute_type))
    if spec is not None:
        return spec
    if code not in BY_CODE:
        name = _OP_NAMES.get(code)
        report(
            "unsupported-operator",
            f"operator code {code}{f' ({name})' if name else ''} is not an operator of TOSA 1.1",
            "the file is damaged, or newer than this program",
        )
    elif attribute_type == 0:
        report(
            "malformed-operator",
            f"attribute_type is missing, {BY_CODE[code]} has {ATTRIBUTES[code]}",
        )
    else:
        known = 0 <= attribute_type < len(ATTRIBUTES)
        found = ATTRIBUTES[attribute_type] if known else f"type {attribute_type}"
        report(
            "malformed-operator",
            f"{BY_CODE[code]} has attributes of {found}, expected {ATTRIBUTES[code]}",
        )
    return IDENTITY


def attribute_values(
    spec: OperatorSpec, fields: Mapping[str, Any] | None, report: Report
) -> dict[str, AttributeValue]:
    """Return an operator's attributes; `fields` is None if the file has no table of them."""
    if not spec.attributes:
        return {}
    if fields is None:
        report("malformed-operator", f"{spec} has no attributes")
        return {}
    return {row.name: attribute_value(row, fields[row.name], report) for row in spec.attributes}


def attribute_value(row: AttributeSpec, value: Any, report: Report) -> AttributeValue:
    """Return an attribute of an operator. Reports a number that no enum member or element type has."""
    meanings = _meanings(row)
    if meanings is None:
        return _converted(row.kind, value)
    if value in meanings:
        return meanings[value]
    if row.enum is None:
        report("malformed-operator", f'attribute "{row.name}" is {dtype_text(value)}')
        return INT64
    report(
        "malformed-operator",
        f'attribute "{row.name}" is {value}, expected '
        + ", ".join(f"{member.name} ({int(member)})" for member in row.enum),
    )
    return next(iter(row.enum))


def attribute_column(row: AttributeSpec, values: list[Any]) -> list[AttributeValue | None]:
    """Return one attribute of many operators; None for what `attribute_value` reports."""
    # Fast path of attribute_value; equal by test test_a_column_of_attributes_is_lifted_as_each_of_them
    meanings = _meanings(row)
    if meanings is not None:
        return list(map(meanings.get, values))
    return [_converted(row.kind, value) for value in values] if row.kind == "bool" else values


def _meanings(row: AttributeSpec) -> Mapping[int, AttributeValue] | None:
    if row.enum is not None:
        return _MEMBERS[row.enum]
    return DTYPE_BY_CODE if row.kind == "dtype" else None


def _converted(kind: str, value: Any) -> AttributeValue:
    """Convert a value of any kind but enums and element types; bytes are copied out of the file."""
    result: AttributeValue = value
    if kind == "bool":
        result = bool(value)
    elif kind in ("element", "bytes"):
        result = bytes(value)
    return result


# -- tensors and shapes ----------------------------------------------------------------------------


class TensorFields(NamedTuple):
    """The fields of a TosaTensor, in the schema's order."""

    name: str
    shape: tuple[int, ...]
    type: int
    data: memoryview | bytes | None
    variable: bool | int
    is_unranked: bool | int
    variable_name: str
    offset: int
    size: int
    scale_type: int
    scale_data: memoryview | bytes | None
    block_shape: int
    scale_offset: int
    scale_size: int


#: Finds out-of-line data, which lies after the flatbuffer: offset, size, data inside, and where to
#: report -> the data, or None after a report.
OutOfLine = Callable[[int, int, memoryview | bytes | None, Report], memoryview | bytes | None]


def tensor(fields: TensorFields, out_of_line: OutOfLine, report: Report) -> Tensor:
    """Make the tensor of these fields. One that is wrong has no data, and INT64 for an unknown type."""
    dtype = DTYPE_BY_CODE.get(fields.type)
    unranked = fields.is_unranked
    shape = fields.shape
    result = Tensor(
        fields.name,
        INT64 if dtype is None else dtype,
        None if unranked else shape,
        variable=bool(fields.variable),
        variable_name=fields.variable_name,
    )
    if dtype is None:
        report("malformed-tensor", f"its type is {dtype_text(fields.type)}")
        return result
    if unranked and shape:
        report("malformed-tensor", f"it is unranked and has shape {sizes(shape)}")
    count = result.element_count()
    data = _stored(fields.data, fields.offset, fields.size, out_of_line, report)
    if data:
        result.data = _constant("data", dtype, count, shape, data, report)
    if fields.block_shape or fields.scale_type:
        result.scale = _block_scale(fields.block_shape, fields.scale_type, report)
    elif fields.scale_data:
        report("malformed-tensor", "it has scales and no block shape")
    if result.scale is None:
        return result
    scales = _stored(fields.scale_data, fields.scale_offset, fields.scale_size, out_of_line, report)
    if scales:
        blocks = None if count is None else -(-count // int(result.scale.shape))
        result.scale.data = _constant("scales", result.scale.dtype, blocks, shape, scales, report)
    return result


def _stored(
    inside: memoryview | bytes | None,
    offset: int,
    size: int,
    out_of_line: OutOfLine,
    report: Report,
) -> memoryview | bytes | None:
    if offset <= NO_OFFSET:
        return inside
    return out_of_line(offset, size, inside, report) if size else None


def shape_value(
    name: str, rank: int, data: memoryview | bytes | None, report: Report
) -> ShapeValue:
    """Make the shape of these fields; report data that is too short for its rank."""
    result = ShapeValue(name, rank)
    if data:
        if len(data) < 8 * rank:
            report("data-length", f"{len(data)} bytes of data, {rank} sizes need {8 * rank}")
        else:
            result.data = Constant(INT64, rank, data[: 8 * rank])
    return result


def _block_scale(block_shape: int, scale_type: int, report: Report) -> BlockScale | None:
    dtype = DTYPE_BY_CODE.get(scale_type)
    shape = _MEMBERS[BlockShape].get(block_shape)
    if dtype is None or not isinstance(shape, BlockShape):
        report(
            "malformed-tensor",
            f"block shape {block_shape} with scales of type {dtype_text(scale_type)}, expected "
            + ", ".join(member.name for member in BlockShape),
        )
        return None
    return BlockScale(dtype, shape)


def _constant(
    what: str,
    dtype: DType,
    count: int | None,
    shape: tuple[int, ...],
    data: memoryview | bytes,
    report: Report,
) -> Constant | None:
    if count is None:
        message = f"{len(data)} bytes of {what} for the dynamic shape {sizes(shape)}"
        report("data-length", message, "constant data needs a static shape")
        return None
    needed = dtype.wire_bytes(count)
    if len(data) < needed:
        message = f"{len(data)} bytes of {what}, {count} x {dtype} need {needed}"
        report("data-length", message, "the weight is truncated; write the file again")
        return None
    # Writers pad to 8 bytes. The padding is remembered, so that a file can be written back as it was.
    padding = len(data) - needed
    if padding >= 8 and bytes(data[needed:]).strip(b"\0"):
        message = (
            f"{len(data)} bytes of {what}, {count} x {dtype} need {needed}, and the rest is not 0"
        )
        report("data-length", message, "another writer laid the elements out; write the file again")
        return None
    return Constant(dtype, count, data[:needed], padding=padding if padding < 8 else 0)


def dtype_text(code: int) -> str:
    """Return a number that is not an element type's, for messages."""
    name = _DTYPE_NAMES.get(code)
    if name is None:
        return f"code {code}, which is not a DType"
    return f"{name}, which {NOT_ELEMENT_TYPES.get(name, 'is unknown')}"


# -- blocks ----------------------------------------------------------------------------------------


def block(
    name: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    operators: list[Operator],
    tensors: Sequence[Tensor],
    shapes: Sequence[ShapeValue],
    report: Report,
) -> Block:
    """Make the block of these members; report names that two of its values have."""
    result = Block(name, list(inputs), list(outputs), operators)
    result.tensors = _by_name("tensor", tensors, report)
    result.shapes = _by_name("shape", shapes, report)
    fill_empty_constants(result)
    return result


def _by_name(what: str, values: Sequence[Named], report: Report) -> dict[str, Named]:
    named = {value.name: value for value in values}
    if len(named) != len(values):
        seen: set[str] = set()
        for value in values:
            if value.name in seen:
                report(
                    "duplicate-name", f"two {what}s of the block are called {quoted(value.name)}"
                )
            seen.add(value.name)
    return named
