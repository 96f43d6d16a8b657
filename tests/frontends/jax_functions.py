"""Plain functions of JAX and their example arguments, for the routes from JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from frontends.jax_runs import jax

jnp, lax = jax.numpy, jax.lax
RANDOM = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


IMAGE, TOKENS = normal(2, 28, 28, 1), normal(2, 8, 32)
SHAPES = {
    "w1": (16, 32),
    "b1": (32,),
    "w2": (32, 8),
    "b2": (8,),
    "q": (32, 32),
    "k": (32, 32),
    "v": (32, 32),
    "o": (32, 32),
    "g": (32,),
    "b": (32,),
    "wx": (8, 16),
    "wh": (16, 16),
    "c1": (3, 3, 1, 8),
    "c2": (3, 3, 8, 16),
    "d": (16 * 49, 10),
}
P = {name: normal(*shape, scale=0.3) for name, shape in SHAPES.items()}


def mlp(x: Any) -> Any:
    return jax.nn.softmax(jax.nn.gelu(x @ P["w1"] + P["b1"]) @ P["w2"] + P["b2"])


def convolutions(image: Any) -> Any:
    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(
        lax.conv_general_dilated(image, P["c1"], (1, 1), "SAME", dimension_numbers=dims)
    )
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(lax.conv_general_dilated(x, P["c2"], (2, 2), "SAME", dimension_numbers=dims))
    return x.reshape(x.shape[0], -1) @ P["d"]


def attention(x: Any) -> Any:
    q, k, v = (jnp.einsum("bsd,de->bse", x, P[name]).reshape(2, 8, 4, 8) for name in "qkv")
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(2, 8, 32) @ P["o"]


def layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * P["g"] + P["b"]


def recurrent(xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        state = jnp.tanh(x @ P["wx"] + state @ P["wh"])
        return state, state.sum(-1)

    return lax.scan(step, jnp.zeros((2, 16)), xs)


def rotary_attention(x: Any) -> Any:
    angles = jnp.arange(8)[:, None] / 10000 ** (jnp.arange(0, 32, 2) / 32)
    sine, cosine = jnp.sin(angles), jnp.cos(angles)
    even, odd = jnp.split(x, 2, -1)
    q = jnp.concatenate([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    heads = q.reshape(2, 8, 4, 8)
    return jax.nn.dot_product_attention(heads, heads, x.reshape(2, 8, 4, 8), is_causal=True)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp, (normal(4, 16),)),
    "convolutions": (convolutions, (IMAGE[:1],)),
    "attention": (attention, (TOKENS,)),
    "layer_norm": (layer_norm, (TOKENS,)),
    "scan": (recurrent, (normal(6, 2, 8),)),
    "long scan": (recurrent, (normal(300, 2, 8),)),
    "rotary attention": (rotary_attention, (TOKENS,)),
    "gather": (
        lambda table, index: (jnp.take(table, index, axis=0) * 2.0, jnp.cumsum(table, axis=0)),
        (normal(6, 5), np.array([5, 0, 3, 3], np.int32)),
    ),
    "resize": (
        lambda x: [jax.image.resize(x, (2, 9, 11, 1), kind) for kind in ("nearest", "bilinear")],
        (IMAGE[:, :7, :6],),
    ),
}
