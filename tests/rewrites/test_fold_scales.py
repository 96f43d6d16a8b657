"""fold-scales: a normalisation becomes part of the convolution, within the error of its sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph, Tensor
from tosa_convert.graph.constant import constant_of
from tosa_convert.rewrites import scales

NAME = "fold-scales"
Array = npt.NDArray[np.float32]
KINDS = ("conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d")


def numbers(shape: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution(b: Builder, x: Value, kind: str, seed: int = 0) -> Value:
    """Return a convolution of 3 channels to 6."""
    if kind == "conv3d":
        weight = numbers((6, 2, 2, 2, 3), seed)
        return b.conv3d(x, weight, numbers([6], 1))
    if kind == "depthwise_conv2d":
        weight = numbers((2, 2, 3, 2), seed)
        return b.depthwise_conv2d(x, weight, numbers([6], 1))
    weight = numbers((6, 2, 2, 3), seed)
    if kind == "transpose_conv2d":
        return b.transpose_conv2d(x, weight, numbers([6], 1), out_pad=[0] * 4, stride=[2, 2])
    return b.conv2d(x, weight, numbers([6], 1))


def normalised(kind: str, seed: int = 0) -> Graph:
    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (1, *[4] * (3 if kind == "conv3d" else 2), 3))
        y = convolution(b, x, kind, seed)
        ones = [1] * (len(y.shape or ()) - 1)
        mean, scale, gamma, beta = (numbers((*ones, 6), seed + n) for n in range(4))
        y = b.mul(b.sub(y, mean), np.abs(scale) + 0.1)
        return b.add(b.mul(gamma, y), beta)

    return program(build)


def behind_a_transpose(b: Builder, y: Value) -> Value:
    y = b.transpose(y, perms=(0, 3, 1, 2))
    return b.add(b.mul(numbers((1, 6, 1, 1), 3), y), numbers((1, 6, 1, 1), 4))


@pytest.mark.parametrize("perms", [(0,), (0, 3, 1, 5)])
def test_a_transpose_that_is_not_valid_keeps_what_is_behind(perms: tuple[int, ...]) -> None:
    graph = program(
        lambda b: behind_a_transpose(
            b, convolution(b, b.input("x", "fp32", (1, 4, 4, 3)), "conv2d")
        )
    )
    (op,) = (op for op in graph.main.operators if op.spec.name == "TRANSPOSE")
    op.attributes["perms"] = perms
    assert rewritten(graph)[0] is graph


def test_weights_of_another_number_of_channels_stay() -> None:
    graph = normalised("conv2d")
    (op,) = (op for op in graph.main.operators if op.spec.name == "CONV2D")
    weights = graph.main.tensors[op.inputs[1]]
    weights.shape, weights.data = (3, 2, 2, 3), constant_of(numbers((3, 2, 2, 3), 0), weights.dtype)
    made, _ = rewritten(graph, NAME)
    assert kinds(made).count("MUL") == 2


def test_each_constant_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find a weight that is stored once with its transpose; not all of them for each product."""
    layers, usual = 30, scales._rows
    looks: list[str] = []

    def look(tensor: Tensor) -> object:
        looks.append(tensor.name)
        return usual(tensor)

    monkeypatch.setattr(scales, "_rows", look)

    def build(b: Builder) -> Value:
        x = b.input("x", "fp32", (1, 4, 32))
        for seed in range(layers):
            x = b.abs(b.mul(b.matmul(x, numbers((1, 32, 32), seed)), 0.3))
        return x

    assert rewritten(program(build), NAME)[1].count(NAME) == layers
    assert len(looks) < 10 * layers


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("bias", [True, False])
def test_one_number_for_all_channels_passes_what_splits_them(bias: bool) -> None:
    def build(b: Builder) -> Value:
        y = b.matmul(b.input("x", "fp32", (1, 8, 3)), numbers((1, 3, 6), 0))
        y = b.add(y, numbers((1, 1, 6), 1)) if bias else y
        return b.mul(b.transpose(b.reshape(y, (8, 2, 3)), perms=(1, 2, 0)), 0.3)

    graph = program(build)
    made, _ = rewritten(graph)
    assert kinds(made) == ["MATMUL", *["ADD"] * bias, "RESHAPE", "TRANSPOSE"]
    x = numbers((1, 8, 3), 9)
    found, expected = run(made, x=x)["y"], run(graph, x=x)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("left", "right"), [((8, 3), (3, 6)), ((2, 1, 8, 3), (4, 3, 6))])
