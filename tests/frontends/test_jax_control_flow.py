"""Loops, branches, transformations, and what they capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
RANDOM = np.random.default_rng(41)
X = RANDOM.standard_normal((4, 6, 5)).astype(np.float32)
W = (RANDOM.standard_normal((5, 5)) * 0.3).astype(np.float32)
TWO = np.int32(2)

ROWS: dict[str, Callable[..., Any]] = {
    "cond": lambda x, n: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, x),
    "cond that captures": lambda x, n: lax.cond(
        x.sum() < 0, lambda: (x @ W, n), lambda: (x @ W.T + n, n * 2)
    ),
    "cond of one value twice": lambda x, n: lax.cond(n > 1, lambda: (x, x), lambda: (x, x + 1)),
    "switch": lambda x, n: lax.switch(n, [jnp.cos, jnp.abs, jnp.sin, lambda x: x @ W], x),
    "switch out of range": lambda x, n: lax.switch(n * 9, [jnp.cos, jnp.abs, jnp.sin], x),
    "switch of constants": lambda x, n: lax.switch(1, [jnp.cos, jnp.abs, jnp.sin], x),
    "cond of a batch": lambda x, n: jax.vmap(
        lambda r: lax.cond(r.sum() > 0, lambda r: r * 2, lambda r: r + 1, r)
    )(x),
    "while": lambda x, n: lax.while_loop(
        lambda c: (c[0] < 7) & (c[1].sum() < 1e4), lambda c: (c[0] + 1, c[1] * 1.1 + 1), (0, x)
    ),
    "while that captures": lambda x, n: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ W * n), (0, x)
    ),
    "while in a loop": lambda x, n: lax.fori_loop(
        0,
        3,
        lambda i, c: lax.while_loop(lambda d: d.sum() < 50, lambda d: d * 2, jnp.abs(c) + i),
        x[0],
    ),
    "fori": lambda x, n: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + x[i % 4], x[0]),
    "fori of a computed length": lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + i, x[0]),
    "scan": lambda x, n: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros((6, 5)), x),
    "scan backwards": lambda x, n: lax.scan(
        lambda c, r: (c + r, c * r), jnp.zeros((6, 5)), x, reverse=True
    ),
    "scan of nothing": lambda x, n: lax.scan(lambda c, _: (c * 1.1, None), x, None, length=3),
    "scan in a scan": lambda x, n: lax.scan(
        lambda c, r: lax.scan(lambda d, e: (d + e, d * e), c, r), jnp.zeros(5), x
    ),
    "map": lambda x, n: lax.map(lambda r: jnp.tanh(r).sum(), x),
    "associative scan": lambda x, n: lax.associative_scan(jnp.add, x, axis=1),
    "gradient of a scan": lambda x, n: jax.grad(
        lambda w: lax.scan(lambda h, r: (jnp.tanh(h @ w + r), None), jnp.zeros(5), x[0])[0].sum()
    )(W),
    "vmap": lambda x, n: jax.vmap(lambda r: jax.nn.softmax(r @ W), in_axes=1, out_axes=2)(x),
    "collectives of vmap": lambda x, n: jax.vmap(
        lambda r: (r - lax.pmean(r, "b"), lax.pmax(r, "b"), lax.pmin(r, "b"), lax.axis_index("b")),
        axis_name="b",
    )(x),
    "hessian": lambda x, n: jax.hessian(lambda v: jnp.sin(v).prod())(x[0, 0, :3]),
    "jvp": lambda x, n: jax.jvp(lambda v: jax.nn.softmax(v @ W), (x,), (x * 2,)),
    "checkpoint": lambda x, n: jax.grad(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)).sum()))(x),
    "gradient of a network": lambda x, n: jax.grad(
        lambda p: (jax.nn.relu(x @ p["w"] + p["b"]) ** 2).mean()
    )({"w": W, "b": jnp.ones(5)}),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_function_agrees(name: str) -> None:
    agree(ROWS[name], X, TWO, tolerance=1e-4)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_long_scan_is_a_loop(is_reverse: bool) -> None:
    data = RANDOM.standard_normal((600, 3)).astype(np.float32)
    graph = agree(
        lambda x: lax.scan(
            lambda c, r: (c * 0.9 + r, (c * r, c > 0)), jnp.zeros(3), x, reverse=is_reverse
        ),
        data,
        tolerance=1e-4,
    )
    assert [row.spec.name for row in graph.main.operators].count("WHILE_LOOP") == 1


def test_a_short_scan_has_no_loop() -> None:
    graph = agree(ROWS["scan"], X, TWO)
    assert "WHILE_LOOP" not in {operator.spec.name for operator in graph.main.operators}


def test_a_branch_that_is_known_is_the_only_one() -> None:
    graph = agree(ROWS["switch of constants"], X, TWO)
    assert [row.spec.name for row in graph.main.operators] == ["ABS"]


def test_random_numbers_of_a_constant_key_are_constants() -> None:
    def function(x: Any) -> Any:
        key = jax.random.key(1)
        kept = jax.random.bernoulli(jax.random.PRNGKey(3), 0.5, x.shape)
        return x * kept + jax.random.normal(key, x.shape)

    agree(function, X)
