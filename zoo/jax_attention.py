"""Transformers in JAX: text and images, and a decoder that keeps its cache."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx
from jax_layers import Activation, Array, Case, filled, network, numbers, values


def heads_of(x: Array, heads: int) -> Array:
    """[batch, tokens, channels] as [batch, heads, tokens, channels of a head]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def joined(x: Array) -> Array:
    """Return the heads side by side again."""
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


class Attention(nn.Module):
    """Attention of tokens to one another, written out; with a mask or a bias that is added."""

    heads: int = 4

    @nn.compact
    def __call__(self, x: Array, bias: Array = 0.0) -> Array:
        made = jnp.split(nn.Dense(3 * x.shape[-1])(x), 3, -1)
        q, k, v = (heads_of(one, self.heads) for one in made)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
        return nn.Dense(x.shape[-1])(joined(nn.softmax(scores) @ v))


def exact_gelu(x: Array) -> Array:
    """GELU by ERF."""
    return nn.gelu(x, approximate=False)


class Hidden(nn.Module):
    """Wide, activation, narrow."""

    factor: int = 4
    act: Activation = exact_gelu

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return nn.Dense(x.shape[-1])(self.act(nn.Dense(self.factor * x.shape[-1])(x)))


class EncoderBlock(nn.Module):
    """Attention and a hidden layer, each after a normalization and with a shortcut."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = x + Attention()(nn.LayerNorm(1e-6)(x))
        return x + Hidden()(nn.LayerNorm(1e-6)(x))


def make_bert() -> Case:
    """BERT (Devlin and others, 2018)."""

    def bert(tokens: Array, kinds: Array, mask: Array) -> dict[str, Array]:
        places = jnp.arange(tokens.shape[1])
        x = nn.Embed(50, 32)(tokens) + nn.Embed(16, 32)(places) + nn.Embed(2, 32)(kinds)
        x = nn.LayerNorm(1e-12)(x)
        bias = (1.0 - mask.astype(jnp.float32))[:, None, None, :] * -10000.0
        for _ in range(2):
            x = nn.LayerNorm(1e-12)(x + Attention()(x, bias))
            x = nn.LayerNorm(1e-12)(x + Hidden()(x))
        return {"states": x, "pooled": nn.tanh(nn.Dense(32)(x[:, 0]))}

    mask = (np.arange(12) < np.array([[12], [7]])).astype(np.int32)
    return network(bert, numbers(50, 2, 12), numbers(2, 2, 12), mask)


def make_gpt() -> Case:
    """GPT-2 (Radford and others, 2019)."""

    def gpt(tokens: Array) -> Array:
        words = nn.Embed(60, 32)
        x = words(tokens) + nn.Embed(16, 32)(jnp.arange(tokens.shape[1]))
        mask = nn.make_causal_mask(tokens)
        for _ in range(2):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, mask=mask)
            x = x + Hidden(act=nn.gelu)(nn.LayerNorm()(x))
        return words.attend(nn.LayerNorm()(x))

    return network(gpt, numbers(60, 1, 10))


class DecoderStep(nnx.Module):
    """The next word after one more token; keys and values of the tokens before are kept."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.words = nnx.Embed(60, 32, rngs=rngs)
        self.places = nnx.Embed(8, 32, rngs=rngs)
        self.count = nnx.Variable(jnp.zeros((1,), jnp.int32))
        self.attention = nnx.List(
            [
                nnx.MultiHeadAttention(
                    num_heads=4, in_features=32, decode=True, use_bias=True, rngs=rngs
                )
                for _ in range(2)
            ]
        )
        self.norms = nnx.List([nnx.LayerNorm(32, rngs=rngs) for _ in range(5)])
        self.wide = nnx.List([nnx.Linear(32, 128, rngs=rngs) for _ in range(2)])
        self.narrow = nnx.List([nnx.Linear(128, 32, rngs=rngs) for _ in range(2)])
        for layer in self.attention:
            layer.init_cache((1, 8, 32))

    def __call__(self, token: Array) -> Array:
        x = self.words(token) + self.places(self.count[...])
        self.count[...] = self.count[...] + 1
        for index, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * index](x))
            y = nnx.gelu(self.wide[index](self.norms[2 * index + 1](x)))
            x = x + self.narrow[index](y)
        return self.words.attend(self.norms[4](x))


