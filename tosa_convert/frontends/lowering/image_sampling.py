"""Images sampled at computed positions: the neighbours of each, read by GATHER and weighted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.indexing import rows_of_batches
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import Array, Scope, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32

#: FP32 holds every integer below this.
_EXACT: Final = 1 << 24
#: Coefficients of Keys' kernel with a = -0.75 for each of four neighbours, the lowest power first.
_CUBIC: Final = (
    (0.0, -0.75, 1.5, -0.75),
    (1.0, 0.0, -2.25, 1.25),
    (0.0, 0.75, 1.5, -1.25),
    (0.0, 0.0, -0.75, 0.75),
)


class _Neighbours(NamedTuple):
    """The neighbours of positions along an axis: their indices and weights, [batch, count, number]."""

    place: Array
    weight: Array | None


def grid_sample(
    s: Scope,
    image: Array,
    grid: Array,
    mode: str = "linear",
    padding: str = "zeros",
    is_aligned: bool = False,
) -> Array:
    """Sample an image [batch, channels, ...] where a grid [batch, ..., axes] points.

    Positions are from -1 to 1, those of the last axis first. mode: "nearest", "linear" or "cubic".
    padding: "zeros", "border" or "reflection". is_aligned: the ends are the centres of pixels.
    """
    batch, channels, *sizes = image.shape
    out = grid.shape[1:-1]
    count = math.prod(out)
    flat = movement.reshape(s, converted(s, grid, FLOAT32), (batch, count, len(sizes)))
    axes = []
    for axis, size in enumerate(sizes):
        place = len(sizes) - 1 - axis
        x = movement.part(s, flat, 2, place, place + 1)
        axes.append(_neighbours(s, x, size, mode, padding, is_aligned))
    index, weight = _crossed(s, axes, sizes)
    table = movement.moved(s, image, 1, image.rank - 1)
    table = movement.reshape(s, table, (batch, math.prod(sizes), channels))
    each = index.size // (batch * count)
    rows = rows_of_batches(s, table, movement.reshape(s, index, (batch, count * each)))
    rows = converted(s, rows, FLOAT32)
    if weight is not None:
        rows = movement.reshape(s, rows, (batch, count, each, channels))
        rows = s.mul(rows, movement.reshape(s, weight, (batch, count, each, 1)))
        rows = summed(s, rows, (2,)) if each > 1 else rows
    made = movement.reshape(s, converted(s, rows, image.dtype), (batch, *out, channels))
    return movement.moved(s, made, made.rank - 1, 1)


def _crossed(
    s: Scope, axes: Sequence[_Neighbours], sizes: Sequence[int]
) -> tuple[Array, Array | None]:
    """Return rows and weights of all combinations of the neighbours along each axis."""
    place: Array | None = None
    weight: Array | None = None
    for position, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        ones = [1] * len(axes)
        ones[position] = axis.place.shape[2]
        index = movement.reshape(s, axis.place, (*axis.place.shape[:2], *ones))
        index = index if math.prod(sizes) < _EXACT else s.cast(index, INT32)
        place = index if place is None else s.add(s.mul(place, size), index)
        if axis.weight is not None:
            factor = movement.reshape(s, axis.weight, (*axis.weight.shape[:2], *ones))
            weight = factor if weight is None else s.mul(weight, factor)
    assert place is not None
    return s.cast(place, INT32), weight


def _neighbours(
    s: Scope, x: Array, size: int, mode: str, padding: str, is_aligned: bool
) -> _Neighbours:
    """Return the neighbours of positions along one axis; x: from -1 to 1, [batch, count, 1]."""
    half = (size - 1) / 2
    x = s.add(s.mul(x, half if is_aligned else size / 2), half)
    if mode == "nearest":
        x = _rounded(s, x)
    if padding == "border":
        x = _within(s, x, size)
    elif padding == "reflection":
        x = _reflected(s, x, size, is_aligned)
    if mode == "nearest":
        return _inside(s, _rounded(s, x), None, size, padding, is_aligned)
    base = s.elementwise("floor", x)
    fraction = s.sub(x, base)
    if mode == "linear":
        weight = s.add(s.mul(fraction, _row(-1, 1)), _row(1, 0))
        offsets = _row(0, 1)
    else:
        offsets = _row(-1, 0, 1, 2)
        powers = list(zip(*_CUBIC, strict=True))
        weight = s.mul(fraction, _row(*powers[3]))
        for coefficients in powers[2:0:-1]:
            weight = s.mul(s.add(weight, _row(*coefficients)), fraction)
        weight = s.add(weight, _row(*powers[0]))
    return _inside(s, s.add(base, offsets), weight, size, padding, is_aligned)


def _row(*numbers: float) -> Array:
    return constant(np.array(numbers, np.float32).reshape(1, 1, -1))


def _rounded(s: Scope, x: Array) -> Array:
    """Return the nearest integers, halves to even."""
    return s.cast(s.cast(x, INT32), FLOAT32)


def _within(s: Scope, x: Array, size: int) -> Array:
    """Move positions outside to the border."""
    return clip(s, x, 0.0, size - 1.0)


def _reflected(s: Scope, x: Array, size: int, is_aligned: bool) -> Array:
    """Mirror positions outside at the border until they lie inside."""
    low, high = (0.0, size - 1.0) if is_aligned else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return s.mul(x, 0)
    away = s.elementwise("abs", s.sub(x, low))
    turns = s.elementwise("floor", s.mul(away, 1 / (2 * span)))
    rest = s.sub(away, s.mul(turns, 2 * span))
    return s.add(s.minimum(rest, s.sub(2 * span, rest)), low)


def _inside(
    s: Scope, x: Array, weight: Array | None, size: int, padding: str, is_aligned: bool
) -> _Neighbours:
    """Return neighbours that are all inside; what was outside is mirrored, or has no weight."""
    if padding == "reflection":
        x = _reflected(s, x, size, is_aligned)
    kept = _within(s, x, size)
    if padding == "zeros":
        weight = s.select(s.equal(x, kept), 1.0 if weight is None else weight, 0.0, FLOAT32)
    return _Neighbours(kept, weight)


def affine_points(sizes: Sequence[int], is_aligned: bool) -> np.ndarray:  # type: ignore[type-arg]
    """Return the positions of all pixels, [pixels, axes + 1]: those of the last axis first, and 1."""
    lines = [
        np.linspace(-1, 1, size) if is_aligned else (2 * np.arange(size) + 1) / size - 1
        for size in sizes
    ]
    grid = [part.reshape(-1) for part in reversed(np.meshgrid(*lines, indexing="ij"))]
    return np.stack([*grid, np.ones_like(grid[0])], axis=-1)


def affine_grid(s: Scope, theta: Array, sizes: Sequence[int], is_aligned: bool = False) -> Array:
    """Return a grid for `grid_sample`: all pixels' positions times a matrix for each image."""
    batch, points = theta.shape[0], affine_points(sizes, is_aligned).astype(theta.dtype)
    held = movement.broadcast_to(s, constant(points), (batch, *points.shape))
    made = product(s, held, movement.transpose(s, theta, (0, 2, 1)), theta.dtype)
    return movement.reshape(s, made, (batch, *sizes, len(sizes)))


