"""Differences of programs with regions: what is in them, and how they correspond."""

from __future__ import annotations

import copy

from unit.building import branching, op, region, tensor
from unit.graph.test_compare import renamed
from unit.views.test_diff import texts

import tosa_convert as tc


def test_an_operator_in_a_region_is_named_with_its_region() -> None:
    other = renamed(branching())
    other.regions[1].blocks[0].operators[0] = op("TANH", "n.a", "n.b")
    (change,) = tc.diff(branching(), other)
    assert change.left is not None
    assert (change.left.region, change.left.name) == ("then", "EXP")


def test_exchanged_regions_are_found_at_the_operator_that_runs_them() -> None:
    other = branching()
    other.main.operators[0].attributes = {"then_graph": "else", "else_graph": "then"}
    assert tc.diff(branching(), renamed(other))


def test_the_order_of_regions_does_not_matter() -> None:
    other = branching()
    other.regions[1:] = other.regions[:0:-1]
    assert not tc.diff(branching(), other, names=True, locations=True)
    assert not tc.diff(branching(), renamed(copy.deepcopy(other)))
    other.regions[2].blocks[0].operators[0] = op("TANH", "a", "b")
    (change,) = tc.diff(branching(), other)
    assert change.left is not None
    assert (change.left.region, change.left.name) == ("then", "EXP")


def test_copies_of_a_region_are_named_only_if_names_are_compared() -> None:
    shared, copied = branching(), branching()
    shared.main.operators[0].attributes["else_graph"] = "then"
    del shared.regions[2]
    values = [tensor("a"), tensor("b")]
    copied.regions[2] = region("else", "a", "b", values, [op("EXP", "a", "b")])
    assert not tc.diff(shared, copied)
    operator = "changed operator #0 COND_IF: attribute else_graph:"
    assert texts(shared, copied, names=True) == [
        f'{operator} "then" -> "else"',
        "added region else",
    ]
    assert texts(copied, shared, names=True) == [
        f'{operator} "else" -> "then"',
        "removed region else",
    ]


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


def test_a_region_that_only_one_program_has_is_named() -> None:
    other = branching()
    other.regions.append(region("more", "a", "a", [tensor("a")], []))
    assert texts(branching(), other) == ["added region more"]
    assert texts(other, branching()) == ["removed region more"]
