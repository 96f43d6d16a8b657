"""Stripped programs: the role of a constant decides whether it becomes zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import branching, counting, example, graph, op, shape, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import installed
from tosa_convert.formats.weights.write import strip
from tosa_convert.graph import (
    DTYPES,
    Constant,
    DType,
    Graph,
    ShapeValue,
    Tensor,
    compare,
    dtype,
    verify,
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


def test_parameters_of_operators_are_kept_and_weights_and_biases_are_not() -> None:
    made = convolution()
    assert verify(made) == []
    found = strip(made)
    assert verify(found) == []
    assert values_of(found, "weight") == [0]
    assert values_of(found, "bias") == [0]
    assert values_of(found, "zp") == [5]
    assert values_of(found, "multiplier") == [3]
    assert values_of(found, "shift") == [30]
    assert values_of(made, "weight") == [7]


def test_a_constant_that_is_more_than_a_parameter_is_stripped() -> None:
    assert values_of(strip(convolution(extra="zp")), "zp") == [0]
    made = convolution()
    made.main.tensors["sum"] = tensor("sum", "INT8", (1, 4, 4, 1))
    made.main.operators.append(op("MAXIMUM", "x zp", "sum"))
    assert values_of(strip(made), "zp") == [0]


@pytest.mark.parametrize("dims", [(), (1,), (3,), (64,)])
@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16", "FP8E4M3"])
def test_a_floating_point_value_is_stripped_however_small(kind: str, dims: tuple[int, ...]) -> None:
    count = int(np.prod(dims))
    weight = tensor("w", kind, dims, b"\x3c" * dtype(kind).wire_bytes(count))
    values = [tensor("x", kind, dims), weight, tensor("y", kind, dims)]
    made = graph("x", "y", list(values), [op("CONST", "", "w"), op("ADD", "x w", "y")])
    assert not any(values_of(strip(made), "w"))


def test_the_padding_value_of_pad_is_kept() -> None:
    values: list[Tensor | ShapeValue] = [
        tensor("x", "FP32", (1,)),
        tensor("value", "FP32", (1,), np.array([-1.5], "<f4").tobytes()),
        tensor("y", "FP32", (3,)),
        shape("padding", 1, 1),
    ]
    operators = [
        op("CONST", "", "value"),
        op("CONST_SHAPE", "", "padding"),
        op("PAD", "x padding value", "y"),
    ]
    found = strip(graph("x", "y", values, operators))
    assert values_of(found, "value") == [-1.5]
    assert found.main.shapes["padding"].values() == (1, 1)


def test_everything_except_shapes_is_stripped_on_request() -> None:
    found = strip(convolution(), keep_parameters=False)
    assert not any(data.numpy().any() for _, data in found.constants())
    found = strip(example(), keep_parameters=False)
    assert not any(data.numpy().any() for _, data in found.constants())
    assert found.main.shapes["to"].values() == (3,)
    assert verify(found) == []


@pytest.mark.skipif("torch_mlir" not in installed(), reason="reads MLIR bytecode")
def test_the_example_network_keeps_no_trained_value(root: Path) -> None:
    made = tc.load(root / "examples" / "digits_cnn.mlirbc")
    found = strip(made)
    assert any(data.numpy().any() for _, data in made.constants())
    # Its zero points are 0, too.
    assert not any(data.numpy().any() for _, data in found.constants())
    assert verify(found) == []


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_constants_of_every_type_become_zeros(row: DType) -> None:
    raw = np.random.default_rng(1).integers(0, 2, row.wire_bytes(32)).astype(np.uint8).tobytes()
    found = strip(graph("", "w", [tensor("w", row.name, (32,), raw)], [op("CONST", "", "w")]))
    data = found.main.tensors["w"].data
    assert data is not None
    assert data.splat
    assert not any(data.packed())
    assert verify(found) == []


def test_scales_are_stripped_with_their_values() -> None:
    value = tensor("w", "FP8E4M3", (32, 32), bytes(range(128)) * 8)
    scales = Constant(dtype("FP8UE8M0"), 32, bytes(range(32)))
    value.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scales)
    found = strip(graph("", "w", [value], [op("CONST", "", "w")])).main.tensors["w"]
    assert found.scale is not None
    assert found.scale.data is not None
    assert not any(found.scale.data.packed())
    assert any(scales.packed())


def test_initial_values_of_variables_are_stripped() -> None:
    assert values_of(strip(counting()), "v") == [0]


def test_constants_of_all_regions_are_stripped() -> None:
    made = branching()
    inner = made.regions[1].blocks[0]
    inner.tensors["w"] = tensor("w", data=bytes(range(24)))
    inner.operators.append(op("CONST", "", "w"))
    found = strip(made).regions[1].blocks[0].tensors["w"].data
    assert found is not None
    assert not found.numpy().any()


def test_the_graph_that_is_stripped_is_not_changed() -> None:
    made = convolution()
    strip(made)
    assert compare(made, convolution()) is None


def test_an_operator_with_too_many_operands_has_no_parameters() -> None:
    made = convolution()
    made.main.operators[-1].inputs += ("zp",)
    assert values_of(strip(made), "shift") == [0]
