"""The rules of operators that convert and move block-scaled tensors."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known

Changes = dict[str, Any]

CAST_FROM: Final = {
    "input_data": "FP6E2M3[5,64]",
    "input_scale": "FP8UE8M0[5,2]",
    "output_data": "FP32[5,64]",
    "block_size": 32,
}
CAST_TO: Final = {
    "input_data": "FP32[5,64]",
    "output_data": "FP8E4M3[5,64]",
    "output_scale": "FP8UE8M0[5,2]",
    "block_size": 32,
}
RESHAPE: Final = {
    "input": "MXINT8[4,64]",
    "input_scale": "FP8UE8M0[4,2]",
    "new_value_shape": "SHAPE[2,4,32]",
    "output": "MXINT8[2,4,32]",
    "output_scale": "FP8UE8M0[2,4,1]",
    "block_size": 32,
}
ROW_GATHER: Final = {
    "values": "FP8E4M3[2,7,64]",
    "values_scale": "FP8UE8M0[2,7,2]",
    "indices": "INT32[2,3]",
    "row_count": "INT32[1]=2",
    "output": "FP8E4M3[2,6,64]",
    "output_scale": "FP8UE8M0[2,6,2]",
    "block_size": 32,
}
PLAIN: Final = {"input_scale": None, "values_scale": None, "output_scale": None, "block_size": 1}
EXAMPLES: Final[dict[str, Changes]] = {
    "CAST_FROM_BLOCK_SCALED": CAST_FROM,
    "CAST_TO_BLOCK_SCALED": CAST_TO,
    "RESHAPE_BLOCK_SCALED": RESHAPE,
    "ROW_GATHER_BLOCK_SCALED": ROW_GATHER,
}

BROKEN: Final[list[tuple[str, str, Changes]]] = [
    ("CAST_FROM_BLOCK_SCALED", "block-size", {"block_size": 1}),
    ("CAST_TO_BLOCK_SCALED", "block-size", {"block_size": 1, "output_scale": "FP8UE8M0[5,64]"}),
    (
        "CAST_FROM_BLOCK_SCALED",
        "input-data-rank",
        {"input_data": "FP6E2M3[]", "input_scale": "FP8UE8M0[*]"},
    ),
    ("CAST_FROM_BLOCK_SCALED", "input-scale-rank", {"input_scale": "FP8UE8M0[10]"}),
    ("CAST_FROM_BLOCK_SCALED", "input-data-blocks", {"input_data": "FP6E2M3[5,65]"}),
    ("CAST_FROM_BLOCK_SCALED", "input-scale-shape", {"input_scale": "FP8UE8M0[5,64]"}),
    ("CAST_FROM_BLOCK_SCALED", "input-scale-shape", {"input_scale": "FP8UE8M0[4,2]"}),
    ("CAST_FROM_BLOCK_SCALED", "output-data-shape", {"output_data": "FP32[5,32]"}),
    ("CAST_FROM_BLOCK_SCALED", "output-data-rank", {"output_data": "FP32[5,2,32]"}),
    ("CAST_TO_BLOCK_SCALED", "input-data-rank", {"input_data": "FP32[]"}),
    ("CAST_TO_BLOCK_SCALED", "input-data-blocks", {"input_data": "FP32[5,33]"}),
    ("CAST_TO_BLOCK_SCALED", "output-data-shape", {"output_data": "FP8E4M3[5,32]"}),
    ("CAST_TO_BLOCK_SCALED", "output-scale-shape", {"output_scale": "FP8UE8M0[5,64]"}),
    ("CAST_TO_BLOCK_SCALED", "output-scale-rank", {"output_scale": "FP8UE8M0[10]"}),
    ("RESHAPE_BLOCK_SCALED", "block-size", {"block_size": 1}),
    ("RESHAPE_BLOCK_SCALED", "block-size", PLAIN | {"block_size": 32}),
    ("RESHAPE_BLOCK_SCALED", "results", {"output_scale": None}),
    ("RESHAPE_BLOCK_SCALED", "input-rank", {"input": "MXINT8[]", "input_scale": "FP8UE8M0[*]"}),
    ("RESHAPE_BLOCK_SCALED", "input-scale-rank", {"input_scale": "FP8UE8M0[8]"}),
    ("RESHAPE_BLOCK_SCALED", "new-value-shape-rank", {"new_value_shape": "SHAPE[]"}),
    ("RESHAPE_BLOCK_SCALED", "new-value-shape-blocks", {"new_value_shape": "SHAPE[16,16]"}),
    ("RESHAPE_BLOCK_SCALED", "new-value-shape-below-one", {"new_value_shape": "SHAPE[2,-4,32]"}),
    ("RESHAPE_BLOCK_SCALED", "input-scale-shape", {"input_scale": "FP8UE8M0[4,1]"}),
    ("RESHAPE_BLOCK_SCALED", "elements", {"new_value_shape": "SHAPE[2,5,32]"}),
    ("RESHAPE_BLOCK_SCALED", "elements", PLAIN | {"new_value_shape": "SHAPE[]"}),
    ("RESHAPE_BLOCK_SCALED", "output-shape", {"output": "MXINT8[4,2,32]"}),
    ("RESHAPE_BLOCK_SCALED", "output-rank", {"output": "MXINT8[8,32]"}),
    ("RESHAPE_BLOCK_SCALED", "output-scale-shape", {"output_scale": "FP8UE8M0[4,2,1]"}),
    ("ROW_GATHER_BLOCK_SCALED", "block-size", {"block_size": 1}),
    ("ROW_GATHER_BLOCK_SCALED", "block-size", PLAIN | {"block_size": 32}),
    ("ROW_GATHER_BLOCK_SCALED", "results", PLAIN | {"output_scale": "FP8UE8M0[2,6,2]"}),
    ("ROW_GATHER_BLOCK_SCALED", "values-rank", PLAIN | {"values": "FP32[7,64]"}),
    ("ROW_GATHER_BLOCK_SCALED", "values-scale-rank", {"values_scale": "FP8UE8M0[7,2]"}),
    ("ROW_GATHER_BLOCK_SCALED", "indices-rank", {"indices": "INT32[3]"}),
    ("ROW_GATHER_BLOCK_SCALED", "values-blocks", {"values": "FP8E4M3[2,7,65]"}),
    ("ROW_GATHER_BLOCK_SCALED", "values-scale-shape", {"values_scale": "FP8UE8M0[2,7,1]"}),
    ("ROW_GATHER_BLOCK_SCALED", "row-count-shape", {"row_count": "INT32[2]"}),
    ("ROW_GATHER_BLOCK_SCALED", "row-count", {"row_count": "INT32[1]=0"}),
    ("ROW_GATHER_BLOCK_SCALED", "row-count", {"row_count": "INT32[1]=8"}),
    ("ROW_GATHER_BLOCK_SCALED", "batch", {"indices": "INT32[1,3]"}),
    ("ROW_GATHER_BLOCK_SCALED", "output-batch", {"output": "FP8E4M3[1,6,64]"}),
    ("ROW_GATHER_BLOCK_SCALED", "output-rows", {"output": "FP8E4M3[2,3,64]"}),
    ("ROW_GATHER_BLOCK_SCALED", "output-channels", {"output": "FP8E4M3[2,6,32]"}),
    ("ROW_GATHER_BLOCK_SCALED", "output-scale-shape", {"output_scale": "FP8UE8M0[2,6,64]"}),
]


@pytest.mark.parametrize(
    ("name", "rule", "changes"), BROKEN, ids=[f"{name}-{rule}" for name, rule, _ in BROKEN]
)
def test_a_broken_rule_is_the_only_violation(name: str, rule: str, changes: Changes) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == {rule}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_unknown_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set(), example


@pytest.mark.parametrize(
    ("name", "changes", "shapes"),
    [
        ("CAST_FROM_BLOCK_SCALED", {}, ((5, 64),)),
        ("CAST_FROM_BLOCK_SCALED", {"input_data": "FP6E2M3[?,?]"}, ((5, 64),)),
        ("CAST_TO_BLOCK_SCALED", {}, ((5, 64), (5, 2))),
        ("CAST_TO_BLOCK_SCALED", {"input_data": "FP32[5,?]"}, ((5, -1), (5, -1))),
        ("CAST_TO_BLOCK_SCALED", {"input_data": "FP32[*]"}, (None, None)),
        ("RESHAPE_BLOCK_SCALED", {}, ((2, 4, 32), (2, 4, 1))),
        ("RESHAPE_BLOCK_SCALED", PLAIN, ((2, 4, 32),)),
        (
            "RESHAPE_BLOCK_SCALED",
            {"new_value_shape": "SHAPE[2,?,32]"},
            ((2, -1, 32), (2, -1, 1)),
        ),
        ("ROW_GATHER_BLOCK_SCALED", {}, ((2, 6, 64), (2, 6, 2))),
        ("ROW_GATHER_BLOCK_SCALED", PLAIN, ((2, 6, 64),)),
        (
            "ROW_GATHER_BLOCK_SCALED",
            {"row_count": "INT32[1]", "values": "FP8E4M3[*]"},
            ((2, -1, 64), (2, -1, 2)),
        ),
    ],
)
def test_the_shapes_of_the_results_follow(name: str, changes: Changes, shapes: object) -> None:
    assert inferred(name, EXAMPLES[name] | changes) == shapes
