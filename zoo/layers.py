"""Layers that several networks share, the seeded weights of all, and their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

#: A network in inference mode, and its example inputs.
Case: TypeAlias = tuple[nn.Module, tuple[Tensor, ...]]

_NORMS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.InstanceNorm2d,
)
_SUMS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.Linear)


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """Return a network whose weights are the same in every run, in inference mode.

    Weights keep the size of the values through many layers, and no normalization is the identity: each
    layer matters for the outputs.
    """
    torch.manual_seed(0)
    module = build()
    for part in module.modules():
        if isinstance(part, _SUMS):
            outputs = part.weight.shape[1 if isinstance(part, nn.ConvTranspose2d) else 0]
            terms = part.weight.numel() // outputs
            nn.init.normal_(part.weight, std=math.sqrt(1.5 / terms))
            if part.bias is not None:
                nn.init.normal_(part.bias, std=0.1)
        elif isinstance(part, _NORMS):
            if part.weight is not None:
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.normal_(part.bias, std=0.1)
            if getattr(part, "running_mean", None) is not None:
                nn.init.normal_(part.running_mean, std=0.1)
                nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module.eval()


def values(*shape: int) -> Tensor:
    """Return seeded values of a normal distribution, such as an image."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def numbers(limit: int, *shape: int) -> Tensor:
    """Return seeded whole numbers from 0 below a limit, such as tokens."""
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(2))


class ConvNorm(nn.Sequential):
    """A convolution without bias, BatchNorm, and an activation; a size as wide as it is high."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int | tuple[int, int] = 3,
        stride: int = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        act: Callable[[], nn.Module] | None = nn.ReLU,
    ) -> None:
        high, wide = (size, size) if isinstance(size, int) else size
        padding = (dilation * (high - 1) // 2, dilation * (wide - 1) // 2)
        layers = [
            nn.Conv2d(
                inputs,
                outputs,
                (high, wide),
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias=False,
            ),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([act()] if act else []))


class Separable(nn.Sequential):
    """A depthwise and a pointwise convolution, each with BatchNorm and activation."""

    def __init__(
        self, inputs: int, outputs: int, stride: int = 1, act: Callable[[], nn.Module] = nn.ReLU
    ) -> None:
        super().__init__(
            ConvNorm(inputs, inputs, 3, stride, groups=inputs, act=act),
            ConvNorm(inputs, outputs, 1, act=act),
        )


class SqueezeExcite(nn.Module):
    """Scales each channel by a number that the means of all channels give."""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        act: Callable[[], nn.Module] = nn.ReLU,
        gate: Callable[[], nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.gates = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            act(),
            nn.Conv2d(squeezed, channels, 1),
            gate(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gates(x)


class Classifier(nn.Sequential):
    """The mean of each channel, and a linear layer."""

    def __init__(self, channels: int, classes: int = 10) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Residual(nn.Module):
    """What a branch gives, added to its input or to what a shortcut makes of it."""

    def __init__(
        self, branch: nn.Module, shortcut: nn.Module | None = None, after: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut or nn.Identity()
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.shortcut(x) + self.branch(x))


class Branches(nn.Module):
    """The results of several branches, side by side as channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)
