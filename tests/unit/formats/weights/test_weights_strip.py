"""Stripped programs: the role of a constant decides whether it becomes zeros."""

from __future__ import annotations

from typing import Any

from unit.building import graph, op, tensor

from tosa_convert.formats.weights.write import strip
from tosa_convert.graph import (
    Constant,
    Graph,
    dtype,
)
from tosa_convert.graph.dtypes import BlockShape, RoundingMode
from tosa_convert.graph.model import BlockScale


def values_of(made: Graph, name: str) -> list[Any]:
    data = made.main.tensors[name].data
    assert data is not None
    found: list[Any] = data.numpy().tolist()
    return found


def convolution(zero_point: int = 5, extra: str = "") -> Graph:
    """Return a quantised convolution and its RESCALE, with a bias of one element."""
    constants = [
        tensor("weight", "INT8", (1, 1, 1, 1), b"\7"),
        tensor("bias", "INT32", (1,), b"\x09\0\0\0"),
        tensor("zp", "INT8", (1,), bytes([zero_point])),
        tensor("multiplier", "INT32", (1,), b"\3\0\0\0"),
        tensor("shift", "INT8", (1,), b"\x1e"),
        tensor("zp32", "INT32", (1,), bytes(4)),
    ]
    values = [
        tensor("x", "INT8", (1, 4, 4, 1)),
        tensor("conv", "INT32", (1, 4, 4, 1)),
        tensor("y", "INT8", (1, 4, 4, 1)),
    ]
    operators = [op("CONST", "", value.name) for value in constants]
    attributes: dict[str, Any] = {
        "pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "local_bound": False,
        "acc_type": dtype("INT32"),
    }  # fmt: skip
    operators.append(op("CONV2D", "x weight bias zp zp", "conv", **attributes))
    rescale: dict[str, Any] = {
        "scale32": True, "rounding_mode": RoundingMode.SINGLE_ROUND, "per_channel": False,
        "input_unsigned": False, "output_unsigned": False,
    }  # fmt: skip
    operators.append(op("RESCALE", "conv multiplier shift zp32 zp", "y", **rescale))
    return graph("x", f"y {extra}".strip(), [*constants, *values], operators)


def test_a_constant_that_is_more_than_a_parameter_is_stripped() -> None:
    assert values_of(strip(convolution(extra="zp")), "zp") == [0]
    made = convolution()
    made.main.tensors["sum"] = tensor("sum", "INT8", (1, 4, 4, 1))
    made.main.operators.append(op("MAXIMUM", "x zp", "sum"))
    assert values_of(strip(made), "zp") == [0]


def test_scales_are_stripped_with_their_values() -> None:
    value = tensor("w", "FP8E4M3", (32, 32), bytes(range(128)) * 8)
    scales = Constant(dtype("FP8UE8M0"), 32, bytes(range(32)))
    value.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scales)
    found = strip(graph("", "w", [value], [op("CONST", "", "w")])).main.tensors["w"]
    assert found.scale is not None
    assert found.scale.data is not None
    assert not any(found.scale.data.packed())
    assert any(scales.packed())


def test_an_operator_with_too_many_operands_has_no_parameters() -> None:
    made = convolution()
    made.main.operators[-1].inputs += ("zp",)
    assert values_of(strip(made), "shift") == [0]
