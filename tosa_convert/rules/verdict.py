"""The verdict on one operator: what TOSA forbids, and the shapes of its results."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.records import NamedTuple
from tosa_convert.rules.families import rules_of
from tosa_convert.rules.families.core import ResultShape, Violation, dashed, result_violations
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.types import Element, mismatch
from tosa_convert.rules.values import ShapeType, TensorType, ValueType


class Verdict(NamedTuple):
    """violations: what does not hold. results: the shapes of all results; None if one cannot follow."""

    violations: tuple[Violation, ...]
    results: tuple[ResultShape, ...] | None


def judge(view: OperatorView) -> Verdict:
    """Return all independent violations of an operator, its declared results included."""
    violations, results = judge_shapes(view)
    return Verdict((*_type_violations(view), *_size_violations(view), *violations), results)


def judge_shapes(view: OperatorView) -> Verdict:
    """Return what the operator's rules say of shapes, attributes and values, whatever its types."""
    rules = rules_of(view.spec)
    violations = [found for check in rules.ranks for found in check(view)]
    if not violations:
        violations = [found for check in rules.checks for found in check(view)]
    if violations:
        return Verdict(tuple(violations), None)
    results = rules.infer(view)
    if not view.outputs:
        return Verdict((), results)
    return Verdict(tuple(result_violations(view, results, rules.dimensions)), results)


def _type_violations(view: OperatorView) -> Iterator[Violation]:
    """Report what is wrong with the element types, if operands are there and results declared."""
    complete = (view.inputs or not view.spec.operands) and (view.outputs or not view.spec.results)
    if complete:
        found = mismatch(
            view.spec,
            tuple(map(element_of, view.inputs)),
            tuple(map(element_of, view.outputs)),
            view.attributes,
        )
        if found is not None:
            yield Violation(*found)


def _size_violations(view: OperatorView) -> Iterator[Violation]:
    """No tensor is empty."""
    for row, value in (*view.operands(), *view.results()):
        if isinstance(value, TensorType) and value.shape is not None and 0 in value.shape:
            yield Violation(
                f"{dashed(row.name)}-size", f"{row.name} is {value}", "sizes of 1 or more"
            )


def element_of(value: ValueType) -> Element:
    """Return the element type, of a block-scaled tensor with that of its scales.

    None for a !tosa.shape.
    """
    if isinstance(value, ShapeType):
        return None
    return value.dtype if value.scale is None else (value.dtype, value.scale[0])
