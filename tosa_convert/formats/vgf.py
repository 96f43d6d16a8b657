"""A VGF file or a SPIR-V module -> Graph. It has no names of tensors, and perhaps locations."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy.typing as npt

from tosa_convert.errors import Findings, fail
from tosa_convert.graph.constant import ELEMENT_BYTES, Constant
from tosa_convert.graph.derived import rename_in_order, unused_name
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block, Graph, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import (
    OPERATORS,
    AttributeSpec,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.versions import V1_0
from tosa_convert.io import log
from tosa_convert.io.flatbuffer_tables import FlatbufferError, Table, root_table

MAGIC: Final = b"VGF1"
_HEADER_BYTES: Final = 128
#: Where the header has the places of sections, and their names.
_SECTIONS: Final = {
    "module table": 16,
    "model sequence table": 32,
    "model resource table": 48,
    "constants": 64,
}
_CONSTANTS: Final = b"CONST00\0"
#: Resource, sparse dimension, size and offset of a constant.
_CONSTANT: Final = struct.Struct("<IiQQ")
_GRAPH: Final = 1
_SPIRV: Final = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """A step of the model: a graph of a module.

    inputs, outputs: the resources of their binding slots, in the order of the file.
    bindings: a binding -> its resource.
    constants: the container's constants, by the number that the graph gives each.
    """

    name: str
    module: int
    is_graph: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bindings: dict[int, int]
    constants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """What a VGF file holds.

    modules: the SPIR-V words of each; empty for source text. entry_points: the function of each module.
    segments: in the order in which they run. constants: the bytes of each.
    names: a resource that the whole model takes or gives -> its name.
    """

    modules: list[memoryview]
    entry_points: list[str]
    segments: list[Segment]
    constants: list[memoryview]
    names: dict[int, str]


def read_container(data: memoryview, where: str) -> Container:
    """Read a VGF file. Modules and constants share its bytes."""
    sections = {name: _section(data, name, at, where) for name, at in _SECTIONS.items()}
    try:
        rows = list(root_table(sections["module table"]).tables(0))
        modules, entry_points = [_words(row) for row in rows], [row.text(2) for row in rows]
        sequence = root_table(sections["model sequence table"])
        segments = [_segment(row) for row in sequence.tables(0)]
        names: dict[int, str] = {}
        for slots, texts in ((1, 3), (2, 4)):
            resources = (resource for _, resource in _slots(sequence, slots))
            names.update(zip(resources, sequence.texts(texts), strict=False))
    except FlatbufferError as error:
        raise malformed(where, f"its tables are damaged: {error}") from None
    constants = _constants(sections["constants"], where)
    return Container(modules, entry_points, segments, constants, names)


def malformed(where: str, message: str) -> Exception:
    return fail("malformed-vgf", where, message, "the file is damaged or cut off: write it again")


def _section(data: memoryview, name: str, at: int, where: str) -> memoryview:
    if len(data) < _HEADER_BYTES:
        raise malformed(where, f"found {len(data)} bytes, its header has {_HEADER_BYTES}")
    start, size = struct.unpack_from("<QQ", data, at)
    if start + size > len(data):
        message = f"its {name} is at {start} and has {size} bytes, the file ends at {len(data)}"
        raise malformed(where, message)
    return data[start : start + size]


def _words(row: Table) -> memoryview:
    """Return the SPIR-V words of a module, as bytes; none of a module in another language."""
    code = row.table(4) if row.number(3, "B") == _SPIRV else None
    return memoryview(b"") if code is None else code.octets(0, width=4)


def _segment(row: Table) -> Segment:
    constants = tuple(map(int, row.numbers(6, "I")))
    inputs, outputs = (_slots(row, position) for position in (4, 5))
    return Segment(
        row.text(1),
        row.number(2, "I"),
        row.number(0, "B") == _GRAPH,
        tuple(resource for _, resource in inputs),
        tuple(resource for _, resource in outputs),
        dict(inputs + outputs),
        constants,
    )


def _slots(row: Table, position: int) -> list[tuple[int, int]]:
    return [(slot.number(0, "I"), slot.number(1, "I")) for slot in row.tables(position)]


def _constants(section: memoryview, where: str) -> list[memoryview]:
    if not len(section):
        return []
    if bytes(section[:8]) != _CONSTANTS:
        message = f"its constants begin with {bytes(section[:8])!r}, expected {_CONSTANTS!r}"
        raise malformed(where, message)
    if len(section) < 16:
        raise malformed(where, "its constants are cut off")
    (count,) = struct.unpack_from("<Q", section, 8)
    start = 16 + count * _CONSTANT.size
    if start > len(section):
        raise malformed(where, f"it lists {count} constants in {len(section)} bytes")
    found = []
    for number in range(count):
        _, sparse, size, offset = _CONSTANT.unpack_from(section, 16 + number * _CONSTANT.size)
        if sparse != -1:
            message = f"constant {number} is sparse in dimension {sparse}, which TOSA does not have"
            raise fail("unsupported-attribute", where, message, "write it without sparsity")
        if start + offset + size > len(section):
            raise malformed(where, f"constant {number} leads out of the file")
        found.append(section[start + offset : start + offset + size])
    return found


# -- the instructions of the extended set TOSA.001000.1 --------------------------------------------
# One has its operator's number in the schema less one; its operands are attributes, the accumulator
# before `local_bound`, and then operands.

SET: Final = "TOSA.001000.1"
#: ARGMAX is the first instruction and RESCALE the last.
_COUNT: Final = 66


class Instruction(NamedTuple):
    """An instruction: its operator, and the names of its attributes in their order."""

    spec: OperatorSpec
    attributes: tuple[str, ...]


def _attributes(spec: OperatorSpec) -> tuple[str, ...]:
    names = [row.name for row in spec.attributes]
    if "acc_type" in names and "local_bound" in names:
        names.remove("local_bound")
        names.insert(names.index("acc_type") + 1, "local_bound")
    return tuple(names)


_BY_CODE: Final = {spec.code: spec for spec in OPERATORS if spec.encoded_as in ("", spec.name)}
INSTRUCTIONS: Final = tuple(
    Instruction(spec, _attributes(spec)) for spec in (_BY_CODE[1 + n] for n in range(_COUNT))
)


# -- SPIR-V modules as far as graphs use them: SPV_ARM_tensors and SPV_ARM_graph -------------------

_MAGIC: Final = 0x07230203
_HEADER_WORDS: Final = 5
#: Instructions by number; others are skipped.
STRING, IMPORT, EXTENDED, CONSTANT_TRUE, CONSTANT_FALSE = 7, 11, 12, 41, 42
CONSTANT, COMPOSITE, NULL, SPEC_CONSTANT, REPLICATED = 43, 44, 46, 50, 4461
TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_ARRAY, TYPE_TENSOR = 20, 21, 22, 28, 4163
TYPE_STRUCT, DECORATE, EXTRACT = 30, 71, 81
GRAPH_CONSTANT, ENTRY_POINT, GRAPH = 4181, 4182, 4183
GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_END = 4184, 4185, 4186
#: The decoration that says the binding of a variable.
_BINDING: Final = 33
#: The most sizes of a tensor, and the most numbers of a list, that a damaged file may ask for.
_MOST_RANK: Final = 64
_MOST_NUMBERS: Final = 256
_BODY: Final = frozenset((GRAPH_INPUT, GRAPH_OUTPUT, EXTENDED, EXTRACT))
#: Formats of floating point: its bits, and the word after them if there is one -> element type.
_FLOATS: Final = {
    (32, None): "FP32",
    (16, None): "FP16",
    (16, 0): "BF16",
    (8, 4214): "FP8E4M3",
    (8, 4215): "FP8E5M2",
}
#: Integers of 64 bits are the 48 bits of TOSA 1.0.
_INTEGERS: Final = {8: "INT8", 16: "INT16", 32: "INT32", 64: "INT48"}


class Type(NamedTuple):
    """A type: of tensors, of arrays of one dimension, and of numbers, which have shape ().

    shape: None if a module gives the rank only, or nothing.
    width: bits of an element.
    """

    element: DType
    shape: tuple[int, ...] | None
    width: int

    def __str__(self) -> str:
        sizes = "of unknown rank" if self.shape is None else str(list(self.shape))
        return f"{self.element} {sizes}"

    def elements(self) -> int:
        """Return the number of elements; ValueError if it is not known."""
        if self.shape is None or min(self.shape, default=0) < 0:
            raise ValueError("a constant of unknown size")
        return math.prod(self.shape)


@dataclass(slots=True)
class Value:
    """A constant of a module.

    numbers: its elements, or one that all have; None if it is one of the container, `stored`.
    """

    type: Type
    numbers: npt.NDArray[np.int64] | None
    stored: int = 0


@dataclass(slots=True)
class Module:
    """What a module defines, by id.

    sets: extended instruction sets. structs: the types of several results.
    entry_points: the name under which a graph is run -> its id, and those of its inputs and outputs.
    bindings: the binding of an input or output.
    bodies: the instructions of its graphs, in order: number and words.
    after: instructions of extended sets behind the graphs.
    """

    strings: dict[int, str] = field(default_factory=dict)
    sets: dict[int, str] = field(default_factory=dict)
    types: dict[int, Type] = field(default_factory=dict)
    structs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    entry_points: dict[str, tuple[int, ...]] = field(default_factory=dict)
    bindings: dict[int, int] = field(default_factory=dict)
    bodies: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    after: list[tuple[int, ...]] = field(default_factory=list)


def read_module(words: memoryview, where: str) -> Module:
    if len(words) < 4 * _HEADER_WORDS or struct.unpack_from("<I", words)[0] != _MAGIC:
        raise malformed(where, "its module is not SPIR-V")
    numbers = np.frombuffer(words, "<u4").tolist()
    module = Module()
    graph, at = 0, _HEADER_WORDS
    while at < len(numbers):
        number, length = numbers[at] & 0xFFFF, numbers[at] >> 16
        operands = tuple(numbers[at + 1 : at + length])
        if length == 0 or len(operands) != length - 1:
            raise malformed(where, f"its module is cut off at word {at}")
        try:
            if number == GRAPH:
                graph = operands[1]
                module.bodies[graph] = []
            elif number == GRAPH_END:
                graph = 0
            elif graph and number in _BODY:
                module.bodies[graph].append((number, operands))
            elif number == EXTENDED:
                module.after.append(operands)
            else:
                _define(module, number, operands)
        except (LookupError, ValueError, OverflowError) as error:
            message = f"instruction {number} at word {at} of its module is damaged: {error}"
            raise malformed(where, message) from None
        at += length
    return module


def _define(module: Module, number: int, words: tuple[int, ...]) -> None:
    match number:
        case _ if number == STRING:
            module.strings[words[0]] = text_of(words[1:])
        case _ if number == IMPORT:
            module.sets[words[0]] = text_of(words[1:])
        case _ if number == ENTRY_POINT:
            name = text_of(words[1:])
            module.entry_points[name] = (words[0], *words[2 + len(name.encode()) // 4 :])
        case _ if number == DECORATE and words[1] == _BINDING:
            module.bindings[words[0]] = words[2]
        case _ if number == TYPE_BOOL:
            module.types[words[0]] = Type(dtype("BOOL"), (), 8)
        case _ if number == TYPE_INT:
            module.types[words[0]] = Type(dtype(_INTEGERS[words[1]]), (), words[1])
        case _ if number == TYPE_FLOAT:
            name = _FLOATS[words[1], words[2] if len(words) > 2 else None]
            module.types[words[0]] = Type(dtype(name), (), words[1])
        case _ if number == TYPE_STRUCT:
            module.structs[words[0]] = words[1:]
        case _ if number in (TYPE_ARRAY, TYPE_TENSOR):
            module.types[words[0]] = _shaped(module, number, words)
        case _ if number in (CONSTANT, SPEC_CONSTANT, CONSTANT_TRUE, CONSTANT_FALSE):
            kind = module.types[words[0]]
            bits = words[2] | words[3] << 32 if len(words) > 3 else sum(words[2:3])
            bits = (
                int(number == CONSTANT_TRUE) if number in (CONSTANT_TRUE, CONSTANT_FALSE) else bits
            )
            module.values[words[1]] = Value(kind, np.array(_signed(bits, kind)))
        case _ if number in (COMPOSITE, REPLICATED):
            parts = [numbers_of(module.values[word]) for word in words[2:]]
            kind = module.types[words[0]]
            module.values[words[1]] = Value(kind, _joined(parts))
        case _ if number == NULL:
            module.values[words[1]] = Value(module.types[words[0]], np.zeros((), np.int64))
        case _ if number == GRAPH_CONSTANT:
            module.values[words[1]] = Value(module.types[words[0]], None, words[2])


def _shaped(module: Module, number: int, words: tuple[int, ...]) -> Type:
    element = module.types[words[1]]
    if number == TYPE_ARRAY:
        return element._replace(shape=(int(numbers_of(module.values[words[2]]).reshape(())),))
    if len(words) > 3:
        return element._replace(shape=listed(module.values[words[3]]))
    rank = int(numbers_of(module.values[words[2]]).reshape(())) if len(words) > 2 else -1
    if rank > _MOST_RANK:
        raise ValueError(f"a tensor of rank {rank}")
    return element._replace(shape=None if rank < 0 else (-1,) * rank)


def numbers_of(value: Value) -> npt.NDArray[np.int64]:
    if value.numbers is None:
        raise ValueError("a constant of the container stands for a number")
    return value.numbers


def listed(value: Value) -> tuple[int, ...]:
    """Return the numbers of a list, such as sizes; ValueError for more than a program has."""
    count = value.type.elements()
    if count > _MOST_NUMBERS:
        raise ValueError(f"a list of {count} numbers")
    return tuple(np.broadcast_to(numbers_of(value), (count,)).tolist())


def _joined(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return the elements of a composite: of numbers, or of composites with fewer dimensions."""
    if len(parts) == 1 and parts[0].ndim == 0:
        return parts[0]
    return np.concatenate([np.broadcast_to(part, part.shape or (1,)) for part in parts])


