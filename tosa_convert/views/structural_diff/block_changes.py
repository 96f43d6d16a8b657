"""The changes of two aligned blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tosa_convert.graph.model import Operator, value_text
from tosa_convert.records import dataclass, field, replace
from tosa_convert.views.structural_diff.changes import (
    Change,
    ChangeKind,
    Detail,
    Item,
    Subject,
    alone,
)
from tosa_convert.views.structural_diff.dataflow import Flow
from tosa_convert.views.structural_diff.operator_details import (
    Partners,
    data_details,
    edge_text,
    operand_label,
    operator_details,
    takes_changed,
    type_details,
    type_text,
)

#: How many operators that take a constant are named.
_NAMED_USERS: Final = 4


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared besides what a program computes."""

    names: bool
    locations: bool
    order: bool


@dataclass(frozen=True, slots=True)
class BlockChanges:
    """Two aligned blocks and the names of their regions. `found` has their changes in order."""

    partners: Partners
    compared: Compared
    regions: tuple[str, str]
    is_main: bool
    #: Constants of the left block that changed.
    _changed: set[int] = field(default_factory=set)

    def found(self) -> list[Change]:
        """Return the changes of inputs, variables, operators and outputs."""
        operators = [*self._operators(), *self._moves()]
        # Of equal places, what was removed or changed comes before what was added after it.
        operators.sort(key=lambda row: row[0])
        placed = [replace(change, place=place) for (place, _), change in operators]
        return [*self._inputs(), *self._variables(), *placed, *self._outputs()]

    # -- items -------------------------------------------------------------------------------------

    def _item(self, side: int, node: int) -> Item:
        flow = self._flow(side)
        operator = flow.operators[node]
        names = flow.result_names(node)
        if operator is None:
            name = flow.names[node]
            values = [flow.value(found) for found in names]
            text = f"{value_text(name, None)}: {type_text(values[0] if values else None)}"
            return self._made(side, max(flow.positions[node], -1), name, names, text)
        place, text = flow.positions[node], flow.block.operator_text(operator)
        return self._made(side, place, operator.spec.name, names, text, operator.location)

    def _made(
        self,
        side: int,
        index: int,
        name: str,
        names: tuple[str, ...],
        text: str,
        location: str = "",
    ) -> Item:
        block = self._flow(side).block.name
        return Item(self.regions[side], block, index, name, names, text, location)

    def _flow(self, side: int) -> Flow:
        return self.partners.right if side else self.partners.left

    def _alone(self, side: int, subject: Subject, node: int, constants: int = 0) -> Change:
        users = self._users(side, node) if subject == "constant" else ()
        return alone(side, subject, self._item(side, node), users, constants)

    def _users(self, side: int, node: int) -> tuple[str, ...]:
        flow = self._flow(side)
        texts = []
        for user, position, _ in flow.uses[node][:_NAMED_USERS]:
            operator = flow.operators[user]
            assert operator is not None
            label = (
                operand_label(operator, position) if position < len(operator.inputs) else "state"
            )
            texts.append(f"{label} of #{flow.positions[user]} {operator.spec.name}")
        if hidden := len(flow.uses[node]) - _NAMED_USERS:
            texts += [f"{hidden} more"] if hidden > 0 else []
        return tuple(texts)

    # -- inputs and variables ----------------------------------------------------------------------

    def _pairs(self, kind: str) -> Iterator[tuple[int, int]]:
        for node, found in enumerate(self.partners.left.kinds):
            if found == kind and self.partners.of_left[node] >= 0:
                yield node, self.partners.of_left[node]

    def _unpaired(self, side: int, kind: str) -> Iterator[int]:
        partners = self.partners.of_right if side else self.partners.of_left
        for node, found in enumerate(self._flow(side).kinds):
            if found == kind and partners[node] < 0:
                yield node

    def _inputs(self) -> Iterator[Change]:
        left, right = self.partners.left, self.partners.right
        pairs = list(self._pairs("input"))
        for one, other in pairs:
            names = left.names[one], right.names[other]
            details = [*type_details("input", left.value(names[0]), right.value(names[1]))]
            # The types of a region's inputs follow those of the operands of what runs it.
            kind: ChangeKind = "changed" if self.is_main or self.compared.names else "retyped"
            if self.compared.names and names[0] != names[1]:
                details.append(Detail("name", *names))
            if details:
                items = self._item(0, one), self._item(1, other)
                yield Change(kind, "input", *items, tuple(details))
        for side in (0, 1):
            for node in self._unpaired(side, "input"):
                yield self._alone(side, "input", node)
        stays = in_order([other for _, other in pairs], [1] * len(pairs))
        for (one, other), kept in zip(pairs, stays, strict=True):
            if not kept:
                places = Detail("position", str(left.positions[one]), str(right.positions[other]))
                yield Change("moved", "input", self._item(0, one), self._item(1, other), (places,))

    def _variables(self) -> Iterator[Change]:
        left, right = self.partners.left, self.partners.right
        for one, other in self._pairs("variable"):
            details = []
            if left.names[one] != right.names[other]:
                details.append(Detail("symbol", left.names[one], right.names[other]))
            names = [flow.result_names(node) for flow, node in ((left, one), (right, other))]
            values = [
                flow.value(found[0]) if found else None
                for flow, found in zip((left, right), names, strict=True)
            ]
            if all(names):
                details += type_details("variable", *values)
                details += data_details("initial value", *values)
                if self.compared.names and names[0] != names[1]:
                    details.append(Detail("name", names[0][0], names[1][0]))
            elif any(names):
                texts = ["declared" if found else "not declared" for found in names]
                details.append(Detail("declaration", texts[0], texts[1]))
            if details:
                items = self._item(0, one), self._item(1, other)
                yield Change("changed", "variable", *items, tuple(details))
        for side in (0, 1):
            for node in self._unpaired(side, "variable"):
                yield self._alone(side, "variable", node)

    # -- operators ---------------------------------------------------------------------------------

    def _operators(self) -> Iterator[tuple[tuple[int, int], Change]]:
        """Iterate over the changes of constants and operators, each with its place among all of them."""
        left, right = self.partners.left, self.partners.right
        folded = self._folded(0), self._folded(1)
        # Constants are compared first: what takes one that changed may be retyped because of it.
        for kind in ("constant", "operator"):
            for one, other in self._pairs(kind):
                change = self._changed_node(one, other)
                if change is not None:
                    yield (left.positions[one], 0), change
            for node in self._unpaired(0, kind):
                if node not in folded[0][1]:
                    change = self._alone(0, _subject(kind), node, folded[0][0].get(node, 0))
                    yield (left.positions[node], 0), change
        before = -1
        for node, found in enumerate(right.kinds):
            partner = self.partners.of_right[node]
            if partner >= 0:
                before = max(left.positions[partner], -1)
            elif found in ("constant", "operator") and node not in folded[1][1]:
                yield (before, 1), self._alone(1, _subject(found), node, folded[1][0].get(node, 0))

    def _folded(self, side: int) -> tuple[dict[int, int], set[int]]:
        """Count the constants that only operators without partners take, at the first of these."""
        flow = self._flow(side)
        partners = self.partners.of_right if side else self.partners.of_left
        counts: dict[int, int] = {}
        folded: set[int] = set()
        for node in self._unpaired(side, "constant"):
            users = flow.uses[node]
            if users and not flow.returned[node] and all(partners[use.node] < 0 for use in users):
                counts[users[0].node] = counts.get(users[0].node, 0) + 1
                folded.add(node)
        return counts, folded

    def _changed_node(self, one: int, other: int) -> Change | None:
        left, right = self.partners.operators(one, other)
        if self.partners.left.kinds[one] == "constant":
            return self._changed_constant(one, other, left, right)
        details = list(operator_details(self.partners, one, other))
        retyped = (
            bool(details)
            and all(row.what.startswith("type of ") for row in details)
            and takes_changed(self.partners, one, other, self._changed)
        )
        details += self._names_and_location(left, right)
        if not details:
            return None
        items = self._item(0, one), self._item(1, other)
        return Change("retyped" if retyped else "changed", "operator", *items, tuple(details))

    def _changed_constant(
        self, one: int, other: int, left: Operator, right: Operator
    ) -> Change | None:
        flows = self.partners.left, self.partners.right
        details: list[Detail] = []
        for names in zip(left.outputs, right.outputs, strict=False):
            values = [flow.value(name) for flow, name in zip(flows, names, strict=True)]
            details += type_details("constant", *values)
            details += data_details("data", *values)
        if left.spec is not right.spec:
            details.append(Detail("operator", left.spec.name, right.spec.name))
        if details:
            self._changed.add(one)
        details += self._names_and_location(left, right)
        if not details:
            return None
        items = self._item(0, one), self._item(1, other)
        return Change("changed", "constant", *items, tuple(details), self._users(0, one))

    def _names_and_location(self, left: Operator, right: Operator) -> Iterator[Detail]:
        if self.compared.names:
            for names in zip(left.outputs, right.outputs, strict=False):
                if names[0] != names[1]:
                    yield Detail("name", *names)
        if self.compared.locations and left.location != right.location:
            yield Detail("location", left.location or "none", right.location or "none")

    def _moves(self) -> Iterator[tuple[tuple[int, int], Change]]:
        if not self.compared.order:
            return
        left, right = self.partners.left, self.partners.right
        pairs = sorted((*self._pairs("operator"), *self._pairs("constant")))
        # As few operators as possible are moved, and then as few constants.
        weights = [1 if left.kinds[one] == "constant" else len(pairs) for one, _ in pairs]
        stays = in_order([right.positions[other] for _, other in pairs], weights)
        moved = [pair for pair, kept in zip(pairs, stays, strict=True) if not kept]
        constants = [pair for pair in moved if left.kinds[pair[0]] == "constant"]
        for one, other in moved:
            if left.kinds[one] != "constant":
                yield (left.positions[one], 0), self._moved("operator", one, other)
        if constants:
            one, other = constants[0]
            change = self._moved("constant", one, other, len(constants) - 1)
            yield (left.positions[one], 0), change

    def _moved(self, subject: Subject, one: int, other: int, further: int = 0) -> Change:
        left, right = self.partners.left, self.partners.right
        place = Detail("position", str(left.positions[one]), str(right.positions[other]))
        items = self._item(0, one), self._item(1, other)
        return Change("moved", subject, *items, (place,), (), further)

    # -- outputs -----------------------------------------------------------------------------------

    def _outputs(self) -> Iterator[Change]:
        partners = self.partners
        left, right = partners.left.outputs, partners.right.outputs
        if self.compared.names:
            names = partners.left.block.outputs, partners.right.block.outputs
            for index, pair in enumerate(zip(*names, strict=False)):
                if pair[0] != pair[1]:
                    yield self._output(index, Detail("name", *pair))
        if len(left) == len(right):
            for index, (one, other) in enumerate(zip(left, right, strict=True)):
                if not partners.same(one, other) and not partners.follows(one, other):
                    texts = edge_text(partners.left, one), edge_text(partners.right, other)
                    yield self._output(index, Detail("value", *texts))
            return
        yield from self._output_numbers()

    def _output_numbers(self) -> Iterator[Change]:
        """Iterate over the outputs that only one block has."""
        partners = self.partners
        left = [(partners.of_left[node], result) for node, result in partners.left.outputs]
        right = [(node, result) for node, result in partners.right.outputs]
        for side, (values, others) in enumerate(((left, right), (right, left))):
            waiting = Counter(others)
            for index, value in enumerate(values):
                if waiting[value]:
                    waiting[value] -= 1
                else:
                    yield alone(side, "output", self._output_item(side, index))

    def _output(self, index: int, detail: Detail) -> Change:
        items = self._output_item(0, index), self._output_item(1, index)
        return Change("changed", "output", *items, (detail,))

    def _output_item(self, side: int, index: int) -> Item:
        flow = self._flow(side)
        name = flow.block.outputs[index]
        text = f"{value_text(name, None)}: {type_text(flow.value(name))}"
        return self._made(side, index, name, (name,), text)


