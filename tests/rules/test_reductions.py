"""The rules of reductions."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known

REDUCTIONS: Final = "REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM"
REDUCE: Final = {"input": "FP32[2,3,4]", "output": "FP32[2,1,4]", "axis": 1}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "ARGMAX": {"input": "FP32[2,3,4]", "output": "INT32[2,4]", "axis": 1},
    **dict.fromkeys(
        ["REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM"],
        REDUCE,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_reduction_that_holds_all_rules_has_no_violation(name: str) -> None:
    assert broken_rules(name, EXAMPLES[name]) == set()
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("axis", [-1, 3, 2**31 - 1])
def test_an_axis_outside_of_the_input_is_refused(name: str, axis: int) -> None:
    assert broken_rules(name, EXAMPLES[name] | {"axis": axis}) == {"axis"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_input_of_rank_0_has_no_axis(name: str) -> None:
    assert broken_rules(name, {"input": "FP32[]", "output": "FP32[]", "axis": 0}) == {"input-rank"}


@pytest.mark.parametrize(
    ("name", "output", "rule"),
    [
        ("REDUCE_SUM", "FP32[2,3,4]", "output-shape"),
        ("REDUCE_SUM", "FP32[2,1,5]", "output-shape"),
        ("REDUCE_SUM", "FP32[2,4]", "output-rank"),
        ("ARGMAX", "INT32[2,1,4]", "output-rank"),
        ("ARGMAX", "INT32[2,3]", "output-shape"),
    ],
)
def test_a_wrong_output_is_refused(name: str, output: str, rule: str) -> None:
    assert broken_rules(name, EXAMPLES[name] | {"output": output}) == {rule}


@pytest.mark.parametrize("axis", [-1, 5])
def test_an_axis_is_judged_as_far_as_the_rank_is_known(axis: int) -> None:
    found = broken_rules("REDUCE_MAX", {"input": "FP32[*]", "output": "FP32[*]", "axis": axis})
    assert found == ({"axis"} if axis < 0 else set())


def test_the_reduced_dimension_is_1_or_gone() -> None:
    example = {"input": "FP32[2,?,?]", "axis": 2}
    assert inferred("REDUCE_ALL", example) == ((2, -1, 1),)
    assert inferred("ARGMAX", example) == ((2, -1),)
    assert inferred("ARGMAX", {"input": "FP32[7]", "axis": 0}) == ((),)
    assert inferred("ARGMAX", {"input": "FP32[*]", "axis": 0}) == (None,)
