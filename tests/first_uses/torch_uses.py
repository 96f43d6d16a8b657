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
    "linear regression": lambda: (nn.Linear(3, 1), (r(5, 3),)),
    "logistic regression": lambda: (nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), (r(6, 4),)),
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
    "sdpa causal": lambda: (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (r(1, 2, 4, 8), r(1, 2, 4, 8) + 1, r(1, 2, 4, 8) - 1),
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
    "local response norm": lambda: (nn.LocalResponseNorm(3), (r(1, 5, 3, 3),)),
    "batch statistics": lambda: (batch_statistics, (r(6, 3),)),
    "conv1d": lambda: (nn.Conv1d(3, 4, 3, padding="same"), (r(2, 3, 7),)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2, stride=2), (r(1, 2, 4, 4, 4),)),
    "dilated": lambda: (nn.Conv2d(2, 3, 3, dilation=2, padding=2), (r(1, 2, 7, 7),)),
    "depthwise separable": lambda: (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.Conv2d(4, 6, 1)),
        (r(1, 4, 5, 5),),
    ),
    "grouped": lambda: (nn.Conv2d(4, 6, 3, groups=2), (r(1, 4, 5, 5),)),
    "reflected padding": lambda: (
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"),
        (r(1, 1, 5, 5),),
    ),
    "circular padding": lambda: (
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
        (r(1, 1, 5, 5),),
    ),
    "transposed stride 3": lambda: (nn.ConvTranspose2d(2, 3, 4, 3, 1), (r(1, 2, 3, 4),)),
    "transposed 1d": lambda: (nn.ConvTranspose1d(2, 3, 3, 2, 1, 1), (r(1, 2, 5),)),
    "max pool": lambda: (nn.MaxPool2d(3, 2, 1), (r(1, 2, 7, 7),)),
    "max pool with places": lambda: (nn.MaxPool2d(2, return_indices=True), (r(1, 2, 4, 4),)),
    "pool and unpool": lambda: (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (r(1, 2, 4, 4),),
    ),
    "average pool ceil": lambda: (nn.AvgPool2d(3, 2, 1, ceil_mode=True), (r(1, 2, 6, 6),)),
    "average pool of inside": lambda: (
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        (r(1, 2, 6, 6),),
    ),
    "adaptive pools": lambda: (
        lambda x: (F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_max_pool2d(x, 1)),
        (r(1, 2, 6, 6),),
    ),
    "lp pool": lambda: (nn.LPPool2d(2, 2), (p(1, 2, 4, 4),)),
    "bilinear": lambda: (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        (r(1, 2, 3, 4),),
    ),
    "bilinear corners": lambda: (
        lambda x: F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True),
        (r(1, 2, 4, 3),),
    ),
    "nearest": lambda: (lambda x: F.interpolate(x, size=(5, 7)), (r(1, 2, 3, 3),)),
    "bicubic": lambda: (
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        (r(1, 1, 4, 4),),
    ),
    "pixel shuffle": lambda: (nn.PixelShuffle(2), (r(1, 8, 2, 3),)),
    "pixel unshuffle": lambda: (nn.PixelUnshuffle(2), (r(1, 2, 4, 6),)),
    "channel shuffle": lambda: (nn.ChannelShuffle(2), (r(1, 4, 2, 2),)),
    "grid sample": lambda: (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        (r(1, 2, 4, 4), r(1, 3, 3, 2)),
    ),
    "affine grid": lambda: (
        lambda t: F.affine_grid(t, [1, 1, 3, 4], align_corners=False),
        (r(1, 2, 3),),
    ),
    "unfold": lambda: (lambda x: F.unfold(x, 3, padding=1), (r(1, 2, 4, 4),)),
    "fold": lambda: (lambda x: F.fold(x, (4, 4), 2, stride=2), (r(1, 8, 4),)),
    "cosine similarity": lambda: (lambda a, b: F.cosine_similarity(a, b), (r(3, 5), r(3, 5) + 1)),
    "pairwise distance": lambda: (lambda a, b: torch.cdist(a, b), (r(4, 3), r(5, 3))),
    "pairwise distance by 1": lambda: (lambda a, b: torch.cdist(a, b, p=1), (r(4, 3), r(5, 3))),
    "intersection over union": lambda: (
        iou,
        (
            torch.tensor([[0.0, 0, 2, 2], [1, 1, 4, 3]]),
            torch.tensor([[1.0, 0, 3, 2], [5, 5, 6, 6]]),
        ),
    ),
    "cross entropy": lambda: (lambda x, y: F.cross_entropy(x, y), (r(4, 3), w(0, 3, 4))),
    "smoothed entropy": lambda: (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="none"),
        (r(4, 3), w(0, 3, 4)),
    ),
    "entropy by one hot": lambda: (one_hot_loss, (r(4, 3), w(0, 3, 4))),
    "binary entropy": lambda: (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y),
        (r(4, 3), (r(4, 3) > 0).float()),
    ),
    "huber": lambda: (lambda x, y: F.huber_loss(x, y), (r(4, 3) * 3, r(4, 3))),
    "smooth l1": lambda: (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), (r(4, 3) * 3, r(4, 3))),
    "kl divergence": lambda: (
        lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        (r(4, 3), r(4, 3) + 1),
    ),
    "triplet": lambda: (triplet, (r(4, 3), r(4, 3) + 1, r(4, 3) * 2)),
    "nll": lambda: (lambda x, y: F.nll_loss(x.log_softmax(1), y), (r(4, 3), w(0, 3, 4))),
    "poisson": lambda: (lambda x, y: F.poisson_nll_loss(x, y), (r(4, 3), p(4, 3))),
    "softmax of halves": lambda: (lambda x: x.half().softmax(-1).float(), (r(3, 5),)),
    "temperature": lambda: (lambda x: (x / 0.07).softmax(-1), (r(3, 5),)),
    "log sum exp": lambda: (lambda x: x.logsumexp((0, 1)), (r(3, 5) * 20,)),
    "gumbel top": lambda: (lambda x: x.softmax(-1).topk(3), (r(3, 8),)),
    "nucleus": lambda: (
        lambda x: x.softmax(-1).sort(descending=True).values.cumsum(-1) < 0.9,
        (r(3, 8),),
    ),
    "sort both": lambda: (lambda x: x.sort(1, descending=True), (r(3, 6),)),
    "argsort stable": lambda: (lambda x: x.argsort(dim=0, stable=True), (w(0, 3, 6, 2),)),
    "median": lambda: (lambda x: x.median(1), (r(3, 5),)),
    "kth value": lambda: (lambda x: x.kthvalue(2, 1), (r(3, 5),)),
    "mode of booleans": lambda: (lambda x: ((x > 0).any(1), (x > 0).all(0)), (r(3, 5),)),
    "variance": lambda: (lambda x: (x.var(1), x.var(unbiased=False), x.std(0)), (r(3, 5),)),
    "norms": lambda: (lambda x: (x.norm(), x.norm(1, dim=1), x.norm(float("inf"))), (r(3, 5),)),
    "normalise": lambda: (lambda x: F.normalize(x, dim=1), (r(3, 5),)),
    "clip by norm": lambda: (lambda x: x * (1.0 / x.norm()).clamp(max=1), (r(3, 5),)),
    "cumulative": lambda: (lambda x: (x.cumsum(1), x.cumprod(0), x.cummax(1)), (r(3, 5),)),
    "differences": lambda: (lambda x: torch.diff(x, dim=1), (r(3, 5),)),
    "trapezoid": lambda: (lambda x: torch.trapezoid(x, dx=0.1), (r(3, 5),)),
    "histogram of words": lambda: (lambda x: F.one_hot(x, 6).sum(0), (w(0, 6, 20),)),
    "bucketize": lambda: (
        lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        (r(3, 5),),
    ),
    "searchsorted": lambda: (
        lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 1.0]), x, right=True),
        (r(3, 5),),
    ),
    "where": lambda: (lambda x: torch.where(x > 0, x, x.exp() - 1), (r(3, 5),)),
    "masked fill": lambda: (lambda x: x.masked_fill(x.isnan(), 0).clamp_(-1, 1), (r(3, 5),)),
    "nan to num": lambda: (
        lambda x: torch.nan_to_num(x / x.floor()),
        (torch.tensor([0.2, -1.5, 0.0, 5.0]),),
    ),
    "update rows": lambda: (update_rows, (r(4, 6), r(2, 3))),
    "loop of sums": lambda: (counted, (r(4, 3),)),
    "newton": lambda: (newton_root, (p(3, 4),)),
    "gather": lambda: (lambda x, i: x.gather(1, i), (r(3, 5), w(0, 5, 3, 2))),
    "scatter add": lambda: (
        lambda x, i: torch.zeros(4, 5).scatter_add(0, i, x),
        (r(3, 5), w(0, 4, 3, 5)),
    ),
    "index add": lambda: (lambda x, i: torch.zeros(4, 5).index_add(0, i, x), (r(3, 5), w(0, 4, 3))),
    "index select": lambda: (lambda x, i: x.index_select(1, i), (r(3, 5), w(0, 5, 4))),
    "negative indices": lambda: (lambda x, i: x[i], (r(5, 3), torch.tensor([-1, 0, -5, 4]))),
    "two index tensors": lambda: (
        lambda x, i, j: x[i, :, j],
        (r(4, 3, 5), w(0, 4, 6), w(0, 5, 6)),
    ),
    "index put": lambda: (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        (r(5, 3), torch.tensor([0, 0, 3]), r(3, 3)),
    ),
    "take along": lambda: (lambda x: x.take_along_dim(x.argmax(1, keepdim=True), 1), (r(3, 5),)),
    "diagonal": lambda: (lambda x: (x.diagonal(), torch.diag_embed(x), x.trace()), (r(4, 4),)),
    "triangles": lambda: (lambda x: (x.tril(1), x.triu(-1)), (r(4, 5),)),
    "roll and flip": lambda: (lambda x: x.roll((1, -2), (0, 1)).flip(1), (r(4, 5),)),
    "rotate": lambda: (lambda x: torch.rot90(x, 1, (1, 2)), (r(1, 3, 4),)),
    "meshgrid": lambda: (
        lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij"), -1),
        (r(3), r(4)),
    ),
    "linspace": lambda: (lambda x: x * torch.linspace(0, 1, 5), (r(3, 5),)),
    "einsum": lambda: (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (r(2, 3, 4), r(2, 4, 5))),
    "einsum trace": lambda: (lambda a: torch.einsum("bii->b", a), (r(2, 3, 3),)),
    "outer": lambda: (torch.outer, (r(3), r(4))),
    "bilinear form": lambda: (nn.Bilinear(3, 4, 5), (r(2, 3), r(2, 4))),
    "kronecker": lambda: (torch.kron, (r(2, 3), r(3, 2))),
    "matrix power": lambda: (lambda x: torch.matrix_power(x, 3), (r(3, 3),)),
    "batched vector": lambda: (lambda a, b: a @ b, (r(2, 3, 4), r(4))),
    "chain of matrices": lambda: (
        lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        (r(2, 3), r(3, 4), r(4, 2)),
    ),
    "determinant": lambda: (torch.linalg.det, (r(3, 3),)),
    "inverse": lambda: (torch.linalg.inv, (r(3, 3) + 3 * torch.eye(3),)),
    "solve": lambda: (torch.linalg.solve, (r(3, 3) + 3 * torch.eye(3), r(3, 2))),
    "cholesky": lambda: (
        lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(3)),
        (r(3, 3),),
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
    "activations": lambda: (
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.elu(x)),
        (r(3, 5) * 3,),
    ),
    "hard activations": lambda: (
        lambda x: (F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x), F.relu6(x), F.softshrink(x)),
        (r(3, 5) * 3,),
    ),
    "soft activations": lambda: (
        lambda x: (F.softplus(x), F.softsign(x), F.logsigmoid(x), F.selu(x), F.celu(x)),
        (r(3, 5) * 3,),
    ),
    "gated linear unit": lambda: (lambda x: F.glu(x, 1), (r(3, 6),)),
    "threshold": lambda: (lambda x: F.threshold(x, 0.1, 20.0), (r(3, 5),)),
    "trigonometry": lambda: (
        lambda x: (x.sin(), x.cos(), x.tan(), x.atan(), torch.atan2(x, x + 1)),
        (r(3, 5),),
    ),
    "hyperbolic": lambda: (lambda x: (x.sinh(), x.cosh(), x.asinh(), x.tanh().atanh()), (r(3, 5),)),
    "logarithms": lambda: (
        lambda x: (x.log(), x.log2(), x.log10(), x.log1p(), x.expm1()),
        (p(3, 5),),
    ),
    "roots": lambda: (lambda x: (x.sqrt(), x.rsqrt(), x**0.3, x**-2, 2**x), (p(3, 5),)),
    "error function": lambda: (
        lambda x: (x.erf(), x.erfc(), torch.special.erfinv(x.tanh())),
        (r(3, 5),),
    ),
    "rounding": lambda: (
        lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()),
        (torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7]),),
    ),
    "round to decimals": lambda: (lambda x: torch.round(x, decimals=2), (r(3, 5),)),
    "remainders": lambda: (
        lambda x: (x % 3, torch.fmod(x, 3), x // 3),
        (torch.tensor([-7.0, -3.0, -0.5, 0.5, 3.0, 7.5]),),
    ),
    "whole division": lambda: (
        lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), x / y),
        (torch.tensor([-7, -3, 7, 8]), torch.tensor([2, -2, -3, 4])),
    ),
    "bits": lambda: (lambda x: ((x << 2) | 1, x >> 1, x & 6, x ^ 5, ~x), (w(0, 100, 3, 4),)),
    "types": lambda: (
        lambda x: (x.int(), x.to(torch.int8), x.bool(), x.double(), x.bfloat16().float()),
        (r(3, 5) * 10,),
    ),
    "bytes": lambda: (
        lambda x: ((x.float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2),
        (w(0, 256, 1, 2, 3, 3).to(torch.uint8),),
    ),
    "grey": lambda: (
        lambda x: (x * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True),
        (r(1, 3, 4, 4),),
    ),
    "sobel": lambda: (
        lambda x: F.conv2d(x, torch.tensor([[[[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]]]), padding=1),
        (r(1, 1, 5, 5),),
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
    "padding": lambda: (
        lambda x: (F.pad(x, (1, 2), value=3.0), F.pad(x, (-1, 1)), F.pad(x, (2, 1), "replicate")),
        (r(1, 2, 5),),
    ),
    "repeat": lambda: (
        lambda x: (x.repeat(2, 3), x.repeat_interleave(2, 1), x.tile(2)),
        (r(2, 3),),
    ),
    "chunks": lambda: (lambda x: [part * 2 for part in x.chunk(3, 1)], (r(2, 7),)),
    "stack and unbind": lambda: (lambda x: torch.stack(x.unbind(1)[::-1], 0), (r(2, 3, 4),)),
    "expand": lambda: (lambda x: x[:, None].expand(-1, 4, -1) + x.new_ones(4, 1), (r(2, 3),)),
    "movedim": lambda: (
        lambda x: x.movedim(-1, 0).swapaxes(1, 2).contiguous().view(4, -1),
        (r(2, 3, 4),),
    ),
    "empty slice": lambda: (lambda x: x[:, 1:1].sum(), (r(2, 3),)),
    "scalars": lambda: (lambda x: x.sum() * 2 + x.max() - x.argmax(), (r(2, 3),)),
    "embedding bag": lambda: (nn.EmbeddingBag(10, 4, mode="mean"), (w(0, 10, 3, 4),)),
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
    "cross product": lambda: (lambda a, b: torch.linalg.cross(a, b), (r(4, 3), r(4, 3) + 1)),
    "quaternion": lambda: (lambda q: q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6), (r(3, 4),)),
    "moving average": lambda: (
        lambda x: F.avg_pool1d(x[:, None], 3, 1, 1).squeeze(1),
        (r(2, 9),),
    ),
    "exponential average": lambda: (lambda x: torch.lerp(x[0], x[1], 0.9), (r(2, 5),)),
    "addcmul": lambda: (
        lambda a, b: torch.addcdiv(torch.addcmul(a, a, b), a, b, value=0.5),
        (r(3), p(3)),
    ),
    "heaviside": lambda: (
        lambda x: torch.heaviside(x, torch.tensor(0.5)),
        (torch.tensor([-1.0, 0, 2]),),
    ),
    "logical": lambda: (lambda x, y: (x > 0) & (y > 0) | ~(x > y), (r(3, 4), r(3, 4) + 0.1)),
    "close": lambda: (lambda x: torch.isclose(x, x + 1e-9), (r(3, 4),)),
    "unflatten": lambda: (nn.Unflatten(1, (2, 3)), (r(2, 6),)),
    "hinge": lambda: (lambda x, y: (1 - x * y).clamp(min=0).mean(), (r(5), torch.sign(r(5)))),
    "dice": lambda: (
        lambda x, y: 1 - (2 * (x.sigmoid() * y).sum() + 1) / (x.sigmoid().sum() + y.sum() + 1),
        (r(2, 4), (r(2, 4) > 0).float()),
    ),
    "focal": lambda: (
        lambda x, y: ((1 - (-F.cross_entropy(x, y, reduction="none")).exp()) ** 2).mean(),
        (r(4, 3), w(0, 3, 4)),
    ),
    "softmax one": lambda: (lambda x: x.exp() / (1 + x.exp().sum(-1, keepdim=True)), (r(3, 4),)),
    "alibi": lambda: (
        lambda x: x - (torch.arange(4)[None, :] - torch.arange(4)[:, None]).abs() * 0.5,
        (r(2, 4, 4),),
    ),
    "kv cache": lambda: (
        lambda cache, new, at: cache.index_copy(1, at, new),
        (r(1, 6, 4), r(1, 2, 4), torch.tensor([2, 3])),
    ),
    "image tokens": lambda: (
        lambda tokens, x, y: x.masked_scatter((tokens == 3)[..., None].expand_as(x), y),
        (torch.tensor([[3, 1, 3, 3, 2]]), r(1, 5, 4), r(3, 4)),
    ),
    "masked scatter": lambda: (
        lambda x: x.masked_scatter(x > 0, torch.arange(12.0).reshape(3, 4)),
        (r(3, 4),),
    ),
    "rows by mask": lambda: (
        put_rows,
        (r(5, 4), torch.tensor([True, False, True, True, False]), r(3, 4)),
    ),
    "label of pixels": lambda: (lambda x: x.argmax(1).to(torch.uint8), (r(1, 3, 4, 4),)),
    "confidence": lambda: (lambda x: x.softmax(1).max(1), (r(4, 3),)),
}
