"""Numpy and the reference model are compared operator by operator, and differences explained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracle import compare_reference
from oracle.compare_reference import PARTS, Case, Tally, compare_cases
from oracle.edge_inputs import VARIANTS, edge_inputs
from oracle.merged_programs import RESULT, detach, merge, merged_arrays
from oracle.reference_differences import EXPLAINED, explanation

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.graph import Graph
from tosa_convert.reference import evaluate
from tosa_convert.reference.call import Array, Call

NUMPY = golden.RunOptions(engine="numpy")


def random_case(seed: int) -> Case:
    return PARTS[0], str(seed), ""


def sums() -> Graph:
    """y = (a + b) + b"""
    b = Builder("main")
    a, c = b.input("a", "INT32", (2,)), b.input("b", "INT32", (2,))
    b.output(b.add(b.add(a, c, name="s"), c), name="y")
    return b.graph()


ARRAYS = {"a": np.array([1, 2], np.int32), "b": np.array([3, 4], np.int32)}


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_random_programs_differ_only_where_it_is_explained() -> None:
    tally = Tally()
    tally.add(compare_cases([random_case(seed) for seed in range(60)]))
    assert tally.counts[PARTS[0]]["cases"] == 60
    assert tally.counts[PARTS[0]]["equal"] > 200
    assert not tally.unexplained(), "\n".join(tally.lines())


@pytest.mark.usefixtures("refmodel")
def test_edge_values_are_compared_or_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "test.tosa"
    tc.save(sums(), path)
    found = compare_cases([(PARTS[1], str(path), variant) for variant in VARIANTS])
    assert not found.differences
    assert found.counts["cases"] == 3
    assert found.counts["both refuse"]
    assert found.counts["equal"]


@pytest.mark.usefixtures("refmodel")
def test_a_wrong_definition_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test.tosa"
    tc.save(sums(), path)
    monkeypatch.setitem(evaluate.OPERATIONS, "ADD", evaluate.OPERATIONS["MAXIMUM"])
    found = compare_cases([(PARTS[1], str(path), "half")])
    kinds = {kind for kind, _ in found.differences}
    assert "ADD INT32 -> INT32: other results" in kinds
    assert not any(explanation(kind) for kind in kinds)


@pytest.mark.usefixtures("refmodel")
def test_a_state_that_inexact_results_decide_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "test.tosa"
    b = Builder("main")
    state = b.variable("state", "BOOL", (1,), initial=False)
    ones = b.exp(b.const([0.0], "FP32"))
    b.write(state, b.greater_equal(ones, b.const([1.0], "FP32")))
    b.output(ones, name="y")
    tc.save(b.graph(), path)

    def exponential(call: Call) -> Array:
        own = call.precision == "own"
        return np.nextafter([1], [0], dtype=np.float32) if own else np.ones(1)

    monkeypatch.setitem(evaluate.OPERATIONS, "EXP", exponential)
    assert not compare_cases([(PARTS[1], str(path), "half")]).differences


def test_merged_programs_give_what_each_gives() -> None:
    graphs = [sums(), golden.generate(seed=5000, operators=12), sums()]
    arrays = [golden.input_arrays(graph, None, random=1) for graph in graphs]
    merged = golden.run(merge(graphs), merged_arrays(arrays), NUMPY).outputs
    for index, (graph, given) in enumerate(zip(graphs, arrays, strict=True)):
        for name, array in golden.run(graph, given, NUMPY).outputs.items():
            np.testing.assert_array_equal(merged[f"p{index}/{name}"], array)


def test_a_detached_operator_takes_an_input_and_not_a_result() -> None:
    given = {**ARRAYS, "s": np.array([100, 200], np.int32)}
    found = golden.run(detach(sums()), given, NUMPY).outputs
    assert found["s" + RESULT].tolist() == [4, 6]
    assert found["y" + RESULT].tolist() == [103, 204]


def test_edge_inputs_have_limits_and_the_last_index() -> None:
    b = Builder("main")
    values, indices = b.input("v", "FP32", (1, 9, 50)), b.input("i", "INT32", (1, 60))
    b.output(b.gather(values, indices), b.abs(b.input("n", "INT32", (99,))))
    found = edge_inputs(b.graph(), "all", 1)
    assert {-(2**31), 2**31 - 1} <= set(found["n"].tolist())
    assert np.isnan(found["v"]).any()
    assert np.isinf(found["v"]).any()
    assert set(found["i"].reshape(-1).tolist()) == {0, 8}
    assert np.isfinite(edge_inputs(b.graph(), "half", 1)["v"]).all()


def test_a_difference_without_an_explanation_fails_the_run() -> None:
    tally = Tally()
    differences = [("ADD INT8 -> INT8: other results", "1"), ("MUL X: only numpy refuses: x", "2")]
    tally.add(compare_reference.Found(PARTS[0], Counter(), []))
    assert not tally.unexplained()
    tally.add(compare_reference.Found(PARTS[0], Counter(), differences))
    assert tally.unexplained() == [kind for kind, _ in differences]
    assert "NOT EXPLAINED" in "\n".join(tally.lines())


def test_every_explanation_says_who_is_right() -> None:
    assert {row.who for row in EXPLAINED} <= {"tosa-convert", "reference model", "both"}
    assert len({row.what for row in EXPLAINED}) == len(EXPLAINED)
