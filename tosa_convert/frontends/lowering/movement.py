"""Functions that move elements: constants by numpy, values of the program by TOSA's operators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.builder.values import Value
from tosa_convert.frontends.lowering.scope import Array, Operand, Scope, constant, whole_data

#: The most dimensions that level 8K of TOSA allows.
MOST_DIMENSIONS: Final = 6


def reshape(s: Scope, a: Array, shape: Sequence[int]) -> Array:
    sizes = tuple(int(n) for n in shape)
    if sizes == a.shape:
        return a
    stored = _stored_after(a, sizes)
    if stored is None:
        if a.data is not None:
            return Array(a.dtype, sizes, whole_data(a).reshape(sizes))
        return s.array(s.builder.reshape(s.whole(a), sizes), a.dtype)
    if a.data is not None:
        return Array(a.dtype, sizes, a.data.reshape(stored))
    if stored == sizes and a.stored == a.shape:
        return s.reshaped(a, sizes)
    value = s.value(a)
    if value.shape != stored:
        value = s.builder.reshape(value, stored)
    return Array(a.dtype, sizes, None, value)


def _stored_after(a: Array, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the stored shape after a reshape; None if elements stored once must be repeated."""
    if a.stored == a.shape:
        return shape
    if math.prod(a.stored) == 1:
        return (1,) * len(shape)
    longer = [n for n in a.shape if n != 1]
    if longer != [n for n in shape if n != 1]:
        return None
    sizes = iter([m for n, m in zip(a.shape, a.stored, strict=True) if n != 1])
    return tuple(1 if n == 1 else next(sizes) for n in shape)


def broadcast(s: Scope, a: Array, shape: Sequence[int], dimensions: Sequence[int]) -> Array:
    """Broadcast to a larger shape; dimension k of `a` is dimension `dimensions[k]` of it."""
    middle, stored = [1] * len(shape), [1] * len(shape)
    for size, kept, at in zip(a.shape, a.stored, dimensions, strict=True):
        middle[at], stored[at] = size, kept
    spread = reshape(s, a, middle)
    return Array(a.dtype, tuple(shape), spread.data, spread.value)


def transpose(s: Scope, a: Array, perms: Sequence[int], merges: bool = False) -> Array:
    """Transpose: dimension k of the result is dimension `perms[k]` of `a`.

    merges: dimensions that stay side by side are one, for what is reshaped before and after.
    """
    order = tuple(int(p) for p in perms)
    shape = tuple(a.shape[p] for p in order)
    stored = tuple(a.stored[p] for p in order)
    if a.data is not None:
        return Array(a.dtype, shape, a.data.transpose(order))
    longer = [p for p in order if a.stored[p] != 1]
    value = s.value(a)
    if longer == sorted(longer):
        if value.shape != stored:
            value = s.builder.reshape(value, stored)
        return Array(a.dtype, shape, None, value)
    if a.rank <= MOST_DIMENSIONS and not merges:
        return Array(a.dtype, shape, None, s.builder.transpose(value, perms=order))
    groups: list[list[int]] = []
    for p in longer:
        if groups and p == _next_longer(a.stored, groups[-1][-1]):
            groups[-1].append(p)
        else:
            groups.append([p])
    before = sorted(range(len(groups)), key=lambda index: groups[index][0])
    merged = [math.prod(a.stored[p] for p in groups[index]) for index in before]
    if tuple(merged) != value.shape:
        value = s.builder.reshape(value, merged)
    value = s.builder.transpose(value, perms=[before.index(k) for k in range(len(groups))])
    if value.shape != stored:
        value = s.builder.reshape(value, stored)
    return Array(a.dtype, shape, None, value)


def _next_longer(sizes: Sequence[int], at: int) -> int:
    """Return the first dimension after `at` whose size is not 1; -1 if there is none."""
    return next((k for k in range(at + 1, len(sizes)) if sizes[k] != 1), -1)


def moved(s: Scope, a: Array, axis: int, to: int) -> Array:
    order = [k for k in range(a.rank) if k != axis]
    order.insert(to, axis)
    return transpose(s, a, order)


