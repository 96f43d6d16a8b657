"""The element types that each operator takes together, and what each combination needs.

The rows of operators say it. Of a tensor a type is the element type, of a block-scaled tensor also that
of its scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.records import NamedTuple
from tosa_convert.rules.type_forms import Element, Form, Key, Need, Slot, TypeRow, forms

__all__ = ["Element", "Need", "TypeMismatch", "TypeRow", "match", "mismatch", "rows", "rows_for"]

#: How many operands a message lists.
_LISTED: Final = 8


class TypeMismatch(NamedTuple):
    """Why no row of an operator has its types.

    rule: what is wrong: "input1-type" of an operand, "output-type" of a result, "acc-type" of an
        attribute, "input-list" of operands that differ or are too many.
    message: what was found. expected: what would be right.
    """

    rule: str
    message: str
    expected: str


@cache
def rows(spec: OperatorSpec) -> tuple[TypeRow, ...]:
    """Return all rows of an operator.

    Example:
        >>> from tosa_convert.graph.opset import operator
        >>> for row in rows(operator("TABLE")):
        ...     print(row.operands, row.results, sorted(row.needs[0].names))
        (INT8, INT8) (INT8,) ['PRO-INT']
        (INT16, INT16) (INT32,) ['EXT-INT16', 'PRO-INT']
    """
    return tuple(row for form in forms(spec) for row in form.rows.values())


def match(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeRow | None:
    """Return the row that has the types of an operator.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> half, full = dtype("FP16"), dtype("FP32")
        >>> match(operator("ADD"), (half, half), (half,), {}).since
        (1, 0)
        >>> match(operator("ADD"), (half, full), (half,), {}) is None
        True
    """
    for form in forms(spec):
        if form.accepts(attributes):
            key = form.key(inputs, outputs, attributes)
            row = None if key is None else form.rows.get(key)
            if row is not None:
                return row
    return None


def rows_for(
    spec: OperatorSpec, inputs: Sequence[Element], attributes: Mapping[str, object]
) -> list[TypeRow]:
    """Return the rows that have the types of an operator's operands, whatever its results are.

    attributes: those that are known; one that is missing may have any value.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> half = dtype("FP16")
        >>> [row.results for row in rows_for(operator("MATMUL"), (half,) * 4, {})]
        [(FP16,), (FP32,)]
    """
    return [
        row
        for form in forms(spec)
        if form.accepts(attributes)
        for row in form.rows_for(inputs, attributes)
    ]


def mismatch(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeMismatch | None:
    """Return why `match` finds no row, or None if it finds one.

    If the operands have types that the operator takes, what is wrong is an attribute or a result;
    else it is an operand.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> byte, full = dtype("INT8"), dtype("FP32")
        >>> found = mismatch(operator("ADD"), (byte, full), (full,), {})
        >>> found.rule, found.message, found.expected
        ('input1-type', 'input1 is INT8 with input2 FP32 and output FP32', 'FP32')
    """
    matching = [form for form in forms(spec) if form.accepts(attributes)]
    keys = [(form, form.key(inputs, outputs, attributes)) for form in matching]
    if any(key is not None and form.has(key) for form, key in keys):
        return None
    for form, key in keys:
        if key is not None:
            return _wrong_slot(form, form.slots(inputs, outputs), key)
    if any(form.has_operands(inputs) for form in matching):
        found = ", ".join(map(element_text, outputs[:_LISTED])) or "missing"
        name = spec.results[0].name if spec.results else "output"
        return TypeMismatch(f"{_dashed(name)}-list", f"the results are {found}", "other results")
    return _wrong_list(spec, inputs)


def _wrong_list(spec: OperatorSpec, inputs: Sequence[Element]) -> TypeMismatch:
    """Operands of a list that differ, or a number of operands that no row has."""
    tensors = [element for element in inputs if element is not None]
    expected = "equal types" if tensors else "at least one tensor"
    if not any(row.arity == "*" for row in spec.operands):
        expected = "other operands"
    found = f"the operands are {', '.join(map(element_text, inputs[:_LISTED]))}"
    if not inputs:
        found = "there are no operands"
    name = spec.operands[0].name if spec.operands else "input"
    return TypeMismatch(f"{_dashed(name)}-list", found, expected)


def _wrong_slot(form: Form, slots: list[Slot], key: Key) -> TypeMismatch:
    """Find the part of a key that fits least to the others."""
    operands = [index for index, slot in enumerate(slots) if slot.kind == "operand"]
    others = [index for index, slot in enumerate(slots) if slot.kind != "operand"]
    keys = list(form.rows)
    with_operands = _having(keys, key, operands)
    if with_operands:
        index, expected = _first_repair(with_operands, key, others)
    else:
        index, expected = _first_repair(keys, key, operands, fixed=others)
    slot = slots[index]
    values = _listed(expected)
    context = " and ".join(
        f"{other.name} {element_text(key[position])}"
        for position, other in enumerate(slots)
        if position != index
    )
    message = f"{slot.name} is {element_text(key[index])}" + (f" with {context}" if context else "")
    return TypeMismatch(f"{_dashed(slot.name).removesuffix('-type')}-type", message, values)


def _having(keys: Iterable[Key], key: Key, positions: Iterable[int]) -> list[Key]:
    """Return the keys that have the same types in some positions."""
    places = list(positions)
    return [row for row in keys if all(row[place] == key[place] for place in places)]


def _first_repair(
    keys: list[Key], key: Key, positions: list[int], fixed: list[int] | None = None
) -> tuple[int, set[Element | str]]:
    """Find the position to change, and the types that it may have instead.

    The first position whose change alone makes a row; else the first at which no row has the same
    beginning.
    """
    for position in positions:
        rest = [other for other in (*positions, *(fixed or ())) if other != position]
        found = _having(keys, key, rest)
        if found:
            return position, {row[position] for row in found}
    for count, position in enumerate(positions):
        beginning = _having(keys, key, positions[:count])
        if not _having(beginning, key, [position]):
            return position, {row[position] for row in beginning}
    raise AssertionError("a key of which each beginning is a row's is a row")


def element_text(element: Element | str) -> str:
    """Return an element type as messages show it."""
    if element is None:
        return "!tosa.shape"
    return f"block-scaled {element[0]}" if isinstance(element, tuple) else str(element)


def _listed(elements: Iterable[Element | str]) -> str:
    return " or ".join(sorted({element_text(element) for element in elements}, key=_order))


def _order(text: str) -> tuple[bool, int, str]:
    name = text.rpartition(" ")[2]
    return " " in text, dtype(name).code, text


def _dashed(name: str) -> str:
    return name.lower().replace("_", "-")
