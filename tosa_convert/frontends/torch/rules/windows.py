"""Pools, pads by elements of the tensor itself, and resizing of pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, normalization, resize, windows
from tosa_convert.frontends.lowering.arithmetic import div, ordered
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.reductions import extreme
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32, INT64, is_float
from tosa_convert.frontends.torch.rules.movement import constant_pad
from tosa_convert.frontends.torch.rules.node import Node, Rule, sizes_of

# -- pools ---------------------------------------------------------------------------------------


class _Window:
    """Sizes of a pool for all axes, 1 for the first; `ends`, perhaps negative, pad the last windows."""

    def __init__(
        self, n: Node, a: Array, axes: int, kernel: Any, stride: Any, padding: Any, gaps: Any = 1
    ) -> None:
        front = (1,) * (a.rank - axes)
        self.axes, self.zeros = axes, [0] * (a.rank - axes)
        self.image = (a.rank - 2, a.rank - 1) if axes == 2 else ()
        self.kernel = (*front, *sizes_of(kernel, axes))
        self.step = (*front, *sizes_of(stride, axes)) if stride else self.kernel
        self.gaps = (*front, *sizes_of(gaps, axes))
        self.pads = [*self.zeros, *sizes_of(padding, axes)]
        rows = zip(a.shape, n.shape, self.kernel, self.step, self.gaps, self.pads, strict=True)
        self.ends = [
            (made - 1) * step + (k - 1) * gap + 1 - size - pad
            for size, made, k, step, gap, pad in rows
        ]


def _max_pool(
    n: Node,
    a: Array,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    axes: int,
) -> Array | list[Array]:
    w = _Window(n, a, axes, kernel, stride, padding, dilation)
    if len(n.shapes) > 1 and n.is_used(1):
        return _with_places(n, a, w)
    pairs, ones = list(zip(w.pads, w.ends, strict=True)), (1,) * a.rank
    made = windows.windowed(n.scope, a, w.kernel, w.step, pairs, ones, w.gaps, "max", w.image)
    return made if len(n.shapes) == 1 else [made, n.unused(1)]


def _with_places(n: Node, a: Array, w: _Window) -> list[Array]:
    """Return the greatest elements, and their positions in the flattened axes."""
    sizes = a.shape[-w.axes :]
    index = np.arange(math.prod(sizes)).reshape((1,) * len(w.zeros) + sizes)
    best, places = windows.greatest_and_places(
        n.scope, a, index, (w.pads, w.ends), w.kernel, w.step, w.gaps, is_float(a.dtype)
    )
    return [best, n.scope.cast(places, INT64)]


def _average_pool(
    n: Node,
    a: Array,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    axes: int,
) -> Array:
    """Pool by means. What `ceil_mode` adds at the end never counts."""
    s, w = n.scope, _Window(n, a, axes, kernel, stride, padding)
    if divisor_override is not None:
        pairs, ones = list(zip(w.pads, w.ends, strict=True)), (1,) * a.rank
        total = windows.windowed(s, a, w.kernel, w.step, pairs, ones, ones, "add")
        return div(s, total, constant(np.asarray(divisor_override, a.dtype)))
    if count_include_pad:
        inside = [min(pad, end) for pad, end in zip(w.pads, w.ends, strict=True)]
        zeros = list(zip(w.pads, inside, strict=True))
        pairs = [(0, end - had) for end, had in zip(w.ends, inside, strict=True)]
    else:
        zeros = [(0, min(end, 0)) for end in w.ends]
        pairs = [(pad, max(end, 0)) for pad, end in zip(w.pads, w.ends, strict=True)]
    return windows.averaged(s, a, w.kernel, w.step, zeros, pairs, None, w.image)


# -- adaptive pools ------------------------------------------------------------------------------


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return the first element and the end of each window of an adaptive pool."""
    return [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]


