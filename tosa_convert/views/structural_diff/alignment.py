"""Pairs the operators of two blocks that do the same, whatever they and their values are called.

Keys are of what a node is with all that it depends on, or that depends on it, up to paired nodes. Pairs
spread along edges, at levels that ignore more and more (`dataflow.LEVELS`); what is left is aligned in
order, and constants last. Pairs decide how differences are told, not whether there are any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from tosa_convert.graph.model import Graph
from tosa_convert.views.structural_diff.dataflow import (
    ANY_OPERATOR,
    LEVELS,
    Flow,
    Keys,
    Level,
    NodeKeys,
    variable_accesses,
)

#: Rounds at one level. Each takes time for all nodes that are left, and most need two or three.
_ROUNDS: Final = 12
#: Aligning two runs of operators takes time in proportion to the product of their lengths.
_LONGEST_PRODUCT: Final = 250_000

_Groups = dict[Hashable, tuple[list[int], list[int]]]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two blocks: its data flow, what its nodes are, and the partner of each node or -1."""

    flow: Flow
    keys: NodeKeys
    partners: list[int]


def identical(left: Flow, right: Flow) -> list[int]:
    """Return the partners of two blocks that `compare` finds equal. Operators correspond by position."""
    symbols = {
        right.names[node]: node for node in range(len(right)) if right.kinds[node] == "variable"
    }
    places = {
        (kind == "input", right.positions[node]): node
        for node, kind in enumerate(right.kinds)
        if kind not in ("variable", "undefined")
    }
    return [
        symbols.get(left.names[node], -1)
        if kind == "variable"
        else places.get((kind == "input", left.positions[node]), -1)
        for node, kind in enumerate(left.kinds)
    ]


def align(keys: Keys, left: Flow, right: Flow, numbers: tuple[NodeKeys, NodeKeys]) -> list[int]:
    """Return for each node of the left block its partner in the right one, or -1."""
    return _Alignment(keys, left, right, numbers).run()


