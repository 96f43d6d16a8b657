"""A VGF file or a SPIR-V module -> Graph.

Names of tensors are not in it; locations are, if it was written with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tosa_convert.errors import Findings, fail
from tosa_convert.formats.vgf import spirv
from tosa_convert.formats.vgf.container import (
    MAGIC,
    Container,
    Segment,
    malformed,
    read_container,
)
from tosa_convert.formats.vgf.instructions import INSTRUCTIONS, SET
from tosa_convert.graph.constant import ELEMENT_BYTES, Constant
from tosa_convert.graph.derived import rename_in_order, unused_name
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block, Graph, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, operator
from tosa_convert.graph.versions import V1_0
from tosa_convert.io import log
from tosa_convert.records import dataclass, field

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
    """Read the graph of a VGF file or a SPIR-V module; its constants share the file's bytes.

    Names of inputs and outputs are those of the file. A value that one segment computes and another
    reads has the same name in both.
    """
    container = _container(data, where)
    return read_segment(container, _segment(container, where, func), where)


def _container(data: memoryview, where: str) -> Container:
    """Return what a file holds; a module alone has a segment for each entry point."""
    if bytes(data[: len(MAGIC)]) == MAGIC:
        return read_container(data, where)
    module = spirv.read_module(data, where)
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
    module = spirv.read_module(container.modules[segment.module], where)
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


def _segment(container: Container, where: str, func: str | None) -> Segment:
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
    module: spirv.Module
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
        """Return the program."""
        body, interface = self._body()
        self.locations = dict(_locations(self.module))
        steps: dict[int, Callable[[tuple[int, ...]], None]] = {
            spirv.GRAPH_INPUT: self._input,
            spirv.EXTENDED: self._operator,
            spirv.EXTRACT: self._part,
            spirv.GRAPH_OUTPUT: self._output,
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
        """Name one result of several."""
        _, made, source, index = words[:4]
        self.names[made] = self.several[source][index]

    def _number(self, word: int) -> int:
        return int(spirv.numbers_of(self.module.values[word]).reshape(()))

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
        self._add(
            Operator(
                spec,
                inputs,
                outputs,
                {row.name: self._attribute(row, values[row.name]) for row in spec.attributes},
                self.locations.get(made, ""),
            )
        )

    def _add(self, made: Operator) -> None:
        self.block.operators.append(made)

    def _attribute(self, row: AttributeSpec, word: int) -> AttributeValue:
        value = self.module.values[word]
        if row.kind == "element":
            return spirv.bytes_of(value).ljust(ELEMENT_BYTES, b"\0")
        found = spirv.numbers_of(value)
        if row.kind == "i32s":
            return spirv.listed(value)
        number = int(found.reshape(()))
        if row.kind == "bool":
            return bool(number)
        if row.kind == "dtype":
            return dtype(_ACCUMULATORS[number])
        return row.enum(number) if row.enum is not None else number

    # -- tensors and constants -------------------------------------------------------------------

    def _tensor(self, wanted: str, kind: spirv.Type, data: Constant | None = None) -> str:
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

    def _shape(self, value: spirv.Value) -> str:
        sizes = np.array(spirv.listed(value), "<i8")
        rank = len(sizes)
        name = unused_name("shape", self.block.shapes, numbers=self.numbers)
        data = Constant(dtype("INT64"), rank, sizes.tobytes())
        self.block.shapes[name] = ShapeValue(name, rank, data)
        self._add(Operator(_CONST_SHAPE, (), (name,)))
        return name

    def _constant(self, value: spirv.Value) -> str:
        name = self._tensor("const", value.type, self._data(value))
        self._add(Operator(_CONST, (), (name,)))
        return name

    def _data(self, value: spirv.Value) -> Constant:
        element, count = value.type.element, value.type.elements()
        if value.numbers is not None:
            data = spirv.bytes_of(value)
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


def _locations(module: spirv.Module) -> Iterator[tuple[int, str]]:
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
