"""A graph in the form of TOSA 0.80 -> a flatbuffer of version 0.80.1, the inverse of `read_080`.

Imported only when such a file is written. 0.80 has no locations, and constants only inside the file.
"""

from __future__ import annotations

import struct
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.eras.old_operations import Integer, Integers, OlderOperator, ZeroPoints
from tosa_convert.errors import fail
from tosa_convert.formats.flatbuffer.builder import Builder, Interner, Plan, Reference
from tosa_convert.formats.flatbuffer.write import SIZE_LIMIT
from tosa_convert.formats.wire.layout import IDENTIFIER, ROOT, TABLES
from tosa_convert.formats.wire.layout_080 import (
    ATTRIBUTE_OF,
    ATTRIBUTES,
    DTYPES,
    FIELDS,
    OPERATORS,
    UNSIGNED,
)
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator, Tensor

if TYPE_CHECKING:
    from tosa_convert.graph.constant import Constant

_VERSION: Final = {"_major": 0, "_minor": 80, "_patch": 1, "_draft": 0}
#: Type of today -> its number; the first of two numbers is that of an unsigned type.
_CODES: Final = {name: code for code, name in DTYPES.items() if code not in UNSIGNED}
_UNSIGNED: Final = {DTYPES[code]: code for code in UNSIGNED}
_OPERATORS: Final = {name: code for code, name in enumerate(OPERATORS)}
_SLOTS: Final = {today: name for name, today in FIELDS.items()}
_TABLES: Final = {**TABLES, **{table.name: table for table in ATTRIBUTES.values()}}
_FLOAT: Final = struct.Struct("<f")


def plan(graph: Graph) -> Plan:
    """Lay out a program that `upgrade.form_080` has brought to the form of TOSA 0.80."""
    result = _Writer().plan(graph)
    if result.size >= SIZE_LIMIT:
        message = f"the file would have {result.size} bytes, a flatbuffer ends at {SIZE_LIMIT}"
        raise fail("too-large", "", message, "TOSA 0.80 stores weights only inside the file")
    return result


