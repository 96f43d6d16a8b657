"""Elementwise torch operators and reductions by operators that lower to TOSA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from tosa_convert.frontends.recipes import cumulate

#: The largest whole exponent that is written as products.
_LARGEST_POWER: Final = 64


def power(x: Any, exponent: Any) -> Any:
    """Whole powers as products: TOSA's POW is undefined for negative numbers."""
    if isinstance(exponent, float) and not x.is_floating_point():
        return NotImplemented  # The result has another type.
    if x.is_floating_point() and abs(exponent) == 0.5:
        return torch.sqrt(x) if exponent > 0 else torch.rsqrt(x)
    if exponent != int(exponent) or abs(exponent) > _LARGEST_POWER:
        return NotImplemented
    if exponent < 0:
        return power(x, -exponent).reciprocal() if x.is_floating_point() else NotImplemented
    if exponent < 2:
        return x.clone() if exponent else torch.ones_like(x)
    half = power(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half


def variance_and_mean(
    x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """Compute variance and mean in the tensor's own type."""
    dims = list(range(x.dim())) if not dim else [axis % x.dim() for axis in dim]
    count = math.prod(x.shape[axis] for axis in dims)
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    divisor = max(count - (1 if correction is None else correction), 0)
    variance = (centred * centred).sum(dims, keepdim=True) / divisor
    if not keepdim:
        variance, mean = torch.squeeze(variance, dims), torch.squeeze(mean, dims)
    return variance, mean


def group_normalization(
    x: Any, weight: Any, bias: Any, n: int, c: int, size: int, groups: int, eps: float
) -> Any:
    """Normalise the elements of each group, then scale each channel; torch gathers its factors."""
    if x.dtype is not torch.float32:
        return NotImplemented  # torch computes in FP32.
    rows = x.reshape(n, groups, -1)
    variance, mean = variance_and_mean(rows, [2], correction=0, keepdim=True)
    factor = torch.rsqrt(variance + eps)
    found = ((rows - mean) * factor).reshape(x.shape)
    channels = [1, c, *[1] * (x.dim() - 2)]
    if weight is not None:
        found = found * weight.reshape(channels)
    if bias is not None:
        found = found + bias.reshape(channels)
    return found, mean.reshape(n, groups), factor.reshape(n, groups)


def asinh(x: Any) -> Any:
    """Compute it by the logarithm of the magnitude, so that large negative numbers do not cancel."""
    size = x.abs()
    return torch.sign(x) * torch.log(size + torch.sqrt(size * size + 1))


def acosh(x: Any) -> Any:
    """Compute it by the logarithm; NaN below 1."""
    return torch.log(x + torch.sqrt(x * x - 1))


def atanh(x: Any) -> Any:
    """Compute it by the logarithm of a quotient."""
    return torch.log((1 + x) / (1 - x)) * 0.5


def sinh(x: Any) -> Any:
    """Compute it by exponentials."""
    return (torch.exp(x) - torch.exp(-x)) * 0.5


def cosh(x: Any) -> Any:
    """Compute it by exponentials."""
    return (torch.exp(x) + torch.exp(-x)) * 0.5


def asin(x: Any) -> Any:
    """Compute it by the arc tangent of the half angle, which has no pole at 1."""
    return torch.atan(x / (1 + torch.sqrt(1 - x * x))) * 2


def acos(x: Any) -> Any:
    """Compute the complement of the arc sine."""
    return math.pi / 2 - asin(x)


def atan2(y: Any, x: Any) -> Any:
    """Compute the arc tangent of the quotient, and move it into the quadrant of (x, y)."""
    on_axis = x == 0
    angle = torch.atan(y / torch.where(on_axis, torch.ones_like(x), x))
    half_turn = torch.where(y < 0, -math.pi, math.pi)
    angle = torch.where(x < 0, angle + half_turn, angle)
    return torch.where(on_axis, torch.sign(y) * (math.pi / 2), angle)


def erfc(x: Any) -> Any:
    """Compute the complement of ERF."""
    return 1 - torch.erf(x)


def hypot(x: Any, y: Any) -> Any:
    """Compute the root of the sum of squares."""
    return torch.sqrt(x * x + y * y)


def isfinite(x: Any) -> Any:
    """Not NaN and not infinite."""
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < math.inf


def isinf(x: Any) -> Any:
    """Return whether elements are infinite, of either sign."""
    if not x.is_floating_point():
        return torch.zeros_like(x, dtype=torch.bool)
    return x.abs() == math.inf


def signbit(x: Any) -> Any:
    """Negative, also negative zero, whose reciprocal is negative infinity."""
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def copysign(x: Any, y: Any) -> Any:
    """Give the magnitude of x the sign of y."""
    size = x.abs()
    return torch.where(signbit(y), -size, size)


def product(x: Any, dims: Sequence[int] | None, **options: Any) -> Any:
    """Lower `prims.prod` to products over one axis after the other."""
    kind = options.get("output_dtype") or x.dtype
    for dim in sorted(range(x.dim()) if dims is None else dims, reverse=True):
        x = torch.prod(x, dim, dtype=kind)
    return x


def _shifted(x: Any, dim: int, count: int, fill: Any) -> Any:
    """Move the tensor towards higher indices along an axis, with `fill` in front."""
    front = torch.full_like(x.narrow(dim, 0, count), fill)
    return torch.cat([front, x.narrow(dim, 0, x.shape[dim] - count)], dim)


def cumulative_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """Multiply neighbours at distances of 1, 2, 4, ...: as many steps as the size has bits."""
    x = x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64))
    if x.dim() == 0:
        return x.clone()
    return cumulate(x, x.shape[dim], torch.mul, lambda part, count: _shifted(part, dim, count, 1))


