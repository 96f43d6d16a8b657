"""Reductions along dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arrays import Array
from tosa_convert.frontends.jax.scope import Scope

Combine = Callable[[Array, Array], Array]


def merged(a: Array, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the sizes of an array after merging neighbours that are all reduced, or all kept.

    Returns:
        The sizes, and which of them are reduced.
    """
    sizes: list[int] = []
    kinds: list[bool] = []
    for axis, size in enumerate(a.shape):
        if size == 1:
            continue
        if kinds and kinds[-1] is (axis in axes):
            sizes[-1] *= size
        else:
            sizes.append(size)
            kinds.append(axis in axes)
    return sizes, [index for index, reduced in enumerate(kinds) if reduced]


def kept(a: Array, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape without the reduced dimensions."""
    return tuple(size for axis, size in enumerate(a.shape) if axis not in axes)


def by_operator(s: Scope, name: str, a: Array, axes: Sequence[int]) -> Array:
    """Reduce by an operator of TOSA, such as "reduce_sum"."""
    result = kept(a, axes)
    sizes, reduced = merged(a, axes)
    value = s.whole(layout.reshape(s, a, sizes))
    for axis in reduced:
        value = getattr(s.builder, name)(value, axis=axis)
    return layout.reshape(s, s.array(value, a.dtype), result)


def by_halves(s: Scope, combine: Combine, a: Array, axes: Sequence[int]) -> Array:
    """Reduce by a function of two arrays: combine halves until one element is left."""
    result = kept(a, axes)
    sizes, reduced = merged(a, axes)
    a = layout.reshape(s, a, sizes)
    for axis in reduced:
        while a.shape[axis] > 1:
            size = a.shape[axis]
            half = size // 2
            first, second = _part(s, a, axis, 0, half), _part(s, a, axis, half, 2 * half)
            joined = combine(first, second)
            if size % 2:
                joined = layout.concatenate(s, [joined, _part(s, a, axis, size - 1, size)], axis)
            a = joined
    return layout.reshape(s, a, result)


def _part(s: Scope, a: Array, axis: int, start: int, stop: int) -> Array:
    starts, stops = [0] * a.rank, list(a.shape)
    starts[axis], stops[axis] = start, stop
    return layout.cut(s, a, starts, stops)


def cumulative(s: Scope, combine: Combine, a: Array, axis: int, reverse: bool) -> Array:
    """Return the reductions of all elements up to each one.

    Each step combines elements that are twice as far apart, so that there are few steps.
    """
    size = a.shape[axis]
    outer, inner = math.prod(a.shape[:axis]), math.prod(a.shape[axis + 1 :])
    work = layout.reshape(s, a, (outer, size, inner))
    distance = 1
    while distance < size:
        if reverse:
            stay, far = _part(s, work, 1, 0, size - distance), _part(s, work, 1, distance, size)
            joined = [combine(stay, far), _part(s, work, 1, size - distance, size)]
        else:
            stay, far = _part(s, work, 1, distance, size), _part(s, work, 1, 0, size - distance)
            joined = [_part(s, work, 1, 0, distance), combine(far, stay)]
        work = layout.concatenate(s, joined, 1)
        distance *= 2
    return layout.reshape(s, work, a.shape)
