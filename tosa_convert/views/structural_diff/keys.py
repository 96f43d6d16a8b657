"""Numbers for what nodes are: equal numbers for equal operators, at several levels of detail.

Numbers are found by table, never by hash, so that different things never get the same one. One `Keys` is
used for both programs.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Graph, ShapeValue, Tensor
from tosa_convert.graph.opset import AttributeSpec
from tosa_convert.records import NamedTuple
from tosa_convert.views.structural_diff.dataflow import Flow

#: Elements of a constant whose bytes are always read; a multiple of 4.
_SAMPLE = 1 << 15


class Level(NamedTuple):
    """What counts when operators are compared, besides what they take and what takes their results.

    positions: those of the block's inputs and outputs. content: values of constants and content of
    regions. types: element types and shapes of results. attributes. operator: which one it is.
    """

    positions: bool
    content: bool
    types: bool
    attributes: bool
    operator: bool = True


#: From the strictest on: what agrees at a level is paired before the next one is tried.
LEVELS = (
    Level(positions=True, content=True, types=True, attributes=True),
    Level(positions=False, content=True, types=True, attributes=True),
    Level(positions=False, content=False, types=True, attributes=True),
    Level(positions=False, content=False, types=False, attributes=True),
    Level(positions=False, content=False, types=False, attributes=False),
)
#: An operator that takes another one's place.
ANY_OPERATOR = Level(False, False, False, False, operator=False)


class NodeKeys(NamedTuple):
    """For each node of a block its operator, attributes, types of results, and content, as numbers.

    operator: below -1 for a node that is not an operator.
    """

    operator: list[int]
    attributes: list[int]
    types: list[int]
    content: list[int]

    def at(self, level: Level, node: int) -> tuple[int, int, int, int]:
        """Return what a node is at a level."""
        return (
            number if (number := self.operator[node]) < 0 or level.operator else -1,
            self.attributes[node] if level.attributes else -1,
            self.types[node] if level.types else -1,
            self.content[node] if level.content else -1,
        )


class Keys:
    """The table of numbers, shared by both programs."""

    def __init__(self, *graphs: Graph) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._constants: dict[int, int] = {}
        self._regions: dict[tuple[int, str], int] = {}
        self._number_constants(graphs)

    def number(self, key: Hashable) -> int:
        """Return the number of a key: 0, 1, 2 and so on, in the order in which keys were first seen."""
        return self._numbers.setdefault(key, len(self._numbers))

    # -- constants ---------------------------------------------------------------------------------

    def _number_constants(self, graphs: Iterable[Graph]) -> None:
        """Assign a number to each constant, the same for equal content.

        Large constants are read as a whole only if a program has several with the same start. So two
        that differ may have one number, but only if nothing of their programs could take their place.
        """
        ambiguous: set[int] = set()
        found: list[tuple[Constant, int]] = []
        for graph in graphs:
            seen: set[int] = set()
            for data in dict.fromkeys(_constants(graph)):
                start = zlib.crc32(data.first(_SAMPLE).packed())
                number = self.number(("constant", data.dtype, data.count, start))
                if number in seen and data.count > _SAMPLE:
                    ambiguous.add(number)
                seen.add(number)
                found.append((data, number))
        for data, number in found:
            if number in ambiguous:
                number = self.number(("whole constant", number, _whole(data)))
            self._constants[id(data)] = number

    def constant(self, data: Constant | None) -> int:
        """Return the number of a constant of one of the programs, or -1 for None."""
        return -1 if data is None else self._constants[id(data)]

    def content(self, value: Tensor | ShapeValue | None) -> int:
        """Return the number of the data of a value."""
        if isinstance(value, Tensor) and value.scale is not None:
            data = (self.constant(value.data), self.constant(value.scale.data))
            return self.number(("scaled", *data))
        return -1 if value is None else self.constant(value.data)

    # -- nodes -------------------------------------------------------------------------------------

    def type(self, value: Tensor | ShapeValue | None) -> int:
        """Return the number of the type of a value."""
        if isinstance(value, Tensor):
            scale = None if value.scale is None else (value.scale.dtype, int(value.scale.shape))
            return self.number(("tensor", value.dtype, value.shape, scale))
        return self.number(("shape", None if value is None else value.rank))

    def nodes(self, flow: Flow, graph: Graph) -> NodeKeys:
        """Assign keys to the nodes of a block, of whose regions the keys must be known."""
        keys = NodeKeys([], [], [], [])
        for node, operator in enumerate(flow.operators):
            names = flow.result_names(node)
            keys.types.append(
                self.type(flow.value(names[0]))
                if len(names) == 1
                else self.number(("types", *(self.type(flow.value(name)) for name in names)))
            )
            if operator is None:
                kind = flow.kinds[node]
                keys.operator.append(-2 - self.number(kind))
                is_state = kind == "variable"
                keys.attributes.append(
                    self.number(("symbol", flow.names[node])) if is_state else -1
                )
                value = flow.value(names[0]) if is_state and names else None
                keys.content.append(self.content(value))
                continue
            keys.operator.append(self.number(operator.spec))
            keys.attributes.append(self._attributes(flow, node))
            keys.content.append(self._content(flow, node, graph))
        return keys

    def _attributes(self, flow: Flow, node: int) -> int:
        operator = flow.operators[node]
        assert operator is not None
        if not operator.spec.attributes:
            return -1
        values = (
            attribute_key(flow, node, row)
            for row in operator.spec.attributes
            if row.kind != "region"
        )
        return self.number(("attributes", *values))

    def _content(self, flow: Flow, node: int, graph: Graph) -> int:
        """Return the number of a constant's data, or of an operator's constants and regions."""
        operator = flow.operators[node]
        assert operator is not None
        if flow.kinds[node] == "constant":
            return self.content(flow.value(operator.outputs[0])) if operator.outputs else -1
        parts = tuple(
            (position, self.content(flow.value(name)))
            for position, name in enumerate(operator.inputs)
            if flow.kinds[flow.operands[node][position].node] == "constant"
        )
        regions = tuple(
            self.region_number(graph, str(operator.attributes.get(row.name)))
            for row in operator.spec.regions
        )
        return self.number(("content", parts, regions)) if parts or regions else -1

    def region(self, graph: Graph, name: str, flows: Iterable[tuple[Flow, NodeKeys]]) -> None:
        """Note what a region computes, for the operators that run it."""
        parts = []
        for flow, keys in flows:
            forward: list[int] = []
            for node in range(len(flow)):
                operands = tuple((forward[p], r) for p, r in flow.operands[node])
                position = flow.positions[node] if flow.kinds[node] == "input" else -1
                key = (*keys.at(LEVELS[0], node), position, operands)
                forward.append(self.number(key))
            outputs = tuple((forward[p], r) for p, r in flow.outputs)
            parts.append((tuple(sorted(forward)), outputs))
        self._regions[id(graph), name] = self.number(("region", tuple(parts)))

    def region_number(self, graph: Graph, name: str) -> int:
        """Return the number of what a region computes, or -1 if it is not known."""
        return self._regions.get((id(graph), name), -1)


def attribute_key(flow: Flow, node: int, row: AttributeSpec) -> Hashable:
    """Return the value of an attribute without the padding of an element."""
    operator = flow.operators[node]
    assert operator is not None
    value = operator.attributes.get(row.name)
    if row.kind == "element" and isinstance(value, bytes) and operator.inputs:
        operand = flow.block.tensors.get(operator.inputs[0])
        if operand is not None:
            return value[: operand.dtype.element_bytes]
    return value


def _constants(graph: Graph) -> Iterator[Constant]:
    for _, data in graph.constants():
        yield data
    for _, block in graph.blocks():
        for shape in block.shapes.values():
            if shape.data is not None:
                yield shape.data


def _whole(data: Constant) -> Hashable:
    """Return what tells apart constants that begin alike; a splat takes no time, however large."""
    uniform = data.uniform()
    if uniform is not None:
        return bytes(uniform)
    checksum = 0
    for chunk in data.chunks():
        checksum = zlib.crc32(chunk, checksum)
    return checksum