def cumulative_extreme(x: Any, dim: int, *, is_maximum: bool) -> Any:
    """Find the largest or smallest element so far, and where it is: of equal ones the last."""
    later, fill = (torch.gt, -math.inf) if is_maximum else (torch.lt, math.inf)
    if x.dim() == 0 or not x.is_floating_point():
        return NotImplemented
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    index = torch.arange(x.shape[dim], device=x.device).reshape(shape).expand(x.shape)

    def best(now: Any, before: Any) -> Any:
        better = later(before[0], now[0])
        return [torch.where(better, old, new) for old, new in zip(before, now, strict=True)]

    def moved(now: Any, count: int) -> Any:
        return _shifted(now[0], dim, count, fill), _shifted(now[1], dim, count, 0)

    return tuple(cumulate((x, index), x.shape[dim], best, moved))


def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """`_safe_softmax`, which attention has: 0 where all scores are -inf, as if these were finite.

    In any other row, the largest score is finite and the sum at least 1, or the result NaN.
    """
    if not x.dim() or not x.shape[dim]:
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    ones = [1] * x.dim()
    lowest = torch.full(ones, torch.finfo(x.dtype).min, dtype=x.dtype)
    powers = torch.exp(x - torch.maximum(x.amax(dim, keepdim=True), lowest))
    total = torch.maximum(powers.sum(dim, keepdim=True), torch.ones(ones, dtype=x.dtype))
    return powers / total


