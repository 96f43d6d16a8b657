"""Networks that answer for every place of an image: segmentation, detection, poses."""

from __future__ import annotations

import torch
from classifiers import basic_block
from layers import Branches, Case, ConvNorm, Residual, Separable, seeded, values
from torch import Tensor, nn
from torch.nn import functional


def _double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(ConvNorm(inputs, outputs), ConvNorm(outputs, outputs))


class UNet(nn.Module):
    """Down by pools, up by transposed convolutions, with what the way down made."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        channels = 3
        for width in widths:
            self.down.append(_double(channels, width))
            channels = width
        self.bottom = _double(channels, 2 * channels)
        self.up = nn.ModuleList()
        self.joined = nn.ModuleList()
        for width in reversed(widths):
            self.up.append(nn.ConvTranspose2d(2 * width, width, 2, 2))
            self.joined.append(_double(2 * width, width))
        self.last = nn.Conv2d(widths[0], 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for layer in self.down:
            kept.append(layer(x))
            x = functional.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


def make_unet() -> Case:
    """U-Net (Ronneberger, Fischer, Brox, 2015)."""
    return seeded(UNet), (values(1, 3, 32, 32),)


class FCN(nn.Module):
    """Scores of three resolutions, each added to the one above it."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.eighth = nn.Sequential(
            *(ConvNorm(3, 8), nn.MaxPool2d(2)),
            *(ConvNorm(8, 16), nn.MaxPool2d(2)),
            *(ConvNorm(16, 24), nn.MaxPool2d(2)),
        )
        self.sixteenth = nn.Sequential(ConvNorm(24, 32), nn.MaxPool2d(2))
        self.last = nn.Sequential(ConvNorm(32, 48), nn.MaxPool2d(2), ConvNorm(48, 48, 1))
        self.scores = nn.ModuleList(nn.Conv2d(width, classes, 1) for width in (48, 32, 24))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(classes, classes, 2 * stride, stride, stride // 2, bias=False)
            for stride in (2, 2, 8)
        )

    def forward(self, x: Tensor) -> Tensor:
        eighth = self.eighth(x)
        sixteenth = self.sixteenth(eighth)
        x = self.up[0](self.scores[0](self.last(sixteenth)))
        x = self.up[1](x + self.scores[1](sixteenth))
        return self.up[2](x + self.scores[2](eighth))


def make_fcn() -> Case:
    """FCN-8s (Long, Shelhamer, Darrell, 2014)."""
    return seeded(FCN), (values(1, 3, 64, 64),)