def _even_steps(n: Node, a: Array, axes: int) -> list[int]:
    """Return the size of the windows of an adaptive pool if all have the same, without overlap."""
    pairs = list(zip(a.shape[-axes:], n.shape[-axes:], strict=True))
    is_even = not any(size % made for size, made in pairs)
    return [size // made for size, made in pairs] if is_even else []


def _by_windows(n: Node, a: Array, axes: int, reduce: Callable[..., Array]) -> Array:
    """Reduce the windows of an adaptive pool, one axis after the other."""
    s = n.scope
    for axis in range(a.rank - axes, a.rank):
        count = n.shape[axis]
        if count != a.shape[axis]:
            bounds = _bounds(a.shape[axis], count)
            parts = [reduce(movement.part(s, a, axis, *pair), [axis]) for pair in bounds]
            a = movement.concatenate(s, parts, axis)
    return a


def _adaptive_average(n: Node, a: Array, size: Sequence[int]) -> Array:
    axes = len(size)
    if all(one == 1 for one in size):
        return normalization.mean(n.scope, a, range(-axes, 0), keep=True)
    if axes <= 2 and (kernel := _even_steps(n, a, axes)):
        return _average_pool(n, a, kernel, axes=axes)
    return _by_windows(n, a, axes, partial(normalization.mean, n.scope, keep=True))


def _adaptive_maximum(n: Node, a: Array, size: Sequence[int]) -> Array | list[Array]:
    axes = len(size)
    if kernel := _even_steps(n, a, axes):
        return _max_pool(n, a, kernel, axes=axes)
    best = _by_windows(n, a, axes, partial(extreme, n.scope, word="max", keep=True))
    return [best, _places_of_greatest(n, a, axes) if n.is_used(1) else n.unused(1)]


def _places_of_greatest(n: Node, a: Array, axes: int) -> Array:
    """Return the first greatest element of each window, as its position in the flattened axes."""
    s, sizes = n.scope, a.shape[-axes:]
    index = np.arange(math.prod(sizes), dtype=np.int32).reshape((1,) * (a.rank - axes) + sizes)
    x, places = ordered(s, a), constant(index)
    for axis in reversed(range(a.rank - axes, a.rank)):
        found = []
        for low, high in _bounds(x.shape[axis], n.shape[axis]):
            best, place = (movement.part(s, one, axis, low, low + 1) for one in (x, places))
            for at in range(low + 1, high):
                other, own = (movement.part(s, one, axis, at, at + 1) for one in (x, places))
                is_better = s.greater(other, best)
                if is_float(a.dtype):
                    is_better = s.either(is_better, s.is_nan(other))
                best, place = s.select(is_better, other, best), s.select(is_better, own, place)
            found.append((best, Array(INT32, best.shape, place.data, place.value)))
        x, places = (movement.concatenate(s, parts, axis) for parts in zip(*found, strict=True))
    return s.cast(places, INT64)


# -- pads ----------------------------------------------------------------------------------------

#: Mode of torch -> that of the lowering.
_MODES: Final = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(n: Node, a: Array, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Array:
    """Take elements from beyond the edges, by known positions."""
    if mode == "constant":
        return constant_pad(n, a, pad, value or 0)
    pairs = zip(pad[::2], pad[1::2], strict=True)
    pads = {a.rank - 1 - number: pair for number, pair in enumerate(pairs)}
    return resize.padded(n.scope, a, pads, _MODES[mode])


# -- resizing ------------------------------------------------------------------------------------

#: Times that an axis grows at most, and its greatest size, of a resize that becomes RESIZE; TOSA
#: allows numerators of scales up to 2048.
_GROWTH: Final = 16
_RESIZED: Final = 1024


def _axes(n: Node, a: Array, scales: Sequence[Any]) -> list[tuple[int, int, int, float]]:
    """Return the axes that are resized, their sizes and steps between the elements that are read."""
    given = [one for part in scales for one in (part if isinstance(part, Sequence) else [part])]
    axes = range(2, a.rank)
    given = given if any(given) else [None] * len(axes)
    rows = zip(axes, a.shape[2:], n.shape[2:], given, strict=True)
    return [
        (axis, size, made, 1 / scale if scale else size / made) for axis, size, made, scale in rows
    ]


def _nearest(n: Node, a: Array, _: Any, *scales: Any, centre: float = 0.0) -> Array:
    indices = {}
    for axis, size, made, step in _axes(n, a, scales):
        at = (np.arange(made, dtype=np.float32) + np.float32(centre)) * np.float32(step)
        indices[axis] = np.minimum(np.floor(at).astype(np.int64), size - 1)
    return resize.selected(n.scope, a, indices)


def _positions(row: tuple[int, int, int, float], align_corners: bool) -> Any:
    _, size, made, step = row
    if align_corners:
        return np.arange(made) * ((size - 1) / (made - 1) if made > 1 else 0.0)
    return (np.arange(made) + 0.5) * step - 0.5


def _linear(n: Node, a: Array, _: Any, align_corners: bool, *scales: Any) -> Array:
    """Interpolate by RESIZE, or by a product with a matrix for each axis."""
    rows = _axes(n, a, scales)
    if all(size == 1 for _, size, _, _ in rows):
        return movement.broadcast_to(n.scope, a, n.shape)
    if a.rank == 4 and a.dtype == FLOAT32 and a.data is None and _is_resize(rows, align_corners):
        axes = [resize.linear_axis(size, made, align_corners) for _, size, made, _ in rows]
        return resize.resized(n.scope, a, axes, "BILINEAR")
    matrices = {}
    for row in rows:
        at = np.maximum(_positions(row, align_corners), 0)
        matrices[row[0]] = resize.weights(at, row[1], resize.linear)
    return _multiplied(n, a, matrices)


def _multiplied(n: Node, a: Array, matrices: dict[int, Any]) -> Array:
    if not is_float(a.dtype):
        raise NotLowered("TOSA does not resize these integers", "resize float32")
    return converted(
        n.scope, resize.multiplied(n.scope, converted(n.scope, a, FLOAT32), matrices), a.dtype
    )


def _is_resize(rows: Sequence[tuple[int, int, int, float]], align_corners: bool) -> bool:
    return all(
        1 < size < made <= min(_GROWTH * size, _RESIZED)
        and (align_corners or math.isclose(size / step, made))
        for _, size, made, step in rows
    )


def _cubic(n: Node, a: Array, _: Any, align_corners: bool, *scales: Any) -> Array:
    """Multiply by a matrix for each axis; elements beyond the edge are those at it."""
    matrices = {
        row[0]: resize.weights(_positions(row, align_corners), row[1], resize.cubic(-0.75), 2)
        for row in _axes(n, a, scales)
    }
    return _multiplied(n, a, matrices)


def _without_aliases(
    n: Node, a: Array, _: Any, align_corners: bool, *scales: Any, is_cubic: bool
) -> Array:
    """Resize with a filter as wide as the step."""
    matrices = {}
    for axis, size, made, step in _axes(n, a, scales):
        if align_corners:
            step = (size - 1) / (made - 1) if made > 1 else 0.0
        wide = max(step, 1.0)
        reach = (2 if is_cubic else 1) * wide
        centre = ((np.arange(made) + 0.5) * step)[:, None]
        place = np.arange(size)
        inside = place >= np.floor(centre - reach + 0.5)
        inside &= place < np.floor(centre + reach + 0.5)
        kernel = resize.cubic(-0.5) if is_cubic else resize.linear
        weight = np.where(inside, kernel((place - centre + 0.5) / wide), 0)
        matrices[axis] = weight / weight.sum(1, keepdims=True)
    return _multiplied(n, a, matrices)


RULES: Final[dict[str, Rule]] = {
    **{
        f"max_pool{axes}d{ending}": partial(_max_pool, axes=axes)
        for axes in (1, 2, 3)
        for ending in ("", "_with_indices")
    },
    "avg_pool1d": partial(_average_pool, axes=1),
    "avg_pool2d": partial(_average_pool, axes=2),
    "avg_pool3d": partial(_average_pool, axes=3),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _adaptive_average
    ),
    "adaptive_max_pool2d": _adaptive_maximum,
    "adaptive_max_pool3d": _adaptive_maximum,
    "pad": _pad,
    **{
        f"{kind}_pad{axes}d": partial(_pad, mode=mode)
        for kind, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for axes in (1, 2, 3)
    },
    **{f"upsample_nearest{axes}d": _nearest for axes in (1, 2, 3)},
    **{f"_upsample_nearest_exact{axes}d": partial(_nearest, centre=0.5) for axes in (1, 2, 3)},
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _linear),
    "upsample_bicubic2d": _cubic,
    "_upsample_bicubic2d_aa": partial(_without_aliases, is_cubic=True),
    "_upsample_bilinear2d_aa": partial(_without_aliases, is_cubic=False),
}
