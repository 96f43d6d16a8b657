"""Networks in JAX that answer for every place of an image: segmentation, detection, poses."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen as nn
from jax_classifiers import BasicBlock
from jax_layers import (
    Array,
    Case,
    conv,
    enlarged,
    max_pool,
    network,
    plain,
    resized,
    separable,
    values,
)


def _double(x: Array, width: int) -> Array:
    return conv(conv(x, width), width)


def make_unet() -> Case:
    """U-Net (Ronneberger, Fischer, Brox, 2015)."""

    def unet(image: Array) -> Array:
        x, kept = image, []
        for width in (8, 16, 32):
            kept.append(_double(x, width))
            x = max_pool(kept[-1])
        x = _double(x, 64)
        for width in (32, 16, 8):
            up = nn.ConvTranspose(width, (2, 2), (2, 2))(x)
            x = _double(jnp.concatenate([kept.pop(), up], -1), width)
        return plain(x, 4, 1)

    return network(unet, values(1, 32, 32, 3))


def make_fcn() -> Case:
    """FCN-8s (Long, Shelhamer, Darrell, 2014)."""

    def up(x: Array, factor: int) -> Array:
        size = (2 * factor, 2 * factor)
        return nn.ConvTranspose(5, size, (factor, factor), use_bias=False)(x)

    def fcn(image: Array) -> Array:
        x = image
        for width in (8, 16, 24):
            x = max_pool(conv(x, width))
        eighth = x
        sixteenth = max_pool(conv(eighth, 32))
        x = conv(max_pool(conv(sixteenth, 48)), 48, 1)
        x = up(plain(x, 5, 1), 2) + plain(sixteenth, 5, 1)
        return up(up(x, 2) + plain(eighth, 5, 1), 8)

    return network(fcn, values(1, 64, 64, 3))


def make_deeplab_v3() -> Case:
    """DeepLab v3+ (Chen and others, 2018)."""

    def deeplab(image: Array) -> Array:
        low = BasicBlock(16, 2)(conv(image, 8, 3, 2))
        x = conv(BasicBlock(32, 2)(low), 32, rate=2)
        pooled = conv(x.mean((1, 2), keepdims=True), 12, 1)
        branches = [
            conv(x, 12, 1),
            *(conv(x, 12, rate=rate) for rate in (2, 4, 6)),
            resized(pooled, x.shape[1], x.shape[2]),
        ]
        x = enlarged(conv(jnp.concatenate(branches, -1), 24, 1), 2, "bilinear")
        x = separable(jnp.concatenate([x, conv(low, 8, 1)], -1), 24)
        return enlarged(plain(x, 6, 1), 4, "bilinear")

    return network(deeplab, values(1, 64, 64, 3))


class Exchange(nn.Module):
    """Blocks of each resolution, then what each gives to the others."""

    @nn.compact
    def __call__(self, levels: list[Array]) -> list[Array]:
        widths = [level.shape[-1] for level in levels]
        levels = [BasicBlock(level.shape[-1])(level) for level in levels]
        found = []
        for target, width in enumerate(widths):
            total = levels[target]
            for source, level in enumerate(levels):
                if source > target:
                    total += enlarged(conv(level, width, 1, act=None), 2 ** (source - target))
                elif source < target:
                    for step in range(source + 1, target + 1):
                        level = conv(level, widths[step], 3, 2, act=None)
                    total += level
            found.append(nn.relu(total))
        return found


def make_hrnet() -> Case:
    """HRNet (Sun and others, 2019): three resolutions in parallel."""

    def hrnet(image: Array) -> Array:
        x = conv(conv(image, 8, 3, 2), 8, 3, 2)
        levels = [conv(x, 8), conv(x, 16, 3, 2), conv(conv(x, 16, 3, 2), 32, 3, 2)]
        first, *others = Exchange()(Exchange()(levels))
        grown = [resized(level, *first.shape[1:3]) for level in others]
        return plain(jnp.concatenate([first, *grown], -1), 5, 1)

    return network(hrnet, values(1, 64, 64, 3))


ANCHORS = (((10, 14), (23, 27), (37, 58)), ((81, 82), (35, 69), (44, 19)))


def _dark(x: Array, width: int, size: int = 3, stride: int = 1) -> Array:
    return conv(x, width, size, stride, act=lambda y: nn.leaky_relu(y, 0.1))


def _dark_block(x: Array) -> Array:
    return x + _dark(_dark(x, x.shape[-1] // 2, 1), x.shape[-1])


def boxes(x: Array, anchors: tuple[tuple[int, int], ...], size: int) -> Array:
    """Centres, sizes, objectness and classes of every box: [batch, boxes, 5 + classes]."""
    batch, rows, columns, _ = x.shape
    x = x.reshape(batch, rows, columns, len(anchors), -1).transpose(0, 3, 1, 2, 4)
    grid = jnp.stack(jnp.meshgrid(jnp.arange(columns), jnp.arange(rows)), -1)
    centres = (nn.sigmoid(x[..., :2]) + grid) * (size / columns)
    sizes = jnp.exp(x[..., 2:4]) * jnp.array(anchors).reshape(1, -1, 1, 1, 2)
    found = jnp.concatenate([centres, sizes, nn.sigmoid(x[..., 4:])], -1)
    return found.reshape(batch, -1, found.shape[-1])


def make_yolo() -> Case:
    """A small YOLO v3 (Redmon, Farhadi, 2018)."""

    def yolo(image: Array) -> Array:
        x = _dark(image, 8)
        for width in (16, 24, 32):
            x = _dark_block(_dark(x, width, 3, 2))
        coarse = _dark(_dark_block(_dark(x, 48, 3, 2)), 32, 1)
        fine = jnp.concatenate([enlarged(_dark(coarse, 16, 1)), x], -1)
        found = [
            boxes(plain(_dark(one, 48), 24, 1), anchors, image.shape[1])
            for one, anchors in zip((coarse, fine), ANCHORS, strict=True)
        ]
        return jnp.concatenate(found, 1)

    return network(yolo, values(1, 64, 64, 3))


class ChannelNorm(nn.Module):
    """Divides by the length of each place's channels, and scales."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        length = jnp.linalg.norm(x, axis=-1, keepdims=True)
        return x / jnp.maximum(length, 1e-12) * scale * 10


