"""Random functions: sequences of primitives that a seed determines, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
Generator = np.random.Generator
#: Steps of a function.
STEPS = 12


def axis(rng: Generator, x: Any) -> int:
    return int(rng.integers(x.ndim))


def _slice(rng: Generator, x: Any) -> Any:
    bounds = []
    for size in x.shape:
        start = int(rng.integers(size))
        bounds.append(slice(start, int(rng.integers(start, size)) + 1, int(rng.integers(1, 4))))
    return x[tuple(bounds)]


def _pad(rng: Generator, x: Any) -> Any:
    config = [
        (int(rng.integers(-1, 3)), int(rng.integers(0, 3)), int(rng.integers(2))) for _ in x.shape
    ]
    config = [row if size > 1 else (0, *row[1:]) for row, size in zip(config, x.shape, strict=True)]
    return lax.pad(x, np.asarray(1, x.dtype), config)


def _gather(rng: Generator, x: Any) -> Any:
    at = axis(rng, x)
    index = jnp.abs(x.ravel()[:4]).astype("int32") % x.shape[at]
    return jnp.take(x, index, at)


def _scatter(rng: Generator, x: Any) -> Any:
    index = jnp.abs(x.ravel()[:3]).astype("int32") % x.shape[0]
    return x.at[index].add(jnp.ones_like(x[0]))


def _loop(rng: Generator, x: Any) -> Any:
    return lax.fori_loop(0, int(rng.integers(1, 4)), lambda i, c: c * 0.5 + i.astype(c.dtype), x)


def _window(rng: Generator, x: Any) -> Any:
    size = tuple(int(rng.integers(1, min(n, 3) + 1)) for n in x.shape)
    strides = tuple(int(rng.integers(1, 3)) for _ in x.shape)
    if rng.integers(2):
        return lax.reduce_window(x, -np.inf, lax.max, size, strides, "SAME")
    return lax.reduce_window(x, 0.0, lax.add, size, strides, "VALID") * 0.25


#: What a step makes of an array of floating-point numbers: rank 2 to 4, sizes up to about 9.
CHANGES: tuple[Callable[[Generator, Any], Any], ...] = (
    _gather,
    _loop,
    _pad,
    _scatter,
    _slice,
    _window,
    lambda rng, x: jnp.tanh(x),
    lambda rng, x: jnp.abs(x) ** 1.5,
    lambda rng, x: x * x[..., :1] - x[:1],
    lambda rng, x: jnp.where(x > 0.1, x, -0.5 * x),
    lambda rng, x: jnp.transpose(x, rng.permutation(x.ndim).tolist()),
    lambda rng, x: x.reshape(-1, x.shape[-1]),
    lambda rng, x: x.reshape(x.shape[0], 1, -1),
    lambda rng, x: jnp.flip(x, axis(rng, x)),
    lambda rng, x: jnp.cumsum(x, axis(rng, x)) * 0.5,
    lambda rng, x: x - x.mean(axis(rng, x), keepdims=True),
    lambda rng, x: x / (1 + x.max(axis(rng, x), keepdims=True) ** 2),
    lambda rng, x: jnp.concatenate([x, x[:1] * 2], 0),
    lambda rng, x: jnp.sort(x, axis(rng, x)),
    lambda rng, x: jnp.einsum("...i,...j->...ij", x, x[..., :2]).reshape(*x.shape[:-1], -1),
    lambda rng, x: jnp.round(x * 4).astype("int8").astype(x.dtype) / 8,
    lambda rng, x: (jnp.clip(x, 0, 3) * 50).astype("uint8").astype(x.dtype) / 64,
    lambda rng, x: jax.nn.softmax(x, axis(rng, x)),
    lambda rng, x: lax.cond(abs(x).sum() > 1, lambda v: v * 0.5, lambda v: v + 1, x),
)
#: Where a function turns: numbers near these bounds may fall on either side after rounding.
LARGEST = 2000


def random_function(seed: int) -> Callable[[Any], Any]:
    """Return a function of one array. JAX traces it more than once, each time with the same steps."""

    def function(x: Any) -> Any:
        rng = np.random.default_rng(seed)
        for _ in range(STEPS):
            made = CHANGES[rng.integers(len(CHANGES))](rng, x)
            if 0 < made.size <= LARGEST and 2 <= made.ndim <= 4:
                x = made
        return x

    return function


@pytest.mark.parametrize("seed", range(12))
def test_a_random_function_agrees(seed: int) -> None:
    data = np.random.default_rng(seed).standard_normal((3, 4, 5)).astype(np.float32)
    agree(random_function(seed), data, tolerance=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12, 300))
def test_many_random_functions_agree(seed: int) -> None:
    data = np.random.default_rng(seed).standard_normal((3, 4, 5)).astype(np.float32)
    agree(random_function(seed), data, tolerance=1e-3)