class _Alignment:
    def __init__(
        self, keys: Keys, left: Flow, right: Flow, numbers: tuple[NodeKeys, NodeKeys]
    ) -> None:
        self.keys = keys
        self.left = Side(left, numbers[0], [-1] * len(left))
        self.right = Side(right, numbers[1], [-1] * len(right))
        self.sides = self.left, self.right

    def run(self) -> list[int]:
        self._boundary()
        for level in LEVELS:
            self._level(level)
        self._gaps()
        self._level(ANY_OPERATOR)
        self._inputs_by_position()
        self._constants()
        return self.left.partners

    def pair(self, one: int, other: int) -> None:
        self.left.partners[one] = other
        self.right.partners[other] = one

    def _free(self, one: int, other: int) -> bool:
        return self.left.partners[one] < 0 and self.right.partners[other] < 0

    def _remaining(self, side: Side) -> list[int]:
        """Return the nodes that have no partner, but no constants: those follow their users."""
        kinds = side.flow.kinds
        return [n for n, p in enumerate(side.partners) if p < 0 and kinds[n] != "constant"]

    # -- inputs and variables ----------------------------------------------------------------------

    def _boundary(self) -> None:
        """Pair variables by symbol, and inputs by name if both blocks use the same names."""
        left, right = self.left.flow, self.right.flow
        for kind in ("variable", "input"):
            one, other = (
                {flow.names[n]: n for n in range(len(flow)) if flow.kinds[n] == kind}
                for flow in (left, right)
            )
            if kind == "variable" or one.keys() == other.keys():
                for name in one.keys() & other.keys():
                    if self._free(one[name], other[name]):
                        self.pair(one[name], other[name])

    def _inputs_by_position(self) -> None:
        """Pair the inputs that are left, if they have the same position and the blocks as many."""
        left, right = self.left.flow, self.right.flow
        if len(left.block.inputs) == len(right.block.inputs):
            for node in range(len(left.block.inputs)):
                if self._free(node, node):
                    self.pair(node, node)

    # -- keys --------------------------------------------------------------------------------------

    def _level(self, level: Level) -> None:
        for _ in range(_ROUNDS):
            found = self._round(level)
            found += self._spread(level)
            if not found:
                return

    def _round(self, level: Level) -> int:
        """Pair nodes by their keys; return how many pairs there are."""
        remaining = self._remaining(self.left), self._remaining(self.right)
        if not all(remaining):
            return 0
        forward = [self._forward(s, n, level) for s, n in zip(self.sides, remaining, strict=True)]
        backward = [self._backward(s, n, level) for s, n in zip(self.sides, remaining, strict=True)]

        def both(side: int, node: int) -> Hashable:
            return forward[side][node], backward[side][node]

        found = self._pair_classes(self._grouped(remaining, both))
        if not level.operator:
            return found
        for keys, neighbours in (
            (forward, (self.left.flow.operands, self.right.flow.operands)),
            (backward, (self.left.flow.uses, self.right.flow.uses)),
        ):
            found += self._pair_unique(remaining, keys, neighbours)
        if level.types:
            found += self._pair_alike(remaining, level)
        return found

    def _forward(self, side: Side, remaining: Sequence[int], level: Level) -> list[int]:
        """Return a key of each remaining node and all that it depends on, up to nodes with a partner."""
        flow, number = side.flow, self.keys.number
        result = self._anchors(side)
        for node in remaining:
            operands = tuple([(result[producer], index) for producer, index in flow.operands[node]])
            # The constants that an operator takes are part of what it is.
            position = (
                flow.positions[node] if level.positions and flow.kinds[node] == "input" else -1
            )
            result[node] = number(("f", side.keys.at(level, node), position, operands))
        return result

    def _backward(self, side: Side, remaining: Sequence[int], level: Level) -> list[int]:
        """Return a key of each remaining node and all that depends on it, up to nodes with a partner."""
        flow, number = side.flow, self.keys.number
        result = self._anchors(side)
        for node in reversed(remaining):
            uses = [(result[user], position, index) for user, position, index in flow.uses[node]]
            if len(uses) > 1:
                uses.sort()
            returned = flow.returned[node]
            places = tuple(returned if level.positions else [(-1, index) for _, index in returned])
            result[node] = number(("b", side.keys.at(level, node), places, tuple(uses)))
        return result

    def _anchors(self, side: Side) -> list[int]:
        """Return a negative key for each node: one for all without a partner, else one for each pair."""
        if side is self.left:
            return [-2 - node if partner >= 0 else -1 for node, partner in enumerate(side.partners)]
        return [-2 - partner if partner >= 0 else -1 for partner in side.partners]

    def _grouped(
        self, remaining: tuple[list[int], list[int]], key: Callable[[int, int], Hashable | None]
    ) -> _Groups:
        """Group the nodes of both sides by their keys, without those whose key is None."""
        groups: _Groups = {}
        for side, nodes in enumerate(remaining):
            for node in nodes:
                found = key(side, node)
                if found is not None:
                    groups.setdefault(found, ([], []))[side].append(node)
        return groups

    def _pair_classes(self, groups: _Groups) -> int:
        """Pair groups of one size. In larger ones, nodes whose operands are paired come first."""
        found = 0
        several: list[tuple[int, Hashable]] = []
        by_operands: dict[Hashable, list[int]] = defaultdict(list)
        for key, (one, other) in groups.items():
            if len(one) != len(other):
                continue
            if len(one) == 1:
                self.pair(one[0], other[0])
                found += 1
                continue
            several += [(node, key) for node in one]
            for node in reversed(other):
                by_operands[key, tuple(self.right.flow.operands[node])].append(node)
        waiting = {key: iter(groups[key][1]) for _, key in several}
        for node, key in sorted(several):
            partners = self.left.partners
            operands = tuple((partners[p], r) for p, r in self.left.flow.operands[node])
            alike = by_operands.get((key, operands), [])
            while alike and self.right.partners[alike[-1]] >= 0:
                alike.pop()
            match = (
                alike.pop()
                if alike
                else next(
                    candidate for candidate in waiting[key] if self.right.partners[candidate] < 0
                )
            )
            self.pair(node, match)
            found += 1
        return found

    def _pair_unique(
        self,
        remaining: tuple[list[int], list[int]],
        keys: list[list[int]],
        neighbours: tuple[Sequence[Sequence[object]], Sequence[Sequence[object]]],
    ) -> int:
        def key(side: int, node: int) -> Hashable | None:
            is_free = self.sides[side].partners[node] < 0
            return keys[side][node] if is_free and neighbours[side][node] else None

        return self._pair_single(self._grouped(remaining, key))

    def _pair_alike(self, remaining: tuple[list[int], list[int]], level: Level) -> int:
        """Pair operators that are unique together with their nearest neighbours."""

        def key(number: int, node: int) -> Hashable | None:
            side = self.sides[number]
            flow, keys = side.flow, side.keys
            if side.partners[node] >= 0 or flow.kinds[node] != "operator":
                return None
            taken = tuple(keys.at(level, p) for p, _ in flow.operands[node])
            users = tuple(sorted((keys.at(level, u), i) for u, i, _ in flow.uses[node]))
            return keys.at(level, node), taken, users

        return self._pair_single(self._grouped(remaining, key))

    def _pair_single(self, groups: _Groups) -> int:
        found = [(one, other) for one, other in groups.values() if len(one) == len(other) == 1]
        for (one,), (other,) in found:
            self.pair(one, other)
        return len(found)

    # -- along edges -------------------------------------------------------------------------------

    def _spread(self, level: Level) -> int:
        """Pair the producers, and the only users, of paired nodes that are equal at a level."""
        queue = [node for node, partner in enumerate(self.left.partners) if partner >= 0]
        if all(partner >= 0 for partner in self.left.partners):
            return 0
        found = 0
        while queue:
            one = queue.pop()
            other = self.left.partners[one]
            for left, right in self._neighbours(one, other, level):
                if self._free(left, right) and self._alike(left, right, level):
                    self.pair(left, right)
                    queue.append(left)
                    found += 1
        return found

    def _neighbours(self, one: int, other: int, level: Level) -> Iterable[tuple[int, int]]:
        left, right = self.left.flow, self.right.flow
        operands, others = left.operands[one], right.operands[other]
        if len(operands) == len(others):
            for edge, other_edge in zip(operands, others, strict=True):
                if edge.result == other_edge.result:
                    yield edge.node, other_edge.node
        users: dict[Hashable, tuple[list[int], list[int]]] = {}
        for number, (side, node) in enumerate(((self.left, one), (self.right, other))):
            for user, position, result in side.flow.uses[node]:
                if side.partners[user] < 0:
                    key = (position, result, side.keys.at(level, user))
                    users.setdefault(key, ([], []))[number].append(user)
        for found, other_found in users.values():
            if len(found) == len(other_found) == 1:
                yield found[0], other_found[0]

    def _alike(self, one: int, other: int, level: Level) -> bool:
        kinds = self.left.flow.kinds[one], self.right.flow.kinds[other]
        return (
            kinds[0] == kinds[1] != "constant"
            and level.operator
            and self.left.keys.at(level, one) == self.right.keys.at(level, other)
        )

    # -- in order ----------------------------------------------------------------------------------

    def _gaps(self) -> None:
        """Align the operators that are left between the same paired operators, in their order."""
        gaps: dict[int, tuple[list[int], list[int]]] = {}
        for number, side in enumerate(self.sides):
            before = -1
            for node, kind in enumerate(side.flow.kinds):
                if kind != "operator":
                    continue
                partner = side.partners[node]
                if partner >= 0:
                    before = partner if number == 0 else node
                else:
                    gaps.setdefault(before, ([], []))[number].append(node)
        for one, other in gaps.values():
            for level in LEVELS[2:]:
                self._gap(
                    [n for n in one if self.left.partners[n] < 0],
                    [n for n in other if self.right.partners[n] < 0],
                    level,
                )

    def _gap(self, one: list[int], other: list[int], level: Level) -> None:
        if not one or not other or len(one) * len(other) > _LONGEST_PRODUCT:
            return
        left = [self.left.keys.at(level, node) for node in one]
        right = [self.right.keys.at(level, node) for node in other]
        for start, other_start, size in SequenceMatcher(
            None, left, right, autojunk=False
        ).get_matching_blocks():
            for offset in range(size):
                self.pair(one[start + offset], other[other_start + offset])

    # -- constants ---------------------------------------------------------------------------------

    def _constants(self) -> None:
        """Pair constants that paired operators take at one position, equal ones first."""
        left, right = self.left.flow, self.right.flow
        candidates: list[tuple[int, int]] = []
        for node, partner in enumerate(self.left.partners):
            if partner < 0 or left.kinds[node] == "constant":
                continue
            for one, other in zip(left.operands[node], right.operands[partner], strict=False):
                if left.kinds[one.node] == right.kinds[other.node] == "constant":
                    candidates.append((one.node, other.node))
        candidates += [
            (one.node, other.node)
            for one, other in zip(left.outputs, right.outputs, strict=False)
            if left.kinds[one.node] == right.kinds[other.node] == "constant"
        ]
        exact, operator = LEVELS[1], LEVELS[-1]
        for level in (exact, operator):
            for node, partner in candidates:
                if self._free(node, partner) and self.left.keys.at(
                    level, node
                ) == self.right.keys.at(level, partner):
                    self.pair(node, partner)
        self._equal_constants()

    def _equal_constants(self) -> None:
        """Pair the equal constants that are left, but none that only unpaired operators take."""
        waiting: dict[Hashable, list[int]] = {}
        for node in reversed(self._constants_left(self.right)):
            waiting.setdefault(self.right.keys.at(LEVELS[0], node), []).append(node)
        for node in self._constants_left(self.left):
            found = waiting.get(self.left.keys.at(LEVELS[0], node))
            if found:
                self.pair(node, found.pop())

    def _constants_left(self, side: Side) -> list[int]:
        flow, partners = side.flow, side.partners
        return [
            node
            for node, kind in enumerate(flow.kinds)
            if kind == "constant"
            and partners[node] < 0
            and (not flow.uses[node] or any(partners[use.node] >= 0 for use in flow.uses[node]))
        ]


# -- pairs the regions of two programs, and aligns the blocks of those that are pairs --------------


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
        """Pair the regions that `compare` finds equal but for names, operators by position."""
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