def _signed(bits: int, kind: Type) -> int:
    """Return an integer as a number; floating point stays bits, of which `bytes_of` makes elements."""
    bits &= (1 << kind.width) - 1
    is_negative = kind.element.name.startswith("INT") and bits >> (kind.width - 1)
    return bits - (1 << kind.width) if is_negative else bits if bits < 1 << 63 else bits - (1 << 64)


def text_of(words: tuple[int, ...]) -> str:
    """Return a literal text, which ends with a zero."""
    data = struct.pack(f"<{len(words)}I", *words)
    return data[: data.index(0)].decode(errors="replace")


def bytes_of(value: Value) -> bytes:
    """Return the elements of a constant of the module, one for a splat, as a `.tosa` file has them."""
    width = 6 if value.type.element.name == "INT48" else value.type.width // 8
    numbers = np.ascontiguousarray(numbers_of(value).reshape(-1).astype("<i8"))
    return numbers.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


_CONST: Final = operator("CONST")
_CONST_SHAPE: Final = operator("CONST_SHAPE")
_ACCUMULATORS: Final = {1: "INT32", 2: "FP16", 3: "FP32", 4: "INT48"}
#: The set of instructions that say where graphs come from, and the one that names operations.
_DEBUG_SET: Final = "NonSemantic.Graph.DebugInfo.1"
_DEBUG_OPERATION: Final = 2
_MAIN: Final = "main"
#: Begins the names of values that segments share; their resource follows.
_VALUE: Final = "value_"


