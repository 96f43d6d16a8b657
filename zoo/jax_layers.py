"""Layers that several networks of JAX share, the seeded weights of all, and their inputs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx

#: An array of JAX. JAX and flax are not installed where mypy runs.
Array: TypeAlias = Any
#: A function of arrays, or a module of nnx, and its example arguments.
Case: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Activation: TypeAlias = Callable[[Array], Array]

_SHIFTS = ("bias", "mean")
_FACTORS = ("scale", "var")


class Weights:
    """Draws weights that are the same in every run.

    Weights keep the size of the values through many layers, and no normalization is the identity: each
    layer matters for the outputs.
    """

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def draw(self, name: str, shape: Sequence[int], terms: int = 0) -> Array:
        """Return an array for a weight of this name; each sum of a layer has `terms` products."""
        if name == "kernel":
            terms = terms or math.prod(shape[:-1])
            array = self.random.normal(0, math.sqrt(1.5 / terms), shape)
        elif name in _SHIFTS:
            array = self.random.normal(0, 0.1, shape)
        elif name in _FACTORS:
            array = self.random.uniform(0.5, 1.5, shape)
        elif name == "embedding":
            array = self.random.normal(0, 1, shape)
        else:
            array = self.random.normal(0, 0.3, shape)
        return jnp.asarray(array, jnp.float32)

    def kernel(self, *shape: int) -> Array:
        """Return a matrix, or the kernel of a convolution."""
        return self.draw("kernel", shape)

    def bias(self, *shape: int) -> Array:
        """Return what is added to each channel."""
        return self.draw("bias", shape)

    def scale(self, *shape: int) -> Array:
        """Return what multiplies each channel."""
        return self.draw("scale", shape)

    def fill(self, tree: Any) -> Any:
        """Return a tree of shapes with arrays in their places, by the name of each."""

        def array(path: Any, leaf: Any) -> Any:
            names = [jax.tree_util.keystr((key,), simple=True) for key in path]
            name = names[-2] if names[-1] == "value" else names[-1]
            is_head = len(leaf.shape) == 3 and names[-2] in ("query", "key", "value")
            return self.draw(name, leaf.shape, leaf.shape[0] if is_head else 0)

        return jax.tree_util.tree_map_with_path(array, tree)


class Body(nn.Module):
    """A module that calls a function, which makes its layers as it goes."""

    body: Callable[..., Any]

    @nn.compact
    def __call__(self, *inputs: Array) -> Any:
        return self.body(*inputs)


def network(body: Callable[..., Any], *inputs: Array) -> Case:
    """Return a function of modules of linen, with seeded weights.

    Args:
        body: a function of the inputs that makes and calls modules, or a module.
        inputs: the example inputs.
    """
    module = body if isinstance(body, nn.Module) else Body(body)
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)
    variables = Weights().fill(shapes)

    def function(*args: Array) -> Any:
        return module.apply(variables, *args)

    # The arguments are called as those of the body.
    function.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]
    return jax.jit(function), inputs


def filled(build: Callable[[], Any]) -> Any:
    """Return a module of nnx with seeded weights; what it keeps from call to call begins with 0."""
    module = nnx.eval_shape(build)
    structure, weights, kept = nnx.split(module, nnx.OfType((nnx.Param, nnx.BatchStat)), ...)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), kept)
    return nnx.merge(structure, Weights().fill(weights), zeros)


def values(*shape: int) -> Array:
    """Return seeded values of a normal distribution, such as an image."""
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def numbers(limit: int, *shape: int) -> Array:
    """Return seeded whole numbers from 0 below a limit, such as tokens."""
    return np.random.default_rng(2).integers(0, limit, shape, np.int32)


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return a size for both axes of an image."""
    return (size, size) if isinstance(size, int) else size


def norm(x: Array) -> Array:
    """BatchNorm for inference."""
    return nn.BatchNorm(use_running_average=True)(x)


def conv(
    x: Array,
    width: int,
    size: int | tuple[int, int] = 3,
    stride: int | tuple[int, int] = 1,
    *,
    groups: int = 1,
    rate: int = 1,
    act: Activation | None = nn.relu,
) -> Array:
    """Convolution without bias, normalization, activation."""
    x = nn.Conv(
        width,
        pair(size),
        pair(stride),
        kernel_dilation=rate,
        feature_group_count=groups,
        use_bias=False,
    )(x)
    x = norm(x)
    return act(x) if act else x


def plain(
    x: Array,
    width: int,
    size: int | tuple[int, int] = 3,
    *,
    groups: int = 1,
    act: Activation | None = None,
) -> Array:
    """Convolution with bias, activation."""
    x = nn.Conv(width, pair(size), feature_group_count=groups)(x)
    return act(x) if act else x


def depthwise(
    x: Array, size: int = 3, stride: int = 1, *, act: Activation | None = nn.relu
) -> Array:
    """Convolution of each channel, normalization, activation."""
    return conv(x, x.shape[-1], size, stride, groups=x.shape[-1], act=act)


def separable(x: Array, width: int, stride: int = 1, *, act: Activation = nn.relu) -> Array:
    """Depthwise, then pointwise."""
    return conv(depthwise(x, 3, stride, act=act), width, 1, act=act)


def max_pool(x: Array, size: int = 2, stride: int = 2, padding: str = "VALID") -> Array:
    """Return the largest of each window."""
    return nn.max_pool(x, (size, size), (stride, stride), padding)


def mean_pool(x: Array, size: int = 2, stride: int = 2, padding: str = "VALID") -> Array:
    """Return the mean of each window, of the places within the image."""
    return nn.avg_pool(x, (size, size), (stride, stride), padding, count_include_pad=False)


def squeeze_excite(
    x: Array, hidden: int, *, gate: Activation = nn.sigmoid, act: Activation = nn.relu
) -> Array:
    """Channels, weighted by what is in the whole image."""
    means = x.mean((1, 2), keepdims=True)
    return x * gate(plain(plain(means, hidden, 1, act=act), x.shape[-1], 1))


def classifier(x: Array, classes: int = 10) -> Array:
    """Classes of a whole image."""
    return nn.Dense(classes)(x.mean((1, 2)))


def resized(x: Array, height: int, width: int, method: str = "bilinear") -> Array:
    """Return an image of another size."""
    return jax.image.resize(x, (x.shape[0], height, width, x.shape[-1]), method)


def enlarged(x: Array, factor: int = 2, method: str = "nearest") -> Array:
    """Return an image with more pixels."""
    return resized(x, x.shape[1] * factor, x.shape[2] * factor, method)
