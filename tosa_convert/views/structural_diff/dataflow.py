"""The data flow of a block as numbered nodes; a variable's state is one more operand."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_WRITE, AttributeSpec

NodeKind = Literal["input", "variable", "undefined", "operator", "constant"]
#: The result of a node that is the state of a variable after it.
STATE = -1


class Edge(NamedTuple):
    """A value: the node that makes it, and which of its results it is."""

    node: int
    result: int


class Use(NamedTuple):
    """A use of a result of a node: by which node, at which position."""

    node: int
    position: int
    result: int


class Access(NamedTuple):
    """The variables that a region reads or writes, and those that it writes, by their symbols."""

    touched: frozenset[str]
    written: frozenset[str]


_NO_ACCESS = Access(frozenset(), frozenset())


class Flow:
    """The nodes of a block. A node's number is above those of its operands.

    kinds: of each node. operators: the operator, or None. positions: the number of the operator or input
    in the block. names: of each node that is not an operator: the value, or the symbol of a variable.
    operands: the values that a node takes. `arity` of them are the operator's inputs; the others are
        values that it overwrites, and states of variables.
    uses: of each node's results. returned: at which positions the block returns results of the node.
    outputs: the values that the block returns.
    """

    def __init__(self, block: Block, accesses: Mapping[str, Access]) -> None:
        self.block = block
        self.kinds: list[NodeKind] = []
        self.operators: list[Operator | None] = []
        self.positions: list[int] = []
        self.names: list[str] = []
        self.operands: list[list[Edge]] = []
        self.uses: list[list[Use]] = []
        self.returned: list[list[tuple[int, int]]] = []
        #: Symbol of a variable -> the node that wrote it last.
        self.states: dict[str, int] = {}
        self.symbols = {
            tensor.name: tensor.variable_name or tensor.name
            for tensor in block.tensors.values()
            if tensor.variable
        }
        self._values: dict[str, Edge] = {}
        for position, name in enumerate(block.inputs):
            self._values[name] = Edge(self._node("input", name, position), 0)
        for symbol in sorted(set(self.symbols.values())):
            self._state(symbol)
        for position, operator in enumerate(block.operators):
            self._add(position, operator, accesses)
        self.outputs = [self._value(name) for name in block.outputs]
        for position, (node, result) in enumerate(self.outputs):
            self.returned[node].append((position, result))

    def __len__(self) -> int:
        return len(self.kinds)

    def value(self, name: str) -> Tensor | ShapeValue | None:
        return self.block.tensors.get(name) or self.block.shapes.get(name)

    def result_names(self, node: int) -> tuple[str, ...]:
        operator = self.operators[node]
        if operator is not None:
            return operator.outputs
        if self.kinds[node] == "variable":
            symbol = self.names[node]
            return tuple(name for name, found in self.symbols.items() if found == symbol)[:1]
        return (self.names[node],)

    def _node(
        self, kind: NodeKind, name: str, position: int, operator: Operator | None = None
    ) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self.positions.append(position)
        self.operators.append(operator)
        self.operands.append([])
        self.uses.append([])
        self.returned.append([])
        return len(self.kinds) - 1

    def _state(self, symbol: str) -> int:
        node = self.states.get(symbol)
        if node is None:
            node = self.states[symbol] = self._node("variable", symbol, -1)
        return node

    def _value(self, name: str) -> Edge:
        edge = self._values.get(name)
        if edge is not None:
            return edge
        if name in self.symbols:
            return Edge(self._state(self.symbols[name]), STATE)
        edge = self._values[name] = Edge(self._node("undefined", name, -1), 0)
        return edge

    def _add(self, position: int, operator: Operator, accesses: Mapping[str, Access]) -> None:
        spec = operator.spec
        operands = [self._value(name) for name in operator.inputs]
        written: list[str] = []
        for name in operator.outputs:
            if name in self.symbols:
                operands.append(self._value(name))
                if spec is VARIABLE_WRITE:
                    written.append(self.symbols[name])
        if spec.regions:
            names = [str(operator.attributes.get(row.name)) for row in spec.regions]
            found = [accesses.get(name, _NO_ACCESS) for name in names]
            for symbol in sorted(frozenset().union(*(access.touched for access in found))):
                operands.append(Edge(self._state(symbol), STATE))
            written += sorted(frozenset().union(*(access.written for access in found)))
        is_constant = spec is CONST or spec is CONST_SHAPE
        node = self._node("constant" if is_constant else "operator", "", position, operator)
        self.operands[node] = operands
        for index, (producer, result) in enumerate(operands):
            self.uses[producer].append(Use(node, index, result))
        for index, name in enumerate(operator.outputs):
            if name not in self.symbols:
                self._values[name] = Edge(node, index)
        for symbol in written:
            self.states[symbol] = node


def variable_accesses(graph: Graph) -> dict[str, Access]:
    """Return for each region the variables that it, or a region that it runs, reads or writes."""
    touched: dict[str, set[str]] = {}
    written: dict[str, set[str]] = {}
    runs: dict[str, set[str]] = {}
    for region in graph.regions:
        touched[region.name], written[region.name], runs[region.name] = set(), set(), set()
        for block in region.blocks:
            symbols = {
                t.name: t.variable_name or t.name for t in block.tensors.values() if t.variable
            }
            for operator in block.operators:
                for row in operator.spec.regions:
                    runs[region.name].add(str(operator.attributes.get(row.name)))
                if symbols:
                    names = (*operator.inputs, *operator.outputs)
                    touched[region.name].update(symbols[name] for name in names if name in symbols)
                    written[region.name].update(
                        symbols[name] for name in operator.outputs if name in symbols
                    )
    if any(touched.values()):
        # What inner regions access reaches the outermost after as many rounds as they are deep.
        changed = True
        while changed:
            changed = False
            for name, inner in runs.items():
                for sets in (touched, written):
                    before = len(sets[name])
                    sets[name].update(*(sets.get(other, ()) for other in inner))
                    changed = changed or len(sets[name]) != before
    return {name: Access(frozenset(touched[name]), frozenset(written[name])) for name in runs}


# -- equal numbers for equal operators, by table and not by hash, at several levels ----------------

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
        """Assign numbers by content, to large constants by their start if that tells them apart."""
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
        if isinstance(value, Tensor) and value.scale is not None:
            data = (self.constant(value.data), self.constant(value.scale.data))
            return self.number(("scaled", *data))
        return -1 if value is None else self.constant(value.data)

    # -- nodes -------------------------------------------------------------------------------------

    def type(self, value: Tensor | ShapeValue | None) -> int:
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
