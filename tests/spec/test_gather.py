"""The rules of operators that select elements by index."""

from __future__ import annotations

from typing import Any, Final

import pytest
from spec.operator_examples import broken_rules, inferred, less_known

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
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operator_that_holds_all_rules_has_no_violation(name: str) -> None:
    assert broken_rules(name, EXAMPLES[name]) == set()
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set()


@pytest.mark.parametrize(("name", "changes", "rules"), BROKEN)
def test_a_broken_rule_is_named(name: str, changes: dict[str, Any], rules: set[str]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == rules


def test_sizes_are_inferred_from_whichever_operand_has_them() -> None:
    gather = {"values": "INT8[?,4,3]", "indices": "INT32[2,5]"}
    assert inferred("GATHER", gather) == ((2, 5, 3),)
    assert inferred("GATHER", gather | {"values": "INT8[*]"}) == ((2, 5, -1),)
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