class PooledBranch(nn.Module):
    """The means of the whole image at every place."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.means = nn.Sequential(nn.AdaptiveAvgPool2d(1), ConvNorm(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        return functional.interpolate(self.means(x), size, mode="bilinear", align_corners=False)


class DeepLab(nn.Module):
    """Dilated convolutions of several rates side by side (ASPP), then a decoder."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.low = nn.Sequential(ConvNorm(3, 8, 3, 2), basic_block(8, 16, 2))
        self.high = nn.Sequential(basic_block(16, 32, 2), ConvNorm(32, 32, dilation=2))
        self.pyramid = nn.Sequential(
            Branches(
                ConvNorm(32, 12, 1),
                *(ConvNorm(32, 12, dilation=rate) for rate in (2, 4, 6)),
                PooledBranch(32, 12),
            ),
            ConvNorm(60, 24, 1),
        )
        self.reduced = ConvNorm(16, 8, 1)
        self.last = nn.Sequential(Separable(32, 24), nn.Conv2d(24, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        high = self.pyramid(self.high(low))
        high = functional.interpolate(high, low.shape[-2:], mode="bilinear", align_corners=False)
        scores = self.last(torch.cat([high, self.reduced(low)], 1))
        return functional.interpolate(scores, x.shape[-2:], mode="bilinear", align_corners=False)


def make_deeplab_v3() -> Case:
    """DeepLab v3+ (Chen and others, 2018)."""
    return seeded(DeepLab), (values(1, 3, 64, 64),)


class HRNet(nn.Module):
    """Three resolutions in parallel, which exchange what they found."""

    def __init__(self, widths: tuple[int, int, int] = (8, 16, 32)) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 8, 3, 2), ConvNorm(8, 8, 3, 2))
        one, two, three = widths
        self.start = nn.ModuleList(
            [
                ConvNorm(8, one),
                ConvNorm(8, two, 3, 2),
                nn.Sequential(ConvNorm(8, two, 3, 2), ConvNorm(two, three, 3, 2)),
            ]
        )
        self.stages = nn.ModuleList(
            nn.ModuleList(basic_block(width, width, 1) for width in widths) for _ in range(2)
        )
        self.exchanges = nn.ModuleList(
            nn.ModuleList(
                nn.ModuleList(self._path(widths, source, target) for source in range(3))
                for target in range(3)
            )
            for _ in range(2)
        )
        self.last = nn.Conv2d(sum(widths), 5, 1)

    @staticmethod
    def _path(widths: tuple[int, int, int], source: int, target: int) -> nn.Module:
        """From one resolution to another."""
        if source == target:
            return nn.Identity()
        if source > target:
            up = nn.Upsample(scale_factor=2 ** (source - target), mode="nearest")
            return nn.Sequential(ConvNorm(widths[source], widths[target], 1, act=None), up)
        steps = [
            ConvNorm(widths[index], widths[index + 1], 3, 2, act=None)
            for index in range(source, target)
        ]
        return nn.Sequential(*steps)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        levels = [layer(x) for layer in self.start]
        for blocks, exchanges in zip(self.stages, self.exchanges, strict=True):
            levels = [block(level) for block, level in zip(blocks, levels, strict=True)]
            levels = [
                torch.relu(sum(path(one) for path, one in zip(paths, levels, strict=True)))
                for paths in exchanges
            ]
        size = levels[0].shape[-2:]
        grown = [functional.interpolate(one, size, mode="bilinear") for one in levels[1:]]
        return self.last(torch.cat([levels[0], *grown], 1))


def make_hrnet() -> Case:
    """HRNet (Sun and others, 2019)."""
    return seeded(HRNet), (values(1, 3, 64, 64),)


