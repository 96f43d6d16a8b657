"""Random sequences of operators: each seed is a program. Values stay small, so that errors do, too."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import torch
from programs import Program, floats
from torch import Tensor
from torch.nn import functional

#: Operators of one program.
LENGTH = 12
Step = Callable[[Tensor], Tensor]


def _elementwise(_: random.Random, x: Tensor) -> list[Step]:
    return [
        torch.tanh,
        torch.sigmoid,
        torch.abs,
        torch.neg,
        torch.floor,
        functional.relu,
        functional.gelu,
        functional.silu,
        functional.hardswish,
        functional.softplus,
        lambda v: torch.exp(-v.abs()),
        lambda v: torch.rsqrt(v.abs() + 0.5),
        lambda v: v.clamp(-0.7, 0.9),
        lambda v: torch.where(v > 0.1, v, v * 0.3),
        lambda v: v * 0.5 + 0.25,
        lambda v: torch.sin(v) * torch.cos(v),
        lambda v: (v > v.mean()).to(v.dtype),
        lambda v: torch.maximum(v, v.flip(-1)),
    ]


def _reductions(choice: random.Random, x: Tensor) -> list[Step]:
    axis = choice.randrange(x.ndim)
    return [
        lambda v: v - v.mean(axis, keepdim=True),
        lambda v: v - v.amax(axis, keepdim=True),
        lambda v: v / (v.abs().sum(axis, keepdim=True) + 1),
        lambda v: functional.softmax(v, axis),
        lambda v: functional.log_softmax(v, axis) / 4,
        lambda v: functional.layer_norm(v, v.shape[-1:]),
        lambda v: v.cumsum(axis) / v.shape[axis],
        lambda v: v + v.argmax(axis, keepdim=True) * 0.1,
        lambda v: v - v.var(axis, keepdim=True, unbiased=False),
    ]


def _views(choice: random.Random, x: Tensor) -> list[Step]:
    axis, other = choice.randrange(x.ndim), choice.randrange(x.ndim)
    order = choice.sample(range(x.ndim), x.ndim)
    size = x.shape[axis]
    steps: list[Step] = [
        lambda v: v.permute(order),
        lambda v: v.transpose(axis, other),
        lambda v: v.flatten(0, 1) if v.ndim > 2 else v.unsqueeze(0),
        lambda v: v.flip(axis),
        lambda v: v.roll(1, axis),
        lambda v: torch.stack([v, -v], axis).sum(axis),
        lambda v: functional.pad(v, (1, 0), value=0.5),
    ]
    if _fits(x, 400):
        steps += [
            lambda v: torch.cat([v, v * 0.5], axis),
            lambda v: v.repeat_interleave(2, axis),
        ]
    if size > 1:
        steps += [
            lambda v: v.narrow(axis, 1, size - 1),
            lambda v: v.index_select(axis, torch.tensor([size - 1, 0])),
            lambda v: torch.cat(v.split((size + 1) // 2, axis)[::-1], axis),
        ]
    return steps


def _fits(x: Tensor, count: int) -> bool:
    """Return whether a value has at most so many elements."""
    return int(x.numel()) <= count


def _products(choice: random.Random, x: Tensor) -> list[Step]:
    weights = floats(x.shape[-1], 5, seed=choice.randrange(1000)) / 4
    bias = floats(5) / 4
    return [
        lambda v: v @ weights,
        lambda v: functional.linear(v, weights.T, bias),
        lambda v: v @ v.transpose(-1, -2) / v.shape[-1],
        lambda v: torch.einsum("...i,ij->...j", v, weights),
    ]


class _Sequence(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        choice = random.Random(seed)
        self.steps: list[Step] = []
        x = floats(2, 3, 4, seed=seed)
        kinds = [_elementwise, _elementwise, _reductions, _views, _products]
        for _ in range(LENGTH):
            step = choice.choice(choice.choice(kinds)(choice, x))
            self.steps.append(step)
            x = step(x)

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


def sequence(seed: int) -> Program:
    """Return the program of a seed."""
    return _Sequence(seed).eval(), (floats(2, 3, 4, seed=seed),)


make_seed_0 = partial(sequence, 0)
make_seed_1 = partial(sequence, 1)
make_seed_2 = partial(sequence, 2)
make_seed_3 = partial(sequence, 3)
make_seed_4 = partial(sequence, 4)
make_seed_5 = partial(sequence, 5)
make_seed_6 = partial(sequence, 6)
make_seed_7 = partial(sequence, 7)
make_seed_8 = partial(sequence, 8)
make_seed_9 = partial(sequence, 9)
make_seed_10 = partial(sequence, 10)
make_seed_11 = partial(sequence, 11)
make_seed_12 = partial(sequence, 12)
make_seed_13 = partial(sequence, 13)
make_seed_14 = partial(sequence, 14)
make_seed_15 = partial(sequence, 15)
make_seed_16 = partial(sequence, 16)
make_seed_17 = partial(sequence, 17)
make_seed_18 = partial(sequence, 18)
make_seed_19 = partial(sequence, 19)
make_seed_20 = partial(sequence, 20)
make_seed_21 = partial(sequence, 21)
make_seed_22 = partial(sequence, 22)
make_seed_23 = partial(sequence, 23)
make_seed_24 = partial(sequence, 24)
make_seed_25 = partial(sequence, 25)
make_seed_26 = partial(sequence, 26)
make_seed_27 = partial(sequence, 27)
make_seed_28 = partial(sequence, 28)
make_seed_29 = partial(sequence, 29)
