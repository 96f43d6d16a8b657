"""Pairs the regions of two programs, and aligns the blocks of those that are pairs."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.graph.model import Graph
from tosa_convert.records import dataclass, field
from tosa_convert.views.structural_diff.alignment import align, identical
from tosa_convert.views.structural_diff.dataflow import Flow, variable_accesses
from tosa_convert.views.structural_diff.keys import Keys, NodeKeys


@dataclass(slots=True)
class Program:
    """A program with the data flow of each block, and what its nodes are.

    regions: the number of each region by its name. order: regions such that those that an operator runs
    come before the operator's own.
    """

    graph: Graph
    flows: list[list[Flow]] = field(default_factory=list)
    keys: list[list[NodeKeys]] = field(default_factory=list)
    regions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        accesses = variable_accesses(self.graph)
        for index, region in enumerate(self.graph.regions):
            self.flows.append([Flow(block, accesses) for block in region.blocks])
            self.regions.setdefault(region.name, index)

    def runs(self, region: int) -> Iterator[int]:
        """Iterate over the regions that operators of a region run."""
        for flow in self.flows[region]:
            for operator in flow.operators:
                if operator is not None:
                    for row in operator.spec.regions:
                        name = str(operator.attributes.get(row.name))
                        if name in self.regions:
                            yield self.regions[name]

    def inner_first(self) -> list[int]:
        """Return all regions, each after those that it runs. Iterative, because nesting can be deep."""
        order: list[int] = []
        state: dict[int, bool] = {}
        for start in range(len(self.flows)):
            path = [start]
            while path:
                region = path[-1]
                if region not in state:
                    state[region] = False
                    path += [inner for inner in self.runs(region) if inner not in state]
                    continue
                path.pop()
                if not state[region]:
                    state[region] = True
                    order.append(region)
        return order

    def number(self, keys: Keys) -> None:
        """Find what the nodes of all blocks are."""
        self.keys = [[] for _ in self.flows]
        for region in self.inner_first():
            self.keys[region] = [keys.nodes(flow, self.graph) for flow in self.flows[region]]
            blocks = zip(self.flows[region], self.keys[region], strict=True)
            keys.region(self.graph, self.graph.regions[region].name, blocks)


@dataclass(slots=True)
class RegionPairs:
    """Pairs of regions by their numbers, and the partners of the nodes of their blocks."""

    left: Program
    right: Program
    keys: Keys
    pairs: dict[int, int] = field(default_factory=dict)
    partners: dict[int, list[list[int]]] = field(default_factory=dict)
    _taken: set[int] = field(default_factory=set)

    def find(self) -> None:
        """Pair the main regions, then those that paired operators run, then by name and by content."""
        self.left.number(self.keys)
        self.right.number(self.keys)
        self._pair_all([(0, 0)])
        names = [(one, self.right.regions.get(name, -1)) for name, one in self.left.regions.items()]
        self._pair_all(names)
        content: dict[int, list[int]] = {}
        for other in reversed(range(len(self.right.flows))):
            content.setdefault(self._content(self.right, other), []).append(other)
        for one in range(len(self.left.flows)):
            for other in content.get(self._content(self.left, one), ()):
                self._pair_all([(one, other)])
        self._pair_all([(one, one) for one in range(len(self.left.flows))])

    def find_equal(self) -> None:
        """Pair the regions of programs that `compare` finds equal but for names.

        Operators correspond by position. A region that has several copies is paired with the first.
        """
        self._pair_all([(0, 0)], equal=True)
        rest = [one for one in range(len(self.left.flows)) if one not in self.pairs]
        others = [other for other in range(len(self.right.flows)) if other not in self._taken]
        self._pair_all(list(zip(rest, others, strict=False)), equal=True)

    def _content(self, program: Program, region: int) -> int:
        name = program.graph.regions[region].name
        return self.keys.region_number(program.graph, name)

    def _pair_all(self, waiting: list[tuple[int, int]], *, equal: bool = False) -> None:
        """Pair regions, and those that paired operators run; equal: these correspond by position."""
        while waiting:
            one, other = waiting.pop(0)
            if one in self.pairs or other in self._taken or not 0 <= other < len(self.right.flows):
                continue
            self.pairs[one] = other
            self._taken.add(other)
            self.partners[one] = []
            for block in range(min(len(self.left.flows[one]), len(self.right.flows[other]))):
                flows = self.left.flows[one][block], self.right.flows[other][block]
                if equal:
                    partners = identical(*flows)
                else:
                    numbers = self.left.keys[one][block], self.right.keys[other][block]
                    partners = align(self.keys, *flows, numbers)
                self.partners[one].append(partners)
                waiting += self._inner(flows, partners)

    def _inner(self, flows: tuple[Flow, Flow], partners: list[int]) -> Iterator[tuple[int, int]]:
        for node, operator in enumerate(flows[0].operators):
            if operator is not None and operator.spec.regions and partners[node] >= 0:
                other = flows[1].operators[partners[node]]
                if other is not None and other.spec is operator.spec:
                    for row in operator.spec.regions:
                        names = (str(op.attributes.get(row.name)) for op in (operator, other))
                        yield (
                            self.left.regions.get(next(names), -1),
                            self.right.regions.get(next(names), -1),
                        )
