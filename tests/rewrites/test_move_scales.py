"""move-scales: a product with one number moves into another product, within the error of rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName, Value

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