def distances(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Compute the distance of every row of x to every row of y."""
    return _size_of_rows(x.unsqueeze(-2) - y.unsqueeze(-3), p)


def distances_of_pairs(x: Any, p: float = 2) -> Any:
    """Compute the distance of every row to each row after it."""
    if x.shape[0] < 2:
        return NotImplemented
    return torch.cat(
        [_size_of_rows(x[row + 1 :] - x[row : row + 1], p) for row in range(x.shape[0] - 1)]
    )


def _size_of_rows(x: Any, p: float) -> Any:
    x = x.abs()
    if p == 1:
        return x.sum(-1)
    if p == 2:
        return torch.sqrt((x * x).sum(-1))
    if p == math.inf:
        return x.amax(-1)
    return NotImplemented


def remainder_of_truncation(x: Any, y: Any) -> Any:
    """`fmod`: what is left of x after whole multiples of y, with the sign of x."""
    kind = torch.result_type(x, y)
    x, y = _operands(x, y)
    if not kind.is_floating_point:
        return (x - torch.div(x, y, rounding_mode="trunc") * y).to(kind)
    size = y.abs()
    left = x.abs() - _product(torch.floor(x.abs() / size), size)
    # A quotient that was rounded to the next whole number is one too many or too few.
    left = torch.where(left < 0, left + size, left)
    left = torch.where(left >= size, left - size, left)
    return torch.where(x < 0, -left, left).to(kind)


def divide_to_whole(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Lower `div` with a rounding mode; a plain quotient is one off at some multiples of y."""
    kind = torch.result_type(x, y)
    if rounding_mode is None or kind is torch.bool:
        return NotImplemented
    if rounding_mode == "trunc" and not kind.is_floating_point and kind.itemsize >= 4:
        return NotImplemented  # It is INTDIV.
    x, y = _operands(x, y)
    if rounding_mode == "trunc" and not kind.is_floating_point:
        return torch.div(x, y, rounding_mode="trunc").to(kind)
    if rounding_mode == "floor":
        made = _floor_quotient(x, y)
        return (made + (x - x) if kind.is_floating_point else made).to(kind)  # NaN for infinities.
    whole = _floor_quotient(x.abs(), y.abs())
    return torch.where((x < 0) != (y < 0), -whole, whole).to(kind)


def floor_divide(x: Any, y: Any) -> Any:
    """Lower `//`; see `divide_to_whole`."""
    return divide_to_whole(x, y, rounding_mode="floor")


def remainder_of_floor(x: Any, y: Any) -> Any:
    """Lower `%`; a plain remainder is y, not 0, where the quotient is one too small."""
    kind = torch.result_type(x, y)
    if kind is torch.bool or not torch.is_tensor(x):
        return NotImplemented
    x, y = _operands(x, y)
    if kind.is_floating_point:
        return (x - _product(_floor_quotient(x, y), y)).to(kind)
    left = x - torch.div(x, y, rounding_mode="trunc") * y
    is_other_sign = torch.logical_and(left != 0, (left < 0) != (y < 0))
    return (left + torch.where(is_other_sign, y, torch.zeros_like(y))).to(kind)


def _operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Return both operands as tensors of the type in which they are divided."""
    kind = torch.result_type(x, y)
    wide = torch.float32 if kind.is_floating_point else torch.int32
    kind = wide if kind.itemsize < wide.itemsize else kind
    if not torch.is_tensor(y):
        y = torch.full([1] * x.dim(), y, dtype=kind, device=x.device)
    return x.to(kind), y.to(kind)


def _product(whole: Any, y: Any) -> Any:
    """Multiply; no multiple of infinity is 0."""
    return torch.where(whole == 0, torch.zeros_like(whole), whole * y)


def _floor_quotient(x: Any, y: Any) -> Any:
    """Round the quotient down; of floating point move it to where its product with y is next below x."""
    if not x.is_floating_point():
        whole = torch.div(x, y, rounding_mode="trunc")
        is_above = torch.logical_and(whole * y != x, (x < 0) != (y < 0))
        return torch.where(is_above, ~(-whole), whole)  # One less.
    size, part = y.abs(), torch.where(y < 0, -x, x)
    whole = torch.floor(part / size)
    whole = torch.where((whole + 1) * size <= part, whole + 1, whole)
    # Of a negative number and infinity it is -1.
    is_above = torch.logical_or(whole * size > part, torch.logical_and(whole == 0, part < 0))
    return torch.where(is_above, whole - 1, whole)


def power_of_two(x: Any) -> Any:
    """`exp2`: POW is undefined for infinities and NaN."""
    is_finite = x.abs() < math.inf
    power = torch.pow(2.0, torch.where(is_finite, x, torch.zeros_like(x)))
    return torch.where(is_finite, power, torch.exp(x))


def product_of_three(
    x: Any,
    y: Any,
    z: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    """`_trilinear`, which `bilinear` has: the sum of the products along axes."""
    made = None
    for one, axes in ((x, expand1), (y, expand2), (z, expand3)):
        for axis in sorted(axes):
            one = one.unsqueeze(axis)
        made = one if made is None else made * one
    assert made is not None
    return made.sum(list(sumdim)) if sumdim else made


def dropout_of_inference(x: Any, p: float, train: bool | None) -> Any:
    """Return all elements, and a mask that keeps all: `native_dropout` in inference."""
    if train is None or train:
        return NotImplemented
    return x.clone(), torch.ones_like(x, dtype=torch.bool)


def leaky_relu_of_means(
    x: Any, noise: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, *_: Any
) -> Any:
    """`rrelu` in inference, where the slope is the mean of the bounds."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise.clone()
