"""Operators of quantised programs, as pt2e and torchao write them around what they quantise."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import functions, movement, reductions
from tosa_convert.frontends.lowering.arithmetic import clamp, clip, divided, extremum
from tosa_convert.frontends.lowering.quantisation import dequantized, limits, rounded, unmoved
from tosa_convert.frontends.lowering.scope import Array, constant
from tosa_convert.frontends.lowering.types import FLOAT32
from tosa_convert.frontends.torch.rules.node import Node, Rule, kind_of


def _of_axis(n: Node, one: Any, rank: int, axis: int | None) -> Array:
    """Return a scale or a zero point so that it broadcasts: one number, or one for each channel."""
    held = one if isinstance(one, Array) else constant(np.asarray(one))
    shape = [1] * rank
    if axis is not None:
        shape[axis] = held.size
    return movement.reshape(n.scope, held, shape)


def _per_channel(rule: Rule) -> Rule:
    """Return the rule that has scales along an axis, which its fourth operand is."""
    return lambda n, a, scales, zeros, axis, *given, **_: rule(
        n, a, scales, zeros, *given, axis=axis % a.rank
    )


def _quantize(
    n: Node,
    a: Array,
    scale: Any,
    zero_point: Any,
    least: int,
    most: int,
    *_: Any,
    axis: int | None = None,
    **__: Any,
) -> Array:
    """Multiply by the reciprocal of the scale, as torch does, and round halves to even."""
    s = n.scope
    factor = n.convert(_of_axis(n, scale, a.rank, axis), FLOAT32)
    zero = _of_axis(n, zero_point, a.rank, axis)
    inverse = divided(s, constant(np.ones((1,) * a.rank, np.float32)), factor)
    real = s.mul(unmoved(n.convert(a, FLOAT32)), inverse)
    if (least, most) == limits(n.dtype):
        return rounded(s, real, zero, n.dtype)
    number = zero.number()
    if number is not None:
        real = clip(n.scope, real, least - int(number), most - int(number))
        return rounded(s, real, zero, n.dtype)
    made = rounded(s, real, zero, n.dtype)
    for bound, name in ((least, "maximum"), (most, "minimum")):
        made = extremum(s, name, made, constant(np.full((1,) * a.rank, bound).astype(made.dtype)))
    return made


def _dequantize(
    n: Node, a: Array, scale: Any, zero_point: Any, *_: Any, axis: int | None = None, **__: Any
) -> Array:
    zero = None if zero_point is None else _of_axis(n, zero_point, a.rank, axis)
    factor = n.convert(_of_axis(n, scale, a.rank, axis), FLOAT32)
    if a.is_constant:  # Weights stay integers.
        a = n.scope.array(n.scope.whole(a), a.dtype)
    return n.convert(dequantized(n.scope, a, factor, zero), n.dtype)


def _choose(
    n: Node, a: Array, least: int, most: int, eps: float, dtype: Any, *, is_symmetric: bool
) -> list[Array]:
    """Return the scale and the zero point with which the numbers fill the range."""
    s, x = n.scope, n.convert(a, FLOAT32)
    ends = [reductions.extreme(s, x, range(x.rank), word) for word in ("min", "max")]
    low, high = (movement.reshape(s, one, (1,)) for one in ends)
    low, high = s.minimum(low, 0), s.maximum(high, 0)
    if is_symmetric:
        size = s.mul(s.maximum(s.elementwise("negate", low), high), 2 / (most - least))
        middle = np.full((1,), 128 if kind_of(dtype) == np.uint8 else 0, n.dtypes[1])
        return [n.convert(s.maximum(size, eps), n.dtype), constant(middle)]
    scale = s.maximum(s.mul(s.sub(high, low), 1 / (most - least)), eps)
    zero = functions.round_to_even(s, divided(s, low, scale))
    zero = s.minimum(s.maximum(s.sub(least, zero), least), most)
    return [n.convert(scale, n.dtype), n.convert(zero, n.dtypes[1])]


def _fake_quantized(
    n: Node, a: Array, scale: Any, zero_point: Any, *given: Any, axis: int | None = None
) -> Array:
    """Quantise and dequantise. given: what may turn it off, then the least and the greatest integer."""
    s, x = n.scope, n.convert(a, FLOAT32)
    *switches, least, most = given
    factor, zero = (
        n.convert(_of_axis(n, one, a.rank, axis), FLOAT32) for one in (scale, zero_point)
    )
    inverse = divided(s, constant(np.ones((1,) * a.rank, np.float32)), factor)
    whole = clamp(s, s.sub(least, zero), s.mul(x, inverse), s.sub(most, zero))
    made = s.mul(functions.round_to_even(s, whole), factor)
    for switch in switches:
        is_on = s.greater_equal(movement.reshape(s, switch, (1,) * a.rank), 1)
        made = s.select(is_on, made, x)
    return n.convert(made, n.dtype)


_NAMESPACE: Final = "quantized_decomposed"
RULES: Final[dict[str, Rule]] = {
    f"{_NAMESPACE}.quantize_per_tensor": _quantize,
    f"{_NAMESPACE}.dequantize_per_tensor": _dequantize,
    f"{_NAMESPACE}.quantize_per_channel": _per_channel(_quantize),
    f"{_NAMESPACE}.dequantize_per_channel": _per_channel(_dequantize),
    f"{_NAMESPACE}.choose_qparams": partial(_choose, is_symmetric=False),
    f"{_NAMESPACE}.choose_qparams_symmetric": partial(_choose, is_symmetric=True),
    "fake_quantize_per_tensor_affine": _fake_quantized,
    "fake_quantize_per_channel_affine": _per_channel(_fake_quantized),
}
