"""Classifiers of images in JAX, from LeNet to ConvNeXt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jax_layers import (
    Array,
    Case,
    classifier,
    conv,
    max_pool,
    mean_pool,
    network,
    norm,
    plain,
    squeeze_excite,
    values,
)


def make_lenet() -> Case:
    """LeNet-5 (LeCun and others, 1998)."""

    def lenet(image: Array) -> Array:
        x = mean_pool(nn.tanh(nn.Conv(6, (5, 5))(image)))
        x = mean_pool(nn.tanh(nn.Conv(16, (5, 5), padding="VALID")(x)))
        x = nn.tanh(nn.Conv(120, (5, 5), padding="VALID")(x)).reshape(1, -1)
        return nn.softmax(nn.Dense(10)(nn.tanh(nn.Dense(84)(x))))

    return network(lenet, values(1, 28, 28, 1))


def local_response(x: Array, size: int = 5) -> Array:
    """Return each place, divided by what its neighbouring channels have."""
    window, padding = (1, 1, 1, size), [(0, 0)] * 3 + [(size // 2, size // 2)]
    total = lax.reduce_window(x * x, 0.0, lax.add, window, (1, 1, 1, 1), padding)
    return x / (2 + 1e-4 / size * total) ** 0.75


def make_alexnet() -> Case:
    """AlexNet (Krizhevsky, Sutskever, Hinton, 2012): local response normalization, overlapping pools."""

    def alexnet(image: Array) -> Array:
        x = nn.relu(nn.Conv(16, (11, 11), 4, padding=2)(image))
        x = max_pool(local_response(x), 3)
        x = max_pool(local_response(plain(x, 32, 5, groups=2, act=nn.relu)), 3)
        x = plain(x, 48, act=nn.relu)
        x = plain(x, 48, groups=2, act=nn.relu)
        x = plain(x, 32, groups=2, act=nn.relu)
        x = nn.Dropout(0.5, deterministic=True)(x.mean((1, 2)))
        return nn.Dense(10)(nn.relu(nn.Dense(64)(x)))

    return network(alexnet, values(1, 63, 63, 3))


def make_vgg() -> Case:
    """VGG-11 (Simonyan, Zisserman, 2014)."""

    def vgg(image: Array) -> Array:
        x = image
        for width, count in ((8, 1), (16, 1), (32, 2), (64, 2), (64, 2)):
            for _ in range(count):
                x = plain(x, width, act=nn.relu)
            x = max_pool(x)
        return nn.Dense(10)(nn.relu(nn.Dense(64)(x.reshape(1, -1))))

    return network(vgg, values(1, 32, 32, 3))


class InceptionV1Block(nn.Module):
    """Convolutions of three sizes and a pool, side by side."""

    widths: tuple[int, int, int, int, int, int]

    @nn.compact
    def __call__(self, x: Array) -> Array:
        one, three_in, three, five_in, five, pooled = self.widths
        branches = [
            conv(x, one, 1),
            conv(conv(x, three_in, 1), three),
            conv(conv(x, five_in, 1), five, 5),
            conv(max_pool(x, 3, 1, "SAME"), pooled, 1),
        ]
        return jnp.concatenate(branches, -1)


def make_inception_v1() -> Case:
    """GoogLeNet (Szegedy and others, 2014)."""

    def inception(image: Array) -> Array:
        x = max_pool(conv(image, 16, 7, 2), 3, 2, "SAME")
        x = max_pool(conv(conv(x, 16, 1), 32), 3, 2, "SAME")
        x = InceptionV1Block((8, 12, 16, 4, 8, 8))(x)
        x = InceptionV1Block((16, 16, 24, 4, 12, 8))(x)
        x = InceptionV1Block((24, 12, 26, 4, 8, 8))(max_pool(x, 3, 2, "SAME"))
        return classifier(x)

    return network(inception, values(1, 64, 64, 3))


def make_inception_v3() -> Case:
    """Inception v3 (Szegedy and others, 2015): convolutions in two factors, reductions in parallel."""

    def join(*branches: Array) -> Array:
        return jnp.concatenate(branches, -1)

    def inception(image: Array) -> Array:
        x = max_pool(conv(conv(conv(image, 8, 3, 2), 8), 16), 3, 2)
        x = join(
            conv(x, 8, 1),
            conv(conv(x, 6, 1), 8, 5),
            conv(conv(conv(x, 8, 1), 12), 12),
            conv(nn.avg_pool(x, (3, 3), (1, 1), "SAME"), 4, 1),
        )
        x = join(
            conv(x, 16, 3, 2),
            conv(conv(conv(x, 8, 1), 12), 12, 3, 2),
            max_pool(x, 3, 2, "SAME"),
        )
        x = join(
            conv(x, 16, 1),
            conv(conv(conv(x, 8, 1), 8, (1, 7)), 16, (7, 1)),
            conv(mean_pool(x, 3, 1, "SAME"), 16, 1),
        )
        y = conv(x, 16, 1)
        x = join(conv(x, 16, 1), conv(y, 12, (1, 3)), conv(y, 12, (3, 1)))
        return classifier(x)

    return network(inception, values(1, 64, 64, 3))


def _shortcut(x: Array, width: int, stride: int) -> Array:
    if x.shape[-1] == width and stride == 1:
        return x
    return conv(x, width, 1, stride, act=None)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut; with squeeze-and-excitation if `squeezed` is given."""

    width: int
    stride: int = 1
    squeezed: int = 0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = conv(conv(x, self.width, 3, self.stride), self.width, act=None)
        y = squeeze_excite(y, self.squeezed) if self.squeezed else y
        return nn.relu(y + _shortcut(x, self.width, self.stride))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, with a shortcut."""

    middle: int
    width: int
    stride: int = 1
    groups: int = 1
    squeezed: int = 0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = conv(conv(x, self.middle, 1), self.middle, 3, self.stride, groups=self.groups)
        y = squeeze_excite(y, self.squeezed) if self.squeezed else y
        y = conv(y, self.width, 1, act=None)
        return nn.relu(y + _shortcut(x, self.width, self.stride))


def _residual(size: int, blocks: list[Callable[[], nn.Module]]) -> Case:
    def resnet(image: Array) -> Array:
        x = max_pool(conv(image, 8, 7, 2), 3, 2, "SAME")
        for block in blocks:
            x = block()(x)
        return classifier(x)

    return network(resnet, values(1, size, size, 3))


def make_resnet_basic() -> Case:
    """ResNet-18 (He and others, 2015)."""
    rows = ((8, 1), (8, 1), (16, 2), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1))
    return _residual(64, [partial(BasicBlock, *row) for row in rows])


def make_resnet_bottleneck() -> Case:
    """The form of ResNet-50 (He and others, 2015), with one or two blocks of each width."""
    rows = ((8, 32, 1), (8, 32, 1), (16, 64, 2), (16, 64, 1), (32, 128, 2))
    return _residual(64, [partial(Bottleneck, *row) for row in rows])


def make_resnext() -> Case:
    """ResNeXt (Xie and others, 2016): 3x3 convolutions in groups."""
    rows = ((16, 32, 1), (16, 32, 1), (32, 64, 2))
    return _residual(48, [partial(Bottleneck, *row, groups=4) for row in rows])


def make_se_resnet() -> Case:
    """SE-ResNet (Hu and others, 2017): squeeze-and-excitation in basic blocks."""
    rows = ((8, 1, 2), (16, 2, 4), (32, 2, 8))
    return _residual(48, [partial(BasicBlock, *row) for row in rows])


def make_regnet() -> Case:
    """RegNetY (Radosavovic and others, 2020): groups of a fixed width, with squeeze-and-excitation."""

    def regnet(image: Array) -> Array:
        x = conv(image, 8, 3, 2)
        for width, depth in ((16, 1), (24, 2), (40, 2)):
            for index in range(depth):
                squeezed, stride = max(x.shape[-1] // 4, 4), 1 if index else 2
                x = Bottleneck(width, width, stride, width // 8, squeezed)(x)
        return classifier(x)

    return network(regnet, values(1, 64, 64, 3))


class DenseLayer(nn.Module):
    """New channels beside all earlier ones."""

    growth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = conv(nn.relu(norm(x)), 4 * self.growth, 1)
        y = nn.Conv(self.growth, (3, 3), use_bias=False)(y)
        return jnp.concatenate([x, y], -1)


def make_densenet() -> Case:
    """DenseNet-BC (Huang and others, 2016)."""

    def densenet(image: Array) -> Array:
        x = max_pool(conv(image, 16, 7, 2), 3, 2, "SAME")
        for block in range(3):
            if block:
                half = x.shape[-1] // 2
                x = mean_pool(nn.Conv(half, (1, 1), use_bias=False)(nn.relu(norm(x))))
            for _ in range(4):
                x = DenseLayer(8)(x)
        return classifier(nn.relu(norm(x)))

    return network(densenet, values(1, 64, 64, 3))


class Fire(nn.Module):
    """Few channels, then many, by two sizes of convolutions."""

    squeezed: int
    expanded: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = plain(x, self.squeezed, 1, act=nn.relu)
        sizes = (plain(x, self.expanded, size, act=nn.relu) for size in (1, 3))
        return jnp.concatenate(list(sizes), -1)


def make_squeezenet() -> Case:
    """SqueezeNet 1.1 (Iandola and others, 2016)."""

    def squeezenet(image: Array) -> Array:
        x = nn.relu(nn.Conv(16, (3, 3), 2, padding="VALID")(image))
        x = Fire(4, 16)(Fire(4, 16)(max_pool(x, 3, 2, "SAME")))
        x = Fire(8, 24)(Fire(8, 24)(max_pool(x, 3, 2, "SAME")))
        x = Fire(12, 32)(max_pool(x, 3, 2, "SAME"))
        return plain(x, 10, 1, act=nn.relu).mean((1, 2))

    return network(squeezenet, values(1, 64, 64, 3))


class ConvNeXtBlock(nn.Module):
    """A 7x7 depthwise convolution, a hidden layer with GELU, and a scale for each channel."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        width = x.shape[-1]
        y = nn.LayerNorm(1e-6)(plain(x, width, 7, groups=width))
        y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(y), approximate=False))
        return x + y * self.param("scale", nn.initializers.ones, (width,))


def make_convnext() -> Case:
    """ConvNeXt (Liu and others, 2022)."""

    def convnext(image: Array) -> Array:
        x = nn.LayerNorm(1e-6)(nn.Conv(12, (4, 4), 4)(image))
        for width in (24, 48, 0):
            x = ConvNeXtBlock()(ConvNeXtBlock()(x))
            if width:
                x = nn.Conv(width, (2, 2), 2)(nn.LayerNorm(1e-6)(x))
        return nn.Dense(10)(nn.LayerNorm(1e-6)(x.mean((1, 2))))

    return network(convnext, values(1, 32, 32, 3))
