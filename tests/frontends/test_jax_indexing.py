"""Reading and writing by computed indices, as indexing in jax.numpy makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
RANDOM = np.random.default_rng(31)
X = RANDOM.standard_normal((4, 6, 5)).astype(np.float32)
T, U = X[0], RANDOM.standard_normal((7, 5)).astype(np.float32)
SOME = np.array([3, -1, 7, 0, -6, 2, 2], np.int32)  # out of range and repeated


def test_negative_and_large_indices_agree() -> None:
    agree(lambda x, i: (x[i], x.at[i].get(mode="clip"), x[:, i]), X, SOME)


WRITES: dict[str, Callable[..., Any]] = {
    "constants": lambda t, i, u: (
        t.at[np.array([0, 2, 0, 5, 9, 1, 2])].set(u),
        t.at[np.array([0, 2, 3])].add(u[:3]),
        t.at[np.array([0, 2, 2])].add(u[:3]),
        t.at[[0, 1], [2, 3]].set(5.0),
        t.at[:, [0, 3]].add(1.0),
        t.at[::2].set(0.0),
        t.at[1:3, 0].set(2.0),
    ),
    "slice at a constant": lambda t, i, u: lax.dynamic_update_slice(t, u[:2, :3], (4, 1)),
    "integers": lambda t, i, u: (
        t.astype("int8").at[i].add(jnp.int8(100)),
        t.astype("uint8").at[i].max(jnp.uint8(3)),
        (t > 0).at[i].set(True),
        t.astype("int32").at[i].multiply(2),
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_agrees(name: str) -> None:
    agree(WRITES[name], T, SOME, U)


def test_indices_that_may_be_equal_are_not_scattered() -> None:
    """TOSA's SCATTER leaves the result open if two indices are equal."""
    graph = agree(lambda t, i, u: t.at[i].set(u), T, SOME, U)
    assert "SCATTER" not in {operator.spec.name for operator in graph.main.operators}
    graph = agree(lambda t, u: t.at[np.array([4, 0, 2])].set(u[:3]), T, U)
    assert "SCATTER" in {operator.spec.name for operator in graph.main.operators}
