"""Test `integers`: quantised networks in floating point become integers, a step off at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import kinds, program, rewritten

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph
from tosa_convert.rewrites.quantised_patterns import steps_of_outputs
from tosa_convert.rewrites.table import EXACT

NAME = "integers"
Array = npt.NDArray[np.int8]


def quantise(b: Builder, x: Value, scale: float, zero: int) -> Value:
    """Add the operators that torch-mlir makes of QuantizeLinear."""
    x = b.mul(x, float(np.float32(1) / np.float32(scale)))
    below, above = b.floor(x), b.ceil(x)
    rest = b.sub(x, below)
    even = b.equal(below, b.mul(b.floor(b.mul(below, 0.5)), 2.0))
    down = b.logical_or(b.greater(0.5, rest), b.logical_and(b.equal(rest, 0.5), even))
    moved = b.add(b.select(down, below, above), float(zero))
    return b.cast(b.clamp(moved, min_val=-128, max_val=127), dtype="int8")


def quantise_by_cast(b: Builder, x: Value, scale: float, zero: int) -> Value:
    """Add the operators that the frontend of ONNX makes of QuantizeLinear."""
    x = b.mul(x, float(np.float32(1) / np.float32(scale)))
    if not zero:
        return b.cast(x, dtype="int8")
    return b.rescale(
        b.cast(x, dtype="int16"),
        np.array([1 << 30], np.int32),
        np.array([30], np.int8),
        np.zeros(1, np.int16),
        np.array([zero], np.int8),
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
        dtype="int8",
    )


def dequantise(b: Builder, x: Value, scale: float, zero: int = 0) -> Value:
    wide = b.cast(x, dtype="int32")
    if zero:
        wide = b.sub(wide, zero)
    return b.mul(b.cast(wide, dtype="fp32"), scale)


def weight(b: Builder, shape: Sequence[int], axis: int, seed: int = 1) -> Value:
    """Return weights of INT8 with a scale for each index of an axis, dequantised."""
    random = np.random.default_rng(seed)
    scales = random.uniform(0.001, 0.01, [n if i == axis else 1 for i, n in enumerate(shape)])
    constant = b.const(random.integers(-127, 128, shape).astype(np.int8))
    return b.mul(b.cast(constant, dtype="fp32"), scales.astype(np.float32))


def between(
    compute: Callable[[Builder, Value], Value],
    shape: Sequence[int] = (1, 4, 4, 6),
    zero: int = 3,
    out: tuple[float, int] = (0.05, -5),
    quantising: Callable[..., Value] = quantise,
) -> Graph:
    """Return a program of INT8 whose function is computed in FP32."""

    def build(b: Builder) -> Value:
        x = dequantise(b, b.input("x", "int8", shape), 0.02, zero)
        return quantising(b, compute(b, x), *out)

    return program(build)


def integers(graph: Graph, seed: int = 0) -> Array:
    (name,) = graph.main.inputs
    shape = graph.main.tensors[name].shape
    assert shape is not None
    x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    found: Array = tc.run(graph, {name: x}, engine="numpy").outputs["y"]
    return found


def steps(graph: Graph, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return how far the rewritten program is from the given one, in steps."""
    made, report = rewritten(graph)
    assert report.count(NAME)
    assert tc.validate(made) == []
    results = [made.main.tensors.get(op.outputs[0]) for op in made.main.operators]
    assert not any(tensor.dtype.is_float for tensor in results if tensor)
    one, other = (integers(each, seed).astype(np.int64) for each in (made, graph))
    found: npt.NDArray[np.int64] = np.abs(one - other)
    return found


def convolve(b: Builder, x: Value) -> Value:
    return b.conv2d(x, weight(b, (5, 3, 3, 6), 0), np.linspace(-1, 1, 5, dtype=np.float32))


def transposed(b: Builder, x: Value) -> Value:
    weights = b.reverse(weight(b, (5, 2, 2, 6), 0), axis=0)
    bias = np.linspace(-1, 1, 5, dtype=np.float32)
    return b.transpose_conv2d(x, weights, bias, out_pad=[0, 0, 0, 0], stride=[2, 2])


def resize(b: Builder, x: Value, mode: str = "BILINEAR") -> Value:
    return b.resize(x, scale=[4, 2, 4, 2], offset=[-1, -1], border=[1, 1], mode=mode)


def doubled(b: Builder, x: Value) -> Value:
    """Return repeated elements, to which a constant is added before they are quantised."""
    return b.add(resize(b, x, "NEAREST"), np.full((1, 1, 1, 6), 0.5, np.float32))


def depthwise(b: Builder, x: Value) -> Value:
    made = b.depthwise_conv2d(x, weight(b, (3, 3, 6, 2), 2), np.zeros(12, np.float32))
    return b.transpose(made, perms=[0, 3, 1, 2])


