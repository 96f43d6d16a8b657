"""Small programs of torch as tutorials and questions have them: a function, and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Use = Callable[[], tuple[Any, tuple[Any, ...]]]


def r(*shape: int) -> torch.Tensor:
    """Return normally distributed numbers, the same for the same shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def w(low: int, high: int, *shape: int) -> torch.Tensor:
    """Return whole numbers from `low` to before `high`."""
    generator = torch.Generator().manual_seed(high + sum(shape))
    return torch.randint(low, high, shape, generator=generator)


def p(*shape: int) -> torch.Tensor:
    """Return positive numbers."""
    return r(*shape).abs() + 0.1


def counted(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x[0])
    for index in range(x.shape[0]):
        total = total + x[index] * index
    return total


def one_hot_loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -(F.one_hot(y, x.shape[-1]) * F.log_softmax(x, -1)).sum(-1).mean()


def triplet(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return F.relu((a - b).norm(dim=1) - (a - c).norm(dim=1) + 1.0).mean()


def rotary(x: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(x.shape[1])[:, None] / 100.0 ** (
        torch.arange(0, x.shape[2], 2) / x.shape[2]
    )
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = [even * steps.cos() - odd * steps.sin(), even * steps.sin() + odd * steps.cos()]
    return torch.stack(turned, -1).flatten(-2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    mask = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), 1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area = (a[:, 2:] - a[:, :2]).prod(-1)[:, None] + (b[:, 2:] - b[:, :2]).prod(-1)[None]
    return shared / (area - shared)


def update_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[1:3, ::2] = y
    x[x < 0] = 0.5
    x[-1] += 1
    return x


def put_rows(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[mask] = y
    return x


def newton_root(x: torch.Tensor) -> torch.Tensor:
    guess = x
    for _ in range(8):
        guess = 0.5 * (guess + x / guess)
    return guess


def batch_statistics(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)) / (x.std(0) + 1e-5)


def positions(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[1])[:, None]
    rate = torch.exp(torch.arange(0, x.shape[2], 2) * (-4.0 / x.shape[2]))
    table = torch.zeros(x.shape[1], x.shape[2])
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return x + table


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.a(x)) + x)


class Squeeze(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(8, 2), nn.Linear(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * gate[:, :, None, None]


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        picked = outputs.gather(1, chosen[:, :, None].expand(-1, -1, 5))
        return (picked * weights[:, :, None]).sum(1)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made, _ = self.rnn(self.words(x))
        return self.head(made[:, -1])


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.heads(x, x, x)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 3, 2, 1))
        self.up = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 2, 2), nn.ReLU(), nn.ConvTranspose2d(4, 1, 3, 2, 1, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.up(self.down(x)))


