"""Transformers of text, images and speech, and what mixes tokens in other ways."""

from __future__ import annotations

import math

import torch
from layers import Case, Residual, numbers, seeded, values
from torch import Tensor, nn
from torch.nn import functional


def heads_of(x: Tensor, heads: int) -> Tensor:
    """[batch, tokens, channels] as [batch, heads, tokens, channels of a head]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """Return the heads side by side again."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Attention of tokens to one another, written out; with a mask or a bias that is added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        q, k, v = (heads_of(one, self.heads) for one in self.projections(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias
        return self.out(joined(torch.softmax(scores, -1) @ v))


def hidden_layer(width: int, factor: int = 4, act: nn.Module | None = None) -> nn.Module:
    """Wide, activation, narrow."""
    return nn.Sequential(
        nn.Linear(width, factor * width), act or nn.GELU(), nn.Linear(factor * width, width)
    )


class Bert(nn.Module):
    """Sums of three embeddings, then layers with the normalization after each part."""

    def __init__(self, words: int = 50, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(16, width)
        self.kinds = nn.Embedding(2, width)
        self.attention = nn.ModuleList(Attention(width, 4) for _ in range(depth))
        self.hidden = nn.ModuleList(hidden_layer(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width, 1e-12) for _ in range(2 * depth + 1))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor, kinds: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1])
        x = self.norms[-1](self.words(tokens) + self.places(places) + self.kinds(kinds))
        bias = (1.0 - mask.float())[:, None, None, :] * -10000.0
        for index, (attention, hidden) in enumerate(zip(self.attention, self.hidden, strict=True)):
            x = self.norms[2 * index](x + attention(x, bias))
            x = self.norms[2 * index + 1](x + hidden(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


def make_bert() -> Case:
    """BERT (Devlin and others, 2018)."""
    mask = (torch.arange(12) < torch.tensor([[12], [7]])).long()
    return seeded(Bert), (numbers(50, 2, 12), numbers(2, 2, 12), mask)


class GptBlock(nn.Module):
    """Causal attention by torch's own operator, and a hidden layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.projections = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.hidden = hidden_layer(width, act=nn.GELU(approximate="tanh"))

    def forward(self, x: Tensor) -> Tensor:
        made = self.projections(self.norms[0](x)).chunk(3, -1)
        q, k, v = (heads_of(one, self.heads) for one in made)
        x = x + self.out(joined(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.hidden(self.norms[1](x))


class Gpt(nn.Module):
    """Learned places, causal blocks, and the embedding again as the last layer."""

    def __init__(self, words: int = 60, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(1, 16, width) * 0.1)
        self.blocks = nn.Sequential(GptBlock(width, 4), GptBlock(width, 4))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places[:, : tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.words.weight.T


def make_gpt() -> Case:
    """GPT-2 (Radford and others, 2019)."""
    return seeded(Gpt), (numbers(60, 1, 10),)


class RMSNorm(nn.Module):
    """Divides by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return pairs of channels turned by an angle that grows with the place."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


class LlamaBlock(nn.Module):
    """Attention whose heads share keys and values in groups, and a gated hidden layer."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.groups = heads, groups
        self.norms = nn.ModuleList([RMSNorm(width), RMSNorm(width)])
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * size, bias=False)
        self.v = nn.Linear(width, groups * size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        y = self.norms[0](x)
        q = rotated(heads_of(self.q(y), self.heads), cos, sin)
        k = rotated(heads_of(self.k(y), self.groups), cos, sin)
        v = heads_of(self.v(y), self.groups)
        times = self.heads // self.groups
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias, -1)
        x = x + self.out(joined(scores @ v))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Rotary places, RMSNorm, SwiGLU, grouped queries."""

    def __init__(self, words: int = 60, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, 4, 2) for _ in range(2))
        self.norm = RMSNorm(width)
        self.last = nn.Linear(width, words, bias=False)
        rates = 10000.0 ** (-torch.arange(0, 8, 2) / 8)
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[1]
        angles = torch.outer(torch.arange(count).float(), self.rates)
        angles = torch.cat([angles, angles], -1)
        bias = torch.full((count, count), float("-inf")).triu(1)
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin(), bias)
        return self.last(self.norm(x))


def make_llama() -> Case:
    """Llama 2 (Touvron and others, 2023)."""
    return seeded(Llama), (numbers(60, 1, 10),)


