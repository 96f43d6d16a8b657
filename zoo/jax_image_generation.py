"""Networks in JAX that make images: super-resolution, styles, generators, autoencoders."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax_layers import (
    Array,
    Case,
    conv,
    enlarged,
    max_pool,
    network,
    norm,
    numbers,
    plain,
    values,
)


def make_srcnn() -> Case:
    """SRCNN (Dong and others, 2014): bicubic enlargement, then three convolutions."""

    def srcnn(image: Array) -> Array:
        x = plain(enlarged(image, 2, "bicubic"), 16, 9, act=nn.relu)
        return plain(plain(x, 8, 1, act=nn.relu), 1, 5)

    return network(srcnn, values(1, 16, 16, 1))


def pixels(x: Array, factor: int) -> Array:
    """Channels become pixels."""
    batch, rows, columns, channels = x.shape
    x = x.reshape(batch, rows, columns, factor, factor, channels // factor**2)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows * factor, columns * factor, -1)


def make_espcn() -> Case:
    """ESPCN (Shi and others, 2016): channels become pixels."""

    def espcn(image: Array) -> Array:
        x = plain(plain(image, 16, 5, act=nn.tanh), 8, act=nn.tanh)
        return pixels(plain(x, 9), 3)

    return network(espcn, values(1, 16, 16, 1))


def make_edsr() -> Case:
    """EDSR (Lim and others, 2017): residual blocks without normalization."""

    def edsr(image: Array) -> Array:
        mean = jnp.array([0.45, 0.44, 0.40])
        first = plain(image - mean, 12)
        x = first
        for _ in range(4):
            x = x + plain(plain(x, 12, act=nn.relu), 12) * 0.1
        x = plain(x, 12) + first
        return plain(pixels(plain(x, 48), 2), 3) + mean

    return network(edsr, values(1, 16, 16, 3))


def make_dncnn() -> Case:
    """DnCNN (Zhang and others, 2016): the noise of an image, taken away from it."""

    def dncnn(image: Array) -> Array:
        x = plain(image, 12, act=nn.relu)
        for _ in range(5):
            x = conv(x, 12)
        return image - plain(x, 1)

    return network(dncnn, values(1, 24, 24, 1))


def make_autoencoder() -> Case:
    """A convolutional autoencoder (Masci and others, 2011) with pools and enlargement."""

    def autoencoder(image: Array) -> Array:
        x = max_pool(plain(image, 8, act=nn.relu))
        x = max_pool(plain(x, 12, act=nn.relu)).reshape(1, -1)
        x = nn.Dense(588)(nn.Dense(24)(x)).reshape(1, 7, 7, 12)
        x = plain(enlarged(x), 8, act=nn.relu)
        return plain(enlarged(x), 1, act=nn.sigmoid)

    return network(autoencoder, values(1, 28, 28, 1))


def make_vae_decoder() -> Case:
    """The decoder of a variational autoencoder (Kingma, Welling, 2013)."""

    def decoder(mean: Array, log_variance: Array, noise: Array) -> Array:
        sample = mean + jnp.exp(0.5 * log_variance) * noise
        x = nn.elu(nn.Dense(512)(sample)).reshape(-1, 4, 4, 32)
        x = nn.elu(nn.ConvTranspose(16, (3, 3), (2, 2))(x))
        x = nn.elu(nn.ConvTranspose(8, (3, 3), (2, 2))(x))
        return nn.sigmoid(nn.ConvTranspose(3, (3, 3))(x))

    given = values(3, 2, 8)
    return network(decoder, given[0], given[1] * 0.3, given[2] * 0.7)


def make_dcgan() -> Case:
    """The generator of DCGAN (Radford, Metz, Chintala, 2015)."""

    def generator(noise: Array) -> Array:
        x = nn.ConvTranspose(32, (4, 4), padding="VALID", use_bias=False)(noise)
        x = nn.relu(norm(x))
        for width in (24, 16):
            x = nn.relu(norm(nn.ConvTranspose(width, (4, 4), (2, 2), use_bias=False)(x)))
        return nn.tanh(nn.ConvTranspose(3, (4, 4), (2, 2))(x))

    return network(generator, values(2, 1, 1, 16))


def make_conditional_gan() -> Case:
    """A generator with conditional normalization, as in BigGAN (Brock, Donahue, Simonyan, 2018)."""

    def generator(latent: Array, label: Array) -> Array:
        x = nn.Dense(384)(latent).reshape(-1, 4, 4, 24)
        for width in (16, 8):
            told = nn.Embed(5, 2 * x.shape[-1])(label)[:, None, None, :]
            scale, shift = jnp.split(told, 2, -1)
            plainly = nn.BatchNorm(use_running_average=True, use_bias=False, use_scale=False)
            x = plain(enlarged(nn.relu(plainly(x) * (1 + scale) + shift)), width)
        return plain(x, 3, act=nn.tanh)

    return network(generator, values(2, 12), numbers(5, 2))


def _mirrored(x: Array, width: int, size: int, stride: int = 1) -> Array:
    """Return a convolution whose borders are mirrors of the image."""
    edge = size // 2
    x = jnp.pad(x, [(0, 0), (edge, edge), (edge, edge), (0, 0)], mode="reflect")
    return nn.Conv(width, (size, size), stride, padding="VALID")(x)


def _styled(x: Array, width: int, size: int, stride: int = 1) -> Array:
    return nn.InstanceNorm()(_mirrored(x, width, size, stride))


def make_style_transfer() -> Case:
    """Fast style transfer (Johnson, Alahi, Fei-Fei, 2016; Ulyanov and others, 2016)."""

    def style(image: Array) -> Array:
        x = nn.relu(_styled(image, 8, 9))
        x = nn.relu(_styled(x, 16, 3, 2))
        for _ in range(2):
            x = x + _styled(nn.relu(_styled(x, 16, 3)), 16, 3)
        return _mirrored(nn.relu(_styled(enlarged(x), 8, 3)), 3, 9)

    return network(style, values(1, 24, 24, 3))


def make_diffusion_step() -> Case:
    """One step of a denoising diffusion model (Ho, Jain, Abbeel, 2020)."""

    def denoise(image: Array, step: Array) -> Array:
        angles = step[:, None] * jnp.exp(jnp.arange(8) * (-9.21 / 8))
        told = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
        told = nn.Dense(16)(nn.silu(nn.Dense(32)(told)))
        first = nn.silu(nn.GroupNorm(4)(plain(image, 8)))
        down = nn.GroupNorm(4)(nn.Conv(16, (3, 3), 2)(first))
        low = nn.silu(down + told[:, None, None])
        places = low.reshape(1, -1, 16)
        places = places + nn.MultiHeadDotProductAttention(num_heads=2)(places, places)
        up = nn.ConvTranspose(8, (2, 2), (2, 2))(places.reshape(low.shape))
        return plain(jnp.concatenate([first, up], -1), 3)

    return network(denoise, values(1, 16, 16, 3), np.array([7.0], np.float32))


def make_discriminator_gradient() -> Case:
    """The gradient of a discriminator's loss for its image (Goodfellow and others, 2014)."""

    def score(image: Array) -> Array:
        x = nn.leaky_relu(nn.Conv(8, (4, 4), 2)(image), 0.2)
        x = nn.leaky_relu(norm(nn.Conv(16, (4, 4), 2, use_bias=False)(x)), 0.2)
        return nn.Dense(1)(x.reshape(x.shape[0], -1))

    called, given = network(score, values(2, 16, 16, 3))

    def gradient(image: Array) -> Any:
        return jax.value_and_grad(lambda x: nn.softplus(-called(x)).mean())(image)

    return jax.jit(gradient), given