def make_ssd() -> Case:
    """SSD (Liu and others, 2015)."""

    def ssd(image: Array) -> dict[str, Array]:
        first = conv(max_pool(conv(max_pool(conv(image, 16)), 24)), 32)
        second = conv(max_pool(first), 48, rate=6)
        third = conv(conv(second, 16, 1), 32, 3, 2)
        maps = [ChannelNorm()(first), second, third]
        places = [plain(one, 16).reshape(1, -1, 4) for one in maps]
        scores = [plain(one, 16).reshape(1, -1, 4) for one in maps]
        return {
            "places": jnp.concatenate(places, 1),
            "scores": nn.softmax(jnp.concatenate(scores, 1)),
        }

    return network(ssd, values(1, 48, 48, 3))


class Head(nn.Module):
    """Classes and boxes of a level; all levels share it."""

    classes: int = 3

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.relu(nn.GroupNorm(4)(plain(x, 16)))
        x = plain(x, 2 * (self.classes + 4))
        return x.reshape(x.shape[0], -1, x.shape[-1])


def make_retinanet() -> Case:
    """RetinaNet on a feature pyramid (Lin and others, 2017)."""

    def retinanet(image: Array) -> Array:
        x, found = conv(image, 8, 3, 2), []
        for width in (16, 24, 32):
            x = BasicBlock(width, 2)(x)
            found.append(plain(x, 16, 1))
        for index in (1, 0):
            found[index] += enlarged(found[index + 1])
        head = Head()
        return jnp.concatenate([head(plain(one, 16)) for one in found], 1)

    return network(retinanet, values(1, 64, 64, 3))
