"""Classifiers of images for small devices, in JAX."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen as nn
from jax_layers import (
    Activation,
    Array,
    Case,
    classifier,
    conv,
    depthwise,
    max_pool,
    network,
    plain,
    separable,
    squeeze_excite,
    values,
)


def make_mobilenet_v1() -> Case:
    """MobileNet v1 (Howard and others, 2017)."""

    def mobilenet(image: Array) -> Array:
        x = conv(image, 8, 3, 2)
        for width, stride in ((16, 1), (32, 2), (32, 1), (48, 2), (48, 1), (64, 2), (64, 1)):
            x = separable(x, width, stride)
        return classifier(x)

    return network(mobilenet, values(1, 64, 64, 3))


class Inverted(nn.Module):
    """Wide, depthwise, narrow without activation; with a shortcut where the shapes are equal."""

    width: int
    hidden: int
    stride: int = 1
    size: int = 3
    act: Activation = nn.relu6
    squeezed: int = 0
    gate: Activation = nn.sigmoid
    squeezed_act: Activation = nn.relu

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = x if self.hidden == x.shape[-1] else conv(x, self.hidden, 1, act=self.act)
        y = depthwise(y, self.size, self.stride, act=self.act)
        if self.squeezed:
            y = squeeze_excite(y, self.squeezed, gate=self.gate, act=self.squeezed_act)
        y = conv(y, self.width, 1, act=None)
        return x + y if x.shape == y.shape else y


def make_mobilenet_v2() -> Case:
    """MobileNet v2 (Sandler and others, 2018)."""

    def mobilenet(image: Array) -> Array:
        x = conv(image, 8, 3, 2, act=nn.relu6)
        rows = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 1), (6, 32, 2, 2))
        for factor, width, depth, stride in rows:
            for index in range(depth):
                x = Inverted(width, x.shape[-1] * factor, 1 if index else stride)(x)
        return classifier(conv(x, 64, 1, act=nn.relu6))

    return network(mobilenet, values(1, 64, 64, 3))


def make_mobilenet_v3() -> Case:
    """MobileNet v3 small (Howard and others, 2019): hard swish, squeeze-and-excitation."""

    def mobilenet(image: Array) -> Array:
        x = conv(image, 8, 3, 2, act=nn.hard_swish)
        rows = (
            (8, 8, 2, 3, nn.relu, 8),
            (12, 36, 2, 3, nn.relu, 0),
            (12, 44, 1, 3, nn.relu, 0),
            (16, 48, 2, 5, nn.hard_swish, 8),
            (16, 60, 1, 5, nn.hard_swish, 8),
        )
        for row in rows:
            x = Inverted(*row, gate=nn.hard_sigmoid)(x)
        x = conv(x, 48, 1, act=nn.hard_swish).mean((1, 2), keepdims=True)
        return plain(plain(x, 64, 1, act=nn.hard_swish), 10, 1).reshape(1, 10)

    return network(mobilenet, values(1, 64, 64, 3))


def make_mnasnet() -> Case:
    """MNASNet (Tan and others, 2018): kernels of 3 and 5, factors of 3 and 6."""

    def mnasnet(image: Array) -> Array:
        x = separable(conv(image, 8, 3, 2), 8)
        rows = ((3, 3, 12, 2, 2), (3, 5, 16, 2, 2), (6, 5, 24, 1, 2), (6, 3, 32, 1, 1))
        for factor, size, width, depth, stride in rows:
            for index in range(depth):
                hidden, step = x.shape[-1] * factor, 1 if index else stride
                x = Inverted(width, hidden, step, size, nn.relu)(x)
        return classifier(conv(x, 64, 1))

    return network(mnasnet, values(1, 64, 64, 3))


def make_efficientnet() -> Case:
    """EfficientNet (Tan, Le, 2019): SiLU, squeeze-and-excitation in every block."""

    def efficientnet(image: Array) -> Array:
        x = conv(image, 8, 3, 2, act=nn.silu)
        rows = ((1, 3, 8, 1, 1), (6, 3, 12, 2, 2), (6, 5, 16, 2, 2), (6, 3, 24, 1, 2))
        for factor, size, width, depth, stride in rows:
            for index in range(depth):
                channels, step = x.shape[-1], 1 if index else stride
                squeezed = max(channels // 4, 2)
                row = (width, channels * factor, step, size, nn.silu, squeezed)
                x = Inverted(*row, squeezed_act=nn.silu)(x)
        return classifier(conv(x, 64, 1, act=nn.silu))

    return network(efficientnet, values(1, 64, 64, 3))


def make_efficientnet_lite() -> Case:
    """EfficientNet-Lite (Liu, 2020): ReLU6, and no squeeze-and-excitation."""

    def efficientnet(image: Array) -> Array:
        x = conv(image, 8, 3, 2, act=nn.relu6)
        rows = ((1, 3, 8, 1, 1), (6, 3, 12, 2, 2), (6, 5, 16, 2, 2), (6, 3, 24, 1, 2))
        for factor, size, width, depth, stride in rows:
            for index in range(depth):
                x = Inverted(width, x.shape[-1] * factor, 1 if index else stride, size)(x)
        return classifier(conv(x, 64, 1, act=nn.relu6))

    return network(efficientnet, values(1, 64, 64, 3))


def shuffled(x: Array, groups: int) -> Array:
    """Return the channels of all groups in turn."""
    grouped = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    return grouped.swapaxes(-1, -2).reshape(x.shape)


class ShuffleUnit(nn.Module):
    """Half of the channels stay, the others are convolved; then the channels are shuffled."""

    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: Array) -> Array:
        half = self.width // 2
        left, right = (x, x) if self.stride == 2 else jnp.split(x, 2, -1)
        if self.stride == 2:
            left = conv(depthwise(left, 3, 2, act=None), half, 1)
        right = depthwise(conv(right, half, 1), 3, self.stride, act=None)
        return shuffled(jnp.concatenate([left, conv(right, half, 1)], -1), 2)


def make_shufflenet_v2() -> Case:
    """ShuffleNet v2 (Ma and others, 2018)."""

    def shufflenet(image: Array) -> Array:
        x = max_pool(conv(image, 8, 3, 2), 3, 2, "SAME")
        for width in (16, 32, 64):
            x = ShuffleUnit(width)(ShuffleUnit(width, 2)(x))
        return classifier(conv(x, 64, 1))

    return network(shufflenet, values(1, 64, 64, 3))


def ghost_conv(x: Array, width: int, act: Activation | None) -> Array:
    """Return some channels by a full convolution, the others from them by a depthwise one."""
    first = conv(x, (width + 1) // 2, 1, act=act)
    return jnp.concatenate([first, depthwise(first, act=act)], -1)[..., :width]


class Ghost(nn.Module):
    """Two ghost convolutions, with a shortcut."""

    hidden: int
    width: int
    stride: int = 1
    squeezes: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = ghost_conv(x, self.hidden, nn.relu)
        if self.stride == 2:
            y = depthwise(y, 3, 2, act=None)
        if self.squeezes:
            y = squeeze_excite(y, 8, gate=nn.hard_sigmoid)
        y = ghost_conv(y, self.width, None)
        if x.shape != y.shape:
            x = conv(depthwise(x, 3, self.stride, act=None), self.width, 1, act=None)
        return x + y


def make_ghostnet() -> Case:
    """GhostNet (Han and others, 2019)."""

    def ghostnet(image: Array) -> Array:
        x = conv(image, 8, 3, 2)
        rows = ((8, 8), (24, 13, 2), (36, 13, 1, True), (36, 20, 2, True))
        for row in rows:
            x = Ghost(*row)(x)
        return classifier(conv(x, 48, 1))

    return network(ghostnet, values(1, 48, 48, 3))