def by_groups(b: Builder, x: Value) -> Value:
    """Return a convolution of two groups as one of single channels and a sum, with channels first."""
    made = b.depthwise_conv2d(x, weight(b, (3, 3, 6, 2), 3), np.zeros(12, np.float32))
    sums = b.reduce_sum(b.reshape(made, [4, 2, 3, 2]), axis=2)
    first = b.transpose(b.reshape(sums, [1, 2, 2, 4]), perms=[0, 3, 1, 2])
    return b.add(first, np.linspace(0, 1, 4, dtype=np.float32).reshape(1, 4, 1, 1))


def product(b: Builder, x: Value) -> Value:
    rows = b.reshape(x, [1, 16, 6])
    return b.add(b.matmul(rows, weight(b, (1, 6, 7), 2)), np.ones((1, 1, 7), np.float32))


def product_of_batches(b: Builder, x: Value) -> Value:
    """Return products of all matrices of four dimensions and a single one."""
    return b.add(b.matmul(x, weight(b, (6, 7), 1)), np.ones((1, 1, 1, 7), np.float32))


def pool(b: Builder, x: Value) -> Value:
    return b.avg_pool2d(x, kernel=[3, 3], stride=[1, 1], pad=[0, 0, 0, 0])


def mean(b: Builder, x: Value) -> Value:
    return b.mul(b.reduce_sum(b.reduce_sum(x, axis=1), axis=2), 1 / 16)


def residual(b: Builder, x: Value) -> Value:
    other = dequantise(b, b.const(np.arange(-48, 48, dtype=np.int8).reshape(1, 4, 4, 6)), 0.013, 7)
    return b.add(x, other)


def squares(b: Builder, x: Value) -> Value:
    return b.mul(x, b.reverse(x, axis=3))


@pytest.mark.parametrize(
    ("compute", "kind"),
    [
        (convolve, "CONV2D"),
        (transposed, "TRANSPOSE_CONV2D"),
        (resize, "RESIZE"),
        (doubled, "RESIZE"),
        (depthwise, "DEPTHWISE_CONV2D"),
        (by_groups, "REDUCE_SUM"),
        (product, "MATMUL"),
        (product_of_batches, "MATMUL"),
        (pool, "DEPTHWISE_CONV2D"),
        (mean, "REDUCE_SUM"),
        (residual, "ADD"),
        (squares, "MUL"),
    ],
)
def test_sums_are_computed_with_integers(
    compute: Callable[[Builder, Value], Value], kind: str
) -> None:
    graph = between(compute)
    made, _ = rewritten(graph)
    assert kind in kinds(made)
    assert "RESCALE" in kinds(made)
    found = steps(graph)
    assert found.max() <= 1
    # Only numbers beside the middle of two integers.
    assert (found > 0).mean() <= 0.03


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(-128, 127),
    st.integers(-128, 127),
    st.floats(0.02, 2.0),
    st.sampled_from([convolve, product, residual, squares]),
)
def test_results_are_a_step_off_at_most(
    seed: int,
    zero: int,
    out: int,
    scale: float,
    compute: Callable[[Builder, Value], Value],
) -> None:
    found = steps(between(compute, zero=zero, out=(scale, out)), seed)
    assert found.max() <= 1
    assert (found > 0).mean() <= 0.1


@pytest.mark.parametrize(
    "function",
    [
        lambda b, x: b.sigmoid(x),
        lambda b, x: b.mul(x, b.clamp(b.add(b.mul(x, 0.2), 0.5), min_val=0.0, max_val=1.0)),
        lambda b, x: b.select(b.greater(x, 0.0), x, b.mul(x, 0.01)),
        lambda b, x: x,
    ],
    ids=["sigmoid", "hard swish", "leaky", "another scale"],
)
def test_a_function_is_a_table_of_it(function: Callable[[Builder, Value], Value]) -> None:
    graph = between(function)
    assert kinds(rewritten(graph)[0]) == ["TABLE"]
    assert steps(graph).max() == 0


def test_moves_and_clamps_move_and_clamp_integers() -> None:
    def compute(b: Builder, x: Value) -> Value:
        x = b.max_pool2d(x, kernel=[2, 2], stride=[2, 2], pad=[0, 0, 0, 0])
        x = b.pad(x, [0, 0, 1, 1, 1, 1, 0, 0], 0.0)
        x = b.tile(b.reduce_max(resize(b, x, "NEAREST"), axis=1), [1, 2, 1, 1])
        x = b.transpose(b.concat([x, x], axis=3), perms=[0, 3, 1, 2])
        return b.clamp(x, min_val=0.0, max_val=6.0)

    graph = between(compute, out=(0.02, 3))
    moves = {"MAX_POOL2D", "PAD", "RESIZE", "REDUCE_MAX", "TILE", "CONCAT", "TRANSPOSE", "CLAMP"}
    assert set(kinds(rewritten(graph)[0])) == moves
    assert steps(graph).max() == 0


