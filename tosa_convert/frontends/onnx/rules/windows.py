"""Pools, whose last windows onnxruntime places by `ceil_mode`, and what undoes windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement, windows
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import power, sqrt
from tosa_convert.frontends.lowering.indexing import as_rows, from_rows, index32, write_rows
from tosa_convert.frontends.lowering.products import by_matrix
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import is_float
from tosa_convert.frontends.onnx.node import OTHER_SIZE, Node, Rule


def spatial_attributes(
    n: Node, kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[tuple[int, int]]]:
    """Return kernel spans, strides, dilations and the padding of a window over spatial dimensions."""
    count = len(kernel)
    strides, dilations = (list(n.get(name) or [1] * count) for name in ("strides", "dilations"))
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, dilations, strict=True)]
    pads = list(n.get("pads") or [0] * 2 * count)
    padding = list(zip(pads[:count], pads[count:], strict=True))
    if n.get("auto_pad", "NOTSET") == "VALID":
        padding = [(0, 0)] * count
    return spans, strides, dilations, padding


def spatial_padding(
    n: Node, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[tuple[int, int]]]:
    """Return what `spatial_attributes` does, with the padding that `auto_pad` asks for."""
    spans, strides, dilations, padding = spatial_attributes(n, kernel)
    automatic = n.get("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        padding = []
        for size, span, step in zip(sizes, spans, strides, strict=True):
            total = max((-(-size // step) - 1) * step + span - size, 0)
            less = total // 2
            padding.append(
                (less, total - less) if automatic == "SAME_UPPER" else (total - less, less)
            )
    return spans, strides, dilations, padding


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
    spans, strides, dilations, padding = spatial_padding(n, sizes, kernel)
    if str(n.get("auto_pad")).startswith("SAME") and spans != kernel:
        # onnxruntime pads as if the window had no gaps.
        dense = replace(n, attributes={**n.attributes, "dilations": None})
        padding = spatial_padding(dense, sizes, kernel)[3]
        n.remark(OTHER_SIZE)
    ends = []
    for size, span, step, (low, high) in zip(sizes, spans, strides, padding, strict=True):
        rest = size + low + high - span
        count = (-(-rest // step) if n.get("ceil_mode", 0) else rest // step) + 1
        if n.get("ceil_mode", 0) and (count - 1) * step >= size + low:
            count -= 1  # The window would be in the padding only.
            n.remark(OTHER_SIZE)
        ends.append((count - 1) * step + span - size - low)
    return _Geometry(kernel, strides, dilations, padding, ends)


def _full(values: Sequence[int]) -> tuple[int, ...]:
    """Return numbers for all dimensions: 1 for the batch and the channels."""
    return (1, 1, *values)


def _windowed(s: Scope, a: Array, g: _Geometry, word: str) -> Array:
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
    # By the storage order 1 the last dimension but one changes first.
    spatial = range(2, a.rank)
    order = [0, 1, *(reversed(spatial) if n.get("storage_order", 0) else spatial)]
    places = np.arange(a.size).reshape([a.shape[k] for k in order]).transpose(np.argsort(order))
    padding = [0, 0, *(low for low, _ in g.padding)], [0, 0, *g.ends]
    steps = _full(g.kernel), _full(g.strides), _full(g.dilations)
    values, found = windows.greatest_and_places(n.scope, a, places, padding, *steps)
    return [values, converted(n.scope, found, np.int64)]


def _lp_pool(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    order = int(n.get("p", 2))
    g = _geometry(n, a.shape[2:])
    if order == 2:
        return sqrt(s, _windowed(s, s.mul(a, a), g, "add"))
    size = s.elementwise("abs", a)
    if order == 1:
        return _windowed(s, size, g, "add")
    first, last = (constant(np.asarray(p, a.dtype)) for p in (order, 1 / order))
    return power(s, _windowed(s, power(s, size, first), g, "add"), last)


#: Most elements of a matrix.
_MATRIX: Final = 1 << 22


def _max_unpool(n: Node) -> Array:
    """Put the elements where a pool of windows that do not overlap found them, among zeros."""
    s, x, kernel = n.scope, n.array(0), n.get("kernel_shape")
    count = len(kernel)
    stride, pads = n.get("strides") or [1] * count, n.get("pads") or [0] * 2 * count
    if any(k > step for k, step in zip(kernel, stride, strict=True)):
        raise NotLowered("its windows overlap", "use strides of at least the size of the window")
    sizes = [
        (size - 1) * stride[axis] + kernel[axis] - pads[axis] - pads[axis + count]
        for axis, size in enumerate(x.shape[2:])
    ]
    wanted = (*x.shape[:2], *sizes)
    if n.has(2) and n.ints(2) != list(wanted):
        raise NotLowered(
            "its sizes are not those of the pool: ONNX and onnxruntime differ on it",
            "leave out the sizes",
        )
    zeros = Array(x.dtype, (math.prod(wanted), 1), np.zeros((1, 1), x.dtype))
    places = movement.reshape(s, index32(s, n.array(1)), (x.size,))
    rows = movement.reshape(s, as_rows(s, x), (x.size, 1))
    made = write_rows(s, as_rows(s, zeros), places, rows)
    return movement.reshape(s, from_rows(s, made, x.dtype), wanted)


def _column_to_image(n: Node) -> Array:
    """Multiply with a constant matrix of zeros and ones."""
    s, x, image, block = n.scope, n.array(0), n.ints(1), n.ints(2)
    if not is_float(x.dtype):
        raise NotLowered(f"it adds elements of {x.dtype}", "cast to float32 and back")
    count = len(image)
    gaps, steps = (n.get(name) or [1] * count for name in ("dilations", "strides"))
    pads = n.get("pads") or [0] * (2 * count)
    batch, channels, places = x.shape
    channels //= math.prod(block)
    inputs, outputs = math.prod(block) * places, math.prod(image)
    if inputs * outputs > _MATRIX:
        raise NotLowered(f"an image of {image} is too large", "use a transposed convolution")
    grid = [
        (image[a] + pads[a] + pads[a + count] - (block[a] - 1) * gaps[a] - 1) // steps[a] + 1
        for a in range(count)
    ]
    matrix = np.zeros((inputs, outputs), x.dtype)
    for row, (inner, place) in enumerate(combinations(np.ndindex(*block), np.ndindex(*grid))):
        at = [place[a] * steps[a] - pads[a] + inner[a] * gaps[a] for a in range(count)]
        if all(0 <= p < size for p, size in zip(at, image, strict=True)):
            matrix[row, np.ravel_multi_index(at, image)] = 1
    flat = movement.reshape(s, x, (1, batch * channels, inputs))
    made = by_matrix(s, flat, matrix)
    return movement.reshape(s, made, (batch, channels, *image))


RULES: Final[dict[str, Rule]] = {
    "AveragePool": _average,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "Col2Im": _column_to_image,
    "MaxUnpool": _max_unpool,
}
