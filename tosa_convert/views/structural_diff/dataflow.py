"""The data flow of a block as a graph of numbered nodes, and what its variables add to it.

Nodes are the block's inputs, its variables' initial states, values that nothing defines, and its
operators. An operator that reads or writes a variable depends on the operator that wrote it last, as if
the state were an operand, so that the order of reads and writes is part of the data flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_WRITE
from tosa_convert.records import NamedTuple

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
        """Return the names of the values that a node makes."""
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