def read_vgf(data: memoryview, where: str, func: str | None = None) -> Graph:
    """Read the graph of a VGF file or a SPIR-V module; its constants share the file's bytes."""
    container = _container(data, where)
    return read_segment(container, _chosen(container, where, func), where)


def _container(data: memoryview, where: str) -> Container:
    """Return what a file holds; a module alone has a segment for each entry point."""
    if bytes(data[: len(MAGIC)]) == MAGIC:
        return read_container(data, where)
    module = read_module(data, where)
    names = list(module.entry_points)
    segments = [Segment(name, number, True, (), (), {}, ()) for number, name in enumerate(names)]
    outside = (value for value in module.values.values() if value.numbers is None)
    findings = Findings()
    for value in outside:
        message = f"constant {value.stored} is outside of the module: {value.type}"
        findings.add("missing-data", where, message, "read the VGF file, which has the constants")
    findings.raise_if_any()
    return Container([data] * len(names), names, segments, [], {})


def read_segment(container: Container, segment: Segment, where: str) -> Graph:
    """Read the graph of a segment; see `read_vgf`."""
    if segment.module >= len(container.modules):
        raise malformed(where, f"segment {segment.name!r} names a module that it does not have")
    module = read_module(container.modules[segment.module], where)
    reader = _Reader(container, segment, module, where)
    return reader.graph()


