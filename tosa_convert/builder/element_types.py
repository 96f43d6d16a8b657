"""Element types that follow from the types that operators take together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.rules.families.core import Violation
from tosa_convert.rules.types import Element, TypeRow, mismatch, rows, rows_for

#: The type of an operand that is given as numbers, before it is known.
UNKNOWN: Final = "unknown"
#: An element type, or UNKNOWN.
Known = Element | str


def choices_of_operand(
    spec: OperatorSpec,
    operands: Sequence[Known],
    position: int,
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> tuple[DType, ...]:
    """Return the element types that an array can have as an operand, the earliest version's first.

    Args:
        spec: The operator.
        operands: The types of its tensor operands, UNKNOWN for numbers.
        position: Which of them to find the type of.
        attributes: The attributes that are known.
        results: The types of the first results, as far as they are asked for.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> byte = dtype("INT8")
        >>> operands = [byte, byte, UNKNOWN, UNKNOWN, UNKNOWN]
        >>> choices_of_operand(operator("CONV2D"), operands, 2, {}, ())
        (INT32,)
    """
    found = _rows_with(spec, tuple(operands), _selectors(spec, attributes), tuple(results))
    types = (_operand(row, position) for row in sorted(found, key=lambda row: row.since))
    return tuple(dict.fromkeys(type_ for type_ in types if isinstance(type_, DType)))


def result_rows(
    spec: OperatorSpec,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> list[TypeRow]:
    """Return the rows that have the types of all operands, and those that are asked for of results."""
    found = rows_for(spec, operands, attributes)
    if not results:
        return found
    count, wanted = len(results), tuple(results)
    exact = [row for row in found if row.results[:count] == wanted]
    return exact or [row for row in found if _starts_with(row.results, wanted)]


def type_violation(
    spec: OperatorSpec,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> Violation:
    """Describe what is wrong with types of which no row has all."""
    tensors = [element for element in operands if element is not None]
    likely = [row for row in rows(spec) if len(row.operands) == len(tensors)]
    if not likely:
        likely = list(rows(spec))
    best = max(likely, key=lambda row: _agreement(row, tensors, attributes, results))
    wanted = [*results, *best.results[len(results) :]]
    found = iter(wanted)
    declared = [None if row.is_shape else next(found, None) for row in spec.results]
    known = dict(attributes)
    if best.attribute is not None:
        known.setdefault(*best.attribute)
    wrong = mismatch(spec, operands, declared[: max(len(best.results), 1)], known)
    assert wrong is not None
    return Violation(*wrong)


def plain(element: Element) -> DType | None:
    """Return the element type of a tensor, without that of its scales."""
    return element[0] if isinstance(element, tuple) else element


def element_text(element: Element) -> str:
    """Return an element type as messages show it."""
    return f"block-scaled {element[0]}" if isinstance(element, tuple) else str(element)


def _selectors(spec: OperatorSpec, attributes: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the attributes that belong to types, as rows of types have them."""
    names = _selector_names(spec)
    return tuple(
        (name, str(getattr(value, "name", value)))
        for name, value in attributes.items()
        if name in names
    )


@cache
def _selector_names(spec: OperatorSpec) -> frozenset[str]:
    return frozenset(row.attribute[0] for row in rows(spec) if row.attribute is not None)


@lru_cache(maxsize=1024)
def _rows_with(
    spec: OperatorSpec,
    operands: tuple[Known, ...],
    attributes: tuple[tuple[str, str], ...],
    results: tuple[Element, ...],
) -> tuple[TypeRow, ...]:
    known = dict(attributes)
    return tuple(
        row
        for row in rows(spec)
        if len(row.operands) == len(operands)
        and all(one in (UNKNOWN, other) for one, other in zip(operands, row.operands, strict=True))
        and (
            row.attribute is None
            or known.get(row.attribute[0], row.attribute[1]) == row.attribute[1]
        )
        and _starts_with(row.results, results)
    )


def _starts_with(found: Sequence[Element], wanted: Sequence[Element]) -> bool:
    return len(wanted) <= len(found) and all(
        one in (other, plain(other)) for one, other in zip(wanted, found, strict=False)
    )


def _operand(row: TypeRow, position: int) -> Element:
    return row.operands[position]


def _agreement(
    row: TypeRow,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> tuple[int, bool, bool, tuple[bool, ...]]:
    """Measure how well a row fits.

    In order: how many of its operands, its attribute, its results, the first ones.
    """
    name, value = row.attribute or ("", "")
    given = attributes.get(name)
    fits = given is None or str(getattr(given, "name", given)) == value
    same = tuple(one == other for one, other in zip(operands, row.operands, strict=False))
    return sum(same), fits, _starts_with(row.results, results), same