def test_the_scales_of_columns_pass_into_products_of_any_batches(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    def build(b: Builder) -> Value:
        y = b.matmul(b.input("x", "fp32", left), numbers(right, 0))
        ones = (1,) * (len(y.shape or ()) - 1)
        return b.mul(b.add(y, numbers((*ones, 6), 1)), numbers((*ones, 6), 2))

    graph = program(build)
    made, _ = rewritten(graph)
    assert kinds(made) == ["MATMUL", "ADD"]
    given = {"x": numbers(left, 9)}
    found, expected = (tc.run(one, given, engine="numpy").outputs["y"] for one in (made, graph))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_large_weights_are_not_scaled_by_one_number_behind_what_splits_channels() -> None:
    def build(b: Builder, size: int) -> Value:
        y = b.matmul(b.input("x", "fp32", (1, 2, size)), numbers((1, size, 1028), 0))
        return b.mul(b.reshape(y, (2, 2, 514)), 0.3)

    assert kinds(rewritten(program(lambda b: build(b, 1000)))[0]) == ["MATMUL", "RESHAPE"]
    assert kinds(rewritten(program(lambda b: build(b, 1028)))[0]) == ["MATMUL", "RESHAPE", "MUL"]


def test_a_second_sum_that_stayed_is_not_passed() -> None:
    def build(b: Builder) -> Value:
        y = b.matmul(b.input("x", "fp32", (1, 8, 3)), numbers((1, 3, 6), 0))
        large = np.full((1, 1, 6), 3e38, np.float32)
        return b.mul(b.add(b.add(y, large), large), numbers((1, 1, 6), 3))

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_the_error_is_that_of_the_sums(seed: int, kind: str) -> None:
    graph = normalised(kind, seed)
    made, _ = rewritten(graph)
    x = numbers(graph.main.tensors["x"].shape or (), seed)
    found, before = run(made, x=x)["y"], run(graph, x=x)["y"]
    # The sum of the magnitudes of all products and constants, by the same program.
    block = graph.main
    sizes = 1.0
    for name in [op.outputs[0] for op in block.operators if op.spec.name == "CONST"]:
        data = block.tensors[name].data
        assert data is not None
        if data.count > 1:
            sizes *= 1 + float(np.abs(data.numpy().astype(np.float64)).max())
    bound = 24 * 3 * (1 + float(np.abs(x).max())) * sizes * float(np.finfo(np.float32).eps)
    assert np.abs(found - before).max() <= bound


def _used_twice(b: Builder, y: Value) -> Value:
    return b.add(b.mul(y, numbers((1, 1, 1, 6), 0)), y)


def _other_axis(b: Builder, y: Value) -> Value:
    return b.add(y, numbers((1, 3, 1, 1), 0))


def _not_finite(b: Builder, y: Value) -> Value:
    return b.mul(y, np.full((1, 1, 1, 1), np.inf, np.float32))


def _too_small(b: Builder, y: Value) -> Value:
    return b.mul(y, np.full((1, 1, 1, 1), 1e-38, np.float32))


def _subtrahend(b: Builder, y: Value) -> Value:
    return b.sub(numbers((1, 1, 1, 6), 0), y)


@pytest.mark.parametrize("build", [_used_twice, _other_axis, _not_finite, _too_small, _subtrahend])
def test_what_cannot_become_part_of_it_stays(build: Callable[[Builder, Value], Value]) -> None:
    graph = program(
        lambda b: build(b, convolution(b, b.input("x", "fp32", (1, 4, 4, 3)), "conv2d"))
    )
    assert rewritten(graph, NAME)[0] is graph
