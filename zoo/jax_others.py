"""Points, graphs, rays, pairs of images, and tables, in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.scipy.ndimage import map_coordinates
from jax_layers import (
    Array,
    Case,
    Weights,
    conv,
    max_pool,
    network,
    norm,
    numbers,
    values,
)


def _shared(x: Array, *widths: int) -> Array:
    """Return a hidden layer for each width, the same for every point."""
    for width in widths:
        x = nn.relu(norm(nn.Dense(width)(x)))
    return x


class Alignment(nn.Module):
    """Points, times a matrix that is near the identity."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        size = x.shape[-1]
        found = _shared(x, 16, 32).max(1)
        found = nn.Dense(size * size)(nn.relu(nn.Dense(16)(found))).reshape(-1, size, size)
        return x @ (0.1 * found + jnp.eye(size))


def make_pointnet() -> Case:
    """PointNet (Qi and others, 2016)."""

    def pointnet(points: Array) -> Array:
        x = _shared(Alignment()(points), 16, 16)
        x = _shared(Alignment()(x), 24, 48).max(1)
        return nn.log_softmax(nn.Dense(6)(_shared(x, 24)))

    return network(pointnet, values(1, 40, 3))


class EdgeConv(nn.Module):
    """What the nearest neighbours of each point give, the largest for each channel."""

    width: int
    count: int = 4

    @nn.compact
    def __call__(self, x: Array) -> Array:
        squares = (x * x).sum(-1)
        distances = squares[:, :, None] + squares[:, None] - 2 * x @ x.swapaxes(1, 2)
        _, nearest = jax.lax.top_k(-distances, self.count)
        others = jax.vmap(lambda points, rows: points[rows])(x, nearest)
        own = jnp.broadcast_to(x[:, :, None], others.shape)
        edges = jnp.concatenate([own, others - own], -1)
        return nn.leaky_relu(norm(nn.Dense(self.width)(edges)), 0.2).max(2)


def make_dgcnn() -> Case:
    """DGCNN (Wang and others, 2018): graphs of the nearest points."""

    def dgcnn(points: Array) -> Array:
        return nn.Dense(5)(EdgeConv(16)(EdgeConv(12)(points)))

    return network(dgcnn, values(1, 20, 3))


def make_graph_convolution() -> Case:
    """A graph convolutional network (Kipf, Welling, 2016)."""
    weights = Weights()
    first, second = weights.kernel(8, 12), weights.kernel(12, 4)

    def convolve(features: Array, links: Array) -> Array:
        links = links + jnp.eye(links.shape[-1])
        scale = jax.lax.rsqrt(links.sum(-1))
        links = scale[:, None] * links * scale
        x = jax.nn.relu(links @ (features @ first))
        return jax.nn.log_softmax(links @ (x @ second))

    links = numbers(2, 15, 15).astype(np.float32)
    return convolve, (values(15, 8), np.maximum(links, links.T))


def make_message_passing() -> Case:
    """Message passing between the nodes of a graph (Gilmer and others, 2017): sums by segments."""
    weights = Weights()
    message, update = weights.kernel(16, 8), weights.kernel(16, 8)

    def passing(nodes: Array, senders: Array, receivers: Array) -> Array:
        for _ in range(2):
            pairs = jnp.concatenate([nodes[senders], nodes[receivers]], -1)
            sums = jax.ops.segment_sum(jax.nn.relu(pairs @ message), receivers, 12)
            nodes = jnp.tanh(jnp.concatenate([nodes, sums], -1) @ update)
        return nodes

    links = numbers(12, 2, 30)
    return passing, (values(12, 8), links[0], links[1])


def waves(x: Array, count: int) -> Array:
    """Return the values beside sines and cosines of growing frequency."""
    angles = x[..., None, :] * (2.0 ** jnp.arange(count))[:, None]
    angles = angles.reshape(*x.shape[:-1], -1)
    return jnp.concatenate([x, jnp.sin(angles), jnp.cos(angles)], -1)


