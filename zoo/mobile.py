"""Classifiers of images for small devices."""

from __future__ import annotations

from collections.abc import Callable

import torch
from layers import Case, Classifier, ConvNorm, Residual, Separable, SqueezeExcite, seeded, values
from torch import Tensor, nn


def make_mobilenet_v1() -> Case:
    """MobileNet v1 (Howard and others, 2017)."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        for width, stride in ((16, 1), (32, 2), (32, 1), (48, 2), (48, 1), (64, 2), (64, 1)):
            blocks.append(Separable(channels, width, stride))
            channels = width
        return nn.Sequential(ConvNorm(3, 8, 3, 2), *blocks, Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


def inverted(
    inputs: int,
    outputs: int,
    stride: int,
    hidden: int,
    *,
    size: int = 3,
    act: Callable[[], nn.Module] = nn.ReLU6,
    gates: nn.Module | None = None,
) -> nn.Module:
    """Wide, depthwise, narrow without activation; with a shortcut where the shapes are equal."""
    branch = nn.Sequential(
        *([ConvNorm(inputs, hidden, 1, act=act)] if hidden != inputs else []),
        ConvNorm(hidden, hidden, size, stride, groups=hidden, act=act),
        *([gates] if gates else []),
        ConvNorm(hidden, outputs, 1, act=None),
    )
    return Residual(branch) if inputs == outputs and stride == 1 else branch


def make_mobilenet_v2() -> Case:
    """MobileNet v2 (Sandler and others, 2018)."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        rows = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 1), (6, 32, 2, 2))
        for factor, width, depth, stride in rows:
            for index in range(depth):
                blocks.append(inverted(channels, width, 1 if index else stride, channels * factor))
                channels = width
        last = ConvNorm(32, 64, 1, act=nn.ReLU6)
        return nn.Sequential(ConvNorm(3, 8, 3, 2, act=nn.ReLU6), *blocks, last, Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


def make_mobilenet_v3() -> Case:
    """MobileNet v3 small (Howard and others, 2019): hard swish, squeeze-and-excitation."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        rows = (
            (3, 8, 8, True, nn.ReLU, 2),
            (3, 36, 12, False, nn.ReLU, 2),
            (3, 44, 12, False, nn.ReLU, 1),
            (5, 48, 16, True, nn.Hardswish, 2),
            (5, 60, 16, True, nn.Hardswish, 1),
        )
        for size, hidden, width, squeezes, act, stride in rows:
            gates = SqueezeExcite(hidden, 8, gate=nn.Hardsigmoid) if squeezes else None
            blocks.append(
                inverted(channels, width, stride, hidden, size=size, act=act, gates=gates)
            )
            channels = width
        return nn.Sequential(
            ConvNorm(3, 8, 3, 2, act=nn.Hardswish),
            *blocks,
            ConvNorm(16, 48, 1, act=nn.Hardswish),
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(48, 64, 1),
            nn.Hardswish(),
            nn.Conv2d(64, 10, 1),
            nn.Flatten(),
        )

    return seeded(build), (values(1, 3, 64, 64),)


def make_mnasnet() -> Case:
    """MNASNet (Tan and others, 2018): kernels of 3 and 5, factors of 3 and 6."""

    def build() -> nn.Module:
        blocks: list[nn.Module] = [Separable(8, 8)]
        channels = 8
        rows = ((3, 3, 12, 2, 2), (3, 5, 16, 2, 2), (6, 5, 24, 1, 2), (6, 3, 32, 1, 1))
        for factor, size, width, depth, stride in rows:
            for index in range(depth):
                hidden = channels * factor
                step = 1 if index else stride
                blocks.append(inverted(channels, width, step, hidden, size=size, act=nn.ReLU))
                channels = width
        return nn.Sequential(ConvNorm(3, 8, 3, 2), *blocks, ConvNorm(32, 64, 1), Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


def make_efficientnet() -> Case:
    """EfficientNet (Tan, Le, 2019): SiLU, squeeze-and-excitation in every block."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        rows = ((1, 3, 8, 1, 1), (6, 3, 12, 2, 2), (6, 5, 16, 2, 2), (6, 3, 24, 1, 2))
        for factor, size, width, depth, stride in rows:
            for index in range(depth):
                hidden = channels * factor
                gates = SqueezeExcite(hidden, max(channels // 4, 2), nn.SiLU)
                step = 1 if index else stride
                blocks.append(
                    inverted(channels, width, step, hidden, size=size, act=nn.SiLU, gates=gates)
                )
                channels = width
        last = ConvNorm(24, 64, 1, act=nn.SiLU)
        return nn.Sequential(ConvNorm(3, 8, 3, 2, act=nn.SiLU), *blocks, last, Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Return the channels of all groups in turn."""
    batch, channels, height, width = x.shape
    grouped = x.reshape(batch, groups, channels // groups, height, width)
    return grouped.transpose(1, 2).reshape(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    """Half of the channels stay, the others are convolved; then the channels are shuffled."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        taken = inputs if stride == 2 else inputs // 2
        self.stride = stride
        self.branch = nn.Sequential(
            ConvNorm(taken, half, 1),
            ConvNorm(half, half, 3, stride, groups=half, act=None),
            ConvNorm(half, half, 1),
        )
        self.shortcut = nn.Identity()
        if stride == 2:
            self.shortcut = nn.Sequential(
                ConvNorm(inputs, inputs, 3, 2, groups=inputs, act=None), ConvNorm(inputs, half, 1)
            )

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x, x) if self.stride == 2 else x.chunk(2, 1)
        return shuffled(torch.cat([self.shortcut(left), self.branch(right)], 1), 2)


def make_shufflenet_v2() -> Case:
    """ShuffleNet v2 (Ma and others, 2018)."""

    def build() -> nn.Module:
        units = []
        channels = 8
        for width in (16, 32, 64):
            units += [ShuffleUnit(channels, width, 2), ShuffleUnit(width, width, 1)]
            channels = width
        stem = [ConvNorm(3, 8, 3, 2), nn.MaxPool2d(3, 2, 1)]
        return nn.Sequential(*stem, *units, ConvNorm(64, 64, 1), Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


class GhostConv(nn.Module):
    """Some channels by a full convolution, the others from them by a depthwise one."""

    def __init__(self, inputs: int, outputs: int, act: Callable[[], nn.Module] | None) -> None:
        super().__init__()
        first = (outputs + 1) // 2
        self.outputs = outputs
        self.first = ConvNorm(inputs, first, 1, act=act)
        self.cheap = ConvNorm(first, first, 3, groups=first, act=act)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        return torch.cat([first, self.cheap(first)], 1)[:, : self.outputs]


def _ghost(inputs: int, hidden: int, outputs: int, stride: int, squeezes: bool) -> nn.Module:
    middle: list[nn.Module] = []
    if stride == 2:
        middle.append(ConvNorm(hidden, hidden, 3, 2, groups=hidden, act=None))
    if squeezes:
        middle.append(SqueezeExcite(hidden, 8, gate=nn.Hardsigmoid))
    branch = nn.Sequential(
        GhostConv(inputs, hidden, nn.ReLU), *middle, GhostConv(hidden, outputs, None)
    )
    if stride == 1 and inputs == outputs:
        return Residual(branch)
    shortcut = nn.Sequential(
        ConvNorm(inputs, inputs, 3, stride, groups=inputs, act=None),
        ConvNorm(inputs, outputs, 1, act=None),
    )
    return Residual(branch, shortcut)


def make_ghostnet() -> Case:
    """GhostNet (Han and others, 2019)."""

    def build() -> nn.Module:
        return nn.Sequential(
            ConvNorm(3, 8, 3, 2),
            _ghost(8, 8, 8, 1, False),
            _ghost(8, 24, 13, 2, False),
            _ghost(13, 36, 13, 1, True),
            _ghost(13, 36, 20, 2, True),
            ConvNorm(20, 48, 1),
            Classifier(48),
        )

    return seeded(build), (values(1, 3, 48, 48),)
