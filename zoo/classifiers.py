"""Classifiers of images, from LeNet to ConvNeXt."""

from __future__ import annotations

import torch
from layers import (
    Branches,
    Case,
    Classifier,
    ConvNorm,
    Residual,
    SqueezeExcite,
    seeded,
    values,
)
from torch import Tensor, nn


def make_lenet() -> Case:
    """LeNet-5 (LeCun and others, 1998)."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(16, 120, 5),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, 10),
            nn.Softmax(1),
        )

    return seeded(build), (values(1, 1, 28, 28),)


def make_alexnet() -> Case:
    """AlexNet (Krizhevsky, Sutskever, Hinton, 2012): local response normalization, overlapping pools."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 16, 11, 4, 2),
            nn.ReLU(),
            nn.LocalResponseNorm(5, k=2.0),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(16, 32, 5, padding=2, groups=2),
            nn.ReLU(),
            nn.LocalResponseNorm(5, k=2.0),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(32, 48, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3, padding=1, groups=2),
            nn.ReLU(),
            nn.Conv2d(48, 32, 3, padding=1, groups=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(32, 64),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(64, 10),
        )

    return seeded(build), (values(1, 3, 63, 63),)


def make_vgg() -> Case:
    """VGG-11 (Simonyan, Zisserman, 2014)."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        channels = 3
        for width, count in ((8, 1), (16, 1), (32, 2), (64, 2), (64, 2)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        dense = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10)]
        return nn.Sequential(*layers, *dense)

    return seeded(build), (values(1, 3, 32, 32),)


class InceptionV1Block(Branches):
    """Convolutions of three sizes and a pool, side by side."""

    def __init__(self, inputs: int, widths: tuple[int, int, int, int, int, int]) -> None:
        one, three_in, three, five_in, five, pooled = widths
        super().__init__(
            ConvNorm(inputs, one, 1),
            nn.Sequential(ConvNorm(inputs, three_in, 1), ConvNorm(three_in, three)),
            nn.Sequential(ConvNorm(inputs, five_in, 1), ConvNorm(five_in, five, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), ConvNorm(inputs, pooled, 1)),
        )


def make_inception_v1() -> Case:
    """GoogLeNet (Szegedy and others, 2014)."""

    def build() -> nn.Module:
        return nn.Sequential(
            ConvNorm(3, 16, 7, 2),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            ConvNorm(16, 16, 1),
            ConvNorm(16, 32),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            InceptionV1Block(32, (8, 12, 16, 4, 8, 8)),
            InceptionV1Block(40, (16, 16, 24, 4, 12, 8)),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            InceptionV1Block(60, (24, 12, 26, 4, 8, 8)),
            nn.Dropout(0.4),
            Classifier(66),
        )

    return seeded(build), (values(1, 3, 64, 64),)


def make_inception_v3() -> Case:
    """Inception v3 (Szegedy and others, 2015): convolutions in two factors, reductions in parallel."""

    def build() -> nn.Module:
        block_a = Branches(
            ConvNorm(16, 8, 1),
            nn.Sequential(ConvNorm(16, 6, 1), ConvNorm(6, 8, 5)),
            nn.Sequential(ConvNorm(16, 8, 1), ConvNorm(8, 12), ConvNorm(12, 12)),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), ConvNorm(16, 4, 1)),
        )
        reduction = Branches(
            ConvNorm(32, 16, 3, 2),
            nn.Sequential(ConvNorm(32, 8, 1), ConvNorm(8, 12), ConvNorm(12, 12, 3, 2)),
            nn.MaxPool2d(3, 2, 1),
        )
        block_b = Branches(
            ConvNorm(60, 16, 1),
            nn.Sequential(ConvNorm(60, 8, 1), ConvNorm(8, 8, (1, 7)), ConvNorm(8, 16, (7, 1))),
            nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), ConvNorm(60, 16, 1)),
        )
        split = Branches(ConvNorm(16, 12, (1, 3)), ConvNorm(16, 12, (3, 1)))
        block_c = Branches(ConvNorm(48, 16, 1), nn.Sequential(ConvNorm(48, 16, 1), split))
        stem = [ConvNorm(3, 8, 3, 2), ConvNorm(8, 8), ConvNorm(8, 16), nn.MaxPool2d(3, 2)]
        return nn.Sequential(*stem, block_a, reduction, block_b, block_c, Classifier(40))

    return seeded(build), (values(1, 3, 64, 64),)


def basic_block(inputs: int, outputs: int, stride: int, *after: nn.Module) -> nn.Module:
    """Return two 3x3 convolutions with a shortcut."""
    branch = nn.Sequential(
        ConvNorm(inputs, outputs, 3, stride), ConvNorm(outputs, outputs, act=None), *after
    )
    return Residual(branch, _shortcut(inputs, outputs, stride), nn.ReLU())


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if inputs == outputs and stride == 1:
        return None
    return ConvNorm(inputs, outputs, 1, stride, act=None)


def bottleneck(
    inputs: int, middle: int, outputs: int, stride: int, *, groups: int = 1, squeezed: int = 0
) -> nn.Module:
    """Return a 3x3 convolution between two 1x1 convolutions, with a shortcut."""
    gates = [SqueezeExcite(middle, squeezed)] if squeezed else []
    branch = nn.Sequential(
        ConvNorm(inputs, middle, 1),
        ConvNorm(middle, middle, 3, stride, groups=groups),
        *gates,
        ConvNorm(middle, outputs, 1, act=None),
    )
    return Residual(branch, _shortcut(inputs, outputs, stride), nn.ReLU())


def _stem(channels: int) -> list[nn.Module]:
    return [ConvNorm(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]


def make_resnet_basic() -> Case:
    """ResNet-18 (He and others, 2015)."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        for width, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
            blocks += [basic_block(channels, width, stride), basic_block(width, width, 1)]
            channels = width
        return nn.Sequential(*_stem(8), *blocks, Classifier(64))

    return seeded(build), (values(1, 3, 64, 64),)


