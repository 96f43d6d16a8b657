"""move-scales: a product with one number moves into another product, within the error of rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.graph import Graph
from tosa_convert.rewrites.table import EXACT

NAME = "move-scales"
Array = npt.NDArray[np.float32]


def scores(
    b: Builder,
    *,
    one: float = 0.6,
    other: float = 0.7,
    element: DTypeName = "fp32",
    moved: bool = True,
) -> Value:
    """Return a product of matrices whose operands are scaled, and moved behind that."""
    q, k = (b.input(name, element, (2, 4, 3)) for name in "qk")
    q, k = b.mul(q, one), b.mul(other, b.transpose(k, perms=(0, 2, 1)))
    if moved:
        q, k = b.reshape(b.transpose(q, perms=(1, 0, 2)), (2, 4, 3)), b.slice(k, [0] * 3, [2, 3, 2])
    return b.matmul(q, k, dtype=element)


def norm(
    b: Builder, x: Value, weight: Array, *, share: float = 1 / 6, added: float = 1e-5
) -> Value:
    """Scale rows to a mean square of 1, and each channel."""
    mean = b.mul(b.reduce_sum(b.mul(x, x), axis=2), share)
    return b.mul(weight, b.mul(b.rsqrt(b.add(mean, added)), x))


def number(b: Builder) -> Value:
    return b.const(np.full((1, 1, 1), 0.5, np.float32))


def weights(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((1, 1, 6)).astype(np.float32)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("moved", [False, True])
def test_one_operand_of_a_product_of_matrices_is_scaled(moved: bool) -> None:
    graph = program(lambda b: scores(b, moved=moved))
    made, report = rewritten(graph)
    assert report.count(NAME) == 1
    assert kinds(made).count("MUL") == 1
    assert tc.validate(made) == []
    draw = np.random.default_rng(0)
    q, k = (draw.standard_normal((2, 4, 3)).astype(np.float32) for _ in "qk")
    found, expected = run(made, q=q, k=k)["y"], run(graph, q=q, k=k)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(2e-6, 5e5).filter(lambda share: np.float32(share) != 1),
    added=st.sampled_from([1e-17, 1e-12, 1e-5, 1.0, 1e6]),
    size=st.sampled_from([1e-10, 1e-3, 1.0, 1e4, 1e10]),
)
def test_a_mean_becomes_part_of_the_weights(
    seed: int, share: float, added: float, size: float
) -> None:
    graph = program(
        lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights(seed), share=share, added=added)
    )
    made, report = rewritten(graph)
    assert report.count(NAME) == 1
    assert kinds(made) == ["MUL", "REDUCE_SUM", "ADD", "RSQRT", "MUL", "MUL"]
    assert tc.validate(made) == []
    x = np.random.default_rng(seed).standard_normal((1, 4, 6)).astype(np.float32)
    x = (x * size).astype(np.float32)
    found, expected = run(made, x=x)["y"], run(graph, x=x)["y"]
    # Six roundings of other numbers: of the shares, the sums, the root and two products.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)


@pytest.mark.usefixtures("refmodel")
def test_rows_of_zeros_infinities_and_nan_keep_what_they_are() -> None:
    graph = program(lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights()))
    made, _ = rewritten(graph)
    x = np.zeros((1, 4, 6), np.float32)
    x[0, 1, 2], x[0, 2, 3], x[0, 3] = np.inf, np.nan, 1e30
    found, expected = (run(one, x=x)["y"] for one in (made, graph))
    np.testing.assert_array_equal(found, expected)


def _used_again(b: Builder) -> tuple[Value, Value]:
    q, k = (b.mul(b.input(name, "fp32", (1, 4, 4)), 0.5) for name in "qk")
    return b.matmul(q, k), k


def _of_other_uses(b: Builder) -> tuple[Value, Value]:
    x = b.input("x", "fp32", (1, 4, 6))
    root = b.rsqrt(b.add(b.mul(b.reduce_sum(x, axis=2), 0.5), 1.0))
    return b.mul(b.mul(x, root), weights()), root


def _of_unknown_ranks(b: Builder) -> Value:
    (x,) = b.custom([], [("fp32", None)], operator_name="x", domain_name="y")
    q, k = b.mul(x, number(b)), b.mul(x, number(b))
    for value in (q, k):
        b.block.tensors[value.name].shape = None
    return b.matmul(q, k)


def _of_sizes_that_the_number_decides(b: Builder) -> Value:
    (x,) = b.custom([], [("fp32", (1, 4, -1))], operator_name="x", domain_name="y")
    wide = b.const(np.full((1, 1, 4), 0.5, np.float32))
    q, k = b.mul(x, wide), b.mul(x, wide)
    for value in (q, k):
        b.block.tensors[value.name].shape = (1, 4, -1)
    return b.matmul(q, k)


def _of_a_sum_that_broadcasts(b: Builder) -> Value:
    x = b.input("x", "fp32", (1, 4, 1))
    added = b.const(np.full((1, 1, 6), 1e-5, np.float32))
    root = b.rsqrt(b.add(b.mul(b.reduce_sum(x, axis=2), 0.5), added))
    return b.mul(b.mul(x, root), number(b))


def _of_computed_weights(b: Builder) -> Value:
    x = b.input("x", "fp32", (1, 4, 6))
    root = b.rsqrt(b.add(b.mul(b.reduce_sum(x, axis=2), 0.5), 1.0))
    return b.mul(b.mul(x, root), b.input("w", "fp32", (1, 1, 6)))


@pytest.mark.parametrize(
    "build",
    [
        _used_again,
        _of_other_uses,
        _of_unknown_ranks,
        _of_sizes_that_the_number_decides,
        _of_a_sum_that_broadcasts,
        _of_computed_weights,
        lambda b: scores(b, element="fp16"),
        lambda b: scores(b, one=0.0),
        lambda b: scores(b, one=-0.6),
        lambda b: scores(b, other=1e30),
        lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights(), added=0.0),
        lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights(), share=-0.5),
        lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights() * 1e35, share=1e-9),
        lambda b: norm(b, b.input("x", "fp32", (1, 4, 6)), weights() * 1e-35, share=1e9),
    ],
)
def test_others_stay(build: Callable[[Builder], Value | tuple[Value, ...]]) -> None:
    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_the_exact_groups_leave_it() -> None:
    graph: Graph = program(scores)
    assert kinds(rewritten(graph, *EXACT)[0]).count("MUL") == 2
