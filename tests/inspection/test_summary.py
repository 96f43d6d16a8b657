"""`summarize`: the numbers of small programs, by hand, and of programs that TOSA forbids."""

from __future__ import annotations

import dataclasses

import pytest
from unit.building import branching, counting, example, graph, op, shape, tensor

import tosa_convert as tc
from tosa_convert.graph import Graph
from tosa_convert.graph.versions import V1_0
from tosa_convert.rules.amounts import Amount
from tosa_convert.views.inspection.summary import OperatorSummary, TypeSummary, ValueSummary


def test_a_summary_has_the_counts_of_a_small_program() -> None:
    found = tc.summarize(example())
    assert [str(row) for row in (*found.inputs, *found.outputs)] == ["FP32 [2, 3]", "FP32 [3]"]
    assert found.operators[0] == OperatorSummary("ADD", 1, None)
    assert {row.name for row in found.operators} == {
        *("ADD", "CONST", "CONST_SHAPE", "REDUCE_SUM", "RESHAPE")
    }
    assert found.operator_count == 5
    assert found.types == (TypeSummary("FP32", 5, 1, 24),)
    assert (found.constants, found.constant_bytes, found.without_data) == (1, 24, 0)
    assert found.work == Amount(0)
    assert found.peak_activations == Amount(24 + 24)
    assert found.findings == ()
    assert found.needs is not None
    assert found.needs.profiles == ("PRO-FP",)


def test_a_summary_does_not_change_with_the_graph() -> None:
    made = example()
    found = tc.summarize(made)
    made.main.operators.clear()
    assert found.operator_count == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.constants = 0  # type: ignore[misc]


def test_operators_with_the_most_work_come_first() -> None:
    values = [
        tensor("a", shape=(1, 2, 3)),
        tensor("b", shape=(1, 3, 4)),
        tensor("y", shape=(1, 2, 4)),
    ]
    values.append(tensor("z", "FP32", (1,), bytes(4)))
    made = graph(
        "a b",
        "y",
        values,
        [
            op("CONST", "", "z"),
            op("ABS", "a", "a"),
            op("ABS", "a", "a"),
            op("MATMUL", "a b z z", "y"),
        ],
    )
    found = tc.summarize(made)
    assert [(row.name, row.count, row.work) for row in found.operators] == [
        ("MATMUL", 1, Amount(24)),
        ("ABS", 2, None),
        ("CONST", 1, None),
    ]
    assert found.work == Amount(24)


def test_every_region_is_counted_once() -> None:
    found = tc.summarize(branching())
    assert [(row.name, row.operators) for row in found.regions] == [
        ("main", 1),
        ("then", 1),
        ("else", 0),
    ]
    assert found.operator_count == 2
    assert found.regions[1].inputs == (ValueSummary("a", "FP32", (2, 3)),)


def test_variables_are_listed_by_their_symbols() -> None:
    assert tc.summarize(counting()).variables == (ValueSummary("counter", "INT32", (1,)),)


def test_operators_whose_work_is_unknown_are_named() -> None:
    made = graph("x", "y", [tensor("x"), tensor("y")], [op("CUSTOM", "x", "y")])
    assert tc.summarize(made).not_counted == (("CUSTOM", "what it computes is not known"),)


def test_what_is_wrong_is_found_and_the_rest_is_summarized() -> None:
    made = example()
    made.main.tensors["y"].shape = (4,)
    made.main.tensors["w"].data = None
    made.main.operators.append(op("MATMUL", "gone", "lost"))
    found = tc.summarize(made)
    assert {finding.code for finding in found.findings} >= {"undefined-name", "missing-data"}
    assert found.needs is None
    assert found.without_data == 1
    assert found.operator_count == 6


def test_a_graph_without_regions_is_no_crash() -> None:
    found = tc.summarize(Graph(V1_0))
    assert (found.inputs, found.regions, found.constants) == ((), (), 0)
    assert found.findings


def test_a_shape_as_an_input_is_shown_with_its_rank() -> None:
    made = graph("s", "s", [shape("s", 1, 2)], [])
    assert tc.summarize(made).inputs == (ValueSummary("s", "SHAPE", (2,), sizes=(1, 2)),)