def in_order(values: Sequence[int], weights: Sequence[int]) -> list[bool]:
    """Find which elements belong to the heaviest increasing subsequence.

    Example:
        >>> in_order([2, 0, 1], [1, 1, 1])
        [False, True, True]
        >>> in_order([2, 0, 1], [5, 1, 1])
        [True, False, False]
    """
    if all(one < other for one, other in pairwise(values)):
        return [True] * len(values)
    ranks = {value: rank for rank, value in enumerate(sorted(values))}
    # A Fenwick tree of the heaviest subsequence that ends with a value: its weight and last element.
    tree: list[tuple[int, int]] = [(0, -1)] * (len(values) + 1)
    before: list[int] = []
    for index, value in enumerate(values):
        best = (0, -1)
        slot = ranks[value]
        while slot > 0:
            if tree[slot][0] > best[0]:
                best = tree[slot]
            slot -= slot & -slot
        before.append(best[1])
        entry = (best[0] + weights[index], index)
        slot = ranks[value] + 1
        while slot < len(tree):
            if entry[0] > tree[slot][0]:
                tree[slot] = entry
            slot += slot & -slot
    chosen = [False] * len(values)
    index = max(tree, key=lambda entry: entry[0])[1]
    while index >= 0:
        chosen[index] = True
        index = before[index]
    return chosen


def _subject(kind: str) -> Subject:
    return "constant" if kind == "constant" else "operator"
