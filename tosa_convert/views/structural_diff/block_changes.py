"""The changes of two aligned blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Operator, ShapeValue, Tensor, element_value, value_text
from tosa_convert.graph.opset import AttributeSpec
from tosa_convert.views.structural_diff.changes import (
    Change,
    ChangeKind,
    Detail,
    Item,
    Subject,
    alone,
    element_difference,
)
from tosa_convert.views.structural_diff.dataflow import STATE, Edge, Flow, attribute_key

# -- what differs between two partners: attributes, operands, types and data -----------------------

#: Constants up to this number of elements are shown with their values.
_SHOWN_ELEMENTS: Final = 8
#: Operators that are followed to see whether an operand changed because of what was added or removed.
_FOLLOWED: Final = 1000

Value = Tensor | ShapeValue | None


@dataclass(frozen=True, slots=True)
class Partners:
    """Two aligned blocks: the partner of each node in the other one, or -1, and that of each region."""

    left: Flow
    right: Flow
    of_left: list[int]
    of_right: list[int]
    regions: Mapping[str, str]

    def operators(self, one: int, other: int) -> tuple[Operator, Operator]:
        left, right = self.left.operators[one], self.right.operators[other]
        assert left is not None
        assert right is not None
        return left, right

    def same(self, one: Edge, other: Edge) -> bool:
        return self.of_left[one.node] == other.node and one.result == other.result

    def follows(self, one: Edge, other: Edge) -> bool:
        """Return whether a value was replaced as operators were added or removed in front of its use."""
        partner = self.of_left[one.node]
        other_partner = self.of_right[other.node]
        if partner < 0 and other_partner < 0:
            return True
        if partner < 0:
            return _leads_to(self.left, self.of_left, one.node, other_partner)
        return other_partner < 0 and _leads_to(self.right, self.of_right, other.node, partner)


def _leads_to(flow: Flow, partners: list[int], start: int, target: int) -> bool:
    """Return whether a node depends on another through nodes without partners only."""
    waiting, seen = [start], {start}
    while waiting and len(seen) < _FOLLOWED:
        node = waiting.pop()
        for producer, _ in flow.operands[node]:
            if producer == target:
                return True
            if partners[producer] < 0 and producer not in seen:
                seen.add(producer)
                waiting.append(producer)
    return bool(waiting)


# -- types and data --------------------------------------------------------------------------------


def same_type(one: Value, other: Value) -> bool:
    """Return whether two values have the same kind, element type, shape and block scale."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.dtype is not other.dtype or one.shape != other.shape:
            return False
        scales = one.scale, other.scale
        if scales[0] is None or scales[1] is None:
            return scales[0] is scales[1]
        return scales[0].dtype is scales[1].dtype and scales[0].shape == scales[1].shape
    if isinstance(one, ShapeValue) and isinstance(other, ShapeValue):
        return one.rank == other.rank
    return one is None and other is None


def type_text(value: Value) -> str:
    """Return a value's type in a few words, without the sizes that a constant shape holds."""
    if value is None:
        return "undefined"
    if isinstance(value, ShapeValue):
        return f"shape of rank {value.rank}"
    return value.type_text()


def type_details(what: str, one: Value, other: Value) -> Iterator[Detail]:
    if not same_type(one, other):
        left, right = type_text(one), type_text(other)
        if left == right:
            # The text of a long shape has no end, and that of a scale has no type.
            left, right = (_full_type(value) for value in (one, other))
        yield Detail(f"type of {what}", left, right)


def _full_type(value: Value) -> str:
    if not isinstance(value, Tensor):
        return type_text(value)
    shape = "unranked" if value.shape is None else str(list(value.shape))
    scale = value.scale and f" scaled by {value.scale.dtype}"
    return f"{value.dtype} {shape}{scale or ''}"


def data_details(what: str, one: Value, other: Value) -> Iterator[Detail]:
    if one is None or other is None or isinstance(one, Tensor) != isinstance(other, Tensor):
        return
    yield from _data(what, one.data, other.data)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        scales = [None if t.scale is None else t.scale.data for t in (one, other)]
        yield from _data(f"{what} of the scales", scales[0], scales[1])


def _data(what: str, one: Constant | None, other: Constant | None) -> Iterator[Detail]:
    if one is None or other is None:
        # In a file, a constant without elements looks like one without data.
        if any(data is not None and data.count for data in (one, other)):
            yield Detail(what, _data_text(one), _data_text(other))
    elif one.dtype is not other.dtype or one.count != other.count:
        yield Detail(what, _data_text(one), _data_text(other))
    else:
        found = element_difference(one, other)
        if found is not None:
            yield Detail(what, _data_text(one), _data_text(other), found)


def _data_text(data: Constant | None) -> str:
    if data is None:
        return "no data"
    if data.count > _SHOWN_ELEMENTS:
        return f"{data.count} x {data.dtype}"
    values = data.numpy()
    numbers = values.astype(float) if data.dtype.is_float else values.astype(int)
    return str([float(f"{n:.9g}") if data.dtype.is_float else int(n) for n in numbers])


