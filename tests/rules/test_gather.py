"""The rules of operators that select elements by index."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from rules.operator_examples import broken_rules, view

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32
from tosa_convert.rules.operator_view import OperatorView, TensorType
from tosa_convert.rules.validate import judge_shapes

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


def test_the_builder_refuses_indices_that_are_not_rows() -> None:
    b = Builder("m")
    values = b.input("values", "int8", (1, 4, 2))
    with pytest.raises(tc.TosaConvertError, match=r"indices \[0, 1\] is 4"):
        b.gather(values, np.array([[0, 4]], np.int32))


@pytest.mark.parametrize(("name", "changes", "rules"), BROKEN)
def test_a_broken_rule_is_named(name: str, changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == rules
