"""fold-padding: zeros around an image become the padding of the convolution that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewrites.programs import assert_same_bits, kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value

NAME = "fold-padding"


def padded(b: Builder, padding: list[int], value: float = 0.0, *, channels: int = 3) -> Value:
    """Return an image of FP32 of 6 by 7 with a border."""
    return b.pad(b.input("x", "fp32", (1, 6, 7, channels)), padding, value)


def convolved(b: Builder, image: Value, weight: Any = None, **options: Any) -> Value:
    """Convolve an image of 3 channels to 2."""
    given = np.random.default_rng(0).normal(size=(2, 3, 3, 3)) if weight is None else weight
    return b.conv2d(image, given.astype(np.float32), np.ones(2, np.float32), **options)


def _conv2d(b: Builder) -> Value:
    image = padded(b, [0, 0, 1, 2, 0, 1, 0, 0])
    return convolved(b, image, pad=[1, 0, 2, 1], stride=[1, 1], dilation=[2, 2])


def _depthwise(b: Builder) -> Value:
    image = padded(b, [0, 0, 1, 0, 1, 1, 0, 0])
    weight = np.random.default_rng(0).normal(size=(3, 3, 3, 2)).astype(np.float32)
    return b.depthwise_conv2d(image, weight, np.ones(6, np.float32), stride=[2, 2])


def _conv3d(b: Builder) -> Value:
    image = b.pad(b.input("x", "fp32", (1, 4, 5, 6, 2)), [0, 0, 1, 0, 1, 1, 0, 2, 0, 0], 0.0)
    weight = np.random.default_rng(0).normal(size=(2, 2, 3, 3, 2)).astype(np.float32)
    return b.conv3d(image, weight, np.ones(2, np.float32))


def _int8(b: Builder) -> Value:
    image = b.pad(b.input("x", "int8", (1, 6, 7, 3)), [0, 0, 1, 1, 1, 1, 0, 0], -5)
    weight = np.random.default_rng(0).integers(-9, 9, (2, 3, 3, 3)).astype(np.int8)
    return b.conv2d(image, weight, np.ones(2, np.int32), input_zp=-5, weight_zp=0)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("build", [_conv2d, _depthwise, _conv3d, _int8])
def test_the_convolution_pads_alone(build: Callable[[Builder], Value]) -> None:
    graph = program(build)
    made, report = rewritten(graph, "clean-up")
    assert (len(kinds(made)), report.count(NAME)) == (1, 1)
    assert tc.validate(made) == []
    tensor = graph.main.tensors["x"]
    draw = np.random.default_rng(1).normal(size=tensor.shape) * 50
    x = draw.astype(tensor.dtype.numpy)
    assert_same_bits(run(made, x=x), run(graph, x=x))


def _other_number(b: Builder) -> Value:
    return convolved(b, padded(b, [0, 0, 1, 1, 1, 1, 0, 0], 1.0))


def _negative_zero(b: Builder) -> Value:
    return convolved(b, padded(b, [0, 0, 1, 1, 1, 1, 0, 0], -0.0))


def _channels(b: Builder) -> Value:
    return convolved(b, padded(b, [0, 0, 0, 0, 0, 0, 0, 1], channels=2))


def _whole_windows(b: Builder) -> Value:
    return convolved(b, padded(b, [0, 0, 3, 0, 0, 0, 0, 0]))


def _second_use(b: Builder) -> tuple[Value, Value]:
    image = padded(b, [0, 0, 1, 1, 1, 1, 0, 0])
    return convolved(b, image), b.abs(image)


def _infinite_weights(b: Builder) -> Value:
    return convolved(b, padded(b, [0, 0, 1, 1, 1, 1, 0, 0]), np.full((2, 3, 3, 3), np.inf))


def _computed_weights(b: Builder) -> Value:
    image = padded(b, [0, 0, 1, 1, 1, 1, 0, 0])
    return b.conv2d(image, b.input("w", "fp32", (2, 3, 3, 3)), np.ones(2, np.float32))


def _other_zero_point(b: Builder) -> Value:
    image = b.pad(b.input("x", "int8", (1, 6, 7, 3)), [0, 0, 1, 1, 1, 1, 0, 0], 0)
    weight = np.ones((2, 3, 3, 3), np.int8)
    return b.conv2d(image, weight, np.ones(2, np.int32), input_zp=-5, weight_zp=0)


@pytest.mark.parametrize(
    "build",
    [
        *(_other_number, _negative_zero, _channels, _whole_windows, _second_use),
        *(_infinite_weights, _computed_weights, _other_zero_point),
    ],
)
def test_others_stay(build: Callable[[Builder], Value | tuple[Value, ...]]) -> None:
    assert not rewritten(program(build), NAME)[1]
