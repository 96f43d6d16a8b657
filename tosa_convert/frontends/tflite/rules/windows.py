"""Pools, and resized images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, resize
from tosa_convert.frontends.lowering.functions import sqrt
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import INT32, carrier, is_float
from tosa_convert.frontends.lowering.windows import averaged, windowed
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.rescale import rescaled
from tosa_convert.rules.families.resize import ResizeAxis

_SAME, _VALID = 0, 1


def padding_of(
    code: int,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    gaps: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Return what is added before and after each dimension; the windows of VALID may leave elements."""
    if code not in (_SAME, _VALID):
        raise ValueError("padding")
    pairs = []
    for size, own, stride, gap in zip(sizes, kernel, strides, gaps, strict=True):
        if min(own, stride, gap) < 1:
            raise ValueError("a window without elements")
        reach = (own - 1) * gap + 1
        total = max(0, (-(-size // stride) - 1) * stride + reach - size) if code == _SAME else 0
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


_ACTIVATION: Final = 5
#: Fractions of positions in TFLite's kernel of RESIZE_BILINEAR for integers; the bits of two of them.
_FRACTIONS: Final = 1 << 10
_FRACTION_BITS: Final = 20
#: How much larger bytes of uint8 are than those that stand for them.
_HALF: Final = 128
#: Types of which RESIZE takes the nearest element.
_RESIZED: Final = ("int8", "int16", "float16", "bfloat16", "float32")

_FACTOR: Final = "TOSA does not resize by this factor"
_STEPS: Final = "resize in several steps"


# -- pools -----------------------------------------------------------------------------------------


def _pool(n: Node, x: Array, word: str) -> Array:
    """Pool the windows; elements beyond those of a window that is not whole are left out."""
    s = n.scope
    kernel, strides = (n.option(4), n.option(3)), (n.option(2), n.option(1))
    if x.rank != 4:
        raise ValueError("rank")
    pads = padding_of(n.option(0, "b"), x.shape[1:3], kernel, strides, (1, 1))
    if is_float(x.dtype):
        window = ((1, *kernel, 1), (1, *strides, 1))
        around = ((0, 0), *pads, (0, 0))
        ones = (1,) * 4
        if word == "max":
            return windowed(s, x, *window, around, ones, ones, "max")
        return averaged(s, x, *window, ((0, 0),) * 4, around)
    kept = [
        min(size, (size + sum(pair) - own) // stride * stride + own)
        for size, pair, own, stride in zip(x.shape[1:3], pads, kernel, strides, strict=True)
    ]
    x = movement.cut(s, x, (0,) * 4, (x.shape[0], *kept, x.shape[3]))
    options: dict[str, Any] = {
        "kernel": kernel,
        "stride": strides,
        "pad": [one for pair in pads for one in pair],
    }
    if word == "max":
        value = s.builder.max_pool2d(s.whole(x), **options)
    else:
        # Halves are rounded away from zero, which is that of uint8 for bytes.
        zero = np.array([-_HALF if n.result.dtype == "uint8" else 0], x.dtype)
        value = s.builder.avg_pool2d(s.whole(x), zero, zero, **options)
    return s.array(value, x.dtype)


def _pooled(word: str) -> Rule:
    return lambda n: n.activated(_pool(n, n.array(0), word), _ACTIVATION)


def _root_of_mean_square(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    if not is_float(x.dtype):
        raise NotLowered(f"TFLite has no kernel of {n.tensor(0).dtype}")
    return n.activated(sqrt(s, _pool(n, s.mul(x, x), "average")), _ACTIVATION)


# -- images ----------------------------------------------------------------------------------------


def _sizes(n: Node, x: Array) -> list[tuple[int, int]]:
    wanted = n.ints(1)
    if x.rank != 4 or min(wanted) < 1:
        raise ValueError("sizes")
    return list(zip(x.shape[1:3], wanted, strict=True))


def _nearest(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    aligned, half = n.flag(0), n.flag(1)
    indices = {
        axis: _places(*pair, aligned=aligned, half=half)
        for axis, pair in enumerate(_sizes(n, x), 1)
    }
    held = s.viewed(x, carrier(x.dtype))
    if x.data is None and str(held.dtype) in _RESIZED:
        axes = [resize.nearest(x.shape[axis], index) for axis, index in indices.items()]
        found = [axis for axis in axes if axis is not None]
        if len(found) == len(axes):
            made = resize.by_operator(s, held, found, "NEAREST", held.dtype)
            return s.viewed(made, x.dtype)
    return resize.selected(s, x, indices)


def _places(size: int, wanted: int, *, aligned: bool, half: bool) -> Any:
    """Return the elements that TFLite takes along an axis; it computes in FP32."""
    # Of one element that is wanted each step is as good as another.
    step = np.float32((size - aligned) / np.float32(max(wanted - aligned, 1)))
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half else 0)) * step
    whole = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
    return np.clip(whole.astype(np.int64), 0, size - 1)


def _bilinear(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    aligned, half = n.flag(2), n.flag(3)
    pairs = _sizes(n, x)
    if is_float(x.dtype):
        return _of_floats(s, x, pairs, aligned, half)
    if n.result.dtype == "uint8":
        return _of_unsigned(n, x, pairs, aligned, half)
    if n.result.dtype not in ("int8", "int16"):
        raise NotLowered(f"TFLite has no kernel of {n.result.dtype}")
    axes = [_in_fractions(*pair, aligned=aligned, half=half) for pair in pairs]
    if not all(axis.is_allowed() for axis in axes):
        raise NotLowered(_FACTOR, _STEPS)
    if n.result.dtype == "int16":
        return _away_from_zero(s, x, axes)
    return _divided(s, resize.by_operator(s, x, axes, "BILINEAR", INT32))


def _divided(s: Scope, wide: Array) -> Array:
    """Divide by 2 ** 20, rounding halves away from zero."""
    sign = s.elementwise("arithmetic_right_shift", wide, 31, round=False)
    scale = 1 << 30, 30 + _FRACTION_BITS
    return rescaled(s, s.add(wide, sign), scale, np.int8, is_once=True)


def _exact(size: int, wanted: int, *, aligned: bool, half: bool) -> ResizeAxis:
    """Return the numbers of an axis whose positions are exact."""
    if size == 1:
        numbers = wanted, 1, 0  # Every position is that of the only element.
    elif aligned and wanted > 1:
        numbers = wanted - 1, size - 1, 0
    elif half:
        numbers = 2 * wanted, 2 * size, size - wanted
    else:
        numbers = wanted, size, 0
    factor = math.gcd(*numbers)
    return ResizeAxis.between(size, wanted, *(number // factor for number in numbers))


def _of_floats(
    s: Scope, x: Array, pairs: Sequence[tuple[int, int]], aligned: bool, half: bool
) -> Array:
    axes = [_exact(*pair, aligned=aligned, half=half) for pair in pairs]
    if x.data is None and all(axis.is_allowed() for axis in axes):
        return resize.by_operator(s, x, axes, "BILINEAR", x.dtype)
    matrices = {}
    for axis, ((size, wanted), row) in enumerate(zip(pairs, axes, strict=True), 1):
        at = (np.arange(wanted) * row.denominator + row.offset) / row.numerator
        matrices[axis] = resize.weights(at, size, resize.linear)
    return resize.multiplied(s, x, matrices)


def _of_unsigned(
    n: Node, x: Array, pairs: Sequence[tuple[int, int]], aligned: bool, half: bool
) -> Array:
    """Round halves of positive numbers up. By experiment: TFLite's kernel computes positions in FP32."""
    s = n.scope
    axes = [_exact(*pair, aligned=aligned, half=half) for pair in pairs]
    if not all(axis.is_allowed() for axis in axes):
        raise NotLowered(_FACTOR, _STEPS)
    fractions = axes[0].numerator * axes[1].numerator
    shift = 30 + (fractions - 1).bit_length()
    # A multiplier that is rounded up keeps halves at least halves.
    scale = -(-(1 << shift) // fractions), shift
    wide = resize.by_operator(s, x, axes, "BILINEAR", INT32)
    positive = s.add(wide, _HALF * fractions)
    return rescaled(s, positive, scale, np.int8, zero=-_HALF, is_once=True)


def rounds_halves(pairs: Sequence[tuple[int, int]], *, aligned: bool, half: bool) -> bool:
    """Return whether bytes between others may be halves that TFLite's FP32 does not hold exactly."""
    axes = [_exact(*pair, aligned=aligned, half=half) for pair in pairs]
    fractions = axes[0].numerator * axes[1].numerator
    return fractions % 2 == 0 and fractions & (fractions - 1) != 0


def _in_fractions(size: int, wanted: int, *, aligned: bool, half: bool) -> ResizeAxis:
    """Round the steps to fractions, as TFLite does for integers."""
    if aligned and wanted > 1:
        step = (_FRACTIONS * (size - 1) + (wanted - 1) // 2) // (wanted - 1)
    else:
        step = (_FRACTIONS * size + wanted // 2) // wanted
    offset = step // 2 - _FRACTIONS // 2 if half else 0
    # Of one row every position is the same, and RESIZE has no step of 0.
    return ResizeAxis.between(size, wanted, _FRACTIONS, max(step, 1), offset)


def _away_from_zero(s: Scope, x: Array, axes: Sequence[ResizeAxis]) -> Array:
    """Resize in 16 bits and round halves up, for negative results those of the inverted input.

    A number with inverted bits is the negated one less 1, before and after; -32768 has it, too.
    """

    def rounded_up(source: Array) -> Array:
        wide = resize.by_operator(s, source, axes, "BILINEAR", np.int64)  # INT48
        scale = 1 << 14, 14 + _FRACTION_BITS
        return rescaled(s, wide, scale, np.int16, is_narrow=True)

    up = rounded_up(x)
    down = s.elementwise("bitwise_not", rounded_up(s.elementwise("bitwise_not", x)))
    return s.select(s.greater(s.cast(up, INT32), 0), up, down)


RULES: Final[dict[str, Rule]] = {
    "AVERAGE_POOL_2D": _pooled("average"),
    "MAX_POOL_2D": _pooled("max"),
    "L2_POOL_2D": _root_of_mean_square,
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
}
