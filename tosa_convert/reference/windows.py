"""Images whose parts are converted and padded for windows, and pooling."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    Type,
    integer_limits,
    is_float,
    new_result,
)
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.parts import PART, affordable, slices, steps
from tosa_convert.reference.products import largest_of

# -- images whose parts are converted, and padded for windows that move over them ------------------


class Image(NamedTuple):
    """A tensor that is converted a part at a time.

    point: the zero point, which is subtracted. widen: converts elements to a type of numpy's own.
    """

    array: Array
    point: int
    widen: Callable[[Array], Array]

    @property
    def largest(self) -> int | None:
        """Return the greatest absolute value of integers without the zero point."""
        if is_float(self.array.dtype):
            return None
        is_native = self.array.dtype.kind == "i"
        return largest_of(self.array if is_native else self.array.astype(np.int8), self.point)

    def part(self, place: slice) -> Image:
        return self._replace(array=self.array[place])

    def convert(self, kind: np.dtype[Any]) -> Array:
        """Return the whole tensor as a new array."""
        result = np.empty(self.array.shape, kind)
        self.fill(result, self.array)
        return result

    def fill(self, target: Array, part: Array) -> None:
        """Write a part of the tensor into an array of another type."""
        # numpy copies columns that are apart faster if all channels are one element.
        pixel = part.shape[-1] * part.itemsize
        are_apart = part.size and part.strides[-1] == part.itemsize and part.strides[-2] > pixel
        if are_apart and part.dtype == target.dtype:
            _pixels(target)[...] = _pixels(part)
        else:
            if are_apart:
                part = _pixels(part).copy().view(part.dtype).reshape(part.shape)
            target[...] = part if part.dtype.kind in "bi" else self.widen(part)
        if self.point:
            target -= target.dtype.type(self.point)


class Border(NamedTuple):
    """The elements around an image, and how windows move over it."""

    pad: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    value: float

    def around(
        self,
        image: Image,
        batch: int,
        rows: slice,
        kernel: Sequence[int],
        kind: np.dtype[Any],
        value: float | None = None,
        columns: tuple[int, int] = (0, 1),
        memory: Array | None = None,
        is_read: bool = False,
        window: slice | None = None,
    ) -> Array:
        """Return the part of a padded image that some rows of the result are computed of.

        Its first axis is that of the rows. columns: the first one, and the distance to the next.
        memory: the part of a block before, of at least as many rows, that is not needed any more.
        is_read: nothing writes into the part, so that it may be the image's own memory.
        window: the columns of the result; by default all of the image are needed.
        """
        source = image.array[batch]
        extent = (kernel[0] - 1) * self.dilation[0] + 1
        start = rows.start * self.stride[0] - self.pad[0]
        stop = (rows.stop - 1) * self.stride[0] + extent - self.pad[0]
        first = min(max(start, 0), len(source))
        inside = slice(first, max(min(stop, len(source)), first))
        before = min(max(-start, 0), stop - start)
        padding = zip(self.pad[2::2], source.shape[1:], self.pad[3::2], strict=False)
        if window is not None:
            reach = (kernel[1] - 1) * self.dilation[1] + 1
            last = (window.stop - 1) * self.stride[1] + reach
            columns = (window.start * self.stride[1], 1)
        axes = [
            _pad(*axis, *columns, last if window else None) if i == 0 else _pad(*axis, 0, 1)
            for i, axis in enumerate(padding)
        ]
        part: Array = source[(inside, *(axis.source for axis in axes))]
        shape = (stop - start, *(axis.size for axis in axes), source.shape[-1])
        if is_read and part.shape == shape and not image.point:
            return part if part.dtype == kind else image.widen(part).astype(kind, copy=False)
        padded = np.empty(shape, kind) if memory is None else memory[: shape[0]]
        starts = (before, *(axis.start for axis in axes))
        place = tuple(slice(a, a + n) for a, n in zip(starts, part.shape[:-1], strict=True))
        # A block inside of the image has the borders of the one before.
        is_filled = memory is not None and len(part) == len(padded)
        for axis, cut in enumerate(() if is_filled else place):
            # What earlier axes have filled is left out.
            for beside in (slice(None, cut.start), slice(cut.stop, None)):
                padded[(*place[:axis], beside)] = self.value if value is None else value
        image.fill(padded[place], part)
        return padded


class _Padded(NamedTuple):
    """An axis of a padded image: its size, and the elements of the image from `start` on."""

    size: int
    start: int
    source: slice


def _pad(
    before: int, size: int, after: int, first: int, step: int, stop: int | None = None
) -> _Padded:
    """Pad an axis, and take every `step`-th element from the first one on, up to `stop`."""
    stop = before + size + after if stop is None else stop
    start = max(0, -((first - before) // step))
    source = slice(first + start * step - before, max(0, min(size, stop - before)), step)
    return _Padded(-((first - stop) // step), start, source)


def _pixels(part: Array) -> Array:
    """Return an image whose elements have all channels of a pixel."""
    found: Array = part.view(np.dtype((np.void, part.shape[-1] * part.itemsize)))[..., 0]
    return found


def image_of(call: Call) -> Image:
    """Return the input, of which its zero point is to be subtracted."""
    has_point = call.is_integer and call.has("input_zp")
    return Image(call.raw("input"), call.number("input_zp") if has_point else 0, call.widened)


def blocks(result: Array, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Iterate over the batches of a result, and blocks of so many positions: rows, or a part of one."""
    shape = result.shape[1:3]
    # A column of a volume has several positions.
    size = max(1, size // max(1, math.prod(result.shape[3:-1])))
    for batch in range(len(result)):
        for rows, columns in slices(shape, size):
            yield (
                batch,
                slice(rows.start or 0, min(rows.stop or shape[0], shape[0])),
                slice(columns.start or 0, min(columns.stop or shape[1], shape[1])),
            )


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
