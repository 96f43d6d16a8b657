"""Small programs of JAX as tutorials and questions have them: a function, and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Use = Callable[[], tuple[Any, tuple[Any, ...]]]


def r(*shape: int) -> Any:
    """Return normally distributed numbers, the same for the same shape."""
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def w(low: int, high: int, *shape: int) -> Any:
    """Return whole numbers from `low` to before `high`."""
    return np.random.default_rng(high + sum(shape)).integers(low, high, shape, dtype=np.int32)


def p(*shape: int) -> Any:
    """Return positive numbers."""
    return np.abs(r(*shape)) + np.float32(0.1)


def predict(weights: Any, x: Any) -> Any:
    for matrix, bias in weights[:-1]:
        x = jnp.tanh(x @ matrix + bias)
    return x @ weights[-1][0] + weights[-1][1]


def loss(weights: Any, x: Any, y: Any) -> Any:
    return jnp.mean((predict(weights, x) - y) ** 2)


WEIGHTS = [(r(3, 4), r(4)), (r(4, 2), r(2))]


def step(weights: Any, x: Any, y: Any) -> Any:
    gradients = jax.grad(loss)(weights, x, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, weights, gradients)


def momentum(weights: Any, speed: Any, x: Any, y: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    speed = jax.tree.map(lambda a, b: 0.9 * a - 0.1 * b, speed, gradients)
    return jax.tree.map(jnp.add, weights, speed), speed, value


def rnn(matrix: Any, inputs: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        state = jnp.tanh(state @ matrix + x)
        return state, state.sum()

    return lax.scan(cell, jnp.zeros(4), inputs)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(jnp.where(jnp.tri(q.shape[0], dtype=bool), scores, -jnp.inf)) @ v


def mandelbrot(c: Any) -> Any:
    def turn(_: Any, both: Any) -> Any:
        z, count = both
        a, b = z
        new = jnp.stack([a * a - b * b + c[0], 2 * a * b + c[1]])
        inside = (new**2).sum(0) < 4
        return jnp.where(inside, new, z), count + inside

    return lax.fori_loop(0, 10, turn, (jnp.zeros_like(c), jnp.zeros(c.shape[1:], jnp.int32)))[1]


def bisect(x: Any) -> Any:
    def narrow(both: Any) -> Any:
        low, high = both
        middle = (low + high) / 2
        above = middle**3 > x
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return lax.while_loop(
        lambda both: jnp.max(both[1] - both[0]) > 1e-3, narrow, (jnp.zeros_like(x), 2 + x)
    )[0]


def k_means(points: Any, centres: Any) -> Any:
    distance = ((points[:, None] - centres[None]) ** 2).sum(-1)
    chosen = jax.nn.one_hot(distance.argmin(1), len(centres))
    return (chosen.T @ points) / (chosen.sum(0)[:, None] + 1e-6)


def life(cells: Any) -> Any:
    around = sum(jnp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | ((around == 2) & (cells == 1))).astype(jnp.int32)


def power_iteration(matrix: Any) -> Any:
    vector = jnp.ones(matrix.shape[0])
    for _ in range(10):
        vector = matrix @ vector
        vector = vector / jnp.linalg.norm(vector)
    return vector @ matrix @ vector


def viterbi(scores: Any, moves: Any) -> Any:
    def turn(best: Any, row: Any) -> Any:
        total = best[:, None] + moves
        return total.max(0) + row, total.argmax(0)

    return lax.scan(turn, scores[0], scores[1:])


@jax.custom_jvp
def safe_log(x: Any) -> Any:
    return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), -10.0)


@safe_log.defjvp
def _safe_log_jvp(primals: Any, tangents: Any) -> Any:
    return safe_log(primals[0]), tangents[0] / (primals[0] + 1)


USES: dict[str, Use] = {
    "perceptron": lambda: (predict, (WEIGHTS, r(5, 3))),
    "loss": lambda: (loss, (WEIGHTS, r(5, 3), r(5, 2))),
    "gradient step": lambda: (step, (WEIGHTS, r(5, 3), r(5, 2))),
    "momentum": lambda: (momentum, (WEIGHTS, WEIGHTS, r(5, 3), r(5, 2))),
    "rnn by scan": lambda: (rnn, (r(4, 4), r(6, 4))),
    "attention": lambda: (attention, (r(4, 8), r(4, 8) + 1, r(4, 8) * 2)),
    "mandelbrot": lambda: (mandelbrot, (r(2, 4, 5),)),
    "bisection": lambda: (bisect, (p(3, 4),)),
    "k means": lambda: (k_means, (r(8, 2), r(3, 2))),
    "game of life": lambda: (life, (w(0, 2, 6, 6),)),
    "power iteration": lambda: (power_iteration, (p(4, 4),)),
    "viterbi": lambda: (viterbi, (r(5, 3), r(3, 3))),
    "custom derivative": lambda: (jax.grad(lambda x: safe_log(x).sum()), (r(4),)),
    "hessian": lambda: (jax.hessian(lambda x: (x**3).sum() + x[0] * x[1]), (r(3),)),
    "jacobian": lambda: (jax.jacfwd(lambda x: jnp.stack([x.sum(), x.prod()])), (r(3),)),
    "vmap of rows": lambda: (jax.vmap(lambda x: x[x.argmax()] * x, in_axes=1), (r(3, 4),)),
    "checkpoint": lambda: (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (r(3),)),
    "conv nhwc": lambda: (
        lambda x, k: lax.conv_general_dilated(
            x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (r(1, 5, 6, 2), r(3, 3, 2, 4)),
    ),
    "conv 1d": lambda: (lambda x: jnp.convolve(x, jnp.array([1.0, 0.5, 0.25]), "same"), (r(8),)),
    "correlate": lambda: (lambda x: jnp.correlate(x, jnp.array([1.0, 0.5, 0.25])), (r(8),)),
    "pool gradient": lambda: (
        jax.grad(
            lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()
        ),
        (r(4, 4),),
    ),
    "layer norm": lambda: (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        (r(3, 6),),
    ),
    "percentiles": lambda: (
        lambda x: jnp.percentile(x, jnp.array([10.0, 90.0]), axis=0),
        (r(7, 2),),
    ),
    "covariance": lambda: (lambda x: (jnp.cov(x), jnp.corrcoef(x)), (r(3, 6),)),
    "einsum": lambda: (
        lambda a, b: jnp.einsum("bhqd,bhkd->bhqk", a, b),
        (r(1, 2, 3, 4), r(1, 2, 5, 4)),
    ),
    "solve many": lambda: (
        jnp.linalg.solve,
        (r(2, 5, 5) + 5 * np.eye(5, dtype=np.float32), r(2, 5, 1)),
    ),
    "determinant of 5": lambda: (jnp.linalg.slogdet, (r(5, 5),)),
    "least squares": lambda: (
        lambda a, y: jnp.linalg.solve(a.T @ a, a.T @ y),
        (r(6, 3), r(6)),
    ),
    "kalman": lambda: (
        lambda cov, h: cov @ h.T @ jnp.linalg.inv(h @ cov @ h.T + jnp.eye(2)),
        (np.eye(4, dtype=np.float32), r(2, 4)),
    ),
    "lu": lambda: (jax.scipy.linalg.lu, (r(4, 4),)),
    "fft": lambda: (lambda x: jnp.abs(jnp.fft.fft(x)), (r(2, 8),)),
    "rfft": lambda: (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5), (r(2, 8),)),
    "fft 2d": lambda: (lambda x: jnp.real(jnp.fft.ifft2(jnp.fft.fft2(x))), (r(4, 4),)),
    "complex": lambda: (lambda a, b: jnp.abs((a + 1j * b) * (a - 2j * b)), (r(3), r(3) + 1)),
    "sort by keys": lambda: (lambda x, y: lax.sort((x, y), num_keys=1), (w(0, 4, 6), r(6))),
    "lexsort": lambda: (lambda x, y: jnp.lexsort((x, y)), (w(0, 4, 6), w(0, 2, 6))),
    "gradient of a grid": lambda: (lambda x: jnp.gradient(x, axis=1), (r(3, 6),)),
    "interpolate": lambda: (
        lambda x: jnp.interp(x, jnp.array([0.0, 1, 2]), jnp.array([1.0, 3, 2])),
        (r(5),),
    ),
    "digitize": lambda: (lambda x: jnp.digitize(x, jnp.array([-1.0, 0, 1])), (r(3, 4),)),
    "bincount": lambda: (lambda x: jnp.bincount(x, length=5), (w(0, 5, 9),)),
    "piecewise": lambda: (
        lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2]),
        (r(6),),
    ),
    "switch": lambda: (
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x),
        (np.int32(1), r(3)),
    ),
    "while": lambda: (
        lambda n: lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] // 2, s[1] + 1), (n, 0)),
        (np.int32(1000),),
    ),
    "fori": lambda: (
        lambda x: lax.fori_loop(0, 5, lambda i, s: s * x + i, 1.0),
        (np.float32(0.5),),
    ),
    "fibonacci": lambda: (
        lambda: lax.scan(
            lambda s, _: ((s[1], s[0] + s[1]), s[0]), (jnp.int32(0), jnp.int32(1)), length=10
        )[1],
        (),
    ),
    "meshgrid": lambda: (lambda x, y: jnp.stack(jnp.meshgrid(x, y), -1), (r(3), r(4))),
    "resize cubic": lambda: (lambda x: jax.image.resize(x, (6, 8), "cubic"), (r(3, 4),)),
    "resize down": lambda: (lambda x: jax.image.resize(x, (2, 2), "linear"), (r(5, 4),)),
    "map coordinates": lambda: (
        lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], 1),
        (r(4, 5), p(2, 6)),
    ),
    "round to decimals": lambda: (lambda x: jnp.round(x, 2), (r(3, 4),)),
    "hash": lambda: (
        lambda x: (x * jnp.uint32(2654435761)) >> 16,
        (np.arange(6, dtype=np.uint32),),
    ),
    "unsigned division": lambda: (
        lambda x: (x // jnp.uint32(7), x % jnp.uint32(10)),
        (np.array([0, 6, 2**31, 2**32 - 1], np.uint32),),
    ),
    "powers of integers": lambda: (lambda x, y: x**y, (w(-3, 4, 6), w(0, 5, 6))),
    "bytes": lambda: (
        lambda x: (x.astype(jnp.float32) / 255 - 0.5) * 2,
        (w(0, 256, 2, 3, 3).astype(np.uint8),),
    ),
    "normal density": lambda: (jax.scipy.stats.norm.logpdf, (r(4),)),
    "normal distribution": lambda: (jax.scipy.stats.norm.cdf, (r(4),)),
    "distances": lambda: (
        lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
        (r(4, 3), r(5, 3)),
    ),
    "cosine": lambda: (
        lambda a, b: (a * b).sum(-1) / (jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1)),
        (r(4, 3), r(4, 3) + 1),
    ),
    "adam": lambda: (
        lambda p, g, m, v: (
            p - 0.1 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g**2) + 1e-8)
        ),
        (r(4), r(4) + 1, r(4), p(4)),
    ),
    "polynomial": lambda: (lambda x: jnp.polyval(jnp.array([1.0, -2, 3]), x), (r(4),)),
    "dictionary": lambda: (lambda d: {"sum": d["a"] + d["b"][0]}, ({"a": r(3), "b": [r(3) + 1]},)),
    "stop gradient": lambda: (
        jax.grad(lambda x: (lax.stop_gradient(x) * x).sum()),
        (r(3),),
    ),
    "jit inside": lambda: (lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.cos)(x), (r(3),)),
    "named scope": lambda: (lambda x: jax.named_call(jnp.tanh, name="layer")(x), (r(3),)),
    "running mean": lambda: (
        lambda x: jnp.convolve(x, jnp.ones(3) / 3, mode="valid"),
        (r(9),),
    ),
}
