"""Sliding windows: pooling, its gradient, and reductions over windows of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import (
    combination,
    div,
    mul,
    ordered,
    unordered,
    with_zero_point,
)
from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32, is_float, is_small, neutral

#: Most slices of a window that is not a pool of TOSA.
_MOST_SLICES: Final = 256


def windowed(
    s: Scope,
    a: Array,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
    word: str,
    image: Sequence[int] = (),
) -> Array:
    """Return the sums or extremes of windows. word: "add", "max" or "min".

    image: height and width, whose layout a pool keeps although its windows lie along one of them.
    """
    border = neutral(word, a.dtype)
    if any(n != 1 for n in base):
        a = movement.spread(s, a, [n - 1 for n in base], border)
    axes = _spatial(window, strides, image)
    is_pool = all(n == 1 for n in dilation) and all(size <= 255 for size in window)
    if is_pool and word == "max" and a.dtype == np.uint8:
        bits = with_zero_point(s, a)[0]
        made = windowed(s, bits, window, strides, padding, base, dilation, word, image)
        return s.viewed(s.elementwise("bitwise_xor", made, -128), a.dtype)
    is_held = is_float(a.dtype) or (word == "max" and a.dtype == np.int8)
    if is_pool and is_held and axes and word in ("max", "add") and a.data is None:
        last = axes[-2:]
        rest, own = ([(k in last) is mine for k in range(a.rank)] for mine in (False, True))
        low, high = (
            [int(pair[k]) if own[at] else 0 for at, pair in enumerate(padding)] for k in (0, 1)
        )
        made = _pooled(s, a, word, last, window, strides, low, high)
        if len(axes) <= 2:
            return made
        sizes, steps = (
            [n if rest[at] else 1 for at, n in enumerate(ns)] for ns in (window, strides)
        )
        pairs = [pair if rest[at] else (0, 0) for at, pair in enumerate(padding)]
        return windowed(s, made, sizes, steps, pairs, (1,) * a.rank, (1,) * a.rank, word)
    low, high = _ends(padding)
    a = movement.pad(s, a, low, high, border)
    kind = a.dtype
    a = s.widened(a) if is_small(kind) else a
    combine = combination(s, word)
    (made,) = all_by_slices(
        s, [a], lambda xs, ys: [combine(xs[0], ys[0])], window, strides, dilation
    )
    return s.narrowed(made, kind) if is_small(kind) else made


def all_by_slices(
    s: Scope,
    arrays: Sequence[Array],
    combine: Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    from_last: bool = False,
) -> Sequence[Array]:
    """Reduce windows of arrays of one shape together: combine the slices of all positions in them.

    from_last: along the last dimension first.
    """
    if sum(window) > _MOST_SLICES:
        reason = f"a window of {list(window)} takes more than {_MOST_SLICES} slices"
        raise NotLowered(reason, "use a cumulative function or a convolution")
    rows = list(enumerate(zip(window, strides, dilation, strict=True)))
    for axis, (size, stride, spread) in reversed(rows) if from_last else rows:
        if size == 1 and stride == 1:
            continue
        count = (arrays[0].shape[axis] - (size - 1) * spread - 1) // stride + 1
        last = (count - 1) * stride + 1
        ends = [(place * spread, place * spread + last) for place in range(size)]
        parts = [[movement.part(s, a, axis, *end, stride) for a in arrays] for end in ends]
        arrays = reduce(combine, parts)
    return arrays


def greatest_and_places(
    s: Scope,
    a: Array,
    places: Data,
    padding: tuple[Sequence[int], Sequence[int]],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    takes_nan: bool = False,
) -> tuple[Array, Array]:
    """Return the greatest element of each window, the first of equal ones, and its place of INT32.

    places: of the elements of `a`, whose shape broadcasts to its. takes_nan: NaN is greater than all
    that is before it.
    """
    low, high = padding
    x = ordered(s, movement.pad(s, a, low, high, neutral("max", a.dtype)))
    place = movement.pad(s, constant(places.astype(np.int32)), low, high, 0)
    held = [x, Array(INT32, x.shape, place.data, place.value)]

    def better(now: Sequence[Array], later: Sequence[Array]) -> list[Array]:
        is_better = s.greater(later[0], now[0])
        if takes_nan:
            is_better = s.either(is_better, s.is_nan(later[0]))
        return [s.select(is_better, new, old) for new, old in zip(later, now, strict=True)]

    best, found = all_by_slices(s, held, better, window, strides, dilation, from_last=True)
    return unordered(s, best, a.dtype), found


def _ends(padding: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return what is added before and after each dimension."""
    return [int(low) for low, _ in padding], [int(high) for _, high in padding]


def _spatial(window: Sequence[int], strides: Sequence[int], image: Sequence[int] = ()) -> list[int]:
    """Return the dimensions along which windows lie; of an image both, if there are any."""
    found = [k for k, size in enumerate(window) if size != 1 or strides[k] != 1]
    return list(image) if found and set(found) <= set(image) else found