def make_resnet_bottleneck() -> Case:
    """The form of ResNet-50 (He and others, 2015), with one or two blocks of each width."""

    def build() -> nn.Module:
        blocks = [
            bottleneck(8, 8, 32, 1),
            bottleneck(32, 8, 32, 1),
            bottleneck(32, 16, 64, 2),
            bottleneck(64, 16, 64, 1),
            bottleneck(64, 32, 128, 2),
        ]
        return nn.Sequential(*_stem(8), *blocks, Classifier(128))

    return seeded(build), (values(1, 3, 64, 64),)


def make_resnext() -> Case:
    """ResNeXt (Xie and others, 2016): 3x3 convolutions in groups."""

    def build() -> nn.Module:
        blocks = [
            bottleneck(8, 16, 32, 1, groups=4),
            bottleneck(32, 16, 32, 1, groups=4),
            bottleneck(32, 32, 64, 2, groups=4),
        ]
        return nn.Sequential(*_stem(8), *blocks, Classifier(64))

    return seeded(build), (values(1, 3, 48, 48),)


def make_se_resnet() -> Case:
    """SE-ResNet (Hu and others, 2017): squeeze-and-excitation in basic blocks."""

    def build() -> nn.Module:
        blocks = [
            basic_block(8, 8, 1, SqueezeExcite(8, 2)),
            basic_block(8, 16, 2, SqueezeExcite(16, 4)),
            basic_block(16, 32, 2, SqueezeExcite(32, 8)),
        ]
        return nn.Sequential(*_stem(8), *blocks, Classifier(32))

    return seeded(build), (values(1, 3, 48, 48),)


def make_regnet() -> Case:
    """RegNetY (Radosavovic and others, 2020): groups of a fixed width, with squeeze-and-excitation."""

    def build() -> nn.Module:
        blocks = []
        channels = 8
        for width, depth in ((16, 1), (24, 2), (40, 2)):
            for index in range(depth):
                stride = 1 if index else 2
                squeezed = max(channels // 4, 4)
                one = bottleneck(
                    channels, width, width, stride, groups=width // 8, squeezed=squeezed
                )
                blocks.append(one)
                channels = width
        return nn.Sequential(ConvNorm(3, 8, 3, 2), *blocks, Classifier(40))

    return seeded(build), (values(1, 3, 64, 64),)


class DenseLayer(nn.Module):
    """New channels beside all earlier ones."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.made = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.made(x)], 1)


def make_densenet() -> Case:
    """DenseNet-BC (Huang and others, 2016)."""

    def build() -> nn.Module:
        layers: list[nn.Module] = [*_stem(16)]
        channels, growth = 16, 8
        for block in range(3):
            if block:
                half = channels // 2
                layers += [nn.BatchNorm2d(channels), nn.ReLU()]
                layers += [nn.Conv2d(channels, half, 1, bias=False), nn.AvgPool2d(2)]
                channels = half
            for _ in range(4):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), Classifier(channels))

    return seeded(build), (values(1, 3, 64, 64),)


def _fire(inputs: int, squeezed: int, expanded: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, squeezed, 1),
        nn.ReLU(),
        Branches(
            nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU()),
        ),
    )


def make_squeezenet() -> Case:
    """SqueezeNet 1.1 (Iandola and others, 2016)."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            _fire(16, 4, 16),
            _fire(32, 4, 16),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            _fire(32, 8, 24),
            _fire(48, 8, 24),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            _fire(48, 12, 32),
            nn.Dropout(),
            nn.Conv2d(64, 10, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    return seeded(build), (values(1, 3, 64, 64),)


class ChannelsLastNorm(nn.LayerNorm):
    """LayerNorm over the channels of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A 7x7 depthwise convolution, a hidden layer with GELU, and a scale for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.hidden = nn.Sequential(
            nn.LayerNorm(channels, 1e-6),
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        made = self.hidden(self.depthwise(x).permute(0, 2, 3, 1)) * self.scale
        return x + made.permute(0, 3, 1, 2)


def make_convnext() -> Case:
    """ConvNeXt (Liu and others, 2022)."""

    def build() -> nn.Module:
        layers: list[nn.Module] = [nn.Conv2d(3, 12, 4, 4), ChannelsLastNorm(12, 1e-6)]
        for width, following in ((12, 24), (24, 48), (48, 0)):
            layers += [ConvNeXtBlock(width), ConvNeXtBlock(width)]
            if following:
                layers += [ChannelsLastNorm(width, 1e-6), nn.Conv2d(width, following, 2, 2)]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(48, 1e-6), nn.Linear(48, 10)]
        return nn.Sequential(*layers, *head)

    return seeded(build), (values(1, 3, 32, 32),)
