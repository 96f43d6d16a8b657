"""The layout of groups: no overlaps, lines that go down, bounded work for hostile graphs."""

from __future__ import annotations

import random

import pytest
from pictures.programs import network
from unit.building import branching, graph, op, tensor

from tosa_convert.graph import Graph
from tosa_convert.views.pictures.diagram import build_diagram
from tosa_convert.views.pictures.placement import Rows, lay_out, place

pytestmark = pytest.mark.usefixtures("_layout")


def random_graph(seed: int, operators: int) -> Graph:
    """Return operators with up to three operands from anywhere before, some in linked scopes."""
    generator = random.Random(seed)
    names, rows = ["x"], []
    for number in range(operators):
        scope = generator.choice(["", "a/", "b/", "b/c/"])
        name = f"{scope}op_{number}"
        inputs = generator.choices(names, k=generator.randint(1, 3))
        rows.append(op("CONCAT", " ".join(inputs), name, axis=0))
        names.append(name)
    return graph("x", names[-1], [tensor(name, shape=None) for name in names], rows)


@pytest.mark.parametrize("seed", range(25))
def test_boxes_do_not_overlap_and_lines_connect_them(seed: int) -> None:
    diagram = build_diagram(random_graph(seed, 40), "names")
    for group in diagram.groups:
        group.is_open = True
    rows = lay_out(diagram)
    placed = place(diagram, rows)
    assert len(placed.boxes) == len(diagram.nodes) + len(diagram.groups)
    for number, group in enumerate(diagram.groups):
        outer = placed.boxes[~number]
        boxes = [placed.boxes[item] for item in group.items]
        for index, box in enumerate(boxes):
            assert outer.x <= box.x
            assert outer.y < box.y
            assert box.x + box.width <= outer.x + outer.width + 0.01
            assert box.y + box.height <= outer.y + outer.height + 0.01
            for other in boxes[:index]:
                beside = box.x >= other.x + other.width or other.x >= box.x + box.width
                below = box.y >= other.y + other.height or other.y >= box.y + box.height
                assert beside or below
    for _, _, points in placed.lines:
        assert len(points) >= 2


def test_the_longest_chain_is_straight() -> None:
    diagram = build_diagram(network(400), "none")
    placed = place(diagram, lay_out(diagram))
    middles = {box.x + box.width / 2 for item, box in placed.boxes.items() if item >= 0}
    assert max(middles) - min(middles) < 2


def test_the_layout_is_the_same_each_time() -> None:
    def layout() -> list[Rows]:
        return lay_out(build_diagram(random_graph(1, 60), "names"))

    assert layout() == layout()


def test_a_value_that_every_operator_uses_is_not_a_million_bends() -> None:
    names, rows = ["x"], []
    for number in range(2000):
        rows.append(op("ADD", f"{names[-1]} x", f"t{number}"))
        names.append(f"t{number}")
    made = graph("x", names[-1], [tensor(name) for name in names], rows)
    (found,) = lay_out(build_diagram(made, "none"))
    assert len(found.places) < 20_000
    assert any(route.is_cut for route in found.routes)
    assert not all(route.is_cut for route in found.routes)


def test_control_flow_and_a_program_without_operators_are_laid_out() -> None:
    for made in (branching(), graph("x", "x", [tensor("x")], []), graph("", "", [], [])):
        diagram = build_diagram(made, "auto")
        assert place(diagram, lay_out(diagram)).boxes
