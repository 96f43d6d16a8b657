"""Points, graphs, rays, pairs of images, and tables."""

from __future__ import annotations

import itertools

import torch
from layers import Case, ConvNorm, numbers, seeded, values
from torch import Tensor, nn
from torch.nn import functional


def _shared(*widths: int) -> nn.Module:
    """Return a hidden layer for each width, the same for every point."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Alignment(nn.Module):
    """A matrix for all points, near the identity."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.points = _shared(size, 16, 32)
        self.dense = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, size * size))

    def forward(self, x: Tensor) -> Tensor:
        found = self.dense(self.points(x).amax(2)).reshape(-1, self.size, self.size)
        return 0.1 * found + torch.eye(self.size)


class PointNet(nn.Module):
    """Points are aligned twice, and the largest value of each channel describes all of them."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.place, self.features = Alignment(3), Alignment(16)
        self.first, self.second = _shared(3, 16, 16), _shared(16, 24, 48)
        self.last = nn.Sequential(
            nn.Linear(48, 24),
            nn.BatchNorm1d(24),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(24, classes),
        )

    def forward(self, points: Tensor) -> Tensor:
        x = points.transpose(1, 2)
        x = self.first(self.place(x) @ x)
        x = self.second(self.features(x) @ x)
        return torch.log_softmax(self.last(x.amax(2)), -1)


def make_pointnet() -> Case:
    """PointNet (Qi and others, 2016)."""
    return seeded(PointNet), (values(1, 40, 3),)


class EdgeConv(nn.Module):
    """What the nearest neighbours of each point give, the largest for each channel."""

    def __init__(self, inputs: int, outputs: int, count: int = 4) -> None:
        super().__init__()
        self.count = count
        self.edges = ConvNorm(2 * inputs, outputs, 1, act=lambda: nn.LeakyReLU(0.2))

    def forward(self, x: Tensor) -> Tensor:
        squares = (x * x).sum(-1)
        distances = squares[:, :, None] + squares[:, None] - 2 * x @ x.transpose(1, 2)
        nearest = distances.topk(self.count, largest=False).indices
        batch, points, channels = x.shape
        index = nearest.reshape(batch, -1, 1).expand(-1, -1, channels)
        others = x.gather(1, index).reshape(batch, points, self.count, channels)
        own = x[:, :, None].expand_as(others)
        edges = torch.cat([own, others - own], -1).permute(0, 3, 1, 2)
        return self.edges(edges).amax(3).transpose(1, 2)


def make_dgcnn() -> Case:
    """DGCNN (Wang and others, 2018): graphs of the nearest points."""

    def build() -> nn.Module:
        return nn.Sequential(EdgeConv(3, 12), EdgeConv(12, 16), nn.Linear(16, 5))

    return seeded(build), (values(1, 20, 3),)


class GraphConvolution(nn.Module):
    """Two layers, each the mean over neighbours by a normalized matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 12), nn.Linear(12, 4)

    def forward(self, features: Tensor, links: Tensor) -> Tensor:
        links = links + torch.eye(links.shape[-1])
        scale = links.sum(-1).rsqrt()
        links = scale[:, None] * links * scale
        x = torch.relu(links @ self.first(features))
        return torch.log_softmax(links @ self.second(x), -1)


def make_graph_convolution() -> Case:
    """A graph convolutional network (Kipf, Welling, 2016)."""
    links = numbers(2, 15, 15).float()
    return seeded(GraphConvolution), (values(15, 8), torch.maximum(links, links.T))


