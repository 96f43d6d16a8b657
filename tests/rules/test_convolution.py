"""The rules of convolutions."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rules.operator_examples import broken_rules, inferred, less_known

CONV2D: Final = {
    "input": "INT8[2,7,9,3]",
    "weight": "INT8[4,3,2,3]",
    "bias": "INT32[4]",
    "input_zp": "INT8[1]=5",
    "weight_zp": "INT8[1]=0",
    "output": "INT32[2,4,10,4]",
    "pad": (1, 1, 0, 2),
    "stride": (2, 1),
    "dilation": (1, 1),
}
CONV3D: Final = {
    "input": "FP32[1,5,7,9,3]",
    "weight": "FP32[4,1,3,2,3]",
    "bias": "FP32[1]",
    "input_zp": "FP32[1]=0",
    "weight_zp": "FP32[1]=-0.0",
    "output": "FP32[1,3,5,8,4]",
    "pad": (0, 0, 0, 0, 0, 0),
    "stride": (2, 1, 1),
    "dilation": (1, 1, 1),
}
DEPTHWISE: Final = {**CONV2D, "weight": "INT8[3,2,3,4]", "bias": "INT32[12]"} | {
    "output": "INT32[2,4,10,12]"
}
TRANSPOSE: Final = {
    "input": "BF16[1,4,5,3]",
    "weight": "BF16[8,3,2,3]",
    "bias": "BF16[8]",
    "input_zp": "BF16[1]=-0.0",
    "weight_zp": "BF16[1]=0",
    "output": "BF16[1,8,11,8]",
    "out_pad": (-1, 0, 0, 1),
    "stride": (2, 2),
}
BLOCK_SCALED: Final = {
    "input_data": "FP8E4M3[2,7,9,64]",
    "input_scale": "FP8UE8M0[2,7,9,2]",
    "weight_data": "FP8E4M3[4,3,2,64]",
    "weight_scale": "FP8UE8M0[4,3,2,2]",
    "bias": "FP32[4]",
    "pad": "SHAPE[1,1,0,2]",
    "stride": "SHAPE[2,1]",
    "dilation": "SHAPE[1,1]",
    "output": "FP32[2,4,10,4]",
    "block_size": 32,
}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "CONV2D": CONV2D,
    "CONV3D": CONV3D,
    "DEPTHWISE_CONV2D": DEPTHWISE,
    "TRANSPOSE_CONV2D": TRANSPOSE,
    "CONV2D_BLOCK_SCALED": BLOCK_SCALED,
}

BROKEN: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("CONV2D", "input-rank", {"input": "INT8[2,7,9]"}),
    ("CONV2D", "weight-rank", {"weight": "INT8[4,3,2,3,1]"}),
    ("CONV2D", "bias-rank", {"bias": "INT32[]"}),
    ("CONV2D", "channels", {"weight": "INT8[4,3,2,5]"}),
    ("CONV2D", "bias-size", {"bias": "INT32[3]"}),
    ("CONV2D", "pad-negative", {"pad": (1, 1, 0, -1)}),
    ("CONV2D", "stride-below-one", {"stride": (2, 0)}),
    ("CONV2D", "dilation-below-one", {"dilation": (0, 1)}),
    ("CONV2D", "height-not-divisible", {"stride": (5, 1)}),
    ("CONV2D", "width-not-divisible", {"stride": (2, 2)}),
    ("CONV2D", "height-below-kernel", {"weight": "INT8[4,10,2,3]"}),
    ("CONV2D", "width-below-kernel", {"dilation": (1, 11)}),
    ("CONV2D", "input-zp-shape", {"input_zp": "INT8[]"}),
    ("CONV2D", "weight-zp-shape", {"weight_zp": "INT8[4]"}),
    ("CONV2D", "weight-zp-not-zero", {"weight_zp": "INT4[1]=1"}),
    ("CONV2D", "input-zp-not-zero", {"input_zp": "INT16[1]=1"}),
    ("CONV2D", "output-rank", {"output": "INT32[2,4,10]"}),
    ("CONV2D", "output-batch", {"output": "INT32[1,4,10,4]"}),
    ("CONV2D", "output-height", {"output": "INT32[2,5,10,4]"}),
    ("CONV2D", "output-width", {"output": "INT32[2,4,9,4]"}),
    ("CONV2D", "output-channels", {"output": "INT32[2,4,10,3]"}),
    ("CONV2D_BLOCK_SCALED", "block-size", {"block_size": 1}),
    ("CONV3D", "input-rank", {"input": "FP32[1,5,7,9]"}),
    ("CONV3D", "channels", {"weight": "FP32[4,1,3,2,4]"}),
    ("CONV3D", "bias-size", {"bias": "FP32[2]"}),
    ("CONV3D", "pad-negative", {"pad": (0, 0, -1, 0, 0, 0)}),
    ("CONV3D", "stride-below-one", {"stride": (1, -1, 1)}),
    ("CONV3D", "dilation-below-one", {"dilation": (1, 1, 0)}),
    ("CONV3D", "depth-not-divisible", {"stride": (3, 1, 1)}),
    ("CONV3D", "depth-below-kernel", {"weight": "FP32[4,6,3,2,3]"}),
    ("CONV3D", "input-zp-not-zero", {"input_zp": "FP32[1]=0.5"}),
    ("CONV3D", "output-depth", {"output": "FP32[1,5,5,8,4]"}),
    ("DEPTHWISE_CONV2D", "weight-rank", {"weight": "INT8[3,2,3]"}),
    ("DEPTHWISE_CONV2D", "channels", {"weight": "INT8[3,2,4,3]"}),
    ("DEPTHWISE_CONV2D", "bias-size", {"bias": "INT32[4]"}),
    ("DEPTHWISE_CONV2D", "height-not-divisible", {"stride": (4, 1)}),
    ("DEPTHWISE_CONV2D", "output-channels", {"output": "INT32[2,4,10,4]"}),
    ("TRANSPOSE_CONV2D", "channels", {"weight": "BF16[8,3,2,4]"}),
    ("TRANSPOSE_CONV2D", "bias-size", {"bias": "BF16[3]"}),
    ("TRANSPOSE_CONV2D", "stride-below-one", {"stride": (2, 0)}),
    ("TRANSPOSE_CONV2D", "out-pad-height", {"out_pad": (-3, 0, 0, 1)}),
    ("TRANSPOSE_CONV2D", "out-pad-width", {"out_pad": (-1, 0, 0, -2)}),
    ("TRANSPOSE_CONV2D", "height-below-one", {"input": "BF16[1,1,5,3]", "out_pad": (-2, -1, 0, 1)}),
    ("TRANSPOSE_CONV2D", "weight-zp-not-zero", {"weight_zp": "BF16[1]=1"}),
    ("TRANSPOSE_CONV2D", "output-height", {"output": "BF16[1,9,11,8]"}),
    ("TRANSPOSE_CONV2D", "output-width", {"output": "BF16[1,8,10,8]"}),
    ("CONV2D_BLOCK_SCALED", "input-data-rank", {"input_data": "FP8E4M3[2,7,64]"}),
    ("CONV2D_BLOCK_SCALED", "weight-scale-rank", {"weight_scale": "FP8UE8M0[4,3,2]"}),
    ("CONV2D_BLOCK_SCALED", "pad-length", {"pad": "SHAPE[1,1]"}),
    ("CONV2D_BLOCK_SCALED", "stride-length", {"stride": "SHAPE[]"}),
    ("CONV2D_BLOCK_SCALED", "dilation-length", {"dilation": "SHAPE[1,1,1]"}),
    ("CONV2D_BLOCK_SCALED", "pad-negative", {"pad": "SHAPE[1,1,-1,?]"}),
    ("CONV2D_BLOCK_SCALED", "stride-below-one", {"stride": "SHAPE[2,-1]"}),
    ("CONV2D_BLOCK_SCALED", "dilation-below-one", {"dilation": "SHAPE[0,1]"}),
    ("CONV2D_BLOCK_SCALED", "height-not-divisible", {"stride": "SHAPE[4,?]"}),
    ("CONV2D_BLOCK_SCALED", "input-scale-shape", {"input_scale": "FP8UE8M0[2,7,9,64]"}),
    ("CONV2D_BLOCK_SCALED", "weight-scale-shape", {"weight_scale": "FP8UE8M0[4,3,1,2]"}),
    (
        "CONV2D_BLOCK_SCALED",
        "channels",
        {"weight_data": "FP8E4M3[4,3,2,32]", "weight_scale": "FP8UE8M0[4,3,2,1]"},
    ),
    ("CONV2D_BLOCK_SCALED", "bias-size", {"bias": "FP32[2]"}),
    ("CONV2D_BLOCK_SCALED", "output-height", {"output": "FP32[2,5,10,4]"}),
]


@pytest.mark.parametrize(
    ("name", "rule", "changes"), BROKEN, ids=[f"{name}-{rule}" for name, rule, _ in BROKEN]
)
def test_a_broken_rule_is_the_only_violation(name: str, rule: str, changes: dict[str, Any]) -> None:
    assert broken_rules(name, EXAMPLES[name] | changes) == {rule}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_unknown_violates_nothing(name: str) -> None:
    for example in less_known(name, EXAMPLES[name]):
        assert broken_rules(name, example) == set(), example


@pytest.mark.parametrize(
    ("name", "changes", "shape"),
    [
        ("CONV2D", {}, (2, 4, 10, 4)),
        ("CONV2D", {"dilation": (2, 5)}, (2, 3, 6, 4)),
        ("CONV2D", {"input": "INT8[?,7,?,3]"}, (-1, 4, -1, 4)),
        ("CONV2D", {"input": "INT8[*]"}, (-1, -1, -1, 4)),
        ("CONV2D", {"weight": "INT8[*]"}, (2, -1, -1, 4)),
        ("CONV2D", {"weight": "INT8[*]", "bias": "INT32[1]"}, (2, -1, -1, -1)),
        ("CONV2D", {"bias": "INT32[1]"}, (2, 4, 10, 4)),
        ("CONV3D", {}, (1, 3, 5, 8, 4)),
        ("DEPTHWISE_CONV2D", {}, (2, 4, 10, 12)),
        ("DEPTHWISE_CONV2D", {"weight": "INT8[3,2,?,4]"}, (2, 4, 10, 12)),
        ("TRANSPOSE_CONV2D", {}, (1, 8, 11, 8)),
        ("TRANSPOSE_CONV2D", {"input": "BF16[1,?,5,3]"}, (1, -1, 11, 8)),
        ("CONV2D_BLOCK_SCALED", {}, (2, 4, 10, 4)),
        ("CONV2D_BLOCK_SCALED", {"stride": "SHAPE[?,1]"}, (2, -1, 10, 4)),
        ("CONV2D_BLOCK_SCALED", {"input_data": "FP8E4M3[*]"}, (2, 4, 10, 4)),
    ],
)
def test_the_shape_of_the_result_follows(
    name: str, changes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    assert inferred(name, EXAMPLES[name] | changes) == (shape,)


def test_blocks_are_whole() -> None:
    odd = {"input_data": "FP8E4M3[2,7,9,65]", "weight_data": "FP8E4M3[4,3,2,65]"}
    assert broken_rules("CONV2D_BLOCK_SCALED", BLOCK_SCALED | odd) == {
        "input-data-blocks",
        "weight-data-blocks",
    }


def test_independent_violations_are_found_together() -> None:
    changes = {"bias": "INT32[7]", "pad": (1, 1, 0, -2), "dilation": (0, 1)}
    assert broken_rules("CONV2D", CONV2D | changes) == {
        "bias-size",
        "pad-negative",
        "dilation-below-one",
    }