def make_nerf() -> Case:
    """NeRF (Mildenhall and others, 2020): the network, and the sum along rays."""

    def render(origin: Array, direction: Array) -> dict[str, Array]:
        depths = jnp.linspace(0.5, 2.0, 8)
        places = origin[:, None] + direction[:, None] * depths[:, None]
        seen = waves(places, 6)
        x = nn.relu(nn.Dense(32)(nn.relu(nn.Dense(32)(seen))))
        x = nn.relu(nn.Dense(32)(jnp.concatenate([seen, x], -1)))
        density = nn.softplus(nn.Dense(1)(x)[..., 0])
        looks = direction / jnp.linalg.norm(direction, axis=-1, keepdims=True)
        looks = jnp.broadcast_to(waves(looks, 4)[:, None], (4, 8, 27))
        x = nn.relu(nn.Dense(16)(jnp.concatenate([x, looks], -1)))
        colours = nn.sigmoid(nn.Dense(3)(x))
        steps = density * (depths[1] - depths[0])
        # What the light passed before it reaches each place.
        passed = jnp.exp(steps - jnp.cumsum(steps, -1))
        weights = (1 - jnp.exp(-steps)) * passed
        return {
            "colour": (weights[..., None] * colours).sum(1),
            "depth": (weights * depths).sum(1),
        }

    return network(render, values(4, 3) * 0.3, values(4, 3))


class Tower(nn.Module):
    """What describes an image."""

    @nn.compact
    def __call__(self, image: Array) -> Array:
        x = max_pool(conv(max_pool(conv(image, 8)), 16)).reshape(1, -1)
        return nn.PReLU()(nn.Dense(24)(x))


def make_siamese() -> Case:
    """A siamese network (Koch, Zemel, Salakhutdinov, 2015)."""

    def compare(left: Array, right: Array) -> dict[str, Array]:
        tower = Tower()
        one, two = tower(left), tower(right)
        lengths = jnp.linalg.norm(one, axis=-1) * jnp.linalg.norm(two, axis=-1)
        return {
            "same": nn.sigmoid(nn.Dense(1)(jnp.abs(one - two))),
            "cosine": (one * two).sum(-1) / jnp.maximum(lengths, 1e-8),
        }

    images = values(2, 28, 28, 1)
    return network(compare, images[:1], images[1:])


def make_dlrm() -> Case:
    """DLRM (Naumov and others, 2019)."""

    def rank(numbers: Array, rows: Array) -> Array:
        dense = nn.relu(nn.Dense(8)(nn.relu(nn.Dense(16)(numbers))))
        found = [nn.Embed(count, 8)(rows[:, index]) for index, count in enumerate((20, 30, 40))]
        x = jnp.stack([dense, *found], 1)
        pairs = (x @ x.swapaxes(1, 2))[(slice(None), *np.tril_indices(4, -1))]
        x = nn.relu(nn.Dense(16)(jnp.concatenate([dense, pairs], 1)))
        return nn.sigmoid(nn.Dense(1)(x))

    return network(rank, values(4, 6), numbers(20, 4, 3))


def make_wide_and_deep() -> Case:
    """Wide and deep learning (Cheng and others, 2016)."""

    def rank(features: Array, numbers: Array) -> Array:
        wide = nn.Embed(40, 1)(features).sum(1)
        deep = nn.Embed(40, 6)(features).reshape(features.shape[0], -1)
        x = jnp.concatenate([deep, numbers], 1)
        for width in (24, 12):
            x = nn.relu(nn.Dense(width)(x))
        return nn.sigmoid(wide + nn.Dense(1)(x))

    return network(rank, numbers(40, 3, 5), values(3, 4))


def make_spatial_transformer() -> Case:
    """A spatial transformer (Jaderberg and others, 2015)."""

    def transform(image: Array) -> Array:
        x = nn.relu(nn.Conv(4, (7, 7), 2, padding="VALID")(image)).reshape(1, -1)
        identity = jnp.array([1.0, 0, 0, 0, 1, 0])
        matrix = (identity + 0.1 * nn.tanh(nn.Dense(6)(x))).reshape(2, 3)
        line = (jnp.arange(16) + 0.5) / 8 - 1
        across, down = jnp.meshgrid(line, line)
        grid = matrix @ jnp.stack([across, down, jnp.ones((16, 16))]).reshape(3, -1)
        places = ((grid + 1) * 8 - 0.5)[::-1].reshape(2, 16, 16)
        seen = map_coordinates(image[0, :, :, 0], list(places), order=1)[None, :, :, None]
        return nn.Dense(10)(max_pool(conv(seen, 8)).reshape(1, -1))

    return network(transform, values(1, 16, 16, 1))


def make_matrix_factorization() -> Case:
    """Neural collaborative filtering (He and others, 2017)."""

    def filtering(users: Array, items: Array) -> Array:
        product = nn.Embed(20, 8)(users) * nn.Embed(30, 8)(items)
        x = jnp.concatenate([nn.Embed(20, 8)(users), nn.Embed(30, 8)(items)], -1)
        x = nn.relu(nn.Dense(8)(nn.relu(nn.Dense(16)(x))))
        return nn.sigmoid(nn.Dense(1)(jnp.concatenate([product, x], -1)))

    return network(filtering, numbers(20, 6), numbers(20, 6))
