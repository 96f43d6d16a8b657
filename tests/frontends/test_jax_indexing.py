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
FOUR = np.array([0, 3, 3, 1], np.int32)

READS: dict[str, Callable[..., Any]] = {
    "an index": lambda x, i: (x[i[0]], x[:, i[1]], x[i[0], :, i[3]]),
    "rows": lambda x, i: (x[i], x[:, i], x[i, i], x[:, i, i]),
    "outside is NaN": lambda x, i: jnp.take(x, i * 2 - 1, 1),
    "outside is clipped": lambda x, i: jnp.take(x, i * 2 - 1, 1, mode="clip"),
    "outside wraps": lambda x, i: jnp.take(x, i * 2 - 1, 0, mode="wrap"),
    "a fill value": lambda x, i: x.at[i * 3].get(mode="fill", fill_value=7.0),
    "constants": lambda x, i: (x[np.array([0, 2, 1])], x[[0, 1], [2, 3]], x[:, [1, 2], [0, 1]]),
    "two dimensions": lambda x, i: (x[i[:, None] + i], x[jnp.array([[0, 1], [2, 3]])]),
    "along an axis": lambda x, i: jnp.take_along_axis(x[:, :, 0], i[:, None], 1),
    "index types": lambda x, i: (x[i.astype("int8")], x[i.astype("uint8")], x[i.astype("uint32")]),
    "element types": lambda x, i: (
        (x > 0)[i],
        (x * 9).astype("int8")[i],
        (x * 9).astype("uint8")[i],
    ),
    "one hot": lambda x, i: jax.nn.one_hot(i, 4),
    "slice": lambda x, i: lax.dynamic_slice(x, (i[1], 0, i[2]), (2, 6, 2)),
    "slice in the middle": lambda x, i: lax.dynamic_slice_in_dim(x, i[1], 2, 1),
    "slice at a constant": lambda x, i: lax.dynamic_slice(x, (1, i[0], 9), (2, 3, 5)),
    "slices of a batch": lambda x, i: jax.vmap(lambda r, k: lax.dynamic_slice_in_dim(r, k, 2))(
        x, i
    ),
    "rows of a batch": lambda x, i: jax.vmap(lambda r, k: r[k])(x, jnp.stack([i, i + 1], 1)),
    "gradient": lambda x, i: jax.grad(lambda x: (jnp.take(x, i, 0) ** 2).sum())(x),
    "gradient of a slice": lambda x, i: jax.grad(
        lambda x: (lax.dynamic_slice_in_dim(x, i[1], 2) ** 2).sum()
    )(x),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_agrees(name: str) -> None:
    agree(READS[name], X, FOUR)


def test_negative_and_large_indices_agree() -> None:
    agree(lambda x, i: (x[i], x.at[i].get(mode="clip"), x[:, i]), X, SOME)


WRITES: dict[str, Callable[..., Any]] = {
    "set": lambda t, i, u: t.at[i].set(u),
    "add": lambda t, i, u: t.at[i].add(u),
    "subtract": lambda t, i, u: t.at[i].subtract(u),
    "multiply": lambda t, i, u: t.at[i].multiply(u),
    "min": lambda t, i, u: t.at[i].min(u),
    "max": lambda t, i, u: t.at[i].max(u),
    "clipped": lambda t, i, u: (t.at[i].set(u, mode="clip"), t.at[i].add(u, mode="clip")),
    "unique": lambda t, i, u: (
        t.at[i[:3]].set(u[:3], unique_indices=True),
        t.at[i[:3]].add(u[:3], unique_indices=True),
    ),
    "one row": lambda t, i, u: (t.at[i[0]].set(1.0), t.at[:, i[0]].add(2.0), t.at[i[2]].set(0.0)),
    "one element": lambda t, i, u: (t.at[i[0], 2].set(1.0), t.at[1, i[3]].multiply(3.0)),
    "constants": lambda t, i, u: (
        t.at[np.array([0, 2, 0, 5, 9, 1, 2])].set(u),
        t.at[np.array([0, 2, 3])].add(u[:3]),
        t.at[np.array([0, 2, 2])].add(u[:3]),
        t.at[[0, 1], [2, 3]].set(5.0),
        t.at[:, [0, 3]].add(1.0),
        t.at[::2].set(0.0),
        t.at[1:3, 0].set(2.0),
    ),
    "slice": lambda t, i, u: lax.dynamic_update_slice(t, u[:2, :3], (i[0], i[3])),
    "slice at a constant": lambda t, i, u: lax.dynamic_update_slice(t, u[:2, :3], (4, 1)),
    "row": lambda t, i, u: lax.dynamic_update_index_in_dim(t, u[0], i[0], 0),
    "integers": lambda t, i, u: (
        t.astype("int8").at[i].add(jnp.int8(100)),
        t.astype("uint8").at[i].max(jnp.uint8(3)),
        (t > 0).at[i].set(True),
        t.astype("int32").at[i].multiply(2),
    ),
    "segments": lambda t, i, u: jax.ops.segment_sum(u, i, num_segments=4),
    "histogram": lambda t, i, u: jnp.bincount(i % 4, length=5),
    "batch": lambda t, i, u: jax.vmap(lambda r, k, v: r.at[k].set(v))(
        u.reshape(7, 5, 1), i % 5, u[:, :1]
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
