"""The verdict on one operator: what TOSA forbids, and the shapes of its results."""

from __future__ import annotations

from typing import NamedTuple

from tosa_convert.spec.operator_view import OperatorView
from tosa_convert.spec.rules import rules_of
from tosa_convert.spec.rules.core import ResultShape, Violation, result_violations


class Verdict(NamedTuple):
    """violations: what does not hold. results: the shapes of all results; None if one cannot follow."""

    violations: tuple[Violation, ...]
    results: tuple[ResultShape, ...] | None


def judge(view: OperatorView) -> Verdict:
    """All independent violations of an operator, its declared results included."""
    rules = rules_of(view.spec.name)
    violations = [found for check in rules.ranks for found in check(view)]
    if not violations:
        violations = [found for check in rules.checks for found in check(view)]
    if violations:
        return Verdict(tuple(violations), None)
    results = rules.infer(view)
    if not view.outputs:
        return Verdict((), results)
    return Verdict(tuple(result_violations(view, results, rules.dimensions)), results)