class T5Encoder(nn.Module):
    """Biases for relative places in buckets, shared by all layers; RMSNorm and a gated GELU."""

    def __init__(self, words: int = 50, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.bias = nn.Embedding(16, heads)
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(5))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(2))

    @staticmethod
    def buckets(count: int) -> Tensor:
        """Near places one by one, far ones in buckets that grow; both directions."""
        places = torch.arange(count)
        distance = places[None, :] - places[:, None]
        near = distance.abs()
        far = 4 + (torch.log(near.clamp(min=1).float() / 4) / math.log(4.0) * 4).long()
        bucket = torch.where(near < 4, near, far.clamp(max=7))
        return bucket + (distance > 0).long() * 8

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        bias = self.bias(self.buckets(tokens.shape[1])).permute(2, 0, 1)[None]
        for index in range(2):
            made = self.qkv[index](self.norms[2 * index](x)).chunk(3, -1)
            q, k, v = (heads_of(one, self.heads) for one in made)
            scores = torch.softmax(q @ k.transpose(-1, -2) + bias, -1)
            x = x + self.out[index](joined(scores @ v))
            gate, value = self.wide[index](self.norms[2 * index + 1](x)).chunk(2, -1)
            x = x + self.narrow[index](functional.gelu(gate, approximate="tanh") * value)
        return self.norms[4](x)


def make_t5_encoder() -> Case:
    """The encoder of T5 v1.1 (Raffel and others, 2019)."""
    return seeded(T5Encoder), (numbers(50, 1, 12),)


def _encoder_block(width: int, heads: int) -> nn.Module:
    return nn.Sequential(
        Residual(nn.Sequential(nn.LayerNorm(width, 1e-6), Attention(width, heads))),
        Residual(nn.Sequential(nn.LayerNorm(width, 1e-6), hidden_layer(width))),
    )


class ViT(nn.Module):
    """Patches as tokens, beside one for the class."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.1)
        self.blocks = nn.Sequential(*(_encoder_block(width, 4) for _ in range(3)))
        self.last = nn.Sequential(nn.LayerNorm(width, 1e-6), nn.Linear(width, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.last(self.blocks(x)[:, 0])


def make_vit() -> Case:
    """ViT (Dosovitskiy and others, 2020)."""
    return seeded(ViT), (values(1, 3, 32, 32),)


class SwinBlock(nn.Module):
    """Attention within windows, which every other block shifts by half."""

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads)
        self.hidden = hidden_layer(width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
        down, across = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        places = torch.stack([down.flatten(), across.flatten()])
        apart = places[:, :, None] - places[:, None, :] + window - 1
        index = apart[0] * (2 * window - 1) + apart[1]
        self.register_buffer("index", index.flatten(), persistent=False)
        # Places that only the shift brought together do not attend to one another.
        bands = torch.zeros(size)
        if shift:
            bands[-window:-shift], bands[-shift:] = 1, 2
        regions = self._windows((3 * bands[:, None] + bands)[None, :, :, None])[..., 0]
        apart = regions[:, None, :] != regions[:, :, None]
        self.register_buffer("mask", apart.float()[:, None] * -100.0, persistent=False)

    def _windows(self, x: Tensor) -> Tensor:
        """[batch, height, width, channels] as [windows, places, channels]."""
        batch, height, width, channels = x.shape
        side = self.window
        x = x.reshape(batch, height // side, side, width // side, side, channels)
        return x.transpose(2, 3).reshape(-1, side * side, channels)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        y = self.norms[0](x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        side = self.window
        bias = self.bias[self.index].reshape(side * side, side * side, self.heads).permute(2, 0, 1)
        y = self.attention(self._windows(y), self.mask + bias[None])
        y = y.reshape(batch, height // side, width // side, side, side, channels)
        y = y.transpose(2, 3).reshape(batch, height, width, channels)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.hidden(self.norms[1](x))


class MergePatches(nn.Module):
    """Four neighbours become one place with twice the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduced = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.reduced(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    """Two stages of windows, the second with half the places and twice the channels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.norm = nn.LayerNorm(width)
        self.stages = nn.Sequential(
            SwinBlock(width, 2, 8, 4, 0),
            SwinBlock(width, 2, 8, 4, 2),
            MergePatches(width),
            SwinBlock(2 * width, 4, 4, 4, 0),
        )
        self.last = nn.Sequential(nn.LayerNorm(2 * width), nn.Linear(2 * width, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stages(self.norm(self.patches(x).permute(0, 2, 3, 1)))
        return self.last(x).mean((1, 2))


def make_swin() -> Case:
    """Swin Transformer (Liu and others, 2021)."""
    return seeded(Swin), (values(1, 3, 32, 32),)


class MixerBlock(nn.Module):
    """A hidden layer over the places of each channel, then one over the channels of each place."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.places = hidden_layer(places, 2)
        self.channels = hidden_layer(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    """Patches, blocks, the mean of all places."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(*(MixerBlock(16, width) for _ in range(3)), nn.LayerNorm(width))
        self.last = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        return self.last(x.mean(1))


def make_mlp_mixer() -> Case:
    """MLP-Mixer (Tolstikhin and others, 2021)."""
    return seeded(Mixer), (values(1, 3, 32, 32),)
