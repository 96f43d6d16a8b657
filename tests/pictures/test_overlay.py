"""Errors along the graph: results of check, bisect, suite and power, and texts that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unit.building import example

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.errors import TosaConvertError
from tosa_convert.qualify.suite.answers import Answer
from tosa_convert.views.pictures.colors import error_color
from tosa_convert.views.pictures.diagram import build_diagram
from tosa_convert.views.pictures.errors_overlay import Overlay, overlay


def of_example(result: Any) -> Overlay:
    return overlay(build_diagram(example(), "auto"), result, "r.json")


def rows(found: Overlay) -> list[tuple[str, bool]]:
    diagram = build_diagram(example(), "auto")
    return [(diagram.nodes[row.node].title, row.ok) for row in found.rows]


def compared(**found: float) -> golden.Comparison:
    """Return tensors of one element that should be 1."""
    return golden.compare(
        {name: np.array([1], np.float32) for name in found},
        {name: np.array([value], np.float32) for name, value in found.items()},
    )


def test_of_several_runs_the_worst_counts() -> None:
    runs = [{"run": "a", **compared(y=1).to_dict()}, {"run": "b", **compared(y=2).to_dict()}]
    assert rows(of_example({"ok": False, "runs": runs})) == [("RESHAPE", False)]


def test_a_bisection_colours_the_operators_that_it_names() -> None:
    first = {
        "kind": "by-itself",
        "operators": [
            {"index": 2, "operator": "operator #2 REDUCE_SUM", "location": "", "signature": ""}
        ],
        "comparison": compared(m=2).to_dict(),
    }
    result = {"ok": False, "outputs": compared(y=2).to_dict(), "first": first, "others": []}
    found = of_example(result)
    assert rows(found) == [("REDUCE_SUM", False), ("RESHAPE", False)]
    guilty, inheriting = found.rows
    assert "by-itself" in guilty.text
    assert inheriting.text.startswith("wrong because of what is before it; ")
    assert (guilty.inherits, inheriting.inherits) == (False, True)


def test_operators_that_bisect_did_not_examine_are_wrong() -> None:
    first = {
        "kind": "by-itself",
        "operators": [{"index": 1, "operator": "operator #1 ADD", "location": "", "signature": ""}],
        "comparison": compared(s=2).to_dict(),
    }
    suspects = ["operator #2 REDUCE_SUM", "operator #9 ADD"]
    result = {"outputs": None, "first": first, "others": [], "suspects": suspects}
    found = of_example(result)
    assert rows(found) == [("ADD", False), ("REDUCE_SUM", False)]
    assert "not examined" in found.rows[1].text
    assert not any(row.inherits for row in found.rows)


@pytest.mark.usefixtures("_layout")
def test_what_inherits_has_a_colour_of_its_own_in_every_picture() -> None:
    first = {
        "kind": "by-itself",
        "operators": [
            {"index": 2, "operator": "operator #2 REDUCE_SUM", "location": "", "signature": ""}
        ],
        "comparison": compared(m=2).to_dict(),
    }
    result = {"outputs": compared(y=2).to_dict(), "first": first, "others": []}
    for form in ("dot", "svg"):
        text = tc.report(example(), to=form, errors=result)
        for inherits in (False, True):
            assert text.count(error_color(False, 1e6, inherits)) == 1, form


def test_a_bisection_whose_operators_are_elsewhere_is_shown_where_it_can_be() -> None:
    """By the tensor that is wrong if the number is one of a region, else beside the picture."""

    def found(tensor: str) -> Overlay:
        operator = {"index": 0, "operator": "operator #0 EXP", "location": "", "signature": ""}
        comparison = compared(**{tensor: 2.0}).to_dict()
        first = {"kind": "by-itself", "operators": [operator], "comparison": comparison}
        outputs = compared(y=1).to_dict()
        return of_example({"outputs": outputs, "first": first, "others": [None]})

    assert rows(found("m")) == [("REDUCE_SUM", False), ("RESHAPE", True)]
    elsewhere = found("inner")
    assert (rows(elsewhere), elsewhere.unmatched) == ([("RESHAPE", True)], ["operator #0 EXP"])


def test_a_bisection_without_a_guilty_operator_shows_the_outputs() -> None:
    found = of_example({"outputs": compared(y=2).to_dict(), "first": None, "others": []})
    assert rows(found) == [("RESHAPE", False)]
    assert not any(row.inherits for row in found.rows)


def test_what_is_wrong_with_a_whole_tensor_is_its_text() -> None:
    result = compared(y=2, s=1.5).to_dict()
    result["tensors"][0] |= {"problem": "it has another shape", "low_precision": "of FP16"}
    result["tensors"][1]["low_precision"] = "of FP16"
    texts = {row.text.partition(": ")[2] for row in of_example(result).rows}
    assert "it has another shape" in texts
    assert any(text.endswith("; of FP16") and "differ" in text for text in texts)


def test_of_several_rows_of_a_tensor_the_worst_counts() -> None:
    runs = [compared(y=value).to_dict() for value in (3, 1, 2)]
    (row,) = of_example({"ok": False, "runs": runs}).rows
    assert row.size == max(of_example(run).rows[0].size for run in runs)


def test_a_suite_colours_all_operators_of_a_kind() -> None:
    answers = [
        Answer("add/1", "wrong", operator="ADD"),
        Answer("add/2", "pass", operator="ADD"),
        Answer("reshape/1", "pass", operator="RESHAPE"),
        Answer("tanh/1", "pass", operator="TANH"),
        Answer("reduce_sum/1", "not-run", operator="REDUCE_SUM"),
        Answer("net/1", "wrong", covers=("ADD FP32", "RESHAPE FP32"), at_fault=("ADD FP32",)),
        Answer("net/2", "pass", operator="network", covers=("ADD FP32", "RESHAPE FP32")),
    ]
    result = {"answers": [{name: getattr(a, name) for name in Answer.__slots__} for a in answers]}
    found = of_example(result)
    assert rows(found) == [("ADD", False), ("RESHAPE", True)]
    assert "2 of 4 cases wrong, such as add/1: wrong" in found.rows[0].text
    assert found.unmatched == ["TANH"]


def test_power_colours_tensors_by_the_smallest_element_that_is_seen() -> None:
    ratios = {"check": 2.0, "bisect": None}
    seen = {"y": None, "s": 2.0, "m": 1e-5, "x": 1.0, "gone": 1.0}
    power = [{"name": name, "seen_at": at, "worst_ratio": ratios} for name, at in seen.items()]
    found = of_example({"power": power, "notes": []})
    assert (found.source, found.unmatched) == ("power", ["gone"])
    assert [row.ok for row in found.rows] == [False, False, True, True]
    assert [row.size for row in found.rows] == [1e6, 2.0, 1.0, 0.0]
    assert found.rows[0].text.startswith(
        "check never reports the median element; check: from 2 times"
    )
    assert found.rows[3].text.endswith("bisect: no effect")


def test_a_result_of_another_program_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="about nothing in the program; it has other"):
        of_example(compared(other=1).to_dict())


@pytest.mark.parametrize(
    "result",
    [None, 3, [], {}, {"tensors": 1}, {"tensors": [{}]}, {"tensors": [3]}, {"answers": [{}]}],
)
def test_what_is_not_a_result_is_refused(result: Any) -> None:
    with pytest.raises(
        TosaConvertError, match="not a result that check, bisect, chain, suite or power wrote"
    ) as info:
        of_example(result)
    assert info.value.findings[0].code == "file-error"
