"""Small networks of the kinds that accelerators run, written with the builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph

CHANNELS: Final = 8
#: The weights and biases of the convolutions of `residual_block`.
KERNELS: Final = [
    np.random.default_rng(seed).integers(-90, 90, (CHANNELS, 3, 3, CHANNELS), np.int8)
    for seed in range(2)
]
BIASES: Final = [
    np.random.default_rng(seed).integers(-999, 999, CHANNELS, np.int32) for seed in (3, 4)
]


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def residual_block() -> Graph:
    """Return two int8 convolutions, and their input added to their result."""
    b = Builder("main")
    x = y = b.input("x", "int8", (1, 6, 6, CHANNELS))
    for kernel, bias in zip(KERNELS, BIASES, strict=True):
        y = b.conv2d(y, kernel, bias, -5, pad=(1, 1, 1, 1))
        y = b.rescale(y, 1 << 30, 40, output_zp=-5, dtype="int8")
    wide = [b.rescale(value, 1 << 30, 20, -5, dtype="int32") for value in (x, y)]
    b.output(b.rescale(b.add(*wide), 1 << 30, 41, output_zp=3, dtype="int8"), name="y")
    return b.graph()


def conv_block() -> Graph:
    """Return an int8 convolution with a rescale for each channel, a bound and a pool."""
    b = Builder("main")
    x = b.input("x", "int8", (1, 8, 8, CHANNELS))
    y = b.conv2d(x, KERNELS[0], BIASES[0], -5, pad=(1, 1, 1, 1))
    shifts = [38 + channel % 3 for channel in range(CHANNELS)]
    y = b.rescale(y, [1 << 30] * CHANNELS, shifts, output_zp=-128, per_channel=True, dtype="int8")
    y = b.clamp(y, min_val=-128, max_val=100)
    b.output(b.avg_pool2d(y, -128, -128, kernel=(2, 2), stride=(2, 2)), name="y")
    return b.graph()


def mlp() -> Graph:
    """Three layers of a perceptron in FP32."""
    b = Builder("main")
    y = b.reshape(b.input("x", "fp32", (1, 12)), (1, 1, 12))
    for layer, (size, width) in enumerate([(12, 16), (16, 16), (16, 4)]):
        y = b.add(b.matmul(y, floats(1, size, width, seed=layer)), floats(1, 1, width))
        y = y if width == 4 else b.clamp(y, min_val=0, max_val=6)
    b.output(b.reshape(y, (1, 4)), name="y")
    return b.graph()


def attention() -> Graph:
    """Return one head of attention: projections, scaled products, softmax, weighted values."""
    b = Builder("main")
    x = b.input("x", "fp32", (1, 5, 8))
    query, key, value = (b.matmul(x, floats(1, 8, 8, seed=seed)) for seed in range(3))
    scores = b.mul(b.matmul(query, b.transpose(key, perms=(0, 2, 1))), 8**-0.5)
    b.output(b.matmul(softmax(b, scores, axis=2), value), name="y")
    return b.graph()


def softmax(b: Builder, x: Value, *, axis: int) -> Value:
    powers = b.exp(b.sub(x, b.reduce_max(x, axis=axis)))
    return b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=axis)))


NETWORKS: Final[dict[str, Callable[[], Graph]]] = {
    made.__name__: made for made in (residual_block, conv_block, mlp, attention)
}
