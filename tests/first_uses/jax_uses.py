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
    "vmap": lambda: (jax.vmap(lambda a, b: jnp.dot(a, b)), (r(3, 4), r(3, 4) + 1)),
    "vmap of rows": lambda: (jax.vmap(lambda x: x[x.argmax()] * x, in_axes=1), (r(3, 4),)),
    "checkpoint": lambda: (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (r(3),)),
    "softmax": lambda: (lambda x: jax.nn.softmax(x, axis=0), (r(3, 4) * 20,)),
    "log softmax": lambda: (jax.nn.log_softmax, (r(3, 4) * 20,)),
    "log sum exp": lambda: (lambda x: jax.nn.logsumexp(x, axis=1), (r(3, 4) * 20,)),
    "activations": lambda: (
        lambda x: [f(x) for f in (jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.elu, jax.nn.selu)],
        (r(3, 4) * 3,),
    ),
    "more activations": lambda: (
        lambda x: [f(x) for f in (jax.nn.softplus, jax.nn.sigmoid, jax.nn.hard_swish, jax.nn.mish)],
        (r(3, 4) * 3,),
    ),
    "exact gelu": lambda: (lambda x: jax.nn.gelu(x, approximate=False), (r(3, 4) * 3,)),
    "glu": lambda: (lambda x: jax.nn.glu(x), (r(3, 4),)),
    "one hot": lambda: (lambda x: jax.nn.one_hot(x, 5), (w(0, 5, 6),)),
    "standardise": lambda: (lambda x: jax.nn.standardize(x), (r(3, 6),)),
    "dot product attention": lambda: (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        (r(1, 4, 2, 8), r(1, 4, 2, 8) + 1, r(1, 4, 2, 8) - 1),
    ),
    "conv": lambda: (
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
        (r(1, 2, 5, 5), r(3, 2, 3, 3)),
    ),
    "conv nhwc": lambda: (
        lambda x, k: lax.conv_general_dilated(
            x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (r(1, 5, 6, 2), r(3, 3, 2, 4)),
    ),
    "depthwise": lambda: (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3
        ),
        (r(1, 5, 5, 3), r(3, 3, 1, 6)),
    ),
    "transposed conv": lambda: (
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"),
        (r(1, 4, 4, 2), r(3, 3, 2, 4)),
    ),
    "conv 1d": lambda: (lambda x: jnp.convolve(x, jnp.array([1.0, 0.5, 0.25]), "same"), (r(8),)),
    "correlate": lambda: (lambda x: jnp.correlate(x, jnp.array([1.0, 0.5, 0.25])), (r(8),)),
    "max pool": lambda: (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (r(1, 4, 6, 2),),
    ),
    "average pool": lambda: (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9,
        (r(1, 5, 5, 2),),
    ),
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
    "batch statistics": lambda: (lambda x: (x.mean(0), x.std(0), jnp.median(x, 0)), (r(5, 3),)),
    "percentiles": lambda: (
        lambda x: jnp.percentile(x, jnp.array([10.0, 90.0]), axis=0),
        (r(7, 2),),
    ),
    "nan statistics": lambda: (
        lambda x: (jnp.nanmean(x), jnp.nanmax(x)),
        (np.array([1, np.nan, 3], np.float32),),
    ),
    "covariance": lambda: (lambda x: (jnp.cov(x), jnp.corrcoef(x)), (r(3, 6),)),
    "einsum": lambda: (
        lambda a, b: jnp.einsum("bhqd,bhkd->bhqk", a, b),
        (r(1, 2, 3, 4), r(1, 2, 5, 4)),
    ),
    "tensordot": lambda: (
        lambda a, b: jnp.tensordot(a, b, ([1, 2], [0, 1])),
        (r(2, 3, 4), r(3, 4, 5)),
    ),
    "outer": lambda: (jnp.outer, (r(3), r(4))),
    "kron": lambda: (jnp.kron, (r(2, 2), r(2, 3))),
    "matrix power": lambda: (lambda x: jnp.linalg.matrix_power(x, 3), (r(3, 3),)),
    "norms": lambda: (
        lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, 1), jnp.linalg.norm(x, axis=1)),
        (r(3, 4),),
    ),
    "determinant": lambda: (jnp.linalg.det, (r(3, 3),)),
    "inverse": lambda: (jnp.linalg.inv, (r(3, 3) + 3 * np.eye(3, dtype=np.float32),)),
    "solve": lambda: (jnp.linalg.solve, (r(3, 3) + 3 * np.eye(3, dtype=np.float32), r(3, 2))),
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
    "cholesky": lambda: (
        lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)),
        (r(3, 3),),
    ),
    "triangular": lambda: (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        (np.tril(r(3, 3)) + 2 * np.eye(3, dtype=np.float32), r(3, 2)),
    ),
    "fft": lambda: (lambda x: jnp.abs(jnp.fft.fft(x)), (r(2, 8),)),
    "rfft": lambda: (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5), (r(2, 8),)),
    "fft 2d": lambda: (lambda x: jnp.real(jnp.fft.ifft2(jnp.fft.fft2(x))), (r(4, 4),)),
    "complex": lambda: (lambda a, b: jnp.abs((a + 1j * b) * (a - 2j * b)), (r(3), r(3) + 1)),
    "sort": lambda: (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), (r(3, 5),)),
    "sort down": lambda: (lambda x: jnp.sort(x, descending=True), (r(3, 5),)),
    "top k": lambda: (lambda x: lax.top_k(x, 2), (r(3, 5),)),
    "sort by keys": lambda: (lambda x, y: lax.sort((x, y), num_keys=1), (w(0, 4, 6), r(6))),
    "lexsort": lambda: (lambda x, y: jnp.lexsort((x, y)), (w(0, 4, 6), w(0, 2, 6))),
    "arg extremes": lambda: (lambda x: (x.argmax(), x.argmin(1), jnp.max(x, 0)), (r(3, 5),)),
    "cumulative": lambda: (
        lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cumlogsumexp(x, 0)),
        (r(3, 5),),
    ),
    "associative scan": lambda: (lambda x: lax.associative_scan(jnp.maximum, x), (r(8),)),
    "differences": lambda: (lambda x: jnp.diff(x, 2), (r(3, 6),)),
    "gradient of a grid": lambda: (lambda x: jnp.gradient(x, axis=1), (r(3, 6),)),
    "interpolate": lambda: (
        lambda x: jnp.interp(x, jnp.array([0.0, 1, 2]), jnp.array([1.0, 3, 2])),
        (r(5),),
    ),
    "searchsorted": lambda: (lambda x: jnp.searchsorted(jnp.array([-1.0, 0, 1]), x), (r(3, 4),)),
    "digitize": lambda: (lambda x: jnp.digitize(x, jnp.array([-1.0, 0, 1])), (r(3, 4),)),
    "histogram": lambda: (lambda x: jnp.histogram(x, 4, (-2, 2))[0], (r(12),)),
    "bincount": lambda: (lambda x: jnp.bincount(x, length=5), (w(0, 5, 9),)),
    "segment sum": lambda: (
        lambda x, i: jax.ops.segment_sum(x, i, 3),
        (r(6, 2), w(0, 3, 6)),
    ),
    "gather": lambda: (lambda x, i: x[i], (r(5, 3), np.array([0, -1, 4, -5], np.int32))),
    "take along axis": lambda: (
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        (r(3, 4),),
    ),
    "take": lambda: (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), (r(3, 4), w(-2, 9, 5))),
    "two index arrays": lambda: (lambda x, i, j: x[i, :, j], (r(4, 3, 5), w(0, 4, 6), w(0, 5, 6))),
    "set": lambda: (lambda x: jnp.asarray(x).at[1:3, ::2].set(0).at[-1].add(1), (r(4, 6),)),
    "scatter add": lambda: (
        lambda x, i: jnp.asarray(x).at[i].add(1.0),
        (r(5), np.array([0, 0, 3], np.int32)),
    ),
    "scatter max": lambda: (
        lambda x, i, v: jnp.asarray(x).at[i].max(v),
        (r(5), np.array([0, 0, 3], np.int32), r(3)),
    ),
    "dynamic slice": lambda: (
        lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 2)),
        (r(5, 4), np.int32(2)),
    ),
    "cache update": lambda: (
        lambda c, x, i: lax.dynamic_update_slice(c, x, (0, i, 0)),
        (r(1, 6, 4), r(1, 1, 4), np.int32(3)),
    ),
    "dynamic index": lambda: (
        lambda x, i: lax.dynamic_index_in_dim(x, i, 0),
        (r(5, 4), np.int32(-1)),
    ),
    "boolean where": lambda: (lambda x: jnp.where(x > 0, x, jnp.exp(x) - 1), (r(3, 4),)),
    "select": lambda: (
        lambda x: jnp.select([x < -1, x < 1], [x**2, x], 0.0),
        (r(3, 4) * 2,),
    ),
    "piecewise": lambda: (
        lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2]),
        (r(6),),
    ),
    "cond": lambda: (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), (r(3, 4),)),
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
    "map": lambda: (lambda x: lax.map(lambda row: row / row.sum(), x), (p(3, 4),)),
    "fibonacci": lambda: (
        lambda: lax.scan(
            lambda s, _: ((s[1], s[0] + s[1]), s[0]), (jnp.int32(0), jnp.int32(1)), length=10
        )[1],
        (),
    ),
    "triangles": lambda: (lambda x: (jnp.tril(x, 1), jnp.triu(x, -1), jnp.trace(x)), (r(4, 4),)),
    "diagonals": lambda: (lambda x: (jnp.diag(x), jnp.diag(x[0])), (r(3, 3),)),
    "roll and flip": lambda: (lambda x: jnp.flip(jnp.roll(x, 2, 1), 0), (r(3, 5),)),
    "rotate": lambda: (lambda x: jnp.rot90(x), (r(3, 4),)),
    "padding": lambda: (
        lambda x: (jnp.pad(x, 1), jnp.pad(x, ((0, 0), (2, 1)), "reflect"), jnp.pad(x, 1, "edge")),
        (r(3, 4),),
    ),
    "pad inside": lambda: (lambda x: lax.pad(x, 0.0, ((1, -1, 1), (0, 0, 2))), (r(3, 4),)),
    "repeat": lambda: (lambda x: (jnp.repeat(x, 2, 1), jnp.tile(x, (2, 1))), (r(2, 3),)),
    "split": lambda: (lambda x: jnp.split(x, 3, 1), (r(2, 6),)),
    "stack": lambda: (
        lambda x, y: (jnp.stack([x, y], 1), jnp.concatenate([x, y]), jnp.hstack([x, y])),
        (r(3), r(3) + 1),
    ),
    "reshape": lambda: (lambda x: x.reshape(4, -1).T.ravel(), (r(2, 6),)),
    "meshgrid": lambda: (lambda x, y: jnp.stack(jnp.meshgrid(x, y), -1), (r(3), r(4))),
    "linspace": lambda: (lambda x: x * jnp.linspace(0, 1, 5), (r(3, 5),)),
    "arange": lambda: (lambda x: x + jnp.arange(5) * 0.1, (r(3, 5),)),
    "eye": lambda: (lambda x: x @ jnp.eye(4) + jnp.full((4,), 2.0), (r(3, 4),)),
    "resize": lambda: (lambda x: jax.image.resize(x, (6, 8), "bilinear"), (r(3, 4),)),
    "resize cubic": lambda: (lambda x: jax.image.resize(x, (6, 8), "cubic"), (r(3, 4),)),
    "resize down": lambda: (lambda x: jax.image.resize(x, (2, 2), "linear"), (r(5, 4),)),
    "map coordinates": lambda: (
        lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], 1),
        (r(4, 5), p(2, 6)),
    ),
    "rounding": lambda: (
        lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.trunc(x), jnp.rint(x)),
        (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7], np.float32),),
    ),
    "round to decimals": lambda: (lambda x: jnp.round(x, 2), (r(3, 4),)),
    "remainders": lambda: (
        lambda x: (x % 3, jnp.fmod(x, 3), x // 3),
        (np.array([-7.0, -3.0, -0.5, 0.5, 3.0, 7.5], np.float32),),
    ),
    "whole division": lambda: (
        lambda x, y: (x // y, x % y, x / y, lax.div(x, y), lax.rem(x, y)),
        (np.array([-7, -3, 7, 8], np.int32), np.array([2, -2, -3, 4], np.int32)),
    ),
    "bits": lambda: (
        lambda x: ((x << 2) | 1, x >> 1, x & 6, x ^ 5, ~x, lax.population_count(x)),
        (w(0, 100, 3, 4),),
    ),
    "hash": lambda: (
        lambda x: (x * jnp.uint32(2654435761)) >> 16,
        (np.arange(6, dtype=np.uint32),),
    ),
    "unsigned division": lambda: (
        lambda x: (x // jnp.uint32(7), x % jnp.uint32(10)),
        (np.array([0, 6, 2**31, 2**32 - 1], np.uint32),),
    ),
    "powers of integers": lambda: (lambda x, y: x**y, (w(-3, 4, 6), w(0, 5, 6))),
    "types": lambda: (
        lambda x: (x.astype(int), x.astype(jnp.int8), x.astype(bool), x.astype(jnp.bfloat16)),
        (r(3, 4) * 10,),
    ),
    "bytes": lambda: (
        lambda x: (x.astype(jnp.float32) / 255 - 0.5) * 2,
        (w(0, 256, 2, 3, 3).astype(np.uint8),),
    ),
    "saturate": lambda: (lambda x: jnp.clip(x * 50, -128, 127).astype(jnp.int8), (r(3, 4),)),
    "half": lambda: (lambda x: (x.astype(jnp.float16) ** 2).sum(), (r(3, 4),)),
    "trigonometry": lambda: (
        lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan(x), jnp.arctan2(x, x + 1)),
        (r(3, 4),),
    ),
    "arcs": lambda: (lambda x: (jnp.arcsin(jnp.tanh(x)), jnp.arccos(jnp.tanh(x))), (r(3, 4),)),
    "hyperbolic": lambda: (
        lambda x: (jnp.sinh(x), jnp.cosh(x), jnp.arcsinh(x), jnp.arctanh(jnp.tanh(x))),
        (r(3, 4),),
    ),
    "logarithms": lambda: (
        lambda x: (jnp.log(x), jnp.log2(x), jnp.log10(x), jnp.log1p(x), jnp.expm1(x)),
        (p(3, 4),),
    ),
    "roots": lambda: (
        lambda x: (jnp.sqrt(x), jnp.cbrt(x), x**0.3, x**-2, 2**x, lax.rsqrt(x)),
        (p(3, 4),),
    ),
    "error function": lambda: (
        lambda x: (lax.erf(x), lax.erfc(x), lax.erf_inv(jnp.tanh(x))),
        (r(3, 4),),
    ),
    "logit": lambda: (jax.scipy.special.logit, (np.array([0.1, 0.5, 0.9], np.float32),)),
    "entropy": lambda: (jax.scipy.special.entr, (p(4),)),
    "normal density": lambda: (jax.scipy.stats.norm.logpdf, (r(4),)),
    "normal distribution": lambda: (jax.scipy.stats.norm.cdf, (r(4),)),
    "cross entropy": lambda: (
        lambda x, y: -jnp.mean(jnp.sum(jax.nn.one_hot(y, 3) * jax.nn.log_softmax(x), -1)),
        (r(4, 3), w(0, 3, 4)),
    ),
    "binary entropy": lambda: (
        lambda x, y: jnp.mean(jnp.maximum(x, 0) - x * y + jnp.log1p(jnp.exp(-jnp.abs(x)))),
        (r(4, 3), (r(4, 3) > 0).astype(np.float32)),
    ),
    "huber": lambda: (
        lambda x: jnp.where(jnp.abs(x) < 1, 0.5 * x**2, jnp.abs(x) - 0.5).mean(),
        (r(4, 3) * 3,),
    ),
    "distances": lambda: (
        lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
        (r(4, 3), r(5, 3)),
    ),
    "cosine": lambda: (
        lambda a, b: (a * b).sum(-1) / (jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1)),
        (r(4, 3), r(4, 3) + 1),
    ),
    "clip gradient": lambda: (
        lambda x: x * jnp.minimum(1.0, 1.0 / jnp.sqrt((x**2).sum())),
        (r(4, 3),),
    ),
    "adam": lambda: (
        lambda p, g, m, v: (
            p - 0.1 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g**2) + 1e-8)
        ),
        (r(4), r(4) + 1, r(4), p(4)),
    ),
    "logistic map": lambda: (
        lambda x: lax.fori_loop(0, 3, lambda _, y: 3.5 * y * (1 - y), x),
        (np.array([0.1, 0.2], np.float32),),
    ),
    "polynomial": lambda: (lambda x: jnp.polyval(jnp.array([1.0, -2, 3]), x), (r(4),)),
    "vandermonde": lambda: (lambda x: jnp.vander(x, 3), (r(4),)),
    "cross product": lambda: (jnp.cross, (r(4, 3), r(4, 3) + 1)),
    "any and all": lambda: (
        lambda x: (jnp.any(x > 0, 0), jnp.all(x > -1), jnp.sum(x > 0)),
        (r(3, 4),),
    ),
    "counting": lambda: (
        lambda x: (jnp.count_nonzero(x, axis=0), jnp.isfinite(x)),
        (w(0, 2, 3, 4).astype(np.float32),),
    ),
    "products": lambda: (lambda x: (jnp.prod(x, 1), jnp.ptp(x, 0), jnp.average(x, 0)), (r(3, 4),)),
    "broadcast": lambda: (
        lambda x, y: x[:, None] * y[None] + jnp.broadcast_to(x[:1], (3, 4)),
        (r(3), r(4)),
    ),
    "dictionary": lambda: (lambda d: {"sum": d["a"] + d["b"][0]}, ({"a": r(3), "b": [r(3) + 1]},)),
    "stop gradient": lambda: (
        jax.grad(lambda x: (lax.stop_gradient(x) * x).sum()),
        (r(3),),
    ),
    "jit inside": lambda: (lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.cos)(x), (r(3),)),
    "named scope": lambda: (lambda x: jax.named_call(jnp.tanh, name="layer")(x), (r(3),)),
    "unique sizes": lambda: (lambda x: jnp.unique(x, size=4, fill_value=-1), (w(0, 4, 8),)),
    "nonzero sizes": lambda: (lambda x: jnp.nonzero(x, size=4, fill_value=-1)[0], (w(0, 2, 8),)),
    "running mean": lambda: (
        lambda x: jnp.convolve(x, jnp.ones(3) / 3, mode="valid"),
        (r(9),),
    ),
    "quantise": lambda: (
        lambda x: (
            jnp.clip(jnp.round(x / 0.1), -128, 127).astype(jnp.int8).astype(jnp.float32) * 0.1
        ),
        (r(3, 4),),
    ),
    "int8 product": lambda: (
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        (w(-128, 128, 3, 4).astype(np.int8), w(-128, 128, 4, 5).astype(np.int8)),
    ),
}
