"""The rules of operators that select elements by index."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from rules.operator_examples import broken_rules, inferred, less_known, view

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32
from tosa_convert.rules.validate import judge_shapes
from tosa_convert.rules.values import OperatorView, TensorType

GATHER: Final = {"values": "INT8[2,4,3]", "indices": "INT32[2,5]", "output": "INT8[2,5,3]"}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "GATHER": GATHER,
    "ROW_GATHER": {**GATHER, "row_count": "INT32[1]=2", "output": "INT8[2,10,3]"},
    "SCATTER": {
        "values_in": "INT8[2,7,3]",
        "indices": "INT32[2,5]",
        "input": "INT8[2,5,3]",
        "values_out": "INT8[2,7,3]",
    },
}

BROKEN: Final[list[tuple[str, dict[str, Any], set[str]]]] = [
    ("GATHER", {"values": "INT8[2,4]"}, {"values-rank"}),
    ("GATHER", {"indices": "INT32[5]"}, {"indices-rank"}),
    ("GATHER", {"indices": "INT32[1,5]"}, {"batch"}),
    ("GATHER", {"output": "INT8[1,5,3]"}, {"output-batch"}),
    ("GATHER", {"output": "INT8[2,4,3]"}, {"output-indices"}),
    ("GATHER", {"output": "INT8[2,5,4]"}, {"output-channels"}),
    ("GATHER", {"output": "INT8[2,5]"}, {"output-rank"}),
    ("ROW_GATHER", {"values": "INT8[2,4,3,1]"}, {"values-rank"}),
    ("ROW_GATHER", {"indices": "INT32[3,5]"}, {"batch"}),
    ("ROW_GATHER", {"row_count": "INT32[1]=0"}, {"row-count"}),
    ("ROW_GATHER", {"row_count": "INT32[1]=-1"}, {"row-count"}),
    ("ROW_GATHER", {"row_count": "INT32[1]=5"}, {"row-count"}),
    ("ROW_GATHER", {"row_count": "INT32[]"}, {"row-count-shape"}),
    ("ROW_GATHER", {"output": "INT8[2,5,3]"}, {"output-rows"}),
    ("SCATTER", {"values_in": "INT8[2,7]"}, {"values-in-rank"}),
    ("SCATTER", {"input": "INT8[2,5]"}, {"input-rank"}),
    ("SCATTER", {"indices": "INT32[1,5]"}, {"batch"}),
    ("SCATTER", {"input": "INT8[1,5,3]"}, {"batch"}),
    ("SCATTER", {"input": "INT8[2,4,3]"}, {"indices"}),
    ("SCATTER", {"input": "INT8[2,5,4]"}, {"channels"}),
    ("SCATTER", {"values_in": "INT8[2,4,3]"}, {"indices-count"}),
    ("SCATTER", {"values_out": "INT8[2,8,3]"}, {"values-out-rows"}),
    ("GATHER", {"indices": "INT32[2,5]=0 1 2 3 0 1 2 3 4 0"}, {"indices-range"}),
    ("GATHER", {"indices": "INT64[2,5]=0 1 2 3 0 1 2 3 -1 0"}, {"indices-range"}),
    (
        "GATHER",
        {"values": "INT8[2,?,3]", "indices": "INT32[2,5]=9 9 9 9 9 9 9 9 9 -1"},
        {"indices-range"},
    ),
    ("ROW_GATHER", {"indices": "INT32[2,5]=0 1 2 2 2 2 2 2 2 3"}, {"indices-range"}),
    ("SCATTER", {"indices": "INT32[2,5]=0 1 2 3 4 5 6 7 0 1"}, {"indices-range"}),
    ("SCATTER", {"indices": "INT32[2,5]=0 1 2 3 4 5 4 3 2 5"}, {"indices-once"}),
    ("SCATTER", {"indices": "INT32[2,5]=6 6 2 3 4 5 4 3 2 7"}, {"indices-once", "indices-range"}),
]

#: Constant indices that break no rule.
CONSTANT_INDICES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("GATHER", {"indices": "INT32[2,5]=0 3 3 3 0 3 3 3 3 0"}),
    ("GATHER", {"values": "INT8[2,?,3]", "indices": "INT32[2,5]=0 9 9 9 9 9 9 9 9 9"}),
    ("GATHER", {"values": "INT8[*]", "indices": "INT32[2,5]=0 9 9 9 9 9 9 9 9 9"}),
    ("ROW_GATHER", {"indices": "INT32[2,5]=0 1 2 2 2 2 2 2 2 0"}),
    ("SCATTER", {"indices": "INT32[2,5]=0 1 2 3 4 4 3 2 1 0"}),
    ("SCATTER", {"indices": "INT32[2,5]=6 0 5 1 4 0 1 2 3 6"}),
]


@pytest.mark.parametrize(("name", "changes"), CONSTANT_INDICES)
def test_constant_indices_of_rows_are_allowed(name: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == set()


def test_the_first_wrong_index_is_named_by_its_place() -> None:
    example = EXAMPLES["GATHER"] | {"indices": "INT32[2,5]=0 1 2 3 0 1 2 7 4 0"}
    (violation,) = judge_shapes(view("GATHER", example)).violations
    assert violation.message == "indices [1, 2] is 7"
    assert violation.expected == "0 to 3, since values has 4 rows"


def test_an_index_that_occurs_again_is_named_with_its_batch() -> None:
    example = EXAMPLES["SCATTER"] | {"indices": "INT32[2,5]=0 1 2 3 4 5 4 3 2 5"}
    (violation,) = judge_shapes(view("SCATTER", example)).violations
    assert violation.message == "indices has 5 more than once in batch 1"


@pytest.mark.parametrize(("batches", "count", "rules"), [(4, 1, set()), (4, 2, {"indices-once"})])
def test_indices_of_one_value_take_no_memory(batches: int, count: int, rules: set[str]) -> None:
    """A small file can declare a splat of any size."""
    shape = (batches << 40, count)
    indices = Constant(INT32, shape[0] * count, bytes([3, 0, 0, 0]), splat=True)
    made = view("SCATTER", {"values_in": "INT8[*]", "indices": "INT32[*]", "input": "INT8[*]"})
    inputs = (made.inputs[0], TensorType(INT32, shape, None, indices), made.inputs[2])
    found = judge_shapes(OperatorView(made.operator, inputs, ())).violations
    assert {violation.rule for violation in found} == rules


def test_repeated_indices_are_found_in_every_block_of_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tosa_convert.rules.families import movement

    monkeypatch.setattr(movement, "BLOCK", 4)
    good = "0 1 1 0 2 3 3 2 0 3"
    example = {"values_in": "INT8[5,4,3]", "input": "INT8[5,2,3]"}
    assert broken_rules("SCATTER", {**example, "indices": f"INT32[5,2]={good}"}) == set()
    bad = f"{good[:-1]}0"
    assert broken_rules("SCATTER", {**example, "indices": f"INT32[5,2]={bad}"}) == {"indices-once"}


@pytest.mark.parametrize("operators", [1, 2000])
def test_constant_indices_of_a_program_are_judged(operators: int) -> None:
    """Large blocks are judged in columns, small ones operator by operator."""
    b = Builder("m")
    x = b.input("x", "int8", (1, 4, 2))
    indices = b.const(np.array([[0, 3, 1, 2]], np.int32), name="indices")
    for _ in range(operators):
        x = b.gather(x, indices)
    b.output(x, name="y")
    graph = b.graph()
    assert tc.validate(graph) == []
    graph.main.tensors["indices"].data = Constant(
        INT32, 4, np.array([0, 3, 4, 2]).astype("<i4").data
    )
    assert {finding.rule for finding in tc.validate(graph)} == {"gather-indices-range"}


def test_the_builder_refuses_indices_that_are_not_rows() -> None:
    b = Builder("m")
    values = b.input("values", "int8", (1, 4, 2))
    with pytest.raises(tc.TosaConvertError, match=r"indices \[0, 1\] is 4"):
        b.gather(values, np.array([[0, 4]], np.int32))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operator_that_holds_all_rules_has_no_violation(name: str) -> None:
    assert broken_rules(name, EXAMPLES[name]) == set()
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set()


@pytest.mark.parametrize(("name", "changes", "rules"), BROKEN)
def test_a_broken_rule_is_named(name: str, changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == rules


def test_sizes_are_inferred_from_whichever_operand_has_them() -> None:
    movement = {"values": "INT8[?,4,3]", "indices": "INT32[2,5]"}
    assert inferred("GATHER", movement) == ((2, 5, 3),)
    assert inferred("GATHER", movement | {"values": "INT8[*]"}) == ((2, 5, -1),)
    scatter = {"values_in": "INT8[*]", "indices": "INT32[?,5]", "input": "INT8[2,5,3]"}
    assert inferred("SCATTER", scatter) == ((2, -1, 3),)


@pytest.mark.parametrize(
    ("indices", "count", "rows"),
    [
        ("INT32[2,5]", "INT32[1]=2", 10),
        ("INT32[2,?]", "INT32[1]=2", -1),
        ("INT32[2,5]", "INT32[1]", -1),
    ],
)
def test_row_gather_has_row_count_rows_for_each_index(indices: str, count: str, rows: int) -> None:
    example = {"values": "INT8[2,4,3]", "indices": indices, "row_count": count}
    assert inferred("ROW_GATHER", example) == ((2, rows, 3),)