def segments(data: memoryview, where: str) -> tuple[list[str], list[str]]:
    """Return the names of the segments that are graphs, and descriptions of the others."""
    rows = _container(data, where).segments
    return [row.name for row in rows if row.is_graph], _shaders(rows)


def _shaders(rows: list[Segment]) -> list[str]:
    """Describe the segments that hold no TOSA, with the values that they read and compute."""
    return [
        f"the shader {row.name}: {_values(row.inputs)} -> {_values(row.outputs)}"
        for row in rows
        if not row.is_graph
    ]


def _values(resources: tuple[int, ...]) -> str:
    return ", ".join(f"{_VALUE}{resource}" for resource in resources)


def _chosen(container: Container, where: str, func: str | None) -> Segment:
    graphs = [row for row in container.segments if row.is_graph]
    names = ", ".join(row.name for row in graphs)
    if not graphs:
        message = "it has no graph, only shaders"
        raise fail("unsupported-operator", where, message, "TOSA is in the segments of type GRAPH")
    chosen = [row for row in graphs if func in (None, row.name)]
    if not chosen:
        raise fail("unknown-function", where, f"no graph {func}; found {names}")
    if len(chosen) > 1:
        message = f"the file has the graphs {names}, which run one after another"
        raise fail(
            "ambiguous-function", where, message, "choose one with --func; `show` lists them"
        )
    if func is None and (others := _shaders(container.segments)):
        log.warning("%s: only %s is read; the file also has %s", where, names, "; ".join(others))
    return chosen[0]


