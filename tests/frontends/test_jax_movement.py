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
    "split": lambda x: (*jnp.split(x, 3, 1), *jnp.unstack(x[:, 0])),
    "reduction by a function": lambda x: lax.reduce(
        x * 0.3, np.float32(1), lambda a, b: a * b + a + b, (0,)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_function_agrees(name: str) -> None:
    agree(ROWS[name], X, tolerance=1e-4)


def test_equal_elements_keep_their_order() -> None:
    data = np.array([2, 0, 2, 1, 0, 2, 3, 1, 0], np.int32)
    agree(lambda x: (lax.top_k(x, 4), jnp.argsort(x), jnp.argsort(x, descending=True)), data)


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
