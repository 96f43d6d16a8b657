"""Pools, whose last windows onnxruntime places by `ceil_mode`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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

_INT64: Final = np.dtype(np.int64)


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


def _geometry(n: Node, sizes: Sequence[int]) -> _Geometry:
    kernel = [int(size) for size in n.get("kernel_shape")]
    spans, strides, dilations, padding = spatial_padding(n.attributes, sizes, kernel)
    ends = []
    for size, span, step, (low, high) in zip(sizes, spans, strides, padding, strict=True):
        rest = size + low + high - span
        count = (-(-rest // step) if n.get("ceil_mode", 0) else rest // step) + 1
        if n.get("ceil_mode", 0) and (count - 1) * step >= size + low:
            count -= 1  # The window would be in the padding only.
        ends.append((count - 1) * step + span - size - low)
    return _Geometry(kernel, strides, dilations, padding, ends)


def _full(values: Sequence[int]) -> tuple[int, ...]:
    """Return numbers for all dimensions: 1 for the batch and the channels."""
    return (1, 1, *values)


def _windowed(s: Scope, a: Array, g: _Geometry, word: str) -> Array:
    """Return the sums or extremes of windows."""
    padding = [(0, 0), (0, 0), *zip((low for low, _ in g.padding), g.ends, strict=True)]
    strides, ones = _full(g.strides), (1,) * a.rank
    return windows.windowed(s, a, _full(g.kernel), strides, padding, ones, _full(g.dilations), word)


def _average(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    g = _geometry(n, a.shape[2:])
    if not is_float(a.dtype):
        raise NotLowered(f"TOSA does not average {a.dtype} without a scale")
    zeros, padding = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    for (low, high), end in zip(g.padding, g.ends, strict=True):
        counts = bool(n.get("count_include_pad", 0))
        zeros.append((low, min(high, end)) if counts else (0, min(end, 0)))
        padding.append((0, max(end - high, 0)) if counts else (low, max(end, 0)))
    dilations = _full(g.dilations)
    return windows.averaged(s, a, _full(g.kernel), _full(g.strides), zeros, padding, dilations)


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
