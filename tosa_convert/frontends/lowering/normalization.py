"""Normalisations: softmax, and those by mean and variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.activations import scaled
from tosa_convert.frontends.lowering.arithmetic import divided, mul
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import sqrt
from tosa_convert.frontends.lowering.reductions import extreme, summed
from tosa_convert.frontends.lowering.scope import Array, Scope
from tosa_convert.frontends.lowering.types import FLOAT32, is_float


def _computed_as(dtype: Any) -> Any:
    """Return the element type that sums are computed in: FP32 for narrower ones."""
    return FLOAT32 if is_float(dtype) and np.dtype(dtype).itemsize < FLOAT32.itemsize else dtype


def _positive(axes: Sequence[int], rank: int) -> list[int]:
    return [axis % rank for axis in axes]


# -- means ---------------------------------------------------------------------------------------


def mean(s: Scope, x: Array, axes: Sequence[int], keep: bool = False) -> Array:
    """Return the mean along axes. keep: dimensions stay, of size 1."""
    axes = _positive(axes, x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    count = math.prod(x.shape[axis] for axis in axes)
    return converted(s, scaled(s, summed(s, wide, axes, keep), 1 / count), x.dtype)


def mean_and_variance(
    s: Scope, x: Array, axes: Sequence[int], correction: float = 0, keep: bool = False
) -> tuple[Array, Array]:
    """Return both along axes; the variance is the squares' sum over the count less the correction."""
    axes = _positive(axes, x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    centre, _, spread = _centred(s, wide, axes, correction, keep)
    shape = tuple(n for k, n in enumerate(centre.shape) if keep or k not in axes)
    centre = converted(s, movement.reshape(s, centre, shape), x.dtype)
    return centre, converted(s, spread, x.dtype)


def _centred(
    s: Scope, x: Array, axes: Sequence[int], correction: float = 0, keep: bool = True
) -> tuple[Array, Array, Array]:
    """Return the mean, with its dimensions, what differs from it, and the variance."""
    centre = mean(s, x, axes, keep=True)
    rest = s.sub(x, centre)
    count = math.prod(x.shape[axis] for axis in axes) - correction
    squares = summed(s, s.mul(rest, rest), axes, keep)
    share = 1 / count if count > 0 else np.inf
    return centre, rest, scaled(s, squares, share)


# -- exponentials --------------------------------------------------------------------------------


def softmax(s: Scope, x: Array, axis: int = -1) -> Array:
    axes = _positive([axis], x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    powers = s.elementwise("exp", s.sub(wide, extreme(s, wide, axes, "max", keep=True)))
    return converted(s, divided(s, powers, summed(s, powers, axes, keep=True)), x.dtype)


def log_softmax(s: Scope, x: Array, axis: int = -1) -> Array:
    axes = _positive([axis], x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    less = s.sub(wide, extreme(s, wide, axes, "max", keep=True))
    total = summed(s, s.elementwise("exp", less), axes, keep=True)
    return converted(s, s.sub(less, s.elementwise("log", total)), x.dtype)


def logsumexp(s: Scope, x: Array, axes: Sequence[int], keep: bool = False) -> Array:
    """Return the logarithm of the sum of exponentials, which do not overflow."""
    axes = _positive(axes, x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    most = extreme(s, wide, axes, "max", keep=True)
    # The difference of two infinities is NaN.
    most = s.select(s.greater(np.inf, s.elementwise("abs", most)), most, 0)
    total = summed(s, s.elementwise("exp", s.sub(wide, most)), axes, keep=True)
    made = s.add(s.elementwise("log", total), most)
    shape = tuple(n for k, n in enumerate(made.shape) if keep or k not in axes)
    return converted(s, movement.reshape(s, made, shape), x.dtype)


# -- normalisations ------------------------------------------------------------------------------


def along(s: Scope, a: Array, axis: int, rank: int) -> Array:
    """Reshape an array of one dimension so that it broadcasts along one axis of `rank`."""
    return movement.reshape(s, a, [a.size if k == axis % rank else 1 for k in range(rank)])


def _transformed(s: Scope, x: Array, scale: Array | None, bias: Array | None) -> Array:
    """Scale and move by arrays that broadcast to x."""
    made = x if scale is None else mul(s, *s.aligned([x, converted(s, scale, x.dtype)]))
    if bias is None or bias.number() == 0:
        return made
    return s.add(made, converted(s, bias, x.dtype))


def batch_norm(
    s: Scope,
    x: Array,
    scale: Array | None,
    bias: Array | None,
    centre: Array,
    spread: Array,
    epsilon: float = 1e-5,
    axis: int = 1,
) -> Array:
    """Normalise by a mean and variance for each index of an axis; constants are factor and offset."""
    kind = _computed_as(x.dtype)
    given = [
        None if item is None else converted(s, item, kind) for item in (scale, bias, centre, spread)
    ]
    scale, bias = given[:2]
    assert given[2] is not None
    assert given[3] is not None
    factor = s.elementwise("rsqrt", s.add(given[3], epsilon))
    factor = factor if scale is None else mul(s, factor, scale)
    offset = s.elementwise("negate", s.mul(given[2], factor))
    offset = offset if bias is None else s.add(offset, bias)
    wide = converted(s, x, kind)
    factor, offset = (along(s, item, axis, x.rank) for item in (factor, offset))
    return converted(s, _transformed(s, wide, factor, offset), x.dtype)


def layer_norm(
    s: Scope,
    x: Array,
    axes: Sequence[int],
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Normalise along axes; scale and bias broadcast to x."""
    return layer_norm_with_statistics(s, x, axes, scale, bias, epsilon)[0]


def layer_norm_with_statistics(
    s: Scope,
    x: Array,
    axes: Sequence[int],
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Return also the mean and the reciprocal of the deviation, in FP32 for narrower types."""
    wide = converted(s, x, _computed_as(x.dtype))
    centre, rest, spread = _centred(s, wide, _positive(axes, x.rank))
    inverse = s.elementwise("rsqrt", s.add(spread, epsilon))
    made = _transformed(s, s.mul(rest, inverse), scale, bias)
    return converted(s, made, x.dtype), centre, inverse


def rms_norm(
    s: Scope, x: Array, axes: Sequence[int], scale: Array | None = None, epsilon: float = 1e-5
) -> Array:
    """Divide by the root of the mean of squares; scale broadcasts to x."""
    wide = converted(s, x, _computed_as(x.dtype))
    squares = mean(s, s.mul(wide, wide), axes, keep=True)
    made = s.mul(wide, s.elementwise("rsqrt", s.add(squares, epsilon)))
    return converted(s, _transformed(s, made, scale, None), x.dtype)


def instance_norm(
    s: Scope, x: Array, scale: Array | None, bias: Array | None, epsilon: float = 1e-5
) -> Array:
    """Normalise each channel, of dimension 1, of each element of the batch."""
    factor, offset = (None if item is None else along(s, item, 1, x.rank) for item in (scale, bias))
    return layer_norm(s, x, range(2, x.rank), factor, offset, epsilon)


def group_norm(
    s: Scope,
    x: Array,
    groups: int,
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Normalise groups of channels, of dimension 1. scale, bias: for each channel, or each group."""
    channels = x.shape[1]
    if groups == channels and x.rank > 2:
        return instance_norm(s, x, scale, bias, epsilon)
    wide = converted(s, x, _computed_as(x.dtype))
    flat = movement.reshape(s, wide, (x.shape[0], groups, x.size // (x.shape[0] * groups)))
    made = movement.reshape(s, layer_norm(s, flat, [2], epsilon=epsilon), x.shape)
    held = []
    for item in (scale, bias):
        if item is not None and item.size == groups != channels:
            item = movement.broadcast(s, item, (groups, channels // groups), (0,))
            item = movement.reshape(s, item, (channels,))
        held.append(None if item is None else along(s, item, 1, x.rank))
    return converted(s, _transformed(s, made, *held), x.dtype)


def lp_norm(s: Scope, x: Array, order: float, axes: Sequence[int], keep: bool = False) -> Array:
    """Return the norm of an order along axes: infinity for the greatest size."""
    axes = _positive(axes, x.rank)
    wide = converted(s, x, _computed_as(x.dtype))
    if order == 2:
        made = sqrt(s, summed(s, s.mul(wide, wide), axes, keep))
    elif math.isinf(order):
        size = s.elementwise("abs", wide)
        made = extreme(s, size, axes, "max" if order > 0 else "min", keep)
    elif order == 0:
        is_other = s.negation(s.equal(wide, 0))
        made = summed(s, converted(s, is_other, wide.dtype), axes, keep)
    elif order == 1:
        made = summed(s, s.elementwise("abs", wide), axes, keep)
    else:
        powers = s.elementwise("pow", s.elementwise("abs", wide), order)
        made = s.elementwise("pow", summed(s, powers, axes, keep), 1 / order)
    return converted(s, made, x.dtype)


def local_response(
    s: Scope, x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """Divide by (bias + alpha / size * squares of neighbouring channels, of dimension 1)^beta."""
    before = (size - 1) // 2
    low, high = [0] * x.rank, [0] * x.rank
    low[1], high[1] = before, size - 1 - before
    padded = movement.pad(s, s.mul(x, x), low, high, 0)
    parts = [movement.part(s, padded, 1, first, first + x.shape[1]) for first in range(size)]
    base = s.add(scaled(s, reduce(s.add, parts), alpha / size), bias)
    return s.mul(x, s.elementwise("pow", base, -beta))
