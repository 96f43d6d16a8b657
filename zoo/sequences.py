"""Networks of sequences without attention to all places: recurrent, convolutional, state spaces."""

from __future__ import annotations

import torch
from layers import Case, numbers, seeded, values
from torch import Tensor, nn
from torch.nn import functional


class Lstm(nn.Module):
    """Words, two recurrent layers, and classes from the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.recurrent = nn.LSTM(12, 16, 2, batch_first=True)
        self.last = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        _, (hidden, cell) = self.recurrent(self.words(tokens))
        return self.last(hidden[-1]), cell


def make_lstm() -> Case:
    """An LSTM (Hochreiter, Schmidhuber, 1997)."""
    return seeded(Lstm), (numbers(30, 2, 8),)


class Gru(nn.Module):
    """Both directions, and an answer at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(6, 12, batch_first=True, bidirectional=True)
        self.last = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.recurrent(x)[0])


def make_gru() -> Case:
    """A GRU (Cho and others, 2014)."""
    return seeded(Gru), (values(2, 8, 6),)


class TcnBlock(nn.Module):
    """Two causal convolutions with weight normalization, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.padding = 2 * dilation
        norm = torch.nn.utils.parametrizations.weight_norm
        self.first = norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))
        self.second = norm(nn.Conv1d(outputs, outputs, 3, dilation=dilation))
        self.shortcut = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(functional.pad(x, (self.padding, 0))))
        y = torch.relu(self.second(functional.pad(y, (self.padding, 0))))
        return torch.relu(y + self.shortcut(x))


def make_tcn() -> Case:
    """A TCN (Bai, Kolter, Koltun, 2018)."""

    def build() -> nn.Module:
        blocks = [TcnBlock(4, 12, 1), TcnBlock(12, 12, 2), TcnBlock(12, 12, 4)]
        return nn.Sequential(*blocks, nn.Conv1d(12, 5, 1))

    return seeded(build), (values(1, 4, 32),)


class MambaBlock(nn.Module):
    """A selective state space: what is kept and taken depends on the input, step by step."""

    def __init__(self, width: int = 12, inner: int = 16, states: int = 4) -> None:
        super().__init__()
        self.inner, self.states, self.rank = inner, states, 2
        self.norm = nn.LayerNorm(width)
        self.taken = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.selected = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[1]
        value, gate = self.taken(self.norm(x)).chunk(2, -1)
        value = self.conv(value.transpose(1, 2))[..., :count].transpose(1, 2)
        value = functional.silu(value)
        parts = self.selected(value).split([self.rank, self.states, self.states], -1)
        step = functional.softplus(self.step(parts[0]))
        kept = torch.exp(step[..., None] * -torch.exp(self.decay))
        taken = (step * value)[..., None] * parts[1][:, :, None, :]
        state = torch.zeros_like(taken[:, 0])
        made = []
        for index in range(count):
            state = kept[:, index] * state + taken[:, index]
            made.append((state * parts[2][:, index, None, :]).sum(-1))
        y = (torch.stack(made, 1) + value * self.skip) * functional.silu(gate)
        return x + self.out(y)


def make_mamba() -> Case:
    """Mamba (Gu, Dao, 2023), with its scan unrolled."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Embedding(20, 12), MambaBlock(), MambaBlock(), nn.LayerNorm(12), nn.Linear(12, 20)
        )

    return seeded(build), (numbers(20, 1, 8),)


class LinearAttention(nn.Module):
    """Causal attention by sums over all places before, without softmax."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.projections = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        made = self.projections(self.norm(x)).unflatten(-1, (3 * self.heads, -1))
        q, k, v = made.chunk(3, 2)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        state = torch.cumsum(torch.einsum("nlhd,nlhm->nlhdm", k, v), 1)
        total = torch.einsum("nlhd,nlhd->nlh", q, torch.cumsum(k, 1))
        y = torch.einsum("nlhd,nlhdm->nlhm", q, state) / (total + 1e-6)[..., None]
        return x + self.out(y.flatten(2))


def make_linear_attention() -> Case:
    """Linear attention (Katharopoulos and others, 2020)."""

    def build() -> nn.Module:
        return nn.Sequential(LinearAttention(), LinearAttention(), nn.Linear(16, 8))

    return seeded(build), (values(1, 10, 16),)


class Seq2Seq(nn.Module):
    """An encoder, and a decoder that attends to its states with each step."""

    def __init__(self, words: int = 20, width: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.keys = nn.Linear(width, width, bias=False)
        self.query = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.last = nn.Linear(2 * width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, final = self.encoder(self.words(source))
        hidden, keys = final[0], self.keys(states)
        made = []
        for index in range(target.shape[1]):
            energy = self.score(torch.tanh(keys + self.query(hidden)[:, None]))
            context = (torch.softmax(energy, 1) * states).sum(1)
            word = self.words(target[:, index])
            hidden = self.cell(torch.cat([word, context], -1), hidden)
            made.append(self.last(torch.cat([hidden, context], -1)))
        return torch.stack(made, 1)


def make_attention_seq2seq() -> Case:
    """Translation with additive attention (Bahdanau, Cho, Bengio, 2014)."""
    return seeded(Seq2Seq), (numbers(20, 2, 6), numbers(20, 2, 4))
