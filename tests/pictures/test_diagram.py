"""What a diagram has: boxes, groups by scope and region, and lines between groups."""

from __future__ import annotations

import pytest
from pictures.programs import network
from unit.building import branching, example, graph, op, tensor

from tosa_convert.graph import Graph
from tosa_convert.views.pictures.diagram import Diagram, build_diagram, scopes_of


def titles(diagram: Diagram, group: int = 0) -> list[str]:
    """Return the items of a group; a group in brackets."""
    return [
        diagram.nodes[item].title if item >= 0 else f"[{diagram.groups[~item].label}]"
        for item in diagram.groups[group].items
    ]


def test_constants_are_lines_in_the_boxes_of_their_users() -> None:
    diagram = build_diagram(example(), "auto")
    assert titles(diagram) == ["x", "ADD", "REDUCE_SUM", "RESHAPE", "y"]
    assert diagram.nodes[1].lines == ["input2 2×3 FP32"]
    assert diagram.nodes[3].lines == ["shape 3"]


def test_a_region_that_two_operators_run_is_shown_once() -> None:
    made = branching()
    made.main.operators.append(op("COND_IF", "c x", "z", then_graph="then", else_graph="else"))
    made.main.tensors["z"] = tensor("z")
    made.main.outputs.append("z")
    diagram = build_diagram(made, "auto")
    assert titles(diagram) == ["c", "x", "[COND_IF]", "COND_IF", "y", "z"]


def named(*names: str, locations: bool = False) -> Graph:
    """Return a chain of operators whose results, or else locations, have these names."""
    values = [f"layer_{number}" for number in range(len(names))] if locations else list(names)
    rows = []
    for before, name, text in zip(["x", *values], values, names, strict=False):
        rows.append(op("ABS", before, name, f'loc("{text}"("f.py":1:2))' if locations else ""))
    return graph("x", values[-1], [tensor(name) for name in ("x", *values)], rows)


@pytest.mark.parametrize("locations", [False, True])
def test_scopes_come_from_names_or_from_names_in_locations(locations: bool) -> None:
    made = named("m/a/x", "m/a/y", "m/b/x", "m/b/y", locations=locations)
    expected = [("a",), ("a",), ("b",), ("b",)]
    assert scopes_of(made.main, "auto") == expected
    assert scopes_of(made.main, "locations" if locations else "names") == expected
    assert scopes_of(made.main, "names" if locations else "locations") == [()] * 4
    assert scopes_of(made.main, "none") == [()] * 4


def test_numbers_that_tell_equal_names_apart_are_no_scope() -> None:
    made = named("input.1", "y.1", "input.25_transform", "y.2", "layers.0.conv", "layers.1")
    assert scopes_of(made.main, "names") == [(), (), (), (), ("layers", "0"), ()]


@pytest.mark.slow
def test_large_programs_open_with_closed_groups_and_in_ranges() -> None:
    diagram = build_diagram(network(5000, scoped=True), "auto")
    assert sum(len(group.items) for group in diagram.groups if group.is_open) < 1000
    diagram = build_diagram(network(21_000), "auto")
    assert titles(diagram)[:2] == ["[0 to 999]", "[1,000 to 1,999]"]
    assert len(diagram.groups) == 1 + 22
