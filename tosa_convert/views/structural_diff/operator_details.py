"""What differs between two nodes that are partners: operators, attributes, operands, types and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Operator, ShapeValue, Tensor, element_value, value_text
from tosa_convert.graph.opset import AttributeSpec
from tosa_convert.records import dataclass
from tosa_convert.views.structural_diff.changes import Detail
from tosa_convert.views.structural_diff.dataflow import STATE, Edge, Flow
from tosa_convert.views.structural_diff.element_difference import element_difference
from tosa_convert.views.structural_diff.keys import attribute_key

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
        """Return the operators of two nodes, which must have them."""
        left, right = self.left.operators[one], self.right.operators[other]
        assert left is not None
        assert right is not None
        return left, right

    def same(self, one: Edge, other: Edge) -> bool:
        """Return whether two values correspond."""
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
    """Iterate over how the types of two values differ."""
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
    """Iterate over how the data of two constants or variables differs."""
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
    """Return an operand's name, with its position if there can be several of that name.

    Of a wrong number of operands, return the position.
    """
    if not operator.spec.takes(len(operator.inputs), len(operator.outputs)):
        return f"#{position}"
    row = operator.spec.operand(position, len(operator.inputs))
    return f"{row.name}[{position}]" if row.arity == "*" else row.name


def edge_text(flow: Flow, edge: Edge) -> str:
    """Return a value and what makes it."""
    operator = flow.operators[edge.node]
    if operator is None:
        return f"{flow.kinds[edge.node]} {_cut(flow.names[edge.node])}"
    place = f"#{flow.positions[edge.node]} {operator.spec.name}"
    if edge.result == STATE:
        return f"the variable after {place}"
    return f"{_cut(operator.outputs[edge.result])} of {place}"


def _cut(name: str) -> str:
    return value_text(name, None)


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
