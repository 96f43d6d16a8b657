"""Pools, and resizing of pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout, windows
from tosa_convert.frontends.lowering.arithmetic import ordered, unordered
from tosa_convert.frontends.lowering.scope import (
    FLOAT32,
    INT32,
    Array,
    NotLowered,
    constant,
    is_float,
    neutral,
)
from tosa_convert.frontends.torch.rules.node import INT64, Node, Rule
from tosa_convert.frontends.torch.rules.products import fitted


def _sizes(value: Any, count: int) -> list[int]:
    given = list(value) if isinstance(value, Sequence) else [value]
    return given * count if len(given) == 1 else given


def _end(size: int, kernel: int, step: int, pad: int, gap: int, made: int) -> int:
    """Return the padding at the end, perhaps negative, with which so many windows end there."""
    return (made - 1) * step + (kernel - 1) * gap + 1 - size - pad


class _Window:
    """The sizes of the windows of a pool along its axes, which are the last ones."""

    def __init__(
        self, n: Node, a: Array, axes: int, kernel: Any, stride: Any, padding: Any, gaps: Any
    ) -> None:
        self.kernel = _sizes(kernel, axes)
        self.step = _sizes(stride, axes) if stride else self.kernel
        self.pads, self.gaps = _sizes(padding, axes), _sizes(gaps, axes)
        rows = zip(
            *(a.shape[-axes:], self.kernel, self.step, self.pads, self.gaps),
            *(n.shape[-axes:],),
            strict=True,
        )
        self.ends = [_end(*row) for row in rows]

    @property
    def is_plain(self) -> bool:
        """Return whether TOSA has the pool: of two axes, without gaps, with less padding than window."""
        padding = zip(self.pads, self.ends, self.kernel, strict=True)
        return (
            len(self.kernel) == 2
            and all(gap == 1 for gap in self.gaps)
            and all(low < k and high < k for low, high, k in padding)
        )


def _pooled(n: Node, a: Array, w: _Window, name: str, **attributes: Any) -> Array:
    """Add a pool of TOSA, with channels last."""
    s = n.scope
    x = layout.reshape(s, a, (1,) * (4 - a.rank) + a.shape) if a.rank < 4 else a
    x = layout.transpose(s, x, (0, 2, 3, 1))
    x, around = fitted(n, x, w.kernel, w.step, list(zip(w.pads, w.ends, strict=True)), [1, 1])
    made = s.apply(
        name,
        [x],
        x.dtype,
        kernel=w.kernel,
        stride=w.step,
        pad=[p for pair in around for p in pair],
        **attributes,
    )
    return layout.transpose(s, made, (0, 3, 1, 2))


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
    s = n.scope
    w = _Window(n, a, axes, kernel, stride, padding, dilation)
    if len(n.shapes) > 1 and n.is_used(1):
        best, places = _with_places(n, a, w)
        return [best, places]
    if w.is_plain and is_float(a.dtype):
        made = layout.reshape(s, _pooled(n, a, w, "max_pool2d"), n.shape)
    else:
        x = _padded(n, a, w, neutral("max", a.dtype))
        front = (1,) * (a.rank - axes)
        held = ordered(s, x)
        best = windows.by_slices(
            s, held, s.maximum, (*front, *w.kernel), (*front, *w.step), (*front, *w.gaps)
        )
        made = unordered(s, best, a.dtype)
    if len(n.shapes) == 1:
        return made
    return [made, Array(INT64, n.shapes[1], np.zeros((1,) * len(n.shapes[1]), INT64))]


def _padded(n: Node, a: Array, w: _Window, fill: Any) -> Array:
    rest = [0] * (a.rank - len(w.kernel))
    return layout.pad(n.scope, a, [*rest, *w.pads], [*rest, *w.ends], fill)


def _with_places(n: Node, a: Array, w: _Window) -> tuple[Array, Array]:
    """Return the greatest elements, and their positions in the flattened axes."""
    s, axes = n.scope, len(w.kernel)
    sizes = a.shape[-axes:]
    shape = (1,) * (a.rank - axes) + sizes
    index = constant(np.arange(math.prod(sizes), dtype=np.int32).reshape(shape))
    x = ordered(s, _padded(n, a, w, neutral("max", a.dtype)))
    place = _padded(n, index, w, 0)
    place = layout.broadcast_to(s, Array(INT32, place.shape, place.data), place.shape)
    front = (1,) * (a.rank - axes)
    held = [x, Array(INT32, x.shape, place.data, place.value)]

    def better(now: Sequence[Array], later: Sequence[Array]) -> list[Array]:
        is_better = s.greater(later[0], now[0])
        return [s.select(is_better, new, old) for new, old in zip(later, now, strict=True)]

    best, places = windows.all_by_slices(
        s, held, better, (*front, *w.kernel), (*front, *w.step), (*front, *w.gaps)
    )
    full = layout.reshape(s, s.array(s.whole(places), INT32), n.shape)
    return unordered(s, best, a.dtype), s.cast(full, INT64)


def _average_pool(
    n: Node,
    a: Array,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Pool two axes. What `ceil_mode` adds at the end never counts, nor does TOSA's padding."""
    s = n.scope
    w = _Window(n, a, 2, kernel, stride, padding, 1)
    if not is_float(a.dtype) or divisor_override is not None:
        raise NotLowered("TOSA does not have this average pool", "pool in float32")
    if count_include_pad and any(w.pads):
        rest = [0] * (a.rank - 2)
        more = [min(pad, end) for pad, end in zip(w.pads, w.ends, strict=True)]
        a = layout.pad(s, a, [*rest, *w.pads], [*rest, *more], 0)
        w.ends = [end - had for end, had in zip(w.ends, more, strict=True)]
        w.pads = [0, 0]
    made = _pooled(n, a, w, "avg_pool2d", acc_type="fp32")
    return layout.reshape(s, made, n.shape)


# -- resizing ------------------------------------------------------------------------------------


def _resize_bilinear(
    n: Node, a: Array, output_size: Any, align_corners: bool, scales: Any = None
) -> Array:
    """RESIZE, by the fractions of the sizes."""
    s = n.scope
    made = n.shape[-2:]
    scale, offset, border = [], [], []
    for size, count in zip(a.shape[-2:], made, strict=True):
        if align_corners:
            up, down = (count - 1, size - 1) if count > 1 and size > 1 else (1, 1)
        else:
            up, down = count, size
        common = math.gcd(up, down)
        up, down = up // common, down // common
        if not align_corners:
            up, down = 2 * up, 2 * down
        first = 0 if align_corners else (down - up) // 2
        last = (count - 1) * down + first - (size - 1) * up
        scale += [up, down]
        offset.append(first)
        border.append(last)
    x = layout.transpose(s, n.convert(a, FLOAT32), (0, 2, 3, 1))
    value = s.builder.resize(s.whole(x), scale, offset, border, mode="BILINEAR")
    return n.convert(layout.transpose(s, s.array(value, x.dtype), (0, 3, 1, 2)), n.dtype)


RULES: Final[dict[str, Rule]] = {
    "max_pool2d": lambda n, *given: _max_pool(n, *given, axes=2),
    "max_pool2d_with_indices": lambda n, *given: _max_pool(n, *given, axes=2),
    "max_pool3d": lambda n, *given: _max_pool(n, *given, axes=3),
    "max_pool3d_with_indices": lambda n, *given: _max_pool(n, *given, axes=3),
    "max_pool1d": lambda n, *given: _max_pool(n, *given, axes=1),
    "avg_pool2d": _average_pool,
    "upsample_bilinear2d": _resize_bilinear,
}