class NeRF(nn.Module):
    """Colour and density of places on a ray, and the colour of the ray."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width))
        self.after = nn.Sequential(nn.Linear(39 + width, width), nn.ReLU())
        self.density = nn.Linear(width, 1)
        self.colour = nn.Sequential(
            *(nn.Linear(width + 27, 16), nn.ReLU()), *(nn.Linear(16, 3), nn.Sigmoid())
        )

    @staticmethod
    def waves(x: Tensor, count: int) -> Tensor:
        """Return the values beside sines and cosines of growing frequency."""
        angles = (x[..., None, :] * (2.0 ** torch.arange(count))[:, None]).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    def forward(self, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        depths = torch.linspace(0.5, 2.0, 8)
        places = origin[:, None] + direction[:, None] * depths[:, None]
        seen = self.waves(places, 6)
        x = self.after(torch.cat([seen, torch.relu(self.before(seen))], -1))
        density = functional.softplus(self.density(x)[..., 0])
        looks = functional.normalize(direction, dim=-1)
        looks = self.waves(looks, 4)[:, None].expand(-1, depths.shape[0], -1)
        colours = self.colour(torch.cat([x, looks], -1))
        steps = density * (depths[1] - depths[0])
        # What the light passed before it reaches each place.
        passed = torch.exp(steps - torch.cumsum(steps, -1))
        weights = (1 - torch.exp(-steps)) * passed
        return (weights[..., None] * colours).sum(1), (weights * depths).sum(1)


def make_nerf() -> Case:
    """NeRF (Mildenhall and others, 2020): the network, and the sum along rays."""
    return seeded(NeRF), (values(4, 3) * 0.3, values(4, 3))


class Siamese(nn.Module):
    """Two images through one network, and how near they are."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            *(ConvNorm(1, 8), nn.MaxPool2d(2), ConvNorm(8, 16), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(16 * 7 * 7, 24), nn.PReLU()),
        )
        self.last = nn.Linear(24, 1)

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        one, two = self.tower(left), self.tower(right)
        near = functional.cosine_similarity(one, two)
        return torch.sigmoid(self.last((one - two).abs())), near


def make_siamese() -> Case:
    """A siamese network (Koch, Zemel, Salakhutdinov, 2015)."""
    images = values(2, 1, 28, 28)
    return seeded(Siamese), (images[:1], images[1:])


class Dlrm(nn.Module):
    """Embeddings and numbers, and the products of all pairs of them."""

    def __init__(self, rows: tuple[int, ...] = (20, 30, 40), width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)
        self.numbers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = (len(rows) + 1) * len(rows) // 2
        self.last = nn.Sequential(nn.Linear(pairs + width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers: Tensor, rows: Tensor) -> Tensor:
        dense = self.numbers(numbers)
        found = [table(rows[:, index]) for index, table in enumerate(self.tables)]
        x = torch.stack([dense, *found], 1)
        products = x @ x.transpose(1, 2)
        down, across = torch.tril_indices(x.shape[1], x.shape[1], -1)
        pairs = products[:, down, across]
        return torch.sigmoid(self.last(torch.cat([dense, pairs], 1)))


def make_dlrm() -> Case:
    """DLRM (Naumov and others, 2019)."""
    return seeded(Dlrm), (values(4, 6), numbers(20, 4, 3))


class WideAndDeep(nn.Module):
    """A sum of weights of single features, and a network of their embeddings."""

    def __init__(self, words: int = 40, width: int = 6) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(words, 1, mode="sum")
        self.deep = nn.Embedding(words, width)
        self.layers = nn.Sequential(
            nn.Linear(5 * width + 4, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU(), nn.Linear(12, 1)
        )

    def forward(self, features: Tensor, numbers: Tensor) -> Tensor:
        deep = torch.cat([self.deep(features).flatten(1), numbers], 1)
        return torch.sigmoid(self.wide(features) + self.layers(deep))


def make_wide_and_deep() -> Case:
    """Wide and deep learning (Cheng and others, 2016)."""
    return seeded(WideAndDeep), (numbers(40, 3, 5), values(3, 4))


class SpatialTransformer(nn.Module):
    """A network that turns, moves and scales the image that it is to classify."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Sequential(
            *(nn.Conv2d(1, 4, 7, 2), nn.ReLU(), nn.Flatten()), *(nn.Linear(4 * 5 * 5, 6),)
        )
        self.classes = nn.Sequential(
            *(ConvNorm(1, 8), nn.MaxPool2d(2), nn.Flatten()), *(nn.Linear(8 * 8 * 8, 10),)
        )
        self.register_buffer("identity", torch.tensor([1.0, 0, 0, 0, 1, 0]))

    def forward(self, x: Tensor) -> Tensor:
        matrix = (self.identity + 0.1 * torch.tanh(self.places(x))).reshape(-1, 2, 3)
        grid = functional.affine_grid(matrix, list(x.shape), align_corners=False)
        return self.classes(functional.grid_sample(x, grid, align_corners=False))


def make_spatial_transformer() -> Case:
    """A spatial transformer (Jaderberg and others, 2015)."""
    return seeded(SpatialTransformer), (values(1, 1, 17, 17)[:, :, :16, :16],)
