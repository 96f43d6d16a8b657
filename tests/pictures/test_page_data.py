"""Test the data of the report's page: what the viewer shows of operators, values and errors."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from pictures.programs import network
from unit.building import branching, graph, op, tensor
from unit.views.test_diff_values import scaled

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.graph import Graph
from tosa_convert.views.pictures import diagram

pytestmark = pytest.mark.usefixtures("_layout")


def data_of(made: Graph, **options: Any) -> dict[str, Any]:
    page = tc.report(made, **options)
    assert isinstance(page, str)
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


def constant(kind: str, array: Any) -> dict[str, Any]:
    """Return what is shown of a constant of one axis."""
    values = tensor("c", kind, (array.size,), array.tobytes())
    y = tensor("y", kind, (array.size,))
    made = graph("", "y", [values, y], [op("CONST", "", "c"), op("IDENTITY", "c", "y")])
    (found,) = [row for row in data_of(made)["values"] if row["name"] == "c"]
    shown: dict[str, Any] = found["constant"]
    return shown


def test_a_small_constant_is_listed_and_a_large_one_has_statistics() -> None:
    small = np.array([1.5, np.inf, -0.0], np.float32)
    assert constant("FP32", small)["elements"] == ["1.5", "inf", "-0"]
    few = constant("INT8", np.arange(100).astype(np.int8) % 3)
    assert (few["least"], few["greatest"], few["mean"], few["zeros"]) == ("0", "2", "0.99", 34)
    assert few["few"] == [["0", 34], ["1", 33], ["2", 33]]
    many = constant("FP32", np.linspace(-1, 1, 1000).astype(np.float32))
    assert (many["least"], many["greatest"], many["nans"]) == ("-1", "1", 0)
    assert sum(many["histogram"]) == 1000


def test_scales_are_shown_beside_their_constant() -> None:
    (row,) = [row for row in data_of(scaled())["values"] if row["name"] == "y"]
    assert row["scales"]["elements"] == ["1", "2"]


def test_an_operator_has_its_findings_its_work_and_the_groups_of_its_regions() -> None:
    broken = branching()
    broken.main.tensors["y"].shape = (9, 9)
    data = data_of(broken)
    (branch,) = [node for node in data["nodes"] if node["title"] == "COND_IF"]
    messages = [data["findings"][number]["message"] for number in branch["findings"]]
    assert any("FP32 [9, 9]" in message for message in messages)
    groups = [data["groups"][number] for number in range(len(data["groups"]))]
    assert [row["label"] for row in groups if row["parent"] == branch["ownGroup"]]
    (owner,) = [row for row in groups if "node" in row]
    assert data["nodes"][owner["node"]]["title"] == "COND_IF"


def test_many_items_of_a_group_are_shown_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagram, "_MOST_ITEMS", 20)
    monkeypatch.setattr(diagram, "_RANGE", 8)
    made = diagram.build_diagram(network(40), "auto")
    whole, *ranges = made.groups
    assert whole.items == [~number for number in range(1, 7)]
    assert [row.label for row in ranges] == [
        *("0 to 7", "8 to 15", "16 to 23", "24 to 31", "32 to 39", "40 to 41"),
    ]
    assert [item for row in ranges for item in row.items] == list(range(42))
    assert all(made.groups[node.group].kind == "range" for node in made.nodes)
    titles = [row["kind"] for row in data_of(network(40))["groups"]]
    assert titles == ["region", *["range"] * 6]


def test_errors_are_beside_their_operators_and_others_are_listed() -> None:
    made = network(3)
    one, other = np.ones((1, 8), np.float32), np.full((1, 8), 2, np.float32)
    names = ("op_0", "op_2", "gone")
    found = golden.compare(dict.fromkeys(names, one), {"op_0": one, "op_2": other, "gone": other})
    errors = data_of(made, errors=found.to_dict())["errors"]
    assert sorted(row["ok"] for row in errors["rows"]) == [False, True]
    assert errors["unmatched"] == ["gone"]
