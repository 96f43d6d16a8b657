"""Networks of sound: recognition, keywords, and waves sample by sample."""

from __future__ import annotations

import math

import torch
from attention import Attention, hidden_layer
from layers import Case, ConvNorm, Residual, Separable, seeded, values
from torch import Tensor, nn
from torch.nn import functional


class DeepSpeech(nn.Module):
    """Convolutions over time and frequency, recurrent layers in both directions, letters."""

    def __init__(self, letters: int = 12) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            *(nn.Conv2d(1, 4, (11, 5), (2, 1), (5, 2), bias=False), nn.BatchNorm2d(4)),
            nn.Hardtanh(0, 20),
            *(nn.Conv2d(4, 4, (11, 5), (2, 2), (5, 2), bias=False), nn.BatchNorm2d(4)),
            nn.Hardtanh(0, 20),
        )
        self.recurrent = nn.GRU(16, 12, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(24, letters)

    def forward(self, spectrum: Tensor) -> Tensor:
        x = self.convs(spectrum).permute(0, 3, 1, 2).flatten(2)
        return torch.log_softmax(self.last(self.recurrent(x)[0]), -1)


def make_deep_speech() -> Case:
    """Deep Speech 2 (Amodei and others, 2015)."""
    return seeded(DeepSpeech), (values(1, 1, 16, 16),)


class WaveNet(nn.Module):
    """Gated causal convolutions whose dilation doubles, and the sum of what they skip."""

    def __init__(self, channels: int = 8, skipped: int = 12, classes: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.dilations = (1, 2, 4, 8, 1, 2, 4, 8)
        self.gated = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in self.dilations
        )
        self.kept = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(channels, skipped, 1) for _ in self.dilations)
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skipped, skipped, 1), nn.ReLU(), nn.Conv1d(skipped, classes, 1)
        )

    def forward(self, wave: Tensor) -> Tensor:
        x = self.first(wave)
        total = torch.zeros(())
        layers = zip(self.dilations, self.gated, self.kept, self.skips, strict=True)
        for dilation, gated, kept, skip in layers:
            value, gate = gated(functional.pad(x, (dilation, 0))).chunk(2, 1)
            made = torch.tanh(value) * torch.sigmoid(gate)
            total = total + skip(made)
            x = x + kept(made)
        return self.last(total)


def make_wavenet() -> Case:
    """WaveNet (van den Oord and others, 2016)."""
    return seeded(WaveNet), (values(1, 1, 64),)


def make_ds_cnn() -> Case:
    """DS-CNN for keywords (Zhang and others, 2017)."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, (10, 4), (2, 2), (5, 1), bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Dropout(0.2),
            *(Separable(16, 16) for _ in range(4)),
            nn.AvgPool2d((25, 5)),
            nn.Flatten(),
            nn.Linear(16, 12),
            nn.Softmax(1),
        )

    return seeded(build), (values(1, 1, 49, 10),)


class StreamingKeywords(nn.Module):
    """Keywords in a stream: each call takes one frame, and buffers keep the frames before."""

    def __init__(self, features: int = 10, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv1d(features, 16, 4)
        self.second = nn.Conv1d(16, 16, 3, groups=16)
        self.mixed = nn.Conv1d(16, 16, 1)
        self.last = nn.Linear(16, classes)
        self.register_buffer("frames", torch.zeros(1, features, 4))
        self.register_buffer("made", torch.zeros(1, 16, 3))
        self.register_buffer("average", torch.zeros(1, 16))

    def forward(self, frame: Tensor) -> Tensor:
        self.frames.copy_(torch.cat([self.frames[:, :, 1:], frame], 2))
        made = torch.relu(self.first(self.frames))
        self.made.copy_(torch.cat([self.made[:, :, 1:], made], 2))
        found = torch.relu(self.mixed(self.second(self.made)))[:, :, 0]
        self.average.copy_(0.9 * self.average + 0.1 * found)
        return torch.softmax(self.last(self.average), -1)


def make_streaming_keywords() -> Case:
    """Keywords in a stream with the state inside (Rybakov and others, 2020)."""
    return seeded(StreamingKeywords), (values(1, 10, 1),)


class WhisperEncoder(nn.Module):
    """Two convolutions over a spectrum, places as waves, and blocks of attention."""

    def __init__(self, bands: int = 16, width: int = 32) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)]
        )
        rates = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        angles = torch.arange(12)[:, None] * rates
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        parts: list[nn.Module] = []
        for _ in range(2):
            parts.append(Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, 4))))
            parts.append(Residual(nn.Sequential(nn.LayerNorm(width), hidden_layer(width))))
        self.blocks = nn.Sequential(*parts, nn.LayerNorm(width))

    def forward(self, spectrum: Tensor) -> Tensor:
        x = spectrum
        for conv in self.convs:
            x = functional.gelu(conv(x))
        return self.blocks(x.transpose(1, 2) + self.places)


def make_whisper_encoder() -> Case:
    """The encoder of Whisper (Radford and others, 2022)."""
    return seeded(WhisperEncoder), (values(1, 16, 24),)


class ConformerConv(nn.Module):
    """A gated pointwise, a depthwise and a pointwise convolution over time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(1),
            nn.Conv1d(width, width, 7, padding=3, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.norm(x).transpose(1, 2)).transpose(1, 2)


class ConformerBlock(nn.Module):
    """Attention and a convolution between two halves of a hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.LayerNorm(width), hidden_layer(width, act=nn.SiLU()))
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, 4))
        self.conv = ConformerConv(width)
        self.after = nn.Sequential(nn.LayerNorm(width), hidden_layer(width, act=nn.SiLU()))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.before(x)
        x = x + self.attention(x)
        x = x + self.conv(x)
        return self.norm(x + 0.5 * self.after(x))


def make_conformer() -> Case:
    """Conformer (Gulati and others, 2020)."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Linear(16, 24), ConformerBlock(24), ConformerBlock(24), nn.Linear(24, 10)
        )

    return seeded(build), (values(1, 20, 16),)


class CRNN(nn.Module):
    """Text in an image: convolutions, then an LSTM in both directions over the columns."""

    def __init__(self, letters: int = 12) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(ConvNorm(8, 16), nn.MaxPool2d((2, 1))),
            *(ConvNorm(16, 24), nn.MaxPool2d((2, 1))),
            *(nn.Conv2d(24, 24, (2, 1)), nn.ReLU()),
        )
        self.recurrent = nn.LSTM(24, 16, bidirectional=True)
        self.last = nn.Linear(32, letters)

    def forward(self, image: Tensor) -> Tensor:
        x = self.convs(image).squeeze(2).permute(2, 0, 1)
        return torch.log_softmax(self.last(self.recurrent(x)[0]), -1)


def make_crnn() -> Case:
    """CRNN (Shi, Bai, Yao, 2015)."""
    return seeded(CRNN), (values(1, 1, 16, 24),)