def literally(compute: Callable[[Builder, Value], Value], scale: float = 0.02) -> Graph:
    """Return a program of INT8 that quantises and dequantises as TFLite's operators do."""

    def build(b: Builder) -> Value:
        x = b.cast(b.input("x", "int8", (2, 256)), dtype="fp32")
        x = compute(b, b.mul(b.sub(x, 5.0), 0.02))
        whole = b.cast(b.mul(x, float(np.float32(1) / np.float32(scale))), dtype="int32")
        bounded = b.minimum(b.maximum(b.add(whole, 5), -128), 127)
        return b.cast(bounded, dtype="int8")

    return program(build)


def test_moves_between_operators_of_tflite_move_integers() -> None:
    def compute(b: Builder, x: Value) -> Value:
        parts = [b.slice(x, (row, 0), (1, 256)) for row in (1, 0)]
        return b.clamp(b.concat(parts, axis=0), min_val=-1.0, max_val=2.0)

    graph = literally(compute)
    made, _ = rewritten(graph)
    assert set(kinds(made)) == {"SLICE", "CONCAT", "CLAMP"}
    x = np.stack([np.arange(-128, 128), np.arange(-128, 128)[::-1]]).astype(np.int8)
    one, other = (tc.run(each, {"x": x}, engine="numpy").outputs["y"] for each in (made, graph))
    np.testing.assert_array_equal(one, other)


def test_what_is_quantised_from_numbers_is_rounded_by_cast() -> None:
    graph = program(lambda b: quantise(b, b.input("x", "fp32", (1, 9)), 0.5, 3))
    made, _ = rewritten(graph)
    assert kinds(made) == ["MUL", "CLAMP", "CAST", "RESCALE"]
    x = np.array([[-1e30, -65.6, -0.75, -0.25, 0.25, 0.75, 1.25, 61.9, 1e30]], np.float32)
    one, other = (tc.run(each, {"x": x}, engine="numpy").outputs["y"] for each in (made, graph))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("zero", [0, -5])
@pytest.mark.parametrize("compute", [convolve, product, residual, lambda b, x: b.sigmoid(x)])
def test_what_cast_rounds_is_quantised(
    compute: Callable[[Builder, Value], Value], zero: int
) -> None:
    graph = between(compute, out=(0.05, zero), quantising=quantise_by_cast)
    assert steps(graph).max() <= 1
    one, other = (rewritten(each)[0] for each in (graph, between(compute, out=(0.05, zero))))
    assert kinds(one) == kinds(other)


def test_other_arithmetic_stays() -> None:
    def unquantised(b: Builder, x: Value) -> Value:
        return b.conv2d(x, np.ones((5, 3, 3, 6), np.float32), np.zeros(5, np.float32))

    def unsafe(b: Builder, x: Value) -> Value:
        """Sums that do not fit into INT32 at the scale of the products."""
        made = weight(b, (5, 3, 3, 6), 0)
        return b.conv2d(x, made, np.full(5, 1e9, np.float32))

    for compute in (unquantised, unsafe):
        made, _ = rewritten(between(compute))
        (sums,) = [op for op in made.main.operators if op.spec.name == "CONV2D"]
        assert made.main.tensors[sums.outputs[0]].dtype.is_float


def test_another_rounding_stays() -> None:
    def build(b: Builder) -> Value:
        x = dequantise(b, b.input("x", "int8", (1, 8)), 0.1)
        return b.cast(b.clamp(b.floor(b.mul(x, 3.0)), min_val=-128, max_val=127), dtype="int8")

    graph = program(build)
    assert not rewritten(graph, NAME)[1]
    made, report = rewritten(between(convolve), *EXACT)
    assert not report.count(NAME)
    assert "RESCALE" not in kinds(made)


def test_outputs_that_are_dequantised_and_averaged_move_with_their_integers() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x = dequantise(b, b.input("x", "int8", (1, 2, 2, 4)), 0.5, 3)
        mean = b.mul(
            b.reduce_sum(b.reduce_sum(b.clamp(x, min_val=0, max_val=60), axis=1), axis=2), 0.25
        )
        pool = b.avg_pool2d(x, kernel=[2, 2], stride=[1, 1], pad=[0] * 4)
        shifted = b.sub(1.0, b.mul(x, -3.0))
        others = b.exp(x), b.mul(x, x), b.mul(x, np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4))
        return x, b.reshape(x, [1, 16]), mean, pool, shifted, *others

    assert steps_of_outputs(program(build).main) == {
        "y0": 0.5,
        "y1": 0.5,
        "y2": 0.5,
        "y3": 0.5,
        "y4": 1.5,
    }
