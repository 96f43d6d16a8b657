"""What a level does not allow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tosa_convert.graph.dtypes import ResizeMode, dtype
from tosa_convert.graph.model import Block, Graph, Operator, Region, Version
from tosa_convert.graph.opset import AttributeValue, operator
from tosa_convert.rules.operator_view import OperatorView, ShapeType, Size, TensorType, ValueType
from tosa_convert.rules.profiles import LEVEL_8K, LEVEL_NONE, nesting_violations, violations


def tensor(*shape: int, element: str = "FP32") -> TensorType:
    return TensorType(dtype(element), shape)


def sizes(*values: Size) -> ShapeType:
    return ShapeType(len(values), values)


def view(
    name: str,
    inputs: Sequence[ValueType],
    outputs: Sequence[ValueType],
    **attributes: AttributeValue,
) -> OperatorView:
    made = Operator(operator(name), ("x",) * len(inputs), ("y",) * len(outputs), attributes)
    return OperatorView(made, tuple(inputs), tuple(outputs))


def rules(subject: OperatorView) -> list[str]:
    """Return the rules that level 8K breaks; level NONE allows all of these operators."""
    assert list(violations(subject, LEVEL_NONE)) == []
    return [found.rule for found in violations(subject, LEVEL_8K)]


ZERO = tensor(1)


def conv2d(
    weight: tuple[int, ...] = (1, 3, 3, 1),
    pad: tuple[int, ...] = (0, 0, 0, 0),
    stride: tuple[int, ...] = (1, 1),
    dilation: tuple[int, ...] = (1, 1),
) -> OperatorView:
    inputs = (tensor(1, 4, 4, 1), tensor(*weight), ZERO, ZERO, ZERO)
    result = tensor(1, 2, 2, 1)
    return view("CONV2D", inputs, [result], pad=pad, stride=stride, dilation=dilation)


@pytest.mark.parametrize(
    ("element", "count", "allowed"),
    [
        ("INT8", 2**31 - 1, True),
        ("INT8", 2**31, False),
        ("FP32", 2**29, False),
        ("INT4", 2**31, False),
    ],
)
def test_sizes_are_limited_in_bytes(element: str, count: int, allowed: bool) -> None:
    large = tensor(count, element=element)
    expected = [] if allowed else ["level-input1-size", "level-output-size"]
    assert rules(view("REVERSE", [large], [large], axis=0)) == expected


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        (conv2d(pad=(0, 8193, 0, 0)), "level-pad"),
        (conv2d(stride=(1, 8193)), "level-stride"),
        (conv2d(dilation=(2731, 1)), "level-kernel"),
        (conv2d(weight=(1, 8193, 1, 1)), "level-kernel"),
    ],
)
def test_convolutions_are_limited(subject: OperatorView, rule: str) -> None:
    assert rules(subject) == [rule]


def test_the_kernel_of_a_depthwise_convolution_is_its_first_dimensions() -> None:
    inputs = (tensor(1, 9000, 4, 1), tensor(8193, 1, 1, 9000), ZERO, ZERO, ZERO)
    parts = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}
    assert rules(view("DEPTHWISE_CONV2D", inputs, [tensor(1)], **parts)) == ["level-kernel"]


def test_a_transposed_convolution_is_limited() -> None:
    inputs = (tensor(1, 4, 4, 1), tensor(1, 8193, 1, 1), ZERO, ZERO, ZERO)
    parts = {"out_pad": (0, 0, 0, 9000), "stride": (9000, 1)}
    assert rules(view("TRANSPOSE_CONV2D", inputs, [tensor(1)], **parts)) == [
        "level-out-pad",
        "level-stride",
        "level-kernel",
    ]


def test_fourier_transforms_are_limited() -> None:
    data = tensor(1, 16384, 8)
    assert rules(view("FFT2D", [data, data], [data, data])) == ["level-input-real"]


def test_the_scale_of_resize_is_limited() -> None:
    image, zero = tensor(1, 2, 2, 1), sizes(0, 0)
    inputs = (image, sizes(514, 2, 256, 1), zero, zero)
    assert rules(view("RESIZE", inputs, [image], mode=ResizeMode.NEAREST)) == ["level-scale"]
    inputs = (image, sizes(None, 2, 4, 0), zero, zero)
    assert rules(view("RESIZE", inputs, [image], mode=ResizeMode.NEAREST)) == []


def test_lists_of_tensors_are_limited() -> None:
    assert rules(view("CONCAT", [ZERO] * 64, [ZERO], axis=0)) == []
    assert rules(view("CONCAT", [ZERO] * 65, [ZERO], axis=0)) == ["level-input1-list"]
    assert rules(view("CUSTOM", [], [ZERO] * 65)) == ["level-output-list-list"]


def test_shapes_are_limited_in_length() -> None:
    assert rules(view("CONST_SHAPE", [], [sizes(*[1] * 16)])) == []
    assert rules(view("CONST_SHAPE", [], [sizes(*[1] * 17)])) == ["level-output-length"]


def nested(depth: int) -> Graph:
    """COND_IF in COND_IF: `depth` operators, each of which runs a region with the next."""
    regions = []
    for index in range(depth + 1):
        block = Block(f"r{index}")
        if index < depth:
            parts: dict[str, AttributeValue] = dict.fromkeys(
                ("then_graph", "else_graph"), f"r{index + 1}"
            )
            block.operators.append(Operator(operator("COND_IF"), ("c",), (), parts))
        block.operators.append(Operator(operator("ABS"), ("x",), ("y",), {}))  # of any depth
        regions.append(Region(f"r{index}", [block]))
    return Graph(Version(1, 0), regions)


def test_control_flow_is_nested_to_a_limited_depth() -> None:
    assert list(nesting_violations(nested(5), LEVEL_8K)) == []
    found = list(nesting_violations(nested(7), LEVEL_8K))
    assert [row.where for row in found] == [
        'region "r5" block "r5" operator #0 COND_IF',
        'region "r6" block "r6" operator #0 COND_IF',
    ]
    assert found[0].violation.message == "control flow at depth 6"
    assert list(nesting_violations(nested(255), LEVEL_NONE)) == []
    assert len(list(nesting_violations(nested(256), LEVEL_NONE))) == 1


def test_a_region_that_several_operators_run_has_the_greatest_depth() -> None:
    graph = nested(6)
    # The main graph runs the innermost region directly, too.
    graph.main.operators[0].attributes["else_graph"] = "r6"
    assert len(list(nesting_violations(graph, LEVEL_8K))) == 1


def test_a_weight_of_unknown_rank_is_within_any_level() -> None:
    unknown = TensorType(dtype("FP32"), None)
    attributes: dict[str, AttributeValue] = {
        "pad": (0, 0, 0, 0),
        "stride": (1, 1),
        "dilation": (1, 1),
        "local_bound": False,
        "acc_type": dtype("FP32"),
    }
    operands = [tensor(1, 8, 8, 2), unknown, tensor(1), tensor(1), tensor(1)]
    assert not list(violations(view("CONV2D", operands, [unknown], **attributes), LEVEL_8K))
