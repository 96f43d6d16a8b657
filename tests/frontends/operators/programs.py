"""What the cases of this folder are made of: a function as a module, and seeded arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: A module and its arguments, as `convert FILE.py:FUNCTION` takes them.
Program = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class _Call(torch.nn.Module):
    """Calls a function or a layer, whose weights it has."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


def of(function: Callable[..., Any], *arguments: torch.Tensor) -> Program:
    """Return the program that calls a function; weights of a layer are seeded."""
    if isinstance(function, torch.nn.Module):
        for seed, weights in enumerate(function.parameters()):
            weights.data = (floats(*weights.shape, seed=seed) / 2).to(weights.dtype)
    return _Call(function).eval(), arguments


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return numbers between 0.02 and 0.98."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 0.96 + 0.02


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return numbers between -2 and 2."""
    return unit(*shape, seed=seed) * 4 - 2


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return numbers between 0.1 and 3."""
    return unit(*shape, seed=seed) * 2.9 + 0.1


def ints(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return whole numbers from -9 to 9."""
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed))


def flags(*shape: int, seed: int = 0) -> torch.Tensor:
    """Truth values."""
    return unit(*shape, seed=seed) > 0.5
