"""The rules of RESIZE."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known

from tosa_convert.graph.dtypes import ResizeMode

#: Twice as high, and half as wide.
RESIZE: Final[dict[str, Any]] = {
    "input": "INT8[1,4,7,3]",
    "scale": "SHAPE[4,2,2,4]",
    "offset": "SHAPE[0,0]",
    "border": "SHAPE[2,0]",
    "output": "INT32[1,8,4,3]",
    "mode": ResizeMode.BILINEAR,
}

BROKEN: Final[list[tuple[str, dict[str, Any]]]] = [
    ("input-rank", {"input": "INT8[4,7,3]"}),
    ("scale-length", {"scale": "SHAPE[4,2]"}),
    ("offset-length", {"offset": "SHAPE[]"}),
    ("border-length", {"border": "SHAPE[2,0,0]"}),
    ("scale-numerator", {"scale": "SHAPE[0,2,2,4]"}),
    ("scale-numerator", {"scale": "SHAPE[4,2,2049,4]"}),
    ("scale-denominator", {"scale": "SHAPE[4,2,2,-1]"}),
    ("scale-denominator", {"scale": "SHAPE[4,64,2,4]"}),
    ("offset-range", {"offset": "SHAPE[-5,0]"}),
    ("offset-range", {"offset": "SHAPE[0,32]"}),
    ("border-range", {"border": "SHAPE[4,0]"}),
    ("border-range", {"border": "SHAPE[2,-33]"}),
    ("height-below-one", {"offset": "SHAPE[16,0]"}),
    ("width-below-one", {"border": "SHAPE[2,-16]"}),
    ("height-not-divisible", {"border": "SHAPE[3,0]"}),
    ("width-not-divisible", {"offset": "SHAPE[0,1]"}),
    ("input-height-range", {"input": "INT8[1,16384,7,3]"}),
    ("output-width-range", {"input": "INT8[1,4,16383,3]", "scale": "SHAPE[4,2,2,1]"}),
    ("mode", {"input": "FP8E4M3[1,4,7,32]@32", "output": "FP8E4M3[1,8,4,32]@32"}),
    ("output-rank", {"output": "INT32[1,8,4]"}),
    ("output-batch", {"output": "INT32[2,8,4,3]"}),
    ("output-height", {"output": "INT32[1,7,4,3]"}),
    ("output-width", {"output": "INT32[1,8,5,3]"}),
    ("output-channels", {"output": "INT32[1,8,4,1]"}),
]


@pytest.mark.parametrize(("rule", "changes"), BROKEN, ids=[rule for rule, _ in BROKEN])
def test_a_broken_rule_is_the_only_violation(rule: str, changes: dict[str, Any]) -> None:
    assert broken_rules("RESIZE", RESIZE | changes) == {rule}


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": "SHAPE[2048,?,1,15]", "input": "INT8[1,4,16,3]"},
        {"offset": "SHAPE[-4,?]"},
        {"border": "SHAPE[?,1]", "input": "INT8[*]"},
        {"mode": ResizeMode.NEAREST, "input": "FP8E4M3[?,4,7,32]@32"},
        {"input": "INT8[1,16383,1,3]", "scale": "SHAPE[1,1,1,1]", "border": "SHAPE[0,0]"},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(changes: dict[str, Any]) -> None:
    assert broken_rules("RESIZE", RESIZE | changes | {"output": "INT32[*]"}) == set()


def test_what_is_unknown_violates_nothing() -> None:
    for example in less_known("RESIZE", RESIZE):
        assert broken_rules("RESIZE", example) == set(), example


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (1, 8, 4, 3)),
        ({"input": "INT8[1,1,7,3]"}, (1, 2, 4, 3)),
        ({"input": "INT8[?,?,7,?]"}, (-1, -1, 4, -1)),
        ({"input": "INT8[*]"}, (-1, -1, -1, -1)),
        ({"scale": "SHAPE[4,?,2,4]"}, (1, -1, 4, 3)),
        ({"border": "SHAPE[2,?]"}, (1, 8, -1, 3)),
    ],
)
def test_the_shape_of_the_result_follows(changes: dict[str, Any], shape: tuple[int, ...]) -> None:
    assert inferred("RESIZE", RESIZE | changes) == (shape,)