# -- operators -------------------------------------------------------------------------------------


def operator_details(partners: Partners, one: int, other: int) -> Iterator[Detail]:
    """Iterate over how two operators differ: in what they are, their attributes, and what they take."""
    left, right = partners.operators(one, other)
    if left.spec is not right.spec:
        yield Detail("operator", left.spec.name, right.spec.name)
    for what, counts in (
        ("operands", (len(left.inputs), len(right.inputs))),
        ("results", (len(left.outputs), len(right.outputs))),
    ):
        if counts[0] != counts[1]:
            yield Detail(f"number of {what}", str(counts[0]), str(counts[1]))
    yield from _attribute_details(partners, one, other)
    yield from _operand_details(partners, one, other)
    for index, names in enumerate(zip(left.outputs, right.outputs, strict=False)):
        row = left.spec.result(index, len(left.outputs)).name if left.spec.results else "variable"
        values = partners.left.value(names[0]), partners.right.value(names[1])
        yield from type_details(row, *values)


def _attribute_details(partners: Partners, one: int, other: int) -> Iterator[Detail]:
    left, right = partners.operators(one, other)
    rows = {row.name: row for row in left.spec.attributes}
    others = {row.name: row for row in right.spec.attributes}
    for name in dict.fromkeys((*rows, *others)):
        row, other_row = rows.get(name), others.get(name)
        if row is not None and other_row is not None:
            keys = (
                attribute_key(partners.left, one, row),
                attribute_key(partners.right, other, other_row),
            )
            if row.kind == "region":
                expected = partners.regions.get(str(keys[0]))
                if expected is not None and expected == str(keys[1]):
                    continue
            elif keys[0] == keys[1]:
                continue
        yield Detail(
            f"attribute {name}",
            _attribute_text(partners.left, left, row),
            _attribute_text(partners.right, right, other_row),
        )


def _attribute_text(flow: Flow, operator: Operator, row: AttributeSpec | None) -> str:
    value = None if row is None else operator.attributes.get(row.name)
    if value is None:
        return "none"
    element = None
    if row is not None and row.kind == "element" and operator.inputs:
        operand = flow.block.tensors.get(operator.inputs[0])
        element = None if operand is None else operand.dtype
    if isinstance(value, bytes) and element is not None and len(value) >= element.element_bytes:
        # In hexadecimal, too, which distinguishes NaNs.
        raw = value[: element.element_bytes]
        number = element_value(raw, element)
        text = f"{number:.9g}" if isinstance(number, float) else str(number)
        return f"{text} (0x{raw[::-1].hex()})"
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, bytes) and len(value) > 16:
        return f"{len(value)} bytes, 0x{value[:16].hex()}..."
    return value_text(value, None)


def _operand_details(partners: Partners, one: int, other: int) -> Iterator[Detail]:
    operands, others = partners.left.operands[one], partners.right.operands[other]
    left, right = partners.operators(one, other)
    if len(left.inputs) != len(right.inputs):
        return
    for position, (edge, other_edge) in enumerate(zip(operands, others, strict=False)):
        if not partners.same(edge, other_edge) and not partners.follows(edge, other_edge):
            yield Detail(
                _operand_name(left, position),
                edge_text(partners.left, edge),
                edge_text(partners.right, other_edge),
            )
    if len(operands) != len(others):
        yield Detail("number of variables", str(len(operands)), str(len(others)))


def _operand_name(operator: Operator, position: int) -> str:
    if position >= len(operator.inputs):
        return "state of a variable"
    return f"operand {operand_label(operator, position)}"


def operand_label(operator: Operator, position: int) -> str:
    """Return an operand's name, with its position if several have it, or the position alone."""
    if not operator.spec.takes(len(operator.inputs), len(operator.outputs)):
        return f"#{position}"
    row = operator.spec.operand(position, len(operator.inputs))
    return f"{row.name}[{position}]" if row.arity == "*" else row.name


def edge_text(flow: Flow, edge: Edge) -> str:
    operator = flow.operators[edge.node]
    if operator is None:
        return f"{flow.kinds[edge.node]} {value_text(flow.names[edge.node], None)}"
    place = f"#{flow.positions[edge.node]} {operator.spec.name}"
    if edge.result == STATE:
        return f"the variable after {place}"
    return f"{value_text(operator.outputs[edge.result], None)} of {place}"


def takes_changed(partners: Partners, one: int, other: int, changed: set[int]) -> bool:
    """Return whether an operand has another type, is another value, or a constant that changed."""
    left, right = partners.left, partners.right
    for edge, other_edge in zip(left.operands[one], right.operands[other], strict=False):
        if edge.node in changed or not partners.same(edge, other_edge):
            return True
        values = (_edge_value(left, edge), _edge_value(right, other_edge))
        if not same_type(*values):
            return True
    return False


def _edge_value(flow: Flow, edge: Edge) -> Value:
    names = flow.result_names(edge.node)
    return flow.value(names[edge.result]) if 0 <= edge.result < len(names) else None


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
    """Find which elements belong to the heaviest increasing subsequence."""
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