class _Writer(Builder):
    tables = _TABLES

    def __init__(self) -> None:
        super().__init__(out_of_line=False)
        #: Vectors of 16-bit integers.
        self.shorts = Interner()

    def plan(self, graph: Graph) -> Plan:
        self.out += bytes(4) + IDENTIFIER
        root, version = self.new_objects(2)
        self.refer(0, None, root)
        regions_at = self.new_object()
        self.objects[root] = self.table(
            ROOT, {}, {"version": (None, version), "regions": (None, regions_at)}
        )
        self.objects[version] = self.table("Version", dict(_VERSION), {})
        self.regions(regions_at, graph.regions)
        self.place_vectors()
        self.place_shorts()
        self.place_strings()
        return self.finish_embedded()

    def place_shorts(self) -> None:
        self.shorts.positions = places = []
        for values in self.shorts.ids:
            self.align(4)
            places.append(len(self.out))
            self.out += struct.pack(f"<I{len(values)}h", len(values), *values)
        self.align(4)

    def block(self, which: int, block: Block, region: str) -> None:
        names = ("operators", "tensors", "inputs", "outputs")
        lists = dict(zip(names, self.new_objects(4), strict=True))
        references: dict[str, Reference] = {"name": self.string(block.name)}
        references |= {name: (None, member) for name, member in lists.items()}
        self.objects[which] = self.table("TosaBasicBlock", {}, references)
        self.names(lists["inputs"], block.inputs)
        self.names(lists["outputs"], block.outputs)
        operators = self.members(lists["operators"], len(block.operators))
        for member, operator in zip(operators, block.operators, strict=True):
            assert isinstance(operator, OlderOperator)
            self.operator(member, operator)
        unsigned = _unsigned(block)
        tensors = self.members(lists["tensors"], len(block.tensors))
        for member, tensor in zip(tensors, block.tensors.values(), strict=True):
            self.tensor(member, tensor, is_unsigned=tensor.name in unsigned)

    # -- tensors ------------------------------------------------------------------------------

    def tensor(self, which: int, tensor: Tensor, *, is_unsigned: bool) -> None:
        name = tensor.dtype.name
        scalars = {"type": _UNSIGNED[name] if is_unsigned else _CODES[name]}
        references: dict[str, Reference] = {
            "name": self.string(tensor.name),
            "shape": (self.vectors, self.vectors.intern(tensor.shape or ())),
        }
        if tensor.variable:
            scalars["variable"] = 1
            references["variable_name"] = self.string(tensor.variable_name)
        if tensor.shape is None:
            scalars["is_unranked"] = 1
        if tensor.data is not None and tensor.data.nbytes:
            references["data"] = (None, self.data_object(tensor.data))
        self.objects[which] = self.table("TosaTensor", scalars, references)

    def data_object(self, data: Constant) -> int:
        """Add the data of a tensor, without the zeros that follow it in a file of 1.0."""
        which = self.new_object()
        data = copy(data)
        data.padding = 0
        self.constants.append((which, data))
        return which

    # -- operators ----------------------------------------------------------------------------

    def operator(self, which: int, operator: OlderOperator) -> None:
        name = operator.spec.encoded_as
        kind = ATTRIBUTE_OF.get(name, 0)
        inputs, outputs = self.new_objects(2)
        scalars = {"op": _OPERATORS[name]}
        references: dict[str, Reference] = {"inputs": (None, inputs), "outputs": (None, outputs)}
        if kind:
            attribute = self.new_object()
            scalars["attribute_type"] = kind
            references["attribute"] = (None, attribute)
        self.objects[which] = self.table("TosaOperator", scalars, references)
        self.names(inputs, operator.inputs)
        self.names(outputs, operator.outputs)
        if kind:
            self.objects[attribute] = self.attribute(kind, operator)

    def attribute(self, kind: int, operator: OlderOperator) -> int:
        """Write the table of an operator's attributes; a field that is absent is 0."""
        table = ATTRIBUTES[kind]
        kinds = {field.name: field.kind for field in table.fields}
        scalars: dict[str, int] = {}
        references: dict[str, Reference] = {}
        for name, value in _fields(operator).items():
            if name == "input_zp" and name not in kinds:
                name = "input1_zp"
            if kinds[name] == "[i32]":
                references[name] = (self.vectors, self.vectors.intern(value))
            elif kinds[name] == "[i16]":
                references[name] = (self.shorts, self.shorts.intern(value))
            elif kinds[name] == "[u8]":
                references[name] = (self.blobs, self.blobs.intern(value))
            elif kinds[name] == "string":
                references[name] = self.string(value)
            elif value:
                scalars[name] = int(value)
        return self.table(table.name, scalars, references)


def _fields(operator: OlderOperator) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in operator.own.items():
        if isinstance(value, ZeroPoints):
            found |= value.values
            continue
        plain: Any = value
        if isinstance(value, Integer):
            plain = value.value
        elif isinstance(value, Integers):
            plain = value.values
        elif isinstance(value, float):
            plain = _FLOAT.pack(value)
        elif isinstance(value, DType):
            plain = _CODES[value.name]
        found[_SLOTS.get(name, name)] = plain
    for row in operator.spec.regions:
        found[_SLOTS[row.name]] = operator.attributes[row.name]
    return found


def _unsigned(block: Block) -> set[str]:
    """Return the tensors that only RESCALE uses, each time as unsigned: 0.80.0 has no other mark.

    Other tensors with unsigned elements keep a signless type and the flag of the RESCALE.
    """
    unsigned: set[str] = set()
    others: set[str] = set()
    for operator in block.operators:
        for name, is_unsigned in _uses(operator):
            (unsigned if is_unsigned else others).add(name)
    return {
        name
        for name in unsigned - others
        if block.tensors[name].dtype.name in _UNSIGNED and not block.tensors[name].variable
    }


def _uses(operator: Operator) -> list[tuple[str, bool]]:
    """Return the values of an operator, and whether it takes their elements as unsigned."""
    if operator.spec.name == "RESCALE":
        flags = operator.attributes
        return [
            (operator.inputs[0], bool(flags["input_unsigned"])),
            (operator.outputs[0], bool(flags["output_unsigned"])),
        ]
    if operator.spec.name == "CONST":
        return []
    return [(name, False) for name in (*operator.inputs, *operator.outputs)]
