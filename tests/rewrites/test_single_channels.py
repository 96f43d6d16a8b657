"""single-channels: convolutions of single channels that are joined become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.graph.constant import constant_of
from tosa_convert.rewrites.table import EXACT

NAME = "single-channels"


def by_channel(
    b: Builder,
    x: Value,
    *,
    element: str = "fp32",
    each: int = 2,
    order: tuple[int, ...] = (0, 1, 2),
) -> Value:
    """Convolve the channels of an image one by one, each to so many results."""
    draw = np.random.default_rng(0)
    height, width = (x.shape or ())[1:3]
    results = []
    for channel in order:
        types = ("int8", "int32") if element == "int8" else ("float32", "float32")
        weight = draw.integers(-9, 9, (each, 2, 3, 1)).astype(types[0])
        bias = draw.integers(-9, 9, each).astype(types[1])
        one = b.slice(x, [0, 0, 0, channel], [1, height, width, 1])
        options: Any = {"pad": [1, 0, 2, 1], "stride": [2, 1], "dilation": [1, 1]}
        if element == "int8":
            options |= {"input_zp": 3, "weight_zp": 0}
        results.append(b.conv2d(one, weight, bias, **options))
    return b.concat(results, axis=3)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["fp32", "int8"])
@pytest.mark.parametrize("each", [1, 2])
def test_they_become_a_depthwise_convolution(element: DTypeName, each: int) -> None:
    graph = program(
        lambda b: by_channel(b, b.input("x", element, (1, 5, 6, 3)), element=element, each=each)
    )
    made, report = rewritten(graph)
    assert kinds(made) == ["DEPTHWISE_CONV2D"]
    assert report.count(NAME) == 1
    assert tc.validate(made) == []
    assert "DEPTHWISE_CONV2D" not in kinds(rewritten(graph, *EXACT)[0])
    draw = np.random.default_rng(1)
    x = draw.integers(-99, 99, (1, 5, 6, 3)).astype("int8" if element == "int8" else "float32")
    found, expected = run(made, x=x)["y"], run(graph, x=x)["y"]
    np.testing.assert_allclose(found, expected, rtol=0 if element == "int8" else 1e-6, atol=1e-5)


def test_weights_may_be_parts_of_a_large_constant() -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (1, 100, 100, 2))
        whole = b.const(np.arange(2 * 100 * 100, dtype=np.float32).reshape(100, 100, 1, 2))
        weights = b.transpose(whole, perms=(3, 0, 1, 2))
        return b.concat(
            [
                b.conv2d(
                    b.slice(x, [0, 0, 0, channel], [1, 100, 100, 1]),
                    b.slice(weights, [channel, 0, 0, 0], [1, 100, 100, 1]),
                    np.zeros(1, np.float32),
                )
                for channel in range(2)
            ],
            axis=3,
        )

    made, _ = rewritten(program(build))
    assert kinds(made) == ["DEPTHWISE_CONV2D"]
    weight = made.main.tensors[made.main.operators[-1].inputs[1]]
    assert weight.data is not None
    assert weight.data.numpy().tolist() == list(range(2 * 100 * 100))


def _another_order(b: Builder, x: Value) -> Value:
    return by_channel(b, x, order=(0, 2, 1))


def _some_channels(b: Builder, x: Value) -> Value:
    return by_channel(b, x, order=(0, 1))


def _two_images(b: Builder, x: Value) -> Value:
    weight, bias = np.ones((1, 1, 1, 1), np.float32), np.zeros(1, np.float32)
    sources = (x, b.abs(x), x)
    cuts = [b.slice(one, [0, 0, 0, place], [1, 5, 6, 1]) for place, one in enumerate(sources)]
    return b.concat([b.conv2d(cut, weight, bias) for cut in cuts], axis=3)


def _another_stride(b: Builder, x: Value) -> Value:
    weight, bias = np.ones((1, 2, 2, 1), np.float32), np.zeros(1, np.float32)
    results = []
    for channel in range(3):
        cut = b.slice(x, [0, 0, 0, channel], [1, 5, 6, 1])
        pad = [0, channel // 2, 1 - channel // 2, 0] if channel else [0, 0, 1, 0]
        results.append(b.conv2d(cut, weight, bias, pad=pad))
    return b.concat([one for one in results if one.shape == results[0].shape], axis=3)


def test_a_bias_of_another_size_stays() -> None:
    graph = program(lambda b: by_channel(b, b.input("x", "fp32", (1, 5, 6, 3))))
    block = graph.main
    for op in block.operators:
        if op.spec.name == "CONV2D":
            tensor = block.tensors[op.inputs[2]]
            data = constant_of(np.zeros(3, np.float32), tensor.dtype)
            block.tensors[op.inputs[2]] = replace(tensor, shape=(3,), data=data)
    assert not rewritten(graph, NAME)[1]


@pytest.mark.parametrize("build", [_another_order, _some_channels, _two_images, _another_stride])
def test_others_stay(build: Callable[[Builder, Value], Value]) -> None:
    graph = program(lambda b: build(b, b.input("x", "fp32", (1, 5, 6, 3))))
    assert not rewritten(graph, NAME)[1]