def make_gpt_step() -> Case:
    """A step of GPT-2 (Radford and others, 2019), whose cache is its state."""
    return filled(lambda: DecoderStep(nnx.Rngs(0))), (numbers(60, 1, 1),)


def rotated(x: Array, angles: Array) -> Array:
    """Return pairs of channels turned by an angle that grows with the place."""
    low, high = jnp.split(x, 2, -1)
    return x * jnp.cos(angles) + jnp.concatenate([-high, low], -1) * jnp.sin(angles)


class LlamaBlock(nn.Module):
    """Attention whose heads share keys and values in groups, and a gated hidden layer."""

    heads: int = 4
    groups: int = 2

    @nn.compact
    def __call__(self, x: Array, angles: Array, mask: Array) -> Array:
        width = x.shape[-1]
        size = width // self.heads
        y = nn.RMSNorm()(x)
        q = rotated(heads_of(nn.Dense(width, use_bias=False)(y), self.heads), angles)
        k, v = (
            heads_of(nn.Dense(self.groups * size, use_bias=False)(y), self.groups) for _ in range(2)
        )
        k = jnp.repeat(rotated(k, angles), self.heads // self.groups, 1)
        v = jnp.repeat(v, self.heads // self.groups, 1)
        scores = jnp.where(mask, q @ k.swapaxes(-1, -2) / math.sqrt(size), -jnp.inf)
        x = x + nn.Dense(width, use_bias=False)(joined(nn.softmax(scores) @ v))
        y = nn.RMSNorm()(x)
        gate, up = (nn.Dense(2 * width, use_bias=False)(y) for _ in range(2))
        return x + nn.Dense(width, use_bias=False)(nn.silu(gate) * up)


def make_llama() -> Case:
    """Llama 2 (Touvron and others, 2023)."""

    def llama(tokens: Array) -> Array:
        count = tokens.shape[1]
        angles = jnp.outer(jnp.arange(count), 10000.0 ** (-jnp.arange(0, 8, 2) / 8))
        angles = jnp.concatenate([angles, angles], -1)
        mask = jnp.tril(jnp.ones((count, count), bool))
        x = nn.Embed(60, 32)(tokens)
        for _ in range(2):
            x = LlamaBlock()(x, angles, mask)
        return nn.Dense(60, use_bias=False)(nn.RMSNorm()(x))

    return network(llama, numbers(60, 1, 10))


def buckets(count: int) -> Array:
    """Relative places: near ones one by one, far ones in buckets that grow; both directions."""
    places = jnp.arange(count)
    distance = places[None, :] - places[:, None]
    near = jnp.abs(distance)
    far = 4 + (jnp.log(jnp.maximum(near, 1) / 4) / math.log(4.0) * 4).astype(jnp.int32)
    return jnp.where(near < 4, near, jnp.minimum(far, 7)) + (distance > 0) * 8


def make_t5_encoder() -> Case:
    """The encoder of T5 v1.1 (Raffel and others, 2019)."""

    def dense(x: Array, width: int) -> Array:
        return nn.Dense(width, use_bias=False)(x)

    def t5(tokens: Array) -> Array:
        x = nn.Embed(50, 32)(tokens)
        bias = nn.Embed(16, 4)(buckets(tokens.shape[1])).transpose(2, 0, 1)
        for _ in range(2):
            made = jnp.split(dense(nn.RMSNorm()(x), 96), 3, -1)
            q, k, v = (heads_of(one, 4) for one in made)
            scores = nn.softmax(q @ k.swapaxes(-1, -2) + bias)
            x = x + dense(joined(scores @ v), 32)
            gate, value = jnp.split(dense(nn.RMSNorm()(x), 128), 2, -1)
            x = x + dense(nn.gelu(gate) * value, 32)
        return nn.RMSNorm()(x)

    return network(t5, numbers(50, 1, 12))


class Learned(nn.Module):
    """An array that is learned."""

    shape: tuple[int, ...]

    @nn.compact
    def __call__(self) -> Array:
        return self.param("learned", nn.initializers.ones, self.shape)


def make_vit() -> Case:
    """ViT (Dosovitskiy and others, 2020)."""

    def vit(image: Array) -> Array:
        x = nn.Conv(32, (8, 8), 8)(image).reshape(1, 16, 32)
        x = jnp.concatenate([Learned((1, 1, 32))(), x], 1) + Learned((1, 17, 32))()
        for _ in range(3):
            x = EncoderBlock()(x)
        return nn.Dense(10)(nn.LayerNorm(1e-6)(x)[:, 0])

    return network(vit, values(1, 32, 32, 3))


def windows(x: Array, side: int) -> Array:
    """[batch, height, width, channels] as [windows, places, channels]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // side, side, width // side, side, channels)
    return x.swapaxes(2, 3).reshape(-1, side * side, channels)


def regions(size: int, side: int, shift: int) -> Array:
    """Return what is added to scores: places that only the shift brought together do not attend."""
    bands = np.zeros(size, np.int32)
    if shift:
        bands[-side:-shift], bands[-shift:] = 1, 2
    found = windows((3 * bands[:, None] + bands)[None, :, :, None], side)[..., 0]
    return (found[:, None, :] != found[:, :, None])[:, None] * np.float32(-100)


class SwinBlock(nn.Module):
    """Attention within windows, which every other block shifts by half."""

    heads: int = 2
    window: int = 4
    shift: int = 0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        batch, size, _, channels = x.shape
        side, shift = self.window, self.shift
        table = self.param("bias", nn.initializers.zeros, ((2 * side - 1) ** 2, self.heads))
        places = np.stack(np.meshgrid(*[np.arange(side)] * 2, indexing="ij")).reshape(2, -1)
        apart = places[:, :, None] - places[:, None, :] + side - 1
        bias = table[apart[0] * (2 * side - 1) + apart[1]].transpose(2, 0, 1)
        y = jnp.roll(nn.LayerNorm()(x), (-shift, -shift), (1, 2))
        mask = regions(size, side, shift)
        y = Attention(self.heads)(windows(y, side), mask + bias)
        y = y.reshape(batch, size // side, size // side, side, side, channels)
        y = jnp.roll(y.swapaxes(2, 3).reshape(x.shape), (shift, shift), (1, 2))
        x = x + y
        return x + Hidden()(nn.LayerNorm()(x))


def make_swin() -> Case:
    """Swin Transformer (Liu and others, 2021)."""

    def swin(image: Array) -> Array:
        x = nn.LayerNorm()(nn.Conv(16, (4, 4), 4)(image))
        x = SwinBlock(shift=2)(SwinBlock()(x))
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        x = nn.Dense(32, use_bias=False)(nn.LayerNorm()(jnp.concatenate(parts, -1)))
        return nn.Dense(10)(nn.LayerNorm()(SwinBlock(4)(x))).mean((1, 2))

    return network(swin, values(1, 32, 32, 3))


class MixerBlock(nn.Module):
    """A hidden layer over the places of each channel, then one over the channels of each place."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = x + Hidden(2)(nn.LayerNorm()(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + Hidden()(nn.LayerNorm()(x))


def make_mlp_mixer() -> Case:
    """MLP-Mixer (Tolstikhin and others, 2021)."""

    def mixer(image: Array) -> Array:
        x = nn.Conv(24, (8, 8), 8)(image).reshape(1, 16, 24)
        for _ in range(3):
            x = MixerBlock()(x)
        return nn.Dense(10)(nn.LayerNorm()(x).mean(1))

    return network(mixer, values(1, 32, 32, 3))


def make_transformer() -> Case:
    """A transformer for translation (Vaswani and others, 2017)."""

    def waves(count: int, width: int) -> Array:
        angles = jnp.arange(count)[:, None] / 10000 ** (jnp.arange(0, width, 2) / width)
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)

    def attend(x: Array, to: Array, mask: Array | None = None) -> Array:
        found = nn.MultiHeadDotProductAttention(num_heads=4)(x, to, mask=mask)
        return nn.LayerNorm()(x + found)

    def transformer(source: Array, target: Array) -> Array:
        words = nn.Embed(40, 24)
        x, y = (words(one) + waves(one.shape[1], 24) for one in (source, target))
        for _ in range(2):
            x = attend(x, x)
            x = nn.LayerNorm()(x + Hidden(act=nn.relu)(x))
        for _ in range(2):
            y = attend(attend(y, y, nn.make_causal_mask(target)), x)
            y = nn.LayerNorm()(y + Hidden(act=nn.relu)(y))
        return jax.nn.log_softmax(words.attend(y))

    return network(transformer, numbers(40, 1, 9), numbers(40, 1, 7))
