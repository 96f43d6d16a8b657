"""The rules of products of matrices."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, less_known, view

from tosa_convert.rules.validate import judge_shapes

MATMUL: Final = {
    "a": "INT8[2,3,4]",
    "b": "INT8[2,4,5]",
    "a_zp": "INT8[1]=1",
    "b_zp": "INT8[1]=2",
    "output": "INT32[2,3,5]",
}
BLOCK_SCALED: Final = {
    "a_data": "FP4E2M1[2,3,64]",
    "a_scale": "FP8UE8M0[2,3,2]",
    "b_data": "FP4E2M1[2,5,64]",
    "b_scale": "FP8UE8M0[2,5,2]",
    "output_data": "FP32[2,3,5]",
    "block_size": 32,
}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "MATMUL": MATMUL,
    "MATMUL_T": MATMUL | {"b": "INT8[2,5,4]"},
    "MATMUL_T_BLOCK_SCALED": BLOCK_SCALED,
}

BROKEN: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("MATMUL", "a-rank", {"a": "INT8[4]"}),
    ("MATMUL", "b-rank", {"b": "INT8[4]"}),
    ("MATMUL", "batch", {"b": "INT8[3,4,5]"}),
    ("MATMUL", "batch", {"b": "INT8[4,3,4,5]"}),
    ("MATMUL", "channels", {"a": "INT8[4,3]", "b": "INT8[4,5]", "output": "INT32[4,5]"}),
    ("MATMUL", "output-rank", {"b": "INT8[4,2,4,5]"}),
    ("MATMUL", "output-shape", {"b": "INT8[4,2,4,5]", "output": "INT32[2,2,3,5]"}),
    ("MATMUL", "output-batch", {"a": "INT8[1,3,4]", "output": "INT32[1,3,5]"}),
    ("MATMUL", "channels", {"b": "INT8[2,3,5]"}),
    ("MATMUL", "a-zp-shape", {"a_zp": "INT8[2]"}),
    ("MATMUL", "a-zp-not-zero", {"a_zp": "INT16[1]=1"}),
    ("MATMUL", "b-zp-not-zero", {"b_zp": "FP8E5M2[1]=1"}),
    ("MATMUL", "output-rank", {"output": "INT32[2,3]"}),
    ("MATMUL", "output-batch", {"output": "INT32[1,3,5]"}),
    ("MATMUL", "output-height", {"output": "INT32[2,5,5]"}),
    ("MATMUL", "output-width", {"output": "INT32[2,3,3]"}),
    ("MATMUL_T", "a-rank", {"a": "INT8[4]"}),
    ("MATMUL_T", "batch", {"b": "INT8[3,5,4]"}),
    ("MATMUL_T", "output-rank", {"a": "INT8[1,2,3,4]"}),
    ("MATMUL_T", "output-batch", {"a": "INT8[1,3,4]", "output": "INT32[1,3,5]"}),
    ("MATMUL_T", "channels", {"b": "INT8[2,4,5]"}),
    ("MATMUL_T", "b-zp-shape", {"b_zp": "INT8[]"}),
    ("MATMUL_T", "a-zp-not-zero", {"a_zp": "INT16[1]=1"}),
    ("MATMUL_T", "output-width", {"output": "INT32[2,3,4]"}),
    ("MATMUL_T_BLOCK_SCALED", "block-size", {"block_size": 1}),
    ("MATMUL_T_BLOCK_SCALED", "a-scale-rank", {"a_scale": "FP8UE8M0[6,2]"}),
    ("MATMUL_T_BLOCK_SCALED", "a-scale-shape", {"a_scale": "FP8UE8M0[2,3,64]"}),
    ("MATMUL_T_BLOCK_SCALED", "b-scale-shape", {"b_scale": "FP8UE8M0[1,5,2]"}),
    (
        "MATMUL_T_BLOCK_SCALED",
        "batch",
        {"b_data": "FP4E2M1[3,5,64]", "b_scale": "FP8UE8M0[3,5,2]"},
    ),
    (
        "MATMUL_T_BLOCK_SCALED",
        "batch",
        {"a_data": "FP4E2M1[1,3,64]", "a_scale": "FP8UE8M0[1,3,2]"},
    ),
    (
        "MATMUL_T_BLOCK_SCALED",
        "a-data-rank",
        {"a_data": "FP4E2M1[3,64]", "a_scale": "FP8UE8M0[1,3,2]"},
    ),
    (
        "MATMUL_T_BLOCK_SCALED",
        "channels",
        {"b_data": "FP4E2M1[2,5,32]", "b_scale": "FP8UE8M0[2,5,1]"},
    ),
    ("MATMUL_T_BLOCK_SCALED", "output-data-height", {"output_data": "FP32[2,4,5]"}),
]


@pytest.mark.parametrize(
    ("name", "rule", "changes"), BROKEN, ids=[f"{name}-{rule}" for name, rule, _ in BROKEN]
)
def test_a_broken_rule_is_the_only_violation(name: str, rule: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == {rule}


def test_blocks_are_whole() -> None:
    odd = {"a_data": "FP4E2M1[2,3,65]", "b_data": "FP4E2M1[2,5,65]"}
    assert broken_rules("MATMUL_T_BLOCK_SCALED", BLOCK_SCALED | odd) == {
        "a-data-blocks",
        "b-data-blocks",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_unknown_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set(), example


#: Batches of both operands and of the result.
BATCHES: Final = [
    ("", "", ""),
    ("", "2,", "2,"),
    ("2,", "1,", "2,"),
    ("1,", "2,", "2,"),
    ("6,1,2,", "3,1,", "6,3,2,"),
    ("?,", "2,", "2,"),
    ("?,", "1,", "?,"),
]


@pytest.mark.parametrize("name", ["MATMUL", "MATMUL_T"])
@pytest.mark.parametrize(("a", "b", "result"), BATCHES)
def test_batches_of_any_rank_are_broadcast(name: str, a: str, b: str, result: str) -> None:
    matrix = "5,4" if name == "MATMUL_T" else "4,5"
    shapes = {"a": f"INT8[{a}3,4]", "b": f"INT8[{b}{matrix}]", "output": f"INT32[{result}3,5]"}
    verdict = judge_shapes(view(name, EXAMPLES[name] | shapes))
    assert verdict.violations == ()
    sizes = [-1 if size == "?" else int(size) for size in f"{result}3,5".split(",")]
    assert verdict.results == (tuple(sizes),)