def cut(
    s: Scope,
    a: Array,
    starts: Sequence[int],
    stops: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    steps = tuple(strides or (1,) * a.rank)
    shape = tuple(
        -(-(stop - start) // step) for start, stop, step in zip(starts, stops, steps, strict=True)
    )
    if a.data is not None:
        index = tuple(
            slice(0, 1) if kept != size else slice(start, stop, step)
            for size, kept, start, stop, step in zip(
                a.shape, a.stored, starts, stops, steps, strict=True
            )
        )
        return Array(a.dtype, shape, a.data[index])
    value, sizes = s.value(a), list(a.stored)
    first = [0 if n == 1 else start for n, start in zip(sizes, starts, strict=True)]
    # A stride is a slice of a multiple of it, of which the first of each group is kept.
    spans = [
        1 if n == 1 else min(n - start, count * step)
        for n, start, count, step in zip(sizes, first, shape, steps, strict=True)
    ]
    if spans != sizes:
        value = s.builder.slice(value, first, spans)
    for axis, step in enumerate(steps):
        if step > 1 and spans[axis] > 1:
            value = _every(s, s.array(value, a.dtype), axis, step, shape[axis])
    return Array(a.dtype, shape, None, value)


def part(s: Scope, a: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    starts, stops, steps = [0] * a.rank, list(a.shape), [1] * a.rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return cut(s, a, starts, stops, steps)


def split(s: Scope, a: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    ends = itertools.accumulate(sizes)
    return [part(s, a, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _every(s: Scope, a: Array, axis: int, step: int, count: int) -> Value:
    """Return the first of each `step` elements along an axis."""
    before, after = a.shape[:axis], a.shape[axis + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    value = s.value(a)
    missing = count * step - a.shape[axis]
    value = s.builder.reshape(value, (outer, a.shape[axis], inner))
    if missing > 0:
        value = s.builder.pad(value, (0, 0, 0, missing, 0, 0), s.value(constant([0], a.dtype)))
    value = s.builder.reshape(value, (outer, count, step, inner))
    value = s.builder.slice(value, (0, 0, 0, 0), (outer, count, 1, inner))
    return s.builder.reshape(value, (*before, count, *after))


def concatenate(s: Scope, parts: Sequence[Array], axis: int) -> Array:
    """Join arrays along an axis. Empty ones add nothing."""
    used = [part for part in parts if part.shape[axis]]
    if not used:
        return parts[0]
    if len(used) == 1:
        return used[0]
    sizes = list(used[0].shape)
    sizes[axis] = sum(part.shape[axis] for part in used)
    if all(part.is_constant for part in used):
        data = np.concatenate([whole_data(part) for part in used], axis)
        return Array(used[0].dtype, tuple(sizes), data)
    value = s.builder.concat([s.whole(part) for part in used], axis=axis)
    return s.array(value, used[0].dtype)


def stack(s: Scope, parts: Sequence[Array], axis: int = 0) -> Array:
    rows = [reshape(s, part, (*part.shape[:axis], 1, *part.shape[axis:])) for part in parts]
    return concatenate(s, rows, axis)


def reverse(s: Scope, a: Array, axes: Sequence[int]) -> Array:
    if a.data is not None:
        return Array(a.dtype, a.shape, np.flip(a.data, tuple(axes)))
    value = s.value(a)
    for axis in axes:
        if a.stored[axis] != 1:
            value = s.builder.reverse(value, axis=axis)
    return Array(a.dtype, a.shape, None, value)


def pad(s: Scope, a: Array, low: Sequence[int], high: Sequence[int], value: Operand) -> Array:
    """Add elements before and after each dimension; negative numbers remove elements."""
    starts = [max(0, -n) for n in low]
    stops = [size - max(0, -n) for size, n in zip(a.shape, high, strict=True)]
    filled = value if isinstance(value, Array) else s.aligned([value], a.dtype)[0]
    if a.size and any(stop <= start for start, stop in zip(starts, stops, strict=True)):
        sizes = [n + size + m for n, size, m in zip(low, a.shape, high, strict=True)]
        return broadcast_to(s, reshape(s, filled, (1,) * a.rank), sizes)
    if any(starts) or tuple(stops) != a.shape:
        a = cut(s, a, starts, stops)
    before, after = [max(0, n) for n in low], [max(0, n) for n in high]
    if not any(before) and not any(after):
        return a
    number = filled.number()
    if a.data is not None and number is not None:
        if np.array_equal(a.number(), number) and a.number() is not None:
            sizes = [x + n + y for x, n, y in zip(before, a.shape, after, strict=True)]
            return Array(a.dtype, tuple(sizes), a.data)
        data = whole_data(a)
        widths = list(zip(before, after, strict=True))
        made = np.pad(data, widths, constant_values=number)
        return Array(a.dtype, tuple(made.shape), made)
    pairs = [n for pair in zip(before, after, strict=True) for n in pair]
    padded = s.builder.pad(s.whole(a), pairs, s.value(reshape(s, filled, (1,))))
    return s.array(padded, a.dtype)


def spread(s: Scope, a: Array, interior: Sequence[int], value: Operand) -> Array:
    """Insert `interior[k]` elements between any two of dimension k."""
    filled = value if isinstance(value, Array) else s.aligned([value], a.dtype)[0]
    for axis, count in enumerate(interior):
        size = a.shape[axis]
        if count == 0 or size <= 1:
            continue
        before, after = a.shape[:axis], a.shape[axis + 1 :]
        outer, inner = math.prod(before), math.prod(after)
        wide = reshape(s, a, (outer, size, 1, inner))
        wide = pad(s, wide, (0, 0, 0, 0), (0, 0, count, 0), filled)
        wide = reshape(s, wide, (outer, size * (count + 1), inner))
        wide = cut(s, wide, (0, 0, 0), (outer, size * (count + 1) - count, inner))
        a = reshape(s, wide, (*before, size * (count + 1) - count, *after))
    return a


# -- as operations have them ---------------------------------------------------------------------


def iota(dtype: Any, shape: Sequence[int], axis: int) -> Array:
    """Return 0, 1, 2, ... along an axis."""
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return Array(np.dtype(dtype), tuple(shape), np.arange(shape[axis], dtype=dtype).reshape(sizes))


def broadcast_to(s: Scope, a: Array, shape: Sequence[int]) -> Array:
    """Broadcast with the last dimensions of both side by side."""
    return broadcast(s, a, shape, range(len(shape) - a.rank, len(shape)))


def tile(s: Scope, a: Array, repeats: Sequence[int]) -> Array:
    """Repeat along each dimension; `repeats` may have more of them. Equal elements stay stored once."""
    full = reshape(s, a, (*(1,) * (len(repeats) - a.rank), *a.shape))
    shape = tuple(size * count for size, count in zip(full.shape, repeats, strict=True))
    left = [1 if n == 1 else count for n, count in zip(full.stored, repeats, strict=True)]
    if all(count == 1 for count in left):
        return Array(a.dtype, shape, full.data, full.value)
    if full.data is not None:
        return Array(a.dtype, shape, np.tile(full.data, left))
    return Array(a.dtype, shape, None, s.builder.tile(s.value(full), left))


def unstack(s: Scope, a: Array, axis: int) -> list[Array]:
    return [row(s, a, index, axis) for index in range(a.shape[axis])]


def row(s: Scope, a: Array, index: int, axis: int = 0) -> Array:
    """Return one part along an axis, without it."""
    shape = (*a.shape[:axis], *a.shape[axis + 1 :])
    return reshape(s, part(s, a, axis, index, index + 1), shape)


def pad_between(s: Scope, a: Array, value: Array, padding: Sequence[tuple[int, int, int]]) -> Array:
    """Add elements before, after and between those of each dimension."""
    low, high, interior = zip(*padding, strict=True) if a.rank else ((),) * 3
    return pad(s, spread(s, a, interior, value), low, high, value)
