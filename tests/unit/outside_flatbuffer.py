"""TOSA flatbuffers read and written with the `flatbuffers` package.

Slots and types are repeated here by hand, so that a mistake in our layout is not made twice. A
table is a dictionary of the fields that are present; one dictionary used twice is stored once.
"""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers
from flatbuffers import number_types as numbers
from flatbuffers.table import Table

from tosa_convert.graph.opset import BY_CODE

_I32, _U32, _U64, _BOOL, _U8, _I16 = "i32", "u32", "u64", "bool", "u8", "i16"

#: Table -> its slots in order: name:type. A type in brackets is a vector, a capital one a table.
SCHEMA = {
    "TosaGraph": "version:Version regions:[TosaRegion] software_version:SoftwareVersion "
    "compatibility:SerializationCompatibility",
    "Version": "_major:i32 _minor:i32 _patch:i32 _draft:bool",
    "SoftwareVersion": "_major:i32 _minor:i32 _micro:i32 _modifier:string",
    "SerializationCompatibility": "min_reader_version:SoftwareVersion features:u64",
    "TosaRegion": "name:string blocks:[TosaBasicBlock]",
    "TosaBasicBlock": "name:string operators:[TosaOperator] tensors:[TosaTensor] inputs:[string] "
    "outputs:[string] shapes:[TosaShape]",
    "TosaOperator": "op:u32 attribute_type:u8 attribute:union inputs:[string] outputs:[string] "
    "location:OpLocation",
    "OpLocation": "text:string",
    "TosaTensor": "name:string shape:[i32] type:u32 data:[u8] variable:bool is_unranked:bool "
    "variable_name:string offset:u64 size:u64 scale_type:u32 scale_data:[u8] block_shape:u32 "
    "scale_offset:u64 scale_size:u64",
    "TosaShape": "name:string rank:u32 data:[u8]",
    # Attributes of the operators that the tests use.
    "AddAttribute": "",
    "ArgMaxAttribute": "axis:i32 nan_mode:u32",
    "AvgPool2dAttribute": "kernel:[i32] stride:[i32] pad:[i32] acc_type:u32",
    "ClampAttribute": "min_val:[u8] max_val:[u8] nan_mode:u32",
    "CondIfAttribute": "then_graph:string else_graph:string",
    "ConstAttribute": "",
    "ConstShapeAttribute": "",
    "Conv2dAttribute": "pad:[i32] stride:[i32] dilation:[i32] local_bound:bool acc_type:u32",
    "CustomAttribute": "operator_name:string domain_name:string implementation_attrs:[u8]",
    "ExpAttribute": "",
    "IdentityAttribute": "",
    "ReduceSumAttribute": "axis:i32",
    "RescaleAttribute": "scale32:bool rounding_mode:u32 per_channel:bool input_unsigned:bool "
    "output_unsigned:bool",
    "ReshapeAttribute": "",
    "ReshapeBlockScaledAttribute": "block_size:u32",
    "ResizeAttribute": "mode:u32",
    "TransposeAttribute": "perms:[i32]",
    "VariableReadAttribute": "",
    "VariableWriteAttribute": "",
    # Those of TOSA 0.80.
    "PoolOf080": "pad:[i32] kernel:[i32] stride:[i32] input_zp:i32 output_zp:i32 accum_dtype:u32",
    "ConvOf080": "pad:[i32] stride:[i32] dilation:[i32] input_zp:i32 weight_zp:i32 local_bound:bool",
    "TransposeConvOf080": "out_pad:[i32] stride:[i32] output_shape:[i32] input_zp:i32 weight_zp:i32 "
    "local_bound:bool",
    "PadOf080": "padding:[i32] pad_const_int:i32 pad_const_fp:[u8]",
    "AxisOf080": "axis:i32",
    "ReshapeOf080": "new_shape:[i32]",
    "ResizeOf080": "scale:[i16] offset:[i16] border:[i16] mode:u32",
    "ClampOf080": "min_int:i32 max_int:i32 min_fp:[u8] max_fp:[u8]",
    "RescaleOf080": "input_zp:i32 output_zp:i32 multiplier:[i32] shift:[i32] scale32:bool "
    "double_round:bool per_channel:bool input_unsigned:bool output_unsigned:bool",
    "MulOf080": "shift:i32",
    "TableOf080": "table:[i16]",
    "MatMulOf080": "a_zp:i32 b_zp:i32",
    "FullyConnectedOf080": "input_zp:i32 weight_zp:i32",
    "CustomOf080": "operator_name:string domain_name:string implementation_attrs:[u8]",
}
_FLAGS = {
    _I32: numbers.Int32Flags, _U32: numbers.Uint32Flags, _U64: numbers.Uint64Flags,
    _BOOL: numbers.BoolFlags, _U8: numbers.Uint8Flags,
}  # fmt: skip
_PACK = {_I16: "<h", _I32: "<i", _U32: "<I", _U64: "<Q", _BOOL: "<?", _U8: "<B"}


