"""Pools, whose last windows onnxruntime places by `ceil_mode`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout, windows
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import power, sqrt
from tosa_convert.frontends.lowering.scope import (
    Array,
    NotLowered,
    Scope,
    constant,
    is_float,
    neutral,
)
from tosa_convert.frontends.onnx.node import Node, Rule
from tosa_convert.frontends.onnx.rules.products import spatial_padding
from tosa_convert.records import dataclass

_INT64: Final = np.dtype(np.int64)
#: The largest window of TOSA's pools.
_MOST: Final = 255


@dataclass(frozen=True)
class _Geometry:
    """The windows of a pool over its spatial dimensions.

    padding: what the node asks for. ends: what is added after instead, so that windows end there; it may
        be negative.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    padding: Sequence[tuple[int, int]]
    ends: Sequence[int]
    counts: Sequence[int]


def _geometry(n: Node, sizes: Sequence[int]) -> _Geometry:
    kernel = [int(size) for size in n.get("kernel_shape")]
    spans, strides, dilations, padding = spatial_padding(n.attributes, sizes, kernel)
    counts, ends = [], []
    for size, span, step, (low, high) in zip(sizes, spans, strides, padding, strict=True):
        rest = size + low + high - span
        count = (-(-rest // step) if n.get("ceil_mode", 0) else rest // step) + 1
        if n.get("ceil_mode", 0) and (count - 1) * step >= size + low:
            count -= 1  # The window would be in the padding only.
        counts.append(count)
        ends.append((count - 1) * step + span - size - low)
    return _Geometry(kernel, strides, dilations, padding, ends, counts)


def _full(values: Sequence[int]) -> tuple[int, ...]:
    """Return numbers for all dimensions: 1 for the batch and the channels."""
    return (1, 1, *values)


def _windowed(s: Scope, a: Array, g: _Geometry, word: str) -> Array:
    """Return the sums or extremes of windows, of pairs of dimensions one after another."""
    if any(gap != 1 for gap in g.dilations) or len(g.kernel) <= 2 or not is_float(a.dtype):
        padding = [(0, 0), (0, 0), *zip((low for low, _ in g.padding), g.ends, strict=True)]
        ones = (1,) * a.rank
        return windows.windowed(
            s, a, _full(g.kernel), _full(g.strides), padding, ones, _full(g.dilations), word
        )
    for first in range(0, len(g.kernel), 2):
        axes = range(first, min(first + 2, len(g.kernel)))
        kernel, strides = [1] * len(g.kernel), [1] * len(g.kernel)
        padding = [(0, 0)] * a.rank
        for k in axes:
            kernel[k], strides[k] = g.kernel[k], g.strides[k]
            padding[2 + k] = (g.padding[k][0], g.ends[k])
        ones = (1,) * a.rank
        a = windows.windowed(s, a, _full(kernel), _full(strides), padding, ones, ones, word)
    return a


# -- averages ------------------------------------------------------------------------------------


def _average(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    g = _geometry(n, a.shape[2:])
    counts_padding = bool(n.get("count_include_pad", 0))
    if not is_float(a.dtype):
        raise NotLowered(f"TOSA does not average {a.dtype} without a scale")
    if all(gap == 1 for gap in g.dilations) and all(size <= _MOST for size in g.kernel):
        made = _by_operators(s, a, g, counts_padding)
        if made is not None:
            return made
    made = _windowed(s, a, g, "add")
    return s.mul(made, constant(_shares(g, a.shape[2:], counts_padding).astype(a.dtype)))


def _shares(g: _Geometry, sizes: Sequence[int], counts_padding: bool) -> Any:
    """Return the reciprocal of the number of elements of each window."""
    made = np.ones((1, 1), np.float64)
    for k, size in enumerate(sizes):
        low, high = g.padding[k]
        line = np.zeros(g.counts[k])
        for index in range(g.counts[k]):
            places = index * g.strides[k] - low + np.arange(g.kernel[k]) * g.dilations[k]
            first, last = (-low, size + high) if counts_padding else (0, size)
            line[index] = np.count_nonzero((places >= first) & (places < last))
        made = made[..., None] / line
    return made


def _by_operators(s: Scope, a: Array, g: _Geometry, counts_padding: bool) -> Array | None:
    """AVG_POOL2D of one or two dimensions at a time, which does not count its padding."""
    for k, (low, high) in enumerate(g.padding):
        if counts_padding and g.ends[k] > high and (low or high or g.ends[k] > 0):
            if low or high:
                return None  # The last window counts some of what it has beyond the array.
        if not counts_padding and (low >= g.kernel[k] or g.ends[k] >= g.kernel[k]):
            return None
    first, last = [0] * a.rank, [0] * a.rank
    inside = [(low_k, end) for (low_k, _), end in zip(g.padding, g.ends, strict=True)]
    for k, (before, after) in enumerate(inside):
        is_added = counts_padding and any(g.padding[k])
        first[2 + k] = before if is_added else 0
        last[2 + k] = after if is_added or after < 0 else 0
        inside[k] = (0, 0) if is_added else (before, max(after, 0))
    a = layout.pad(s, a, first, last, constant(np.zeros((), a.dtype)))
    count = len(g.kernel)
    for start in range(0, count, 2):
        axes = list(range(start, min(start + 2, count)))
        if all(g.kernel[k] == g.strides[k] == 1 and inside[k] == (0, 0) for k in axes):
            continue
        a = _averaged(s, a, axes, g, inside)
    return a


def _averaged(
    s: Scope, a: Array, axes: list[int], g: _Geometry, inside: Sequence[tuple[int, int]]
) -> Array:
    """AVG_POOL2D of one or two spatial dimensions; the others are part of the batch."""
    spatial = [2 + k for k in axes]
    others = [k for k in range(2, a.rank) if k not in spatial]
    order = [0, *others, *spatial, 1]
    moved = layout.transpose(s, a, order)
    batch = math.prod(a.shape[k] for k in (0, *others))
    missing = 2 - len(axes)
    sizes = [1] * missing + [a.shape[k] for k in spatial]
    flat = layout.reshape(s, moved, (batch, *sizes, a.shape[1]))
    attributes: dict[str, Any] = {
        "kernel": [1] * missing + [g.kernel[k] for k in axes],
        "stride": [1] * missing + [g.strides[k] for k in axes],
        "pad": [0, 0] * missing + [n for k in axes for n in inside[k]],
    }
    made = s.apply("avg_pool2d", [flat], a.dtype, **attributes, acc_type="fp32")
    shape = [*(a.shape[k] for k in (0, *others)), *made.shape[1 + missing : 3], a.shape[1]]
    return layout.transpose(s, layout.reshape(s, made, shape), np.argsort(order).tolist())


# -- extremes ------------------------------------------------------------------------------------


def _max_pool(n: Node) -> list[Array]:
    s, a = n.scope, n.array(0)
    g = _geometry(n, a.shape[2:])
    if len(n.wanted) > 1 and n.wanted[1]:
        return _max_and_places(n, a, g)
    return [_windowed(s, a, g, "max")]


def _max_and_places(n: Node, a: Array, g: _Geometry) -> list[Array]:
    """Return also the place of each greatest element in the flat array."""
    s = n.scope
    places = np.arange(a.size, dtype=np.int32).reshape(a.shape)
    if n.get("storage_order", 0):  # The last dimension but one changes first.
        spatial = list(range(2, a.rank))
        order = [0, 1, *reversed(spatial)]
        flat = np.arange(a.size, dtype=np.int32).reshape([a.shape[k] for k in order])
        places = flat.transpose(np.argsort(order))
    low, high = [0, 0, *(first for first, _ in g.padding)], [0, 0, *g.ends]
    kind = a.dtype
    held = converted(s, a, np.int32) if not is_float(kind) else a
    padded = layout.pad(
        s, held, low, high, constant(np.asarray(neutral("max", held.dtype), held.dtype))
    )
    index = layout.pad(s, constant(places), low, high, constant(np.int32(0)))

    def combine(xs: Sequence[Array], ys: Sequence[Array]) -> list[Array]:
        better = s.greater(ys[0], xs[0])
        return [s.select(better, y, x) for x, y in zip(xs, ys, strict=True)]

    values, found = windows.all_by_slices(
        s, [padded, index], combine, _full(g.kernel), _full(g.strides), _full(g.dilations)
    )
    return [converted(s, values, kind), converted(s, found, _INT64)]


def _lp_pool(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    order = int(n.get("p", 2))
    g = _geometry(n, a.shape[2:])
    if order == 2:
        return sqrt(s, _windowed(s, s.mul(a, a), g, "add"))
    size = s.elementwise("abs", a)
    if order == 1:
        return _windowed(s, size, g, "add")
    exponents = (constant(np.asarray(p, a.dtype)) for p in (order, 1 / order))
    first, last = exponents
    return power(s, _windowed(s, power(s, size, first), g, "add"), last)


RULES: Final[dict[str, Rule]] = {
    "AveragePool": _average,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
}
