"""What a diagram has: boxes, groups by scope and region, and lines between groups."""

from __future__ import annotations

import pytest
from pictures.programs import network
from unit.building import branching, example, graph, op, tensor

from tosa_convert.graph import OPERATORS, Graph
from tosa_convert.views.pictures.diagram import ENTRY, EXIT, Diagram, build_diagram, scopes_of
from tosa_convert.views.pictures.html_page import asset
from tosa_convert.views.pictures.static_formats import COLORS, FAMILIES, family_of


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


def test_a_constant_that_is_an_output_or_unused_has_a_box() -> None:
    values = [tensor("w", data=bytes(24)), tensor("v", data=bytes(24))]
    made = graph("", "w", values, [op("CONST", "", "w"), op("CONST", "", "v")])
    assert titles(build_diagram(made, "auto")) == ["CONST", "CONST", "w"]


def test_regions_are_groups_in_the_operator_that_runs_them() -> None:
    diagram = build_diagram(branching(), "auto")
    assert titles(diagram) == ["c", "x", "[COND_IF]", "y"]
    assert titles(diagram, 1) == ["[then: then]", "[else: else]"]
    assert titles(diagram, 2) == ["a", "EXP", "b"]
    assert diagram.groups[1].operators == 1, "the operator itself is in the group around it"


def test_a_region_that_two_operators_run_is_shown_once() -> None:
    made = branching()
    made.main.operators.append(op("COND_IF", "c x", "z", then_graph="then", else_graph="else"))
    made.main.tensors["z"] = tensor("z")
    made.main.outputs.append("z")
    diagram = build_diagram(made, "auto")
    assert titles(diagram) == ["c", "x", "[COND_IF]", "COND_IF", "y", "z"]


def test_scopes_are_nested_groups() -> None:
    diagram = build_diagram(network(128, scoped=True), "auto")
    assert titles(diagram) == ["x", "[stage_0]", "[stage_1]", f"{diagram.values[-1].name}"]
    blocks = titles(diagram, ~diagram.groups[0].items[1])
    assert blocks == [f"[block_{number}]" for number in range(8)]
    assert sum(group.operators for group in diagram.groups if group.label == "stage_0") == 64


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


def test_an_operator_without_a_name_is_in_the_scope_of_its_users() -> None:
    made = named("a/x", "layer_1", "b/x", "b/y")
    assert scopes_of(made.main, "names") == [("a",), ("b",), ("b",), ("b",)]


def test_lines_leave_and_enter_the_groups_between_two_operators() -> None:
    diagram = build_diagram(named("a/x", "a/y", "b/x", "b/y"), "names")
    first, second = (~item for item in diagram.groups[0].items if item < 0)
    lines = {(group, start, end) for group, start, end, _ in diagram.connections()}
    x, y = diagram.groups[first].items
    assert (first, x, y) in lines
    assert (first, y, EXIT) in lines
    assert (0, ~first, ~second) in lines
    assert (second, ENTRY, diagram.groups[second].items[0]) in lines
    assert len(lines) == 9, "also from the input, and to the output"


@pytest.mark.slow
def test_large_programs_open_with_closed_groups_and_in_ranges() -> None:
    diagram = build_diagram(network(5000, scoped=True), "auto")
    assert sum(len(group.items) for group in diagram.groups if group.is_open) < 1000
    diagram = build_diagram(network(21_000), "auto")
    assert titles(diagram)[:2] == ["[0 to 999]", "[1,000 to 1,999]"]
    assert len(diagram.groups) == 1 + 22


def test_every_operator_has_a_family_and_every_family_a_colour_in_both_pictures() -> None:
    names = {spec.name for spec in OPERATORS}
    assert {family_of(name) for name in names} == set(FAMILIES) - {"input", "output"}
    assert set(COLORS) == set(FAMILIES)
    light = asset("viewer.css").partition("@media")[0]
    for family, color in COLORS.items():
        assert f"--{family}: {color};" in light
