"""`summarize`: the numbers of small programs, by hand, and of programs that TOSA forbids."""

from __future__ import annotations

from unit.building import counting, example, graph, op, shape

import tosa_convert as tc
from tosa_convert.rules.costs import Amount
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


def test_variables_are_listed_by_their_symbols() -> None:
    assert tc.summarize(counting()).variables == (ValueSummary("counter", "INT32", (1,)),)


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


def test_a_shape_as_an_input_is_shown_with_its_rank() -> None:
    made = graph("s", "s", [shape("s", 1, 2)], [])
    assert tc.summarize(made).inputs == (ValueSummary("s", "SHAPE", (2,), sizes=(1, 2)),)