USES: dict[str, Use] = {
    "perceptron": lambda: (
        nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 4)),
        (r(2, 1, 4, 4),),
    ),
    "prelu perceptron": lambda: (nn.Sequential(nn.Linear(4, 4), nn.PReLU(4)), (r(3, 4),)),
    "residual block": lambda: (Residual(4), (r(1, 4, 6, 6),)),
    "squeeze and excite": lambda: (Squeeze(), (r(2, 8, 3, 3),)),
    "mixture of experts": lambda: (Mixture(), (r(4, 6),)),
    "text classifier": lambda: (Encoder(), (w(0, 20, 2, 5),)),
    "autoencoder": lambda: (Autoencoder(), (r(1, 1, 8, 8),)),
    "lstm last state": lambda: (nn.LSTM(4, 5, 2), (r(6, 2, 4),)),
    "rnn relu": lambda: (nn.RNN(3, 4, nonlinearity="relu"), (r(5, 2, 3),)),
    "gru cell": lambda: (nn.GRUCell(4, 3), (r(2, 4), r(2, 3))),
    "lstm cell": lambda: (nn.LSTMCell(4, 3), (r(2, 4), (r(2, 3), r(2, 3)))),
    "transformer encoder layer": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (r(1, 5, 8),),
    ),
    "transformer decoder layer": lambda: (
        nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        (r(1, 4, 8), r(1, 6, 8)),
    ),
    "multihead attention": lambda: (
        SelfAttention(),
        (r(2, 4, 8),),
    ),
    "sdpa mask": lambda: (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (r(1, 2, 4, 8), r(4, 4) > 0.5),
    ),
    "attention by hand": lambda: (attention, (r(2, 4, 8), r(2, 4, 8) * 2, r(2, 4, 8) + 1)),
    "rotary embedding": lambda: (rotary, (r(2, 5, 8),)),
    "sine positions": lambda: (positions, (r(1, 4, 6),)),
    "layer norm": lambda: (nn.LayerNorm([3, 4]), (r(2, 3, 4),)),
    "rms norm": lambda: (nn.RMSNorm(6), (r(2, 6),)),
    "group norm": lambda: (nn.GroupNorm(2, 6), (r(2, 6, 4, 4),)),
    "instance norm": lambda: (nn.InstanceNorm2d(3, affine=True), (r(2, 3, 4, 4),)),
    "batch norm 1d": lambda: (nn.BatchNorm1d(4), (r(3, 4, 5),)),
    "batch statistics": lambda: (batch_statistics, (r(6, 3),)),
    "conv1d": lambda: (nn.Conv1d(3, 4, 3, padding="same"), (r(2, 3, 7),)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2, stride=2), (r(1, 2, 4, 4, 4),)),
    "depthwise separable": lambda: (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.Conv2d(4, 6, 1)),
        (r(1, 4, 5, 5),),
    ),
    "grouped": lambda: (nn.Conv2d(4, 6, 3, groups=2), (r(1, 4, 5, 5),)),
    "circular padding": lambda: (
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
        (r(1, 1, 5, 5),),
    ),
    "transposed 1d": lambda: (nn.ConvTranspose1d(2, 3, 3, 2, 1, 1), (r(1, 2, 5),)),
    "pool and unpool": lambda: (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (r(1, 2, 4, 4),),
    ),
    "pixel shuffle": lambda: (nn.PixelShuffle(2), (r(1, 8, 2, 3),)),
    "fold": lambda: (lambda x: F.fold(x, (4, 4), 2, stride=2), (r(1, 8, 4),)),
    "pairwise distance by 1": lambda: (lambda a, b: torch.cdist(a, b, p=1), (r(4, 3), r(5, 3))),
    "intersection over union": lambda: (
        iou,
        (
            torch.tensor([[0.0, 0, 2, 2], [1, 1, 4, 3]]),
            torch.tensor([[1.0, 0, 3, 2], [5, 5, 6, 6]]),
        ),
    ),
    "entropy by one hot": lambda: (one_hot_loss, (r(4, 3), w(0, 3, 4))),
    "triplet": lambda: (triplet, (r(4, 3), r(4, 3) + 1, r(4, 3) * 2)),
    "poisson": lambda: (lambda x, y: F.poisson_nll_loss(x, y), (r(4, 3), p(4, 3))),
    "log sum exp": lambda: (lambda x: x.logsumexp((0, 1)), (r(3, 5) * 20,)),
    "gumbel top": lambda: (lambda x: x.softmax(-1).topk(3), (r(3, 8),)),
    "nucleus": lambda: (
        lambda x: x.softmax(-1).sort(descending=True).values.cumsum(-1) < 0.9,
        (r(3, 8),),
    ),
    "clip by norm": lambda: (lambda x: x * (1.0 / x.norm()).clamp(max=1), (r(3, 5),)),
    "histogram of words": lambda: (lambda x: F.one_hot(x, 6).sum(0), (w(0, 6, 20),)),
    "searchsorted": lambda: (
        lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 1.0]), x, right=True),
        (r(3, 5),),
    ),
    "update rows": lambda: (update_rows, (r(4, 6), r(2, 3))),
    "loop of sums": lambda: (counted, (r(4, 3),)),
    "newton": lambda: (newton_root, (p(3, 4),)),
    "negative indices": lambda: (lambda x, i: x[i], (r(5, 3), torch.tensor([-1, 0, -5, 4]))),
    "einsum trace": lambda: (lambda a: torch.einsum("bii->b", a), (r(2, 3, 3),)),
    "bilinear form": lambda: (nn.Bilinear(3, 4, 5), (r(2, 3), r(2, 4))),
    "batched vector": lambda: (lambda a, b: a @ b, (r(2, 3, 4), r(4))),
    "chain of matrices": lambda: (
        lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        (r(2, 3), r(3, 4), r(4, 2)),
    ),
    "spectrum": lambda: (lambda x: torch.fft.rfft(x).abs(), (r(2, 8),)),
    "filter by spectrum": lambda: (
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=8),
        (r(2, 8),),
    ),
    "spectrogram": lambda: (
        lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(),
        (r(1, 32),),
    ),
    "complex product": lambda: (
        lambda a, b: torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)),
        (r(3, 4), r(3, 4) + 1),
    ),
    "polar": lambda: (lambda a, b: torch.view_as_real(torch.polar(a, b)), (p(3, 4), r(3, 4))),
    "bytes": lambda: (
        lambda x: ((x.float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2),
        (w(0, 256, 1, 2, 3, 3).to(torch.uint8),),
    ),
    "total variation": lambda: (
        lambda x: (
            (x[..., 1:] - x[..., :-1]).abs().sum() + (x[..., 1:, :] - x[..., :-1, :]).abs().sum()
        ),
        (r(1, 1, 4, 4),),
    ),
    "patches": lambda: (
        lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2).reshape(1, 3, -1, 4).permute(0, 2, 1, 3),
        (r(1, 3, 4, 4),),
    ),
    "empty slice": lambda: (lambda x: x[:, 1:1].sum(), (r(2, 3),)),
    "scalars": lambda: (lambda x: x.sum() * 2 + x.max() - x.argmax(), (r(2, 3),)),
    "nested inputs": lambda: (
        lambda d: {"sum": d["a"] + d["b"][0]},
        ({"a": r(3), "b": [r(3) + 1]},),
    ),
    "weight norm": lambda: (
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        (r(2, 4),),
    ),
    "conditional": lambda: (
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        (r(3, 4),),
    ),
    "batched by vmap": lambda: (
        lambda a, b: torch.func.vmap(torch.dot)(a, b),
        (r(3, 4), r(3, 4) + 1),
    ),
    "addcmul": lambda: (
        lambda a, b: torch.addcdiv(torch.addcmul(a, a, b), a, b, value=0.5),
        (r(3), p(3)),
    ),
    "focal": lambda: (
        lambda x, y: ((1 - (-F.cross_entropy(x, y, reduction="none")).exp()) ** 2).mean(),
        (r(4, 3), w(0, 3, 4)),
    ),
    "kv cache": lambda: (
        lambda cache, new, at: cache.index_copy(1, at, new),
        (r(1, 6, 4), r(1, 2, 4), torch.tensor([2, 3])),
    ),
    "image tokens": lambda: (
        lambda tokens, x, y: x.masked_scatter((tokens == 3)[..., None].expand_as(x), y),
        (torch.tensor([[3, 1, 3, 3, 2]]), r(1, 5, 4), r(3, 4)),
    ),
    "rows by mask": lambda: (
        put_rows,
        (r(5, 4), torch.tensor([True, False, True, True, False]), r(3, 4)),
    ),
}