def _slots(table: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, _, kind in (t.partition(":") for t in SCHEMA[table].split())]


def read(data: bytes, attributes: dict[int, str] | None = None) -> dict[str, Any]:
    """Return the root table of a file. attributes: the tables of the union, if they are not today's."""
    assert data[4:8] == b"TOSA"
    (root,) = struct.unpack_from("<I", data, 0)
    return _read(Table(bytearray(data), root), "TosaGraph", attributes)


def _read(table: Table, name: str, attributes: dict[int, str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for slot, (field, kind) in enumerate(_slots(name)):
        offset = table.Offset(4 + 2 * slot)
        if offset:
            if kind == "union":
                kind = _attribute(found["attribute_type"], attributes)
            found[field] = _value(table, table.Pos + offset, kind, attributes)
    return found


def _attribute(code: int, attributes: dict[int, str] | None) -> str:
    """Return the table of the union's member with this number."""
    if attributes is not None:
        return attributes[code]
    if code not in BY_CODE:
        return "IdentityAttribute"
    wanted = f"{BY_CODE[code].name.replace('_', '')}Attribute".lower()
    return next(name for name in SCHEMA if name.lower() == wanted)


def _value(table: Table, at: int, kind: str, attributes: dict[int, str] | None) -> Any:
    if kind in _FLAGS:
        return table.Get(_FLAGS[kind], at)
    if kind == "string":
        return table.String(at).decode()
    if kind[0] != "[":
        return _read(Table(table.Bytes, table.Indirect(at)), kind, attributes)
    offset = at - table.Pos
    length, start, element = table.VectorLen(offset), table.Vector(offset), kind[1:-1]
    if element == _U8:
        return bytes(table.Bytes[start : start + length])
    if element == _I16:
        return list(struct.unpack_from(f"<{length}h", table.Bytes, start))
    return [_value(table, start + 4 * index, element, attributes) for index in range(length)]


def write(graph: dict[str, Any], attributes: dict[int, str] | None = None) -> bytes:
    """Return a file with this root table.

    attributes: the tables of the union, if they are not today's.
    """
    return _Builder(attributes).file(graph)


class _Builder:
    def __init__(self, attributes: dict[int, str] | None = None) -> None:
        self.attributes = attributes
        self.builder = flatbuffers.Builder(1024)
        #: The positions of stored objects, by identity; the references prevent the reuse of ids.
        self.known: dict[tuple[int, str], tuple[int, Any]] = {}

    def file(self, graph: dict[str, Any]) -> bytes:
        self.builder.Finish(self.offset(graph, "TosaGraph"), b"TOSA")
        return bytes(self.builder.Output())

    def offset(self, value: Any, kind: str) -> int:
        known = self.known.get((id(value), kind))
        if known is None:
            known = self.known[id(value), kind] = (self._place(value, kind), value)
        return known[0]

    def _place(self, value: Any, kind: str) -> int:
        if kind == "string":
            return int(self.builder.CreateString(value))
        if kind[0] == "[":
            return self._vector(value, kind[1:-1])
        return self._table(value, kind)

    def _vector(self, values: Any, element: str) -> int:
        if element in _PACK:
            raw = b"".join(struct.pack(_PACK[element], value) for value in values)
            width = struct.calcsize(_PACK[element])
            self.builder.StartVector(width, len(values), 8 if element == _U8 else width)
            for byte in reversed(raw):
                self.builder.PrependByte(byte)
            return int(self.builder.EndVector())
        offsets = [self.offset(value, element) for value in values]
        self.builder.StartVector(4, len(values), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _table(self, fields: dict[str, Any], name: str) -> int:
        slots = _slots(name)
        unknown = fields.keys() - {field for field, _ in slots}
        assert not unknown, unknown
        placed: list[tuple[int, str, Any]] = []
        for slot, (field, kind) in enumerate(slots):
            if field not in fields:
                continue
            value = fields[field]
            if kind == "union":
                kind = _attribute(fields.get("attribute_type", 0), self.attributes)
            placed.append((slot, kind, value if kind in _PACK else self.offset(value, kind)))
        self.builder.StartObject(len(slots))
        for slot, kind, value in placed:
            if kind in _PACK:
                self.builder.Prep(struct.calcsize(_PACK[kind]), 0)
                self.builder.Place(value, _FLAGS[kind])
                self.builder.Slot(slot)
            else:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(self.builder.EndObject())
