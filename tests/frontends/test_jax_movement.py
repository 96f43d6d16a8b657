"""Shapes, slices, padding, reductions, cumulative functions and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
X = np.random.default_rng(11).standard_normal((4, 6, 5)).astype(np.float32)

ROWS: dict[str, Callable[..., Any]] = {
    "slices": lambda x: (x[1:3, ::2], x[0], x[:, -1], x[::3, 1:5:2, ::-1], x[..., None]),
    "new axes": lambda x: (x[1:, None, ::4], x[None, ..., 0]),
    "pad": lambda x: jnp.pad(x, ((1, 2), (0, 0), (3, 0))),
    "pad inside and negative": lambda x: lax.pad(x, 0.5, ((1, 1, 1), (-1, 2, 0), (0, -2, 2))),
    "pad edge": lambda x: jnp.pad(x, 1, mode="edge"),
    "pad reflect": lambda x: jnp.pad(x, 2, mode="reflect"),
    "pad by a computed value": lambda x: lax.pad(x, x[0, 0, 0], ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
    "transpose": lambda x: (x.T, jnp.moveaxis(x, 0, 1), jnp.swapaxes(x, 0, 2)),
    "reshape": lambda x: (x.reshape(8, 15), x.ravel(), x[:, :, :1].squeeze(2)),
    "reshape of a transposition": lambda x: lax.reshape(x, (6, 20), (1, 2, 0)),
    "roll and flip": lambda x: (jnp.roll(x, 2, 1), jnp.flip(x, (0, 2)), jnp.rot90(x[0])),
    "join": lambda x: (jnp.concatenate([x, x * 2], 1), jnp.stack([x, x], 2), jnp.hstack([x, x])),
    "repeat": lambda x: (jnp.tile(x, (2, 1, 3)), jnp.repeat(x, 3, 1), jnp.kron(x[0], x[1, :2])),
    "split": lambda x: (*jnp.split(x, 3, 1), *jnp.unstack(x[:, 0])),
    "broadcast": lambda x: (jnp.broadcast_to(x[:1], (4, 6, 5)), x + x[0], x * x[:, :1]),
    "results that are arguments": lambda x: (x, x, x + 0),
    "results that are constants": lambda x: (x, jnp.ones(3), jnp.zeros((2, 2)), 2.0),
    "triangles": lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[0, :5]), jnp.trace(x)),
    "grids": lambda x: (*jnp.meshgrid(x[0, 0], x[1, 1]), jnp.linspace(0, 1, 5) * x[0, 0]),
    "differences": lambda x: (jnp.diff(x), jnp.gradient(x[0, 0]), jnp.convolve(x[0, 0], x[1, 1])),
    "sums": lambda x: (x.sum(), x.sum((0, 2)), x.mean(), x.mean((1, 2), keepdims=True)),
    "extremes": lambda x: (x.max(1), x.min((1, 2)), jnp.argmax(x), jnp.argmin(x, 1), jnp.ptp(x, 0)),
    "moments": lambda x: (x.var(1), x.std((0, 1)), jnp.linalg.norm(x, axis=1), jnp.cov(x[0])),
    "product": lambda x: (x.prod(0), jnp.prod(x[0, :2])),
    "log of a sum": lambda x: (jax.nn.logsumexp(x, axis=0), jnp.logaddexp(x, -x)),
    "truth": lambda x: (jnp.all(x > 0, 1), jnp.any(x > 0), jnp.count_nonzero(x > 0)),
    "nothing to reduce": lambda x: x.sum(()),
    "cumulative": lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), jnp.cumsum(x)),
    "cumulative extremes": lambda x: (lax.cummax(x, 1, reverse=True), lax.cummin(x, 2)),
    "cumulative log": lambda x: (lax.cumlogsumexp(x, 1), lax.cumsum(x, 0, reverse=True)),
    "sort": lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), jnp.sort(-x, 2, descending=True)),
    "sort by keys": lambda x: lax.sort((x[:, :, 0].round(), x[:, :, 1]), num_keys=1),
    "top_k": lambda x: (lax.top_k(x, 3), lax.top_k(abs(x).round(), 4)),
    "order statistics": lambda x: (jnp.median(x, 1), jnp.percentile(x, 30.0, axis=1)),
    "search": lambda x: jnp.searchsorted(jnp.sort(x[0, 0]), x[1, 1]),
    "interpolation": lambda x: jnp.interp(x[0], jnp.arange(5.0), jnp.array([1.0, 3, 2, 5, 4])),
    "reduction by a function": lambda x: lax.reduce(
        x * 0.3, np.float32(1), lambda a, b: a * b + a + b, (0,)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_function_agrees(name: str) -> None:
    agree(ROWS[name], X, tolerance=1e-4)


def test_nan_and_infinity_are_sorted_last() -> None:
    data = np.array([3, np.nan, -1, np.inf, -np.inf, np.nan, 0], np.float32)
    agree(lambda x: (jnp.sort(x), jnp.argsort(x)), data)


def test_equal_elements_keep_their_order() -> None:
    data = np.array([2, 0, 2, 1, 0, 2, 3, 1, 0], np.int32)
    agree(lambda x: (lax.top_k(x, 4), jnp.argsort(x), jnp.argsort(x, descending=True)), data)


def test_sums_keep_infinity_apart() -> None:
    data = np.array([1, 2, np.inf, 4, -np.inf, 6], np.float32)
    agree(lambda x: jnp.cumsum(x), data)


def test_a_broadcast_operand_is_not_repeated() -> None:
    graph = agree(lambda x, y: x * y + 1, X, np.ones(5, np.float32))
    assert "TILE" not in {operator.spec.name for operator in graph.main.operators}


@pytest.mark.parametrize(("axes", "count"), [((1, 2), 2), ((0, 1, 2), 1)])
def test_neighbouring_axes_are_reduced_at_once(axes: tuple[int, ...], count: int) -> None:
    """Two reductions are as many operators as one with a RESHAPE, and three are more."""
    graph = agree(lambda x: x.sum(axes), X, tolerance=1e-4)
    names = [operator.spec.name for operator in graph.main.operators]
    assert names.count("REDUCE_SUM") == count
    assert len([name for name in names if not name.startswith("CONST")]) == 3
