"""Differences of programs with regions: what is in them, and how they correspond."""

from __future__ import annotations

from unit.building import branching, op, region, tensor
from unit.graph.test_compare import renamed

import tosa_convert as tc


def test_exchanged_regions_are_found_at_the_operator_that_runs_them() -> None:
    other = branching()
    other.main.operators[0].attributes = {"then_graph": "else", "else_graph": "then"}
    assert tc.diff(branching(), renamed(other))


def test_regions_that_no_operator_runs_have_moved_in_another_order() -> None:
    made, other = branching(), branching()
    for graph_, names in ((made, "pq"), (other, "qp")):
        for name in names:
            values = [tensor("a"), tensor("b")]
            operator = op("EXP" if name == "p" else "ABS", "a", "b")
            graph_.regions.append(region(name, "a", "b", values, [operator]))
    found = tc.diff(made, renamed(other))
    assert {(change.kind, change.subject) for change in found} == {("moved", "region")}
    assert not tc.diff(made, other, order=False)
