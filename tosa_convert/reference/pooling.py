"""Pooling: operators that combine the elements of windows that slide over an image."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.records import replace
from tosa_convert.reference.call import Array, Call, Operation, Type, integer_limits, new_result
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.images import Border, Image, blocks, image_of
from tosa_convert.reference.parts import PART, affordable, steps


def pool_maximum(call: Call) -> Array:
    """Return the greatest element of each window, without those outside the image."""
    return _pool_channels(call, _pool_maximum)


def _pool_maximum(call: Call) -> Array:
    image = Image(call.raw("input"), 0, call.widened)
    kernel, stride, pad = _pooling(call)
    ignores = ignores_nan(call) and not call.is_integer
    kind = image.array.dtype if call.is_integer else call.widened(image.array[:0]).dtype
    least = -np.inf if not call.is_integer else np.iinfo(kind).min
    function = np.fmax if ignores else np.maximum
    result = new_result(call.result, call.precision)
    border = Border(pad, stride, (1, 1), least)
    for batch, rows, columns in blocks(result, _pooled(call, kind, stride)):
        padded = border.around(image, batch, rows, kernel, kind, is_read=True, window=columns)
        largest = _combine(padded, kernel, stride, function)
        if ignores:
            # A window with nothing but NaN is NaN.
            padded = border.around(image, batch, rows, kernel, kind, np.nan, window=columns)
            is_number = ~np.isnan(padded)
            counted = _combine(is_number, kernel, stride, np.logical_or)
            largest = np.where(counted, largest, np.nan)
        result[batch, rows, columns] = largest
    return result


def pool_average(call: Call) -> Array:
    """Return the mean of each window, without the elements outside the image.

    Integers: the sum of (input - input_zp) times a reciprocal of the count, as a multiplier of 31 bits
    and a shift, rounded half up; then output_zp is added, and the result saturates.
    """
    return _pool_channels(call, _pool_average)


def _pool_average(call: Call) -> Array:
    image = image_of(call)
    kernel, stride, pad = _pooling(call)
    _, height, width, _ = image.array.shape
    if image.largest is None:
        kind = call.widened(image.array[:0]).dtype
    else:
        fits = kernel[0] * kernel[1] * image.largest < 1 << 31
        kind = np.dtype(np.int32 if fits else np.int64)
    by_row = _counts(height, kernel[0], stride[0], pad[:2])
    by_column = _counts(width, kernel[1], stride[1], pad[2:])
    result = new_result(call.result, call.precision)
    border = Border(pad, stride, (1, 1), call.outside)
    for batch, rows, columns in blocks(result, _pooled(call, kind, stride)):
        padded = border.around(image, batch, rows, kernel, kind, is_read=True, window=columns)
        total = _combine(padded, kernel, stride, np.add)
        counts = (by_row[rows, None] * by_column[columns])[:, :, None]
        if call.is_integer:
            result[batch, rows, columns] = _rounded_mean(call, total, counts)
        else:
            if not np.isfinite(total.sum()):
                # A sum may leave FP32, or one on the way to it, where the mean does not.
                total = _combine(padded.astype(np.float64), kernel, stride, np.add)
            # A window of one element is a view of the image, which stays as it is.
            result[batch, rows, columns] = total / counts.astype(total.dtype)
    return result


def _rounded_mean(call: Call, total: Array, counts: Array) -> Array:
    # The greatest power of two below the count, times 2^30, divided by the count.
    bits = np.ceil(np.log2(counts)).astype(np.int64)
    multiplier = (((np.int64(1) << 30) + 1) << bits) // counts
    shift = 30 + bits
    scaled = total * multiplier
    scaled += np.int64(1) << (shift - 1)
    scaled >>= shift
    low, high = integer_limits(call.result.dtype)
    point = call.number("output_zp")
    if point:
        scaled += point
    return np.asarray(np.clip(scaled, low, high, out=scaled))


def _pooled(call: Call, kind: np.dtype[Any], stride: Sequence[int]) -> int:
    """Return how many windows are combined at a time."""
    channels = call.result.shape[-1]
    # Elements of the image, partial results, and INT64.
    each = kind.itemsize * (2 * math.prod(stride) + 1) + (24 if call.is_integer else 4)
    return affordable(call, each * channels, max(1, PART // max(1, channels)))


def _pool_channels(call: Call, function: Operation) -> Array:
    """Return the result of pooling, computed for some channels at a time if windows are large."""
    image, *others = call.operands
    kernel, _, _ = _pooling(call)
    step = affordable(call, 16 * math.prod(kernel), image.shape[-1])
    if step >= image.shape[-1]:
        return np.asarray(function(call))
    result = new_result(call.result, call.precision)
    for channels in steps(image.shape[-1], step):
        target = result[..., channels]
        operands = (image[..., channels], *others)
        kind = Type(call.result.dtype, target.shape)
        target[...] = function(replace(call, operands=operands, results=(kind,)))
    return result


def _combine(padded: Array, kernel: Sequence[int], stride: Sequence[int], function: Any) -> Array:
    """Combine the elements of each window of a padded image by a function of two."""
    # Rows of windows first, then their columns: each element takes part in fewer steps.
    result = padded
    for axis in (0, 1):
        last = padded.shape[axis] - kernel[axis]
        parts = [
            result[(slice(None),) * axis + (slice(first, first + last + 1, stride[axis]),)]
            for first in range(kernel[axis])
        ]
        result = functools.reduce(function, parts)
    return result


def _pooling(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, stride and padding, which are attributes, or operands of adaptive pooling."""
    names = ("kernel", "stride", "pad")
    if call.has("kernel"):
        kernel, stride, pad = (call.sizes(name) for name in names)
    else:
        kernel, stride, pad = (tuple(call.attributes[name]) for name in names)
    return kernel, stride, pad


def _counts(size: int, kernel: int, stride: int, pad: Sequence[int]) -> Array:
    """Return how many elements of each window along an axis are inside the image."""
    starts = np.arange(0, size + pad[0] + pad[1] - kernel + 1, stride) - pad[0]
    inside: Array = np.minimum(starts + kernel, size) - np.maximum(starts, 0)
    return np.maximum(inside, 1)


OPERATIONS: Final[dict[str, Operation]] = {
    "AVG_POOL2D": pool_average,
    "AVG_POOL2D_ADAPTIVE": pool_average,
    "MAX_POOL2D": pool_maximum,
    "MAX_POOL2D_ADAPTIVE": pool_maximum,
}
