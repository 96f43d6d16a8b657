"""Operators of quantised programs, as pt2e and torchao write them around what they quantise."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.scope import FLOAT32, INT32, Array
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _number(value: Any) -> Any:
    """Return the number of a constant of one element, or the value as it is."""
    if isinstance(value, Array) and value.number() is not None:
        return value.number()
    return value


def _quantize(
    n: Node, a: Array, scale: Any, zero_point: Any, least: int, most: int, *_: Any, **__: Any
) -> Array:
    """Multiply by the reciprocal of the scale, as torch does; CAST rounds to the even of two."""
    s, kind = n.scope, n.dtype
    scale, zero_point = _number(scale), _number(zero_point)
    x = n.convert(a, FLOAT32)
    if isinstance(scale, Array) or isinstance(zero_point, Array):
        inverse, shift = n.arrays(scale, zero_point, dtype=FLOAT32)
        inverse = n.ranked(s.elementwise("reciprocal", inverse), x.rank)
        steps = s.cast(s.mul(x, layout.reshape(s, inverse, (1,) * x.rank)), INT32)
        offset = layout.reshape(s, n.convert(shift, INT32), (1,) * x.rank)
        steps = s.minimum(s.maximum(s.add(steps, offset), least), most)
        return s.narrowed(steps, kind)
    steps = s.mul(x, float(np.float32(1.0) / np.float32(scale)))
    limits, zero = np.iinfo(kind), int(zero_point)
    is_signed = kind in (np.int8, np.int16)
    if zero or not is_signed or (least, most) != (limits.min, limits.max):
        steps = n.clamp(steps, least - zero, most - zero)
    if zero == 0 and is_signed:
        return s.cast(steps, kind)
    whole = s.cast(steps, INT32)
    whole = s.add(whole, zero) if zero else whole
    return s.narrowed(whole, kind) if kind.itemsize < 4 else n.convert(whole, kind)


def _dequantize(
    n: Node, a: Array, scale: Any, zero_point: Any, *_: Any, out_dtype: Any = None, **__: Any
) -> Array:
    s, kind = n.scope, n.dtype
    scale, zero_point = _number(scale), _number(zero_point)
    number = n.convert(a, kind)
    if isinstance(scale, Array) or isinstance(zero_point, Array):
        factor, shift = (
            layout.reshape(s, one, (1,) * a.rank) for one in n.arrays(scale, zero_point, dtype=kind)
        )
        return s.mul(s.sub(number, shift), factor)
    if zero_point:
        number = s.sub(number, float(zero_point))
    return s.mul(number, float(scale))


def _of_channels(n: Node, one: Array, rank: int, axis: int, kind: Any) -> Array:
    sizes = [1] * rank
    sizes[axis] = one.size
    return layout.reshape(n.scope, n.convert(one, kind), sizes)


def _dequantize_channels(
    n: Node, a: Array, scales: Array, zero_points: Array | None, axis: int, *_: Any, **__: Any
) -> Array:
    s, kind = n.scope, n.dtype
    number = n.convert(a, kind)
    if zero_points is not None and zero_points.number() != 0:
        shift = _of_channels(n, zero_points, a.rank, axis % a.rank, kind)
        number = number if shift.number() == 0 or _is_zero(shift) else s.sub(number, shift)
    return s.mul(number, _of_channels(n, scales, a.rank, axis % a.rank, kind))


def _is_zero(a: Array) -> bool:
    return a.data is not None and not np.any(a.data)


def _quantize_channels(
    n: Node, a: Array, scales: Array, zero_points: Array, axis: int, least: int, most: int, *_: Any
) -> Array:
    s, axis = n.scope, axis % a.rank
    inverse = s.elementwise("reciprocal", _of_channels(n, scales, a.rank, axis, FLOAT32))
    steps = s.cast(s.mul(n.convert(a, FLOAT32), inverse), INT32)
    if not _is_zero(zero_points):
        steps = s.add(steps, _of_channels(n, zero_points, a.rank, axis, INT32))
    return s.narrowed(s.minimum(s.maximum(steps, least), most), n.dtype)


_NAMESPACE: Final = "quantized_decomposed"
RULES: Final[dict[str, Rule]] = {
    f"{_NAMESPACE}.quantize_per_tensor": _quantize,
    f"{_NAMESPACE}.dequantize_per_tensor": _dequantize,
    f"{_NAMESPACE}.quantize_per_channel": _quantize_channels,
    f"{_NAMESPACE}.dequantize_per_channel": _dequantize_channels,
}