class Yolo(nn.Module):
    """Darknet blocks, two scales, and boxes in pixels."""

    ANCHORS = (((10, 14), (23, 27), (37, 58)), ((81, 82), (35, 69), (44, 19)))

    def __init__(self, classes: int = 3) -> None:
        super().__init__()

        def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Module:
            return ConvNorm(inputs, outputs, size, stride, act=lambda: nn.LeakyReLU(0.1))

        def dark(width: int) -> nn.Module:
            return Residual(nn.Sequential(conv(width, width // 2, 1), conv(width // 2, width)))

        self.fine = nn.Sequential(
            *(conv(3, 8), conv(8, 16, 3, 2), dark(16)),
            *(conv(16, 24, 3, 2), dark(24), conv(24, 32, 3, 2), dark(32)),
        )
        self.coarse = nn.Sequential(conv(32, 48, 3, 2), dark(48), conv(48, 32, 1))
        self.across = nn.Sequential(conv(32, 16, 1), nn.Upsample(scale_factor=2))
        outputs = 3 * (5 + classes)
        self.heads = nn.ModuleList(
            [
                nn.Sequential(conv(32, 48), nn.Conv2d(48, outputs, 1)),
                nn.Sequential(conv(48, 48), nn.Conv2d(48, outputs, 1)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        fine = self.fine(x)
        coarse = self.coarse(fine)
        maps = (coarse, torch.cat([self.across(coarse), fine], 1))
        found = [
            self._boxes(head(one), anchors, x.shape[-1])
            for head, one, anchors in zip(self.heads, maps, self.ANCHORS, strict=True)
        ]
        return torch.cat(found, 1)

    def _boxes(self, x: Tensor, anchors: tuple[tuple[int, int], ...], size: int) -> Tensor:
        """Centres, sizes, objectness and classes of every box: [batch, boxes, 5 + classes]."""
        batch, _, rows, columns = x.shape
        x = x.reshape(batch, len(anchors), -1, rows, columns).permute(0, 1, 3, 4, 2)
        across, down = torch.arange(columns), torch.arange(rows)
        grid = torch.stack(torch.meshgrid(across, down, indexing="xy"), -1).float()
        centres = (torch.sigmoid(x[..., :2]) + grid) * (size / columns)
        sizes = torch.exp(x[..., 2:4]) * torch.tensor(anchors).float().reshape(1, -1, 1, 1, 2)
        found = torch.cat([centres, sizes, torch.sigmoid(x[..., 4:])], -1)
        return found.reshape(batch, -1, found.shape[-1])


def make_yolo() -> Case:
    """A small YOLO v3 (Redmon, Farhadi, 2018)."""
    return seeded(Yolo), (values(1, 3, 64, 64),)


class ChannelNorm(nn.Module):
    """Divides by the length of each place's channels, and scales."""

    def __init__(self, channels: int, scale: float = 10.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1, channels, 1, 1), scale))

    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x, dim=1) * self.scale


class SSD(nn.Module):
    """Boxes and classes from maps of three resolutions."""

    def __init__(self, classes: int = 4, boxes: int = 4) -> None:
        super().__init__()
        self.classes = classes
        pool = nn.MaxPool2d(2)
        self.maps = nn.ModuleList(
            [
                nn.Sequential(ConvNorm(3, 16), pool, ConvNorm(16, 24), pool, ConvNorm(24, 32)),
                nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), ConvNorm(32, 48, dilation=6)),
                nn.Sequential(ConvNorm(48, 16, 1), ConvNorm(16, 32, 3, 2)),
            ]
        )
        self.norm = ChannelNorm(32)
        self.places = nn.ModuleList(nn.Conv2d(w, 4 * boxes, 3, padding=1) for w in (32, 48, 32))
        self.scores = nn.ModuleList(
            nn.Conv2d(w, classes * boxes, 3, padding=1) for w in (32, 48, 32)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        places, scores = [], []
        for index, layer in enumerate(self.maps):
            x = layer(x)
            taken = x if index else self.norm(x)
            places.append(self._rows(self.places[index](taken), 4))
            scores.append(self._rows(self.scores[index](taken), self.classes))
        return torch.cat(places, 1), torch.softmax(torch.cat(scores, 1), -1)

    @staticmethod
    def _rows(x: Tensor, size: int) -> Tensor:
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, size)


def make_ssd() -> Case:
    """SSD (Liu and others, 2015)."""
    return seeded(SSD), (values(1, 3, 48, 48),)


class RetinaNet(nn.Module):
    """A feature pyramid, whose levels share one head."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            [
                nn.Sequential(ConvNorm(3, 8, 3, 2), basic_block(8, 16, 2)),
                basic_block(16, 24, 2),
                basic_block(24, 32, 2),
            ]
        )
        self.lateral = nn.ModuleList(nn.Conv2d(width, 16, 1) for width in (16, 24, 32))
        self.smooth = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.head = nn.Sequential(
            *(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU()),
            nn.Conv2d(16, 2 * (classes + 4), 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for level in self.levels:
            x = level(x)
            found.append(x)
        laterals = [layer(one) for layer, one in zip(self.lateral, found, strict=True)]
        for index in (1, 0):
            above = functional.interpolate(laterals[index + 1], scale_factor=2.0, mode="nearest")
            laterals[index] = laterals[index] + above
        maps = [self.head(layer(one)) for layer, one in zip(self.smooth, laterals, strict=True)]
        return torch.cat([one.flatten(2) for one in maps], 2).transpose(1, 2)


def make_retinanet() -> Case:
    """RetinaNet on a feature pyramid (Lin and others, 2017)."""
    return seeded(RetinaNet), (values(1, 3, 64, 64),)
