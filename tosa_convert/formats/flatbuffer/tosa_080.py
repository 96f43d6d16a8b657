"""Flatbuffers of TOSA 0.80: read with their operators in the form of TOSA 1.0, and written."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.eras.editor import (
    Integer,
    Integers,
    OlderOperator,
    OldOperation,
    OldValue,
    Upgrade,
    ZeroPoints,
)
from tosa_convert.eras.table import RULES, is_old
from tosa_convert.eras.upgrade import upgrade_block
from tosa_convert.errors import MAX_FINDINGS, Findings, fail
from tosa_convert.formats.flatbuffer.builder import Builder, Interner, Plan, Reference
from tosa_convert.formats.flatbuffer.columns import Columns
from tosa_convert.formats.flatbuffer.write import SIZE_LIMIT
from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import IDENTIFIER, ROOT, TABLES
from tosa_convert.formats.wire.layout_080 import (
    ATTRIBUTE_OF,
    ATTRIBUTES,
    DTYPES,
    FIELDS,
    OPERATORS,
    UNSIGNED,
)
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.dtypes import DType, ResizeMode, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    block_path,
    element_count,
    quoted,
)
from tosa_convert.graph.opset import VARIABLE_READ, VARIABLE_WRITE, AttributeValue, operator
from tosa_convert.graph.static_shapes import fill_empty_constants
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from tosa_convert.formats.flatbuffer.columns import Positions

_BF16: Final = dtype("BF16")
_TABLES: Final = {**TABLES, **{table.name: table for table in ATTRIBUTES.values()}}
#: Memory of a table, in bytes: of the objects made from it, and of temporaries.
_MEMORY: Final = 600
#: Most zeros that may follow the data of a constant.
_PADDING: Final = 16
#: Fields of CUSTOM as the rules know them.
_CUSTOM: Final = {"operator_name": "identifier", "domain_name": "config"}
_FLOAT_FIELDS: Final = ("min_fp", "max_fp", "pad_const_fp")


def read(
    buffer: memoryview, limits: Limits = DEFAULT_LIMITS, upgrade: Upgrade | None = None
) -> Graph:
    """Read a file of TOSA 0.80. Constants are views of `buffer`, except those in another form."""
    reader = _Reader(Columns(buffer, limits, _TABLES), Upgrade() if upgrade is None else upgrade)
    graph = reader.graph()
    graph.version = lowest_version(graph)
    return graph


class _Reader:
    def __init__(self, columns: Columns, upgrade: Upgrade) -> None:
        self.columns = columns
        self.upgrade = upgrade
        upgrade.is_old = True
        self.findings = Findings(MAX_FINDINGS)

    def table(self, name: str, tables: Positions, *fields: str) -> list[Any]:
        self.columns.charge(len(tables) * _MEMORY, f"table {name}")
        return self.columns.read(name, tables, *fields)

    def inside(self, name: str, tables: Positions, field: str) -> tuple[Positions, list[int]]:
        (places,) = self.columns.fields(name, tables, (field,))
        return self.columns.tables(places, f"{name}.{field}")

    def graph(self) -> Graph:
        root = self.columns.root(ROOT)
        tables, _ = self.inside(ROOT, root, "regions")
        (names,) = self.table("TosaRegion", tables, "name")
        regions = []
        for index, name in enumerate(names):
            blocks, _ = self.inside("TosaRegion", tables[index : index + 1], "blocks")
            made = [self.block(name, blocks[at : at + 1]) for at in range(len(blocks))]
            regions.append(Region(name, made))
        self.findings.raise_if_any()
        return Graph(V1_1_DRAFT, regions)

    def block(self, region: str, at: Positions) -> Block:
        names, inputs, outputs = (
            column[0] for column in self.table("TosaBasicBlock", at, "name", "inputs", "outputs")
        )
        path = block_path(region, names)

        def report(code: str, message: str, hint: str = "") -> None:
            self.findings.add(code, path, message, hint)

        tensors, _ = self.inside("TosaBasicBlock", at, "tensors")
        operators, _ = self.inside("TosaBasicBlock", at, "operators")
        unsigned: set[str] = set()
        values = self.tensors(tensors, path, unsigned)
        block = lift.block(names, inputs, outputs, [], values, [], report)
        items = list(self.operators(operators, block.tensors, path))
        upgrade_block(block, items, unsigned, self.upgrade, partial(self.refuse, path))
        fill_empty_constants(block)
        for _ in unsigned:
            self.upgrade.add("types", "unsigned tensors are signless, with the same bits")
        return block

    def refuse(self, path: str, item: Operator | OldOperation, reason: str, hint: str) -> None:
        name = item.label.upper() if isinstance(item, OldOperation) else item.spec.name
        message = f"it has no form in TOSA 1.0: {reason}"
        self.findings.add("cannot-upgrade", f"{path} operator {name}", message, hint)

    # -- tensors ------------------------------------------------------------------------------

    def tensors(self, tables: Positions, path: str, unsigned: set[str]) -> list[Tensor]:
        """Read the tensors of a block; add the names of those of unsigned types to `unsigned`."""
        fields = ("name", "shape", "type", "data", "variable", "is_unranked", "variable_name")
        found = []
        for row in zip(*self.table("TosaTensor", tables, *fields), strict=True):
            name, shape, code, data, variable, is_unranked, variable_name = row
            element = DTYPES.get(code)
            where = f"{path} tensor {quoted(name)}"
            if element is None:
                self.findings.add(
                    "unsupported-dtype", where, f"its type is number {code} of TOSA 0.80"
                )
                continue
            if any(size < -1 for size in shape):
                self.findings.add("malformed-tensor", where, f"its shape is {list(shape[:16])}")
                continue
            if code in UNSIGNED:
                unsigned.add(name)
            tensor = Tensor(name, dtype(element), None if is_unranked else shape)
            tensor.variable, tensor.variable_name = bool(variable), variable_name
            if data is not None and len(data):
                tensor.data = self.constant(tensor, data, where)
            found.append(tensor)
        return found

    def constant(self, tensor: Tensor, data: memoryview, where: str) -> Constant | None:
        count = element_count(tensor.shape)
        if count is None:
            self.findings.add("malformed-tensor", where, "it has data, and its shape is not static")
            return None
        element = tensor.dtype
        if element is _BF16 and len(data) == 4 * count and count:
            # One of the serializers stored BF16 as FP32.
            return constant_of(np.frombuffer(data, "<f4"), element)
        size = element.wire_bytes(count)
        padding = len(data) - size
        if not 0 <= padding < _PADDING or any(data[size:]):
            message = f"it has {len(data)} bytes of data, expected {size}"
            self.findings.add("data-length", where, message)
            return None
        return Constant(element, count, data[:size], padding=padding)

    # -- operators ----------------------------------------------------------------------------

    def operators(
        self, tables: Positions, tensors: Mapping[str, Tensor], path: str
    ) -> Iterator[Operator | OldOperation]:
        """Iterate over the operators of a block: those of the current form, and old ones."""
        names = ("op", "attribute_type", "inputs", "outputs")
        codes, kinds, inputs, outputs = self.table("TosaOperator", tables, *names)
        (places,) = self.columns.fields("TosaOperator", tables, ("attribute",))
        attributes = self.attributes(np.array(kinds, np.int64), places)
        for index, code in enumerate(codes):
            where = f"{path} operator #{index}"
            name = OPERATORS[code] if 0 <= code < len(OPERATORS) else ""
            if name in ("", "UNKNOWN", "RESERVED", "DIM"):
                message = (
                    f"operator code {code}{name and f' ({name})'} of TOSA 0.80 is not one of 1.0"
                )
                self.findings.add("cannot-upgrade", where, message)
                continue
            expected = ATTRIBUTE_OF.get(name, 0)
            if kinds[index] != expected and (kinds[index] or expected):
                message = f"{name} has attributes of kind {kinds[index]}, expected {expected}"
                self.findings.add("malformed-operator", where, message)
                continue
            unknown = [value for value in (*inputs[index], *outputs[index]) if value not in tensors]
            if unknown:
                message = f"{name} uses {quoted(unknown[0])}, which the block does not have"
                self.findings.add("undefined-name", where, message)
                continue
            item = _item(name, inputs[index], outputs[index], attributes[index], tensors)
            if item is None:
                self.findings.add("malformed-operator", where, f"{name} lacks an attribute")
            else:
                yield item

    def attributes(self, kinds: Positions, places: Positions) -> list[dict[str, Any]]:
        """Read the attributes of each operator from all tables of a kind at once."""
        found: list[dict[str, Any]] = [{} for _ in kinds]
        for kind, table in ATTRIBUTES.items():
            chosen = np.flatnonzero((kinds == kind) & (places >= 0))
            if not len(chosen):
                continue
            at = self.columns.follow(places[chosen], table.name)
            names = [field.name for field in table.fields]
            for name, column in zip(names, self.table(table.name, at, *names), strict=True):
                kind_of = table[name].kind
                for index, value in zip(chosen.tolist(), column, strict=True):
                    found[index][name] = bool(value) if kind_of == "bool" else value
        return found


def _item(
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    found: dict[str, Any],
    tensors: Mapping[str, Tensor],
) -> Operator | OldOperation | None:
    """Return an operator in the current form if that is its form, else an old operation."""
    names = _CUSTOM if name == "CUSTOM" else FIELDS
    attributes = {names.get(key, key): _value(key, value) for key, value in found.items()}
    old = OldOperation(f"tosa.{name.lower()}", inputs, outputs, attributes)
    if name == "PAD" and inputs and found:
        floats = tensors[inputs[0]].dtype.is_float
        attributes["pad_const"] = attributes["pad_const_fp" if floats else "pad_const_int"]
    if name == "TRANSPOSE":
        return _today(name, old)
    if old.name in RULES and is_old(old, tensors):
        return old
    if name == "IDENTITY":
        for variable, spec in ((inputs[:1], VARIABLE_READ), (outputs[:1], VARIABLE_WRITE)):
            if variable and tensors[variable[0]].variable:
                return Operator(spec, inputs, outputs)
    return _today(name, old)


def _today(name: str, old: OldOperation) -> Operator | None:
    """Return an operator whose form is the current one; None if it lacks an attribute."""
    spec = operator(name)
    attributes: dict[str, AttributeValue] = {}
    for row in spec.attributes:
        value: Any = old.attributes.get(row.name, row.default if row.optional else None)
        if value is None:
            return None
        attributes[row.name] = value
    return Operator(spec, old.inputs, old.outputs, attributes)


def _value(name: str, value: Any) -> OldValue:
    """Return the value of a field as the rules expect it."""
    if name == "accum_dtype":
        element = DTYPES.get(value)
        found: DType | None = dtype(element) if element is not None else None
        return found
    if name == "mode":
        return ResizeMode(value).name if value in list(ResizeMode) else None
    if name in _FLOAT_FIELDS:
        # Four bytes of FP32, whatever the type of the elements; absent is 0.
        number: float = struct.unpack("<f", value[:4].ljust(4, b"\0"))[0]
        return number
    result: OldValue = value
    return result


# -- a graph in the form of TOSA 0.80 -> a flatbuffer of 0.80.1, the inverse of `read` -------------

_VERSION: Final = {"_major": 0, "_minor": 80, "_patch": 1, "_draft": 0}
#: Type of today -> its number; the first of two numbers is that of an unsigned type.
_CODES: Final = {name: code for code, name in DTYPES.items() if code not in UNSIGNED}
_UNSIGNED: Final = {DTYPES[code]: code for code in UNSIGNED}
_OPERATORS: Final = {name: code for code, name in enumerate(OPERATORS)}
_SLOTS: Final = {today: name for name, today in FIELDS.items()}
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
        for member, op in zip(operators, block.operators, strict=True):
            assert isinstance(op, OlderOperator)
            self.operator(member, op)
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
    """Return tensors that RESCALE alone uses, always as unsigned; others keep its flag."""
    unsigned: set[str] = set()
    others: set[str] = set()
    for op in block.operators:
        for name, is_unsigned in _uses(op):
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
