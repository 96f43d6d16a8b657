"""Layers that several Keras networks share, and the seeded weights of all."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import layers

#: A network for inference, with inputs of fixed sizes. Keras has no types for mypy.
Model: TypeAlias = Any
#: A symbolic tensor of Keras.
Tensor: TypeAlias = Any

_SUMS = ("kernel", "depthwise_kernel", "pointwise_kernel", "recurrent_kernel", "embeddings")
_SHIFTS = ("bias", "beta", "moving_mean")
_FACTORS = ("gamma", "moving_variance")


def seeded(model: Model) -> Model:
    """Return the network with weights that are the same in every run.

    Weights keep the size of the values through many layers, and no normalization is the identity: each
    layer matters for the outputs.
    """
    random = np.random.default_rng(0)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if weight.name in _SUMS:
            array = random.normal(
                0, math.sqrt(1.5 / _terms(weight.name, weight.path, shape)), shape
            )
        elif weight.name in _SHIFTS:
            array = random.normal(0, 0.1, shape)
        elif weight.name in _FACTORS:
            array = random.uniform(0.5, 1.5, shape)
        elif weight.dtype == "float32":
            array = random.normal(0, 0.3, shape)
        else:
            continue
        weight.assign(array.astype(np.float32))
    return model


def _terms(name: str, path: str, shape: tuple[int, ...]) -> int:
    """Return how many products each sum of a layer has."""
    if name == "embeddings":
        return 1
    if name == "depthwise_kernel" or "transpose" in path:
        return math.prod(shape) // shape[-2]
    if len(shape) == 3 and path.split("/")[-2] in ("query", "key", "value"):
        return shape[0]
    return math.prod(shape[:-1])


def image(size: int, channels: int = 3) -> Tensor:
    """Return an input of one square image."""
    return keras.Input(batch_shape=(1, size, size, channels), name="image")


def activated(x: Tensor, act: str | None) -> Tensor:
    """Return an activation as a layer of its own, as networks are usually written."""
    return layers.ReLU(6.0)(x) if act == "relu6" else layers.Activation(act)(x) if act else x


def conv(
    x: Tensor,
    width: int,
    size: int | tuple[int, int] = 3,
    stride: int = 1,
    *,
    act: str | None = "relu",
    rate: int = 1,
) -> Tensor:
    """Convolution, normalization, activation."""
    x = layers.Conv2D(width, size, stride, padding="same", use_bias=False, dilation_rate=rate)(x)
    return activated(layers.BatchNormalization()(x), act)


def depthwise(
    x: Tensor, size: int = 3, stride: int = 1, *, act: str | None = "relu", rate: int = 1
) -> Tensor:
    """Convolution of each channel, normalization, activation."""
    x = layers.DepthwiseConv2D(size, stride, padding="same", use_bias=False, dilation_rate=rate)(x)
    return activated(layers.BatchNormalization()(x), act)


def separable(
    x: Tensor, width: int, stride: int = 1, *, act: str = "relu", rate: int = 1
) -> Tensor:
    """Depthwise, then pointwise."""
    return conv(depthwise(x, 3, stride, act=act, rate=rate), width, 1, act=act)


def squeeze_excite(x: Tensor, hidden: int, *, gate: str = "sigmoid", act: str = "relu") -> Tensor:
    """Channels, weighted by what is in the whole image."""
    weights = layers.GlobalAveragePooling2D(keepdims=True)(x)
    weights = layers.Conv2D(hidden, 1, activation=act)(weights)
    weights = layers.Conv2D(x.shape[-1], 1, activation=gate)(weights)
    return layers.Multiply()([x, weights])


def classifier(x: Tensor, classes: int = 10) -> Tensor:
    """Classes of a whole image."""
    return layers.Dense(classes, activation="softmax")(layers.GlobalAveragePooling2D()(x))


def network(inputs: Any, outputs: Any) -> Model:
    """Return a model with seeded weights."""
    return seeded(keras.Model(inputs, outputs))