@dataclass(slots=True)
class _Reader:
    """Reads one graph of a module.

    names: of tensors, by the id of the instruction that makes them. constants: of constants, by id and
        whether they are shapes. several: the results of an instruction that has several, by its id.
    inputs, outputs: by position.
    """

    container: Container
    segment: Segment
    module: Module
    where: str
    block: Block = field(default_factory=lambda: Block(_MAIN))
    names: dict[int, str] = field(default_factory=dict)
    constants: dict[tuple[int, bool], str] = field(default_factory=dict)
    several: dict[int, list[str]] = field(default_factory=dict)
    inputs: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, str] = field(default_factory=dict)
    locations: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def graph(self) -> Graph:
        body, interface = self._body()
        self.locations = dict(_locations(self.module))
        steps: dict[int, Callable[[tuple[int, ...]], None]] = {
            GRAPH_INPUT: self._input,
            EXTENDED: self._operator,
            EXTRACT: self._part,
            GRAPH_OUTPUT: self._output,
        }
        for number, words in body:
            try:
                steps[number](words)
            except (LookupError, ValueError, OverflowError) as error:
                message = f"instruction {number} of its graph is damaged: {error}"
                raise malformed(self.where, message) from None
        self.block.inputs = [self.inputs[key] for key in sorted(self.inputs)]
        self.block.outputs = [self.outputs[key] for key in sorted(self.outputs)]
        graph = Graph(V1_0, [Region(_MAIN, [self.block])])
        count = len(self.block.inputs)
        given = [self._name_of(word) for word in interface]
        return rename_in_order(
            graph,
            _names_of("input", given[:count], count),
            _names_of("output", given[count:], len(self.block.outputs)),
        )

    def _body(self) -> tuple[list[tuple[int, tuple[int, ...]]], tuple[int, ...]]:
        """Return the instructions of the segment's graph, and the ids of its inputs and outputs."""
        bodies = self.module.bodies
        entry = self.container.entry_points[self.segment.module]
        graph, *interface = self.module.entry_points.get(entry, (0,))
        if graph not in bodies and len(bodies) != 1:
            message = f"its module has {len(bodies)} graphs, and none that is run as {entry!r}"
            raise malformed(self.where, message)
        return bodies.get(graph) or next(iter(bodies.values())), tuple(interface)

    def _name_of(self, word: int) -> str:
        """Return the name of an input or output: that of the resource which is bound to it."""
        resource = self.segment.bindings.get(self.module.bindings.get(word, -1), -1)
        named = self.container.names.get(resource, "")
        is_shared = resource >= 0 and len(self.container.segments) > 1
        return named or (f"{_VALUE}{resource}" if is_shared else "")

    def _input(self, words: tuple[int, ...]) -> None:
        kind, made, index = words[:3]
        name = self._tensor("input", self.module.types[kind])
        self.names[made] = name
        self.inputs[self._number(index)] = name

    def _output(self, words: tuple[int, ...]) -> None:
        self.outputs[self._number(words[1])] = self._operand(words[0], is_shape=False)

    def _part(self, words: tuple[int, ...]) -> None:
        _, made, source, index = words[:4]
        self.names[made] = self.several[source][index]

    def _number(self, word: int) -> int:
        return int(numbers_of(self.module.values[word]).reshape(()))

    def _operator(self, words: tuple[int, ...]) -> None:
        kind, made, used, number = words[:4]
        if self.module.sets.get(used) != SET:
            found = self.module.sets.get(used, "no set")
            message = f"instruction {number} of the set {found}, expected {SET}"
            raise fail("unsupported-operator", self.where, message)
        instruction = INSTRUCTIONS[number]
        spec, count = instruction.spec, len(instruction.attributes)
        attributes, operands = words[4 : 4 + count], words[4 + count :]
        inputs = tuple(
            self._operand(word, is_shape=spec.operand(position, len(operands)).is_shape)
            for position, word in enumerate(operands)
        )
        kinds = self.module.structs.get(kind, (kind,))
        outputs = tuple(self._tensor(spec.name.lower(), self.module.types[one]) for one in kinds)
        if len(outputs) > 1:
            self.several[made] = list(outputs)
        else:
            self.names[made] = outputs[0]
        values = dict(zip(instruction.attributes, attributes, strict=True))
        self.block.operators.append(
            Operator(
                spec,
                inputs,
                outputs,
                {row.name: self._attribute(row, values[row.name]) for row in spec.attributes},
                self.locations.get(made, ""),
            )
        )

    def _attribute(self, row: AttributeSpec, word: int) -> AttributeValue:
        value = self.module.values[word]
        if row.kind == "element":
            return bytes_of(value).ljust(ELEMENT_BYTES, b"\0")
        found = numbers_of(value)
        if row.kind == "i32s":
            return listed(value)
        number = int(found.reshape(()))
        if row.kind == "bool":
            return bool(number)
        if row.kind == "dtype":
            return dtype(_ACCUMULATORS[number])
        return row.enum(number) if row.enum is not None else number

    # -- tensors and constants -------------------------------------------------------------------

    def _tensor(self, wanted: str, kind: Type, data: Constant | None = None) -> str:
        name = unused_name(wanted, self.block.tensors, numbers=self.numbers)
        self.block.tensors[name] = Tensor(name, kind.element, kind.shape, data)
        return name

    def _operand(self, word: int, *, is_shape: bool) -> str:
        """Return the name of an operand; a constant becomes an operator when it is first used."""
        if word in self.names:
            return self.names[word]
        key = word, is_shape
        if key not in self.constants:
            made = self._shape if is_shape else self._constant
            self.constants[key] = made(self.module.values[word])
        return self.constants[key]

    def _shape(self, value: Value) -> str:
        sizes = np.array(listed(value), "<i8")
        rank = len(sizes)
        name = unused_name("shape", self.block.shapes, numbers=self.numbers)
        data = Constant(dtype("INT64"), rank, sizes.tobytes())
        self.block.shapes[name] = ShapeValue(name, rank, data)
        self.block.operators.append(Operator(_CONST_SHAPE, (), (name,)))
        return name

    def _constant(self, value: Value) -> str:
        name = self._tensor("const", value.type, self._data(value))
        self.block.operators.append(Operator(_CONST, (), (name,)))
        return name

    def _data(self, value: Value) -> Constant:
        element, count = value.type.element, value.type.elements()
        if value.numbers is not None:
            data = bytes_of(value)
            is_splat = len(data) == element.element_bytes and count != 1
            return Constant(element, count, data, splat=is_splat)
        place = self.segment.constants[value.stored]
        stored = self.container.constants[place]
        if len(stored) != count * value.type.width // 8:
            message = f"constant {place} has {len(stored)} bytes, its type needs another number"
            raise ValueError(message)
        if element.name != "INT48":
            return Constant(element, count, stored)
        wide = np.frombuffer(stored, np.uint8).reshape(-1, 8)
        return Constant(element, count, wide[:, :6].tobytes())


def _names_of(word: str, given: list[str], count: int) -> list[str]:
    """Return names for inputs or outputs: those of the file if it has one for each."""
    if len(given) == count and len(set(given)) == count and all(given):
        return given
    return [f"{word}_{index}" for index in range(count)]


def _locations(module: Module) -> Iterator[tuple[int, str]]:
    """Iterate over the instructions whose operation in the source is known, with its location."""
    for words in module.after:
        if len(words) < 6 or (module.sets.get(words[2]), words[3]) != (
            _DEBUG_SET,
            _DEBUG_OPERATION,
        ):
            continue
        rest = words[4:]
        text = module.strings.get(rest[1], "")
        if text.startswith("loc(") and text != "loc(unknown)":
            for made in rest[2:]:
                yield made, text