def averaged(
    s: Scope,
    a: Array,
    window: Sequence[int],
    strides: Sequence[int],
    zeros: Sequence[tuple[int, int]],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int] | None = None,
    image: Sequence[int] = (),
) -> Array:
    """Return the means of windows; those of integers are rounded to 0.

    zeros: elements that are added before and after each dimension, which count.
    padding: what is added beyond them, which does not count.
    """
    gaps = tuple(dilation or (1,) * a.rank)
    axes = _spatial(window, strides, image)
    a = movement.pad(s, a, *_ends(zeros), 0)
    low, high = _ends(padding)
    is_native = is_float(a.dtype) and all(
        0 <= n < window[k] for k in axes for n in (low[k], high[k])
    )
    if is_native and 0 < len(axes) <= 2 and all(n == 1 for n in gaps) and a.data is None:
        return _pooled(s, a, "average", axes, window, strides, low, high)
    total = windowed(s, a, window, strides, padding, (1,) * a.rank, gaps, "add")
    counts = np.ones((1,) * a.rank, np.int64)
    for axis in axes:
        starts = np.arange(total.shape[axis]) * strides[axis] - low[axis]
        places = starts[:, None] + np.arange(window[axis]) * gaps[axis]
        inside = ((places >= 0) & (places < a.shape[axis])).sum(1)
        inside = inside[:1] if (inside == inside[0]).all() else inside
        counts = counts * inside.reshape([-1 if k == axis else 1 for k in range(a.rank)])
    if not is_float(a.dtype):
        return div(s, total, constant(counts.astype(a.dtype)))
    with np.errstate(divide="ignore"):
        return mul(s, total, constant((1 / counts).astype(a.dtype)))


def _pooled(
    s: Scope,
    a: Array,
    word: str,
    axes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    low: list[int],
    high: list[int],
) -> Array:
    """Pool by MAX_POOL2D or AVG_POOL2D; for "add" it is multiplied by the size of the window."""
    size = float(math.prod(window[k] for k in axes))
    if word == "add" and a.origin is not None and a.origin[0] == "scaled":
        _, a, (factor,) = a.origin
        size *= factor
    for axis in axes:
        # Windows end exactly at the border, and no window is padding only.
        span = a.shape[axis] + low[axis] + high[axis] - window[axis]
        high[axis] -= span % strides[axis]
    inside = word != "add" and all(
        n < window[axis] for axis in axes for n in (low[axis], high[axis])
    )
    # Elements beyond the last window are cut off; zeros would count in a mean.
    pooled_pads = {axis: (max(low[axis], 0), max(high[axis], 0)) for axis in axes if inside}
    for axis in pooled_pads:
        low[axis], high[axis] = min(low[axis], 0), min(high[axis], 0)
    a = movement.pad(s, a, low, high, 0 if word == "average" else neutral(word, a.dtype))
    others = [k for k in range(a.rank) if k not in axes]
    spatial = [*(-1,) * (2 - len(axes)), *axes]
    # What comes after the window is the channels; of an image without such, the dimension before it.
    channels = [k for k in others if k > axes[-1]]
    if not channels and len(axes) == len(others) == 2:
        channels = others[-1:]
    batch = [k for k in others if k not in channels]
    order = [*batch, *axes, *channels]
    moved = movement.transpose(s, a, order)
    sizes = [1 if k < 0 else a.shape[k] for k in spatial]
    count, depth = (math.prod(a.shape[k] for k in part) for part in (batch, channels))
    flat = movement.reshape(s, moved, (count, *sizes, depth))
    attributes: dict[str, Any] = {
        "kernel": [1 if k < 0 else window[k] for k in spatial],
        "stride": [1 if k < 0 else strides[k] for k in spatial],
        "pad": [n for k in spatial for n in pooled_pads.get(k, (0, 0))],
    }
    if word == "max":
        made = s.apply("max_pool2d", [flat], a.dtype, **attributes)
    else:
        made = s.apply("avg_pool2d", [flat], a.dtype, **attributes, acc_type="fp32")
    spans = dict(zip(spatial, made.shape[1:3], strict=False))
    made = movement.reshape(s, made, [spans.get(k, a.shape[k]) for k in order])
    made = movement.transpose(s, made, np.argsort(order).tolist())
    if word != "add":
        return made
    total = s.mul(made, size)
    total.origin = ("scaled", made, (size,))
    return total


# -- the gradient of pooling ---------------------------------------------------------------------


def select_and_scatter_add(
    s: Scope,
    source: Array,
    operand: Array,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    select: Any,
) -> Array:
    """Add each source element at its window's extreme, the first of equal ones."""
    if math.prod(window) > _MOST_SLICES or not (is_float(operand.dtype) or operand.dtype == INT32):
        reason = f"the gradient of a pool of {operand.dtype} with a window of {list(window)}"
        raise NotLowered(reason, "use a smaller window")
    is_max = str(select) == "ge"
    low, high = zip(*padding, strict=True)
    padded = movement.pad(s, operand, low, high, neutral("max" if is_max else "min", operand.dtype))
    positions = list(np.ndindex(*window))
    parts = [_window_part(s, padded, position, strides, source.shape) for position in positions]
    best, chosen = parts[0], constant(np.int32(0))
    for index, part in enumerate(parts[1:], 1):
        is_better = s.greater(part, best) if is_max else s.greater(best, part)
        chosen = s.select(is_better, constant(np.int32(index)), chosen)
        best = s.select(is_better, part, best)
    placed = []
    for index, position in enumerate(positions):
        mine = s.select(s.equal(chosen, index), source, 0) if len(positions) > 1 else source
        placed.append(_placed(s, mine, position, strides, padded.shape))
    return movement.pad(s, reduce(s.add, placed), [-n for n in low], [-n for n in high], 0)


def _window_part(
    s: Scope, a: Array, position: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> Array:
    """Return the elements at one position of all windows."""
    stops = [
        start + (count - 1) * stride + 1
        for start, count, stride in zip(position, counts, strides, strict=True)
    ]
    return movement.cut(s, a, position, stops, strides)


def _placed(
    s: Scope, a: Array, position: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> Array:
    """Undo `_window_part`: put zeros elsewhere."""
    wide = movement.spread(s, a, [stride - 1 for stride in strides], 0)
    after = [
        size - start - count for size, start, count in zip(shape, position, wide.shape, strict=True)
    ]
    return movement.pad(s, wide, position, after, 0)