# -- regions ---------------------------------------------------------------------------------------


class Region(NamedTuple):
    """How regions are sampled along an axis: the sizes, and the number of samples for each result."""

    size: int
    made: int
    number: int


def roi_align(
    s: Scope,
    image: Array,
    regions: Array,
    batches: Array,
    axes: tuple[Region, Region],
    scale: float = 1.0,
    is_half: bool = True,
) -> Array:
    """Average samples of regions [count, 4] of images [batch, channels, height, width].

    batches: the image of each region. is_half: positions are between the centres of pixels.
    The sums are products with a matrix for the rows and one for the columns of each region.
    """
    _, channels, height, width = image.shape
    count = regions.shape[0]
    scaled = s.mul(regions, scale) if scale != 1 else regions
    scaled = s.sub(scaled, 0.5) if is_half else scaled
    rows, columns = (
        _region_weights(s, scaled, first, axis, is_half)
        for first, axis in ((1, axes[0]), (0, axes[1]))
    )
    chosen = _images(s, image, batches, count)
    # Rows first: [count, height, channels * width].
    held = movement.transpose(s, chosen, (0, 2, 1, 3))
    held = movement.reshape(s, held, (count, height, channels * width))
    lines = product(s, rows, held, image.dtype)
    lines = movement.reshape(s, lines, (count, axes[0].made * channels, width))
    made = product(s, lines, movement.transpose(s, columns, (0, 2, 1)), image.dtype)
    made = movement.reshape(s, made, (count, axes[0].made, channels, axes[1].made))
    return movement.transpose(s, made, (0, 2, 1, 3))


def _images(s: Scope, image: Array, batches: Array, count: int) -> Array:
    if image.shape[0] == 1:
        return movement.broadcast_to(s, image, (count, *image.shape[1:]))
    size = math.prod(image.shape[1:])
    table = movement.reshape(s, image, (1, image.shape[0], size))
    index = movement.reshape(s, converted(s, batches, INT32), (1, count))
    return movement.reshape(s, rows_of_batches(s, table, index), (count, *image.shape[1:]))


def _region_weights(s: Scope, regions: Array, first: int, axis: Region, is_half: bool) -> Array:
    """Return the weight of each pixel in each mean of samples, [count, made, size]."""
    count, number = regions.shape[0], axis.number
    low = movement.part(s, regions, 1, first, first + 1)
    span = s.sub(movement.part(s, regions, 1, first + 2, first + 3), low)
    span = span if is_half else s.maximum(span, 1)
    parts = (np.arange(axis.made * number) + 0.5) / (axis.made * number)
    at = s.add(s.mul(span, constant(parts.astype(regions.dtype).reshape(1, -1))), low)
    outside = s.either(s.greater(-1, at), s.greater(at, axis.size))
    kept = _within(s, at, axis.size)
    shape = count, axis.made, number, 1
    kept, outside = movement.reshape(s, kept, shape), movement.reshape(s, outside, shape)
    pixels = constant(np.arange(axis.size, dtype=regions.dtype).reshape(1, 1, 1, -1))
    weight = s.maximum(s.sub(1, s.elementwise("abs", s.sub(kept, pixels))), 0)
    weight = s.select(outside, 0, weight)
    return s.mul(summed(s, weight, (2,)), 1 / number)
