"""Networks that make images: super-resolution, denoising, styles, generators, autoencoders."""

from __future__ import annotations

import torch
from layers import Case, Residual, numbers, seeded, values
from torch import Tensor, nn
from torch.nn import functional


class SRCNN(nn.Module):
    """Bicubic enlargement, then three convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 9, padding=4),
            nn.ReLU(),
            nn.Conv2d(16, 8, 1),
            nn.ReLU(),
            nn.Conv2d(8, 1, 5, padding=2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(functional.interpolate(x, scale_factor=2.0, mode="bicubic"))


def make_srcnn() -> Case:
    """SRCNN (Dong and others, 2014)."""
    return seeded(SRCNN), (values(1, 1, 16, 16),)


def make_espcn() -> Case:
    """ESPCN (Shi and others, 2016): channels become pixels."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(16, 8, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(8, 9, 3, padding=1),
            nn.PixelShuffle(3),
        )

    return seeded(build), (values(1, 1, 16, 16),)


class Scaled(nn.Module):
    """Two convolutions, scaled by a constant."""

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x))) * self.scale


class EDSR(nn.Module):
    """Residual blocks without normalization; the mean colour is taken away and added again."""

    def __init__(self, channels: int = 12) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.45, 0.44, 0.40]).reshape(1, 3, 1, 1))
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        blocks = [Residual(Scaled(channels, 0.1)) for _ in range(4)]
        self.body = Residual(nn.Sequential(*blocks, nn.Conv2d(channels, channels, 3, padding=1)))
        self.tail = nn.Sequential(
            nn.Conv2d(channels, 4 * channels, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(channels, 3, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.body(self.head(x - self.mean))) + self.mean


def make_edsr() -> Case:
    """EDSR (Lim and others, 2017)."""
    return seeded(EDSR), (values(1, 3, 16, 16),)


class DnCNN(nn.Module):
    """The noise of an image, taken away from it."""

    def __init__(self, channels: int = 12, depth: int = 5) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, channels, 3, padding=1), nn.ReLU()]
        for _ in range(depth):
            layers += [
                nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            ]
        self.noise = nn.Sequential(*layers, nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.noise(x)


def make_dncnn() -> Case:
    """DnCNN (Zhang and others, 2016)."""
    return seeded(DnCNN), (values(1, 1, 24, 24),)


def make_autoencoder() -> Case:
    """A convolutional autoencoder (Masci and others, 2011) with pools and enlargement."""

    def build() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(588, 24), nn.Linear(24, 588), nn.Unflatten(1, (12, 7, 7))),
            *(nn.Upsample(scale_factor=2), nn.Conv2d(12, 8, 3, padding=1), nn.ReLU()),
            *(nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid()),
        )

    return seeded(build), (values(1, 1, 28, 28),)


