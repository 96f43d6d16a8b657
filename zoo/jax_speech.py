"""Networks in JAX of sound: recognition, keywords, and waves sample by sample."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx
from jax_attention import Attention, EncoderBlock, Hidden, exact_gelu
from jax_layers import (
    Array,
    Case,
    Weights,
    conv,
    filled,
    max_pool,
    network,
    norm,
    plain,
    separable,
    values,
)


def make_deep_speech() -> Case:
    """Deep Speech 2 (Amodei and others, 2015)."""

    def clipped(x: Array) -> Array:
        return jnp.clip(x, 0, 20)

    def recognize(spectrum: Array) -> Array:
        x = conv(spectrum, 4, (5, 11), (1, 2), act=clipped)
        x = conv(x, 4, (5, 11), (2, 2), act=clipped)
        x = x.reshape(1, x.shape[1], -1)
        for _ in range(2):
            x = nn.Bidirectional(nn.RNN(nn.GRUCell(12)), nn.RNN(nn.GRUCell(12)))(x)
        return nn.log_softmax(nn.Dense(12)(x))

    return network(recognize, values(1, 16, 16, 1))


def make_wavenet() -> Case:
    """WaveNet (van den Oord and others, 2016)."""

    def wavenet(wave: Array) -> Array:
        x, total = nn.Conv(8, (1,))(wave), jnp.zeros(())
        for rate in (1, 2, 4, 8, 1, 2, 4, 8):
            gated = nn.Conv(16, (2,), padding="CAUSAL", kernel_dilation=rate)(x)
            value, gate = jnp.split(gated, 2, -1)
            made = nn.tanh(value) * nn.sigmoid(gate)
            total = total + nn.Conv(12, (1,))(made)
            x = x + nn.Conv(8, (1,))(made)
        return nn.Conv(16, (1,))(nn.relu(nn.Conv(12, (1,))(nn.relu(total))))

    return network(wavenet, values(1, 64, 1))


def make_ds_cnn() -> Case:
    """DS-CNN for keywords (Zhang and others, 2017)."""

    def keywords(spectrum: Array) -> Array:
        x = conv(spectrum, 16, (10, 4), 2)
        for _ in range(4):
            x = separable(x, 16)
        return nn.softmax(nn.Dense(12)(nn.avg_pool(x, (25, 5)).reshape(1, -1)))

    return network(keywords, values(1, 49, 10, 1))


class StreamingKeywords(nnx.Module):
    """Keywords in a stream: each call takes one frame, and the frames before are its state."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(10, 16, (4,), padding="VALID", rngs=rngs)
        self.second = nnx.Conv(16, 16, (3,), padding="VALID", feature_group_count=16, rngs=rngs)
        self.mixed = nnx.Conv(16, 16, (1,), rngs=rngs)
        self.last = nnx.Linear(16, 4, rngs=rngs)
        self.frames = nnx.Cache(jnp.zeros((1, 4, 10)))
        self.made = nnx.Cache(jnp.zeros((1, 3, 16)))
        self.average = nnx.Cache(jnp.zeros((1, 16)))

    def __call__(self, frame: Array) -> Array:
        self.frames[...] = jnp.concatenate([self.frames[...][:, 1:], frame], 1)
        made = nnx.relu(self.first(self.frames[...]))
        self.made[...] = jnp.concatenate([self.made[...][:, 1:], made], 1)
        found = nnx.relu(self.mixed(self.second(self.made[...])))[:, 0]
        self.average[...] = 0.9 * self.average[...] + 0.1 * found
        return nnx.softmax(self.last(self.average[...]))


def make_streaming_keywords() -> Case:
    """Keywords in a stream with the state inside (Rybakov and others, 2020)."""
    return filled(lambda: StreamingKeywords(nnx.Rngs(0))), (values(1, 1, 10),)


def make_anomaly_autoencoder() -> Case:
    """The autoencoder of MLPerf Tiny for strange sounds (Koizumi and others, 2020)."""
    weights = Weights()
    widths = (40, 32, 32, 4, 32, 32, 40)
    layers = [
        (weights.kernel(one, two), weights.bias(two)) for one, two in itertools.pairwise(widths)
    ]

    def autoencoder(spectrum: Array) -> Array:
        x = spectrum
        for kernel, bias in layers[:-1]:
            x = jax.nn.relu(x @ kernel + bias)
        kernel, bias = layers[-1]
        return x @ kernel + bias

    return autoencoder, (values(1, 40),)


def make_whisper_encoder() -> Case:
    """The encoder of Whisper (Radford and others, 2022)."""

    def encoder(spectrum: Array) -> Array:
        x = exact_gelu(nn.Conv(32, (3,))(spectrum))
        x = exact_gelu(nn.Conv(32, (3,), 2)(x))
        rates = jnp.exp(-math.log(10000) / 15 * jnp.arange(16))
        angles = jnp.arange(12)[:, None] * rates
        x = x + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)
        for _ in range(2):
            x = EncoderBlock()(x)
        return nn.LayerNorm()(x)

    return network(encoder, values(1, 24, 16))


class ConformerBlock(nn.Module):
    """Attention and a convolution between two halves of a hidden layer."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        width = x.shape[-1]
        x = x + 0.5 * Hidden(act=nn.silu)(nn.LayerNorm()(x))
        x = x + Attention()(nn.LayerNorm()(x))
        y = nn.glu(nn.Conv(2 * width, (1,))(nn.LayerNorm()(x)))
        y = nn.silu(norm(nn.Conv(width, (7,), feature_group_count=width)(y)))
        x = x + nn.Conv(width, (1,))(y)
        return nn.LayerNorm()(x + 0.5 * Hidden(act=nn.silu)(nn.LayerNorm()(x)))


def make_conformer() -> Case:
    """Conformer (Gulati and others, 2020)."""

    def conformer(spectrum: Array) -> Array:
        x = nn.Dense(24)(spectrum)
        for _ in range(2):
            x = ConformerBlock()(x)
        return nn.Dense(10)(x)

    return network(conformer, values(1, 20, 16))


def make_crnn() -> Case:
    """CRNN (Shi, Bai, Yao, 2015): text in an image."""

    def letters(image: Array) -> Array:
        x = max_pool(plain(image, 8, act=nn.relu))
        for width in (16, 24):
            x = nn.max_pool(conv(x, width), (2, 1), (2, 1))
        x = nn.relu(nn.Conv(24, (2, 1), padding="VALID")(x))[:, 0]
        both = nn.Bidirectional(nn.RNN(nn.LSTMCell(16)), nn.RNN(nn.LSTMCell(16)))(x)
        return nn.log_softmax(nn.Dense(12)(both))

    return network(letters, values(1, 16, 24, 1))