class VaeDecoder(nn.Module):
    """A sample of a distribution, from given noise, and the image that is decoded from it."""

    def __init__(self, latent: int = 8) -> None:
        super().__init__()
        self.dense = nn.Linear(latent, 32 * 4 * 4)
        self.image = nn.Sequential(
            *(nn.ConvTranspose2d(32, 16, 3, 2, 1, output_padding=1), nn.ELU()),
            *(nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.ELU()),
            *(nn.ConvTranspose2d(8, 3, 3, 1, 1), nn.Sigmoid()),
        )

    def forward(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        sample = mean + torch.exp(0.5 * log_variance) * noise
        return self.image(functional.elu(self.dense(sample)).reshape(-1, 32, 4, 4))


def make_vae_decoder() -> Case:
    """The decoder of a variational autoencoder (Kingma, Welling, 2013)."""
    return seeded(VaeDecoder), (values(2, 8), values(2, 8) * 0.3, values(2, 8) * 0.7)


def make_dcgan() -> Case:
    """The generator of DCGAN (Radford, Metz, Chintala, 2015)."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        channels, size, stride, padding = 16, 4, 1, 0
        for width in (32, 24, 16):
            layers += [
                nn.ConvTranspose2d(channels, width, size, stride, padding, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            channels, stride, padding = width, 2, 1
        return nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())

    return seeded(build), (values(2, 16, 1, 1),)


class ConditionalGenerator(nn.Module):
    """A generator that is told which class to draw: its norms scale by class."""

    def __init__(self, classes: int = 5, latent: int = 12) -> None:
        super().__init__()
        self.dense = nn.Linear(latent, 24 * 4 * 4)
        self.norms = nn.ModuleList(nn.BatchNorm2d(w, affine=False) for w in (24, 16))
        self.scales = nn.ModuleList(nn.Embedding(classes, 2 * w) for w in (24, 16))
        self.convs = nn.ModuleList(
            [nn.Conv2d(24, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)]
        )
        self.last = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, latent: Tensor, label: Tensor) -> Tensor:
        x = self.dense(latent).reshape(-1, 24, 4, 4)
        for norm, scales, conv in zip(self.norms, self.scales, self.convs, strict=True):
            scale, shift = scales(label)[:, :, None, None].chunk(2, 1)
            x = torch.relu(norm(x) * (1 + scale) + shift)
            x = conv(functional.interpolate(x, scale_factor=2.0))
        return torch.tanh(self.last(x))


def make_conditional_gan() -> Case:
    """A generator with conditional normalization, as in BigGAN (Brock, Donahue, Simonyan, 2018)."""
    return seeded(ConditionalGenerator), (values(2, 12), numbers(5, 2))


class StyleTransfer(nn.Module):
    """Down, residual blocks and up, with instance normalization and mirrored borders."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()

        def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
            norm = nn.InstanceNorm2d(outputs, affine=True)
            return [
                nn.ReflectionPad2d(size // 2),
                nn.Conv2d(inputs, outputs, size, stride),
                norm,
            ]

        wide = 2 * channels
        blocks = [
            Residual(nn.Sequential(*conv(wide, wide, 3), nn.ReLU(), *conv(wide, wide, 3)))
            for _ in range(2)
        ]
        self.layers = nn.Sequential(
            *(*conv(3, channels, 9), nn.ReLU()),
            *(*conv(channels, wide, 3, 2), nn.ReLU()),
            *blocks,
            *(nn.Upsample(scale_factor=2), *conv(wide, channels, 3), nn.ReLU()),
            *(nn.ReflectionPad2d(4), nn.Conv2d(channels, 3, 9)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def make_style_transfer() -> Case:
    """Fast style transfer (Johnson, Alahi, Fei-Fei, 2016; Ulyanov and others, 2016)."""
    return seeded(StyleTransfer), (values(1, 3, 24, 24),)


class DiffusionStep(nn.Module):
    """The noise of an image at a step: a small U-Net that knows the step and attends to all places."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.step = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 2 * channels))
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, 3, 2, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, 2 * channels), nn.GroupNorm(4, channels)])
        self.attention = nn.MultiheadAttention(2 * channels, 2, batch_first=True)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.last = nn.Conv2d(2 * channels, 3, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(8) * (-9.21 / 8))
        angles = step[:, None] * rates
        told = self.step(torch.cat([angles.sin(), angles.cos()], -1))
        first = functional.silu(self.norms[1](self.first(x)))
        low = functional.silu(self.norms[0](self.down(first)) + told[:, :, None, None])
        places = low.flatten(2).transpose(1, 2)
        places = places + self.attention(places, places, places, need_weights=False)[0]
        low = places.transpose(1, 2).reshape(low.shape)
        return self.last(torch.cat([first, self.up(low)], 1))


def make_diffusion_step() -> Case:
    """One step of a denoising diffusion model (Ho, Jain, Abbeel, 2020)."""
    return seeded(DiffusionStep), (values(1, 3, 16, 16), torch.tensor([7.0]))
