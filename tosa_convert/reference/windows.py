"""Convolutions and pooling: operators that slide a window over an image of NHWC or NDHWC.

The elements outside the image are those of value zero: the zero point is subtracted before the padding.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tosa_convert.records import dataclass, replace
from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    Type,
    integer_limits,
    new_result,
)
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.images import Border, Image
from tosa_convert.reference.parts import PART
from tosa_convert.reference.products import Products

#: Bytes of the windows that are copied for one product of matrices.
_COPIED_BYTES: Final = 2 << 20
#: Weights that are converted to wider types at a time.
_WEIGHTS: Final = 1 << 20
#: Bytes of the sums of a depthwise convolution that are added to at a time.
_SUMMED_BYTES: Final = 1 << 20
#: Sums of a depthwise convolution that numpy adds to before it goes to the next line.
_LINE: Final = 1 << 13


def convolve(call: Call) -> Array:
    """Return the sums over window and channels of (input - input_zp) * (weight - weight_zp), plus bias.

    CONV2D and CONV3D. The sums of integers are exact; those of floating point are those of BLAS in FP32,
    which adds in an order of its own, as the specification allows.
    """
    pad, stride, dilation = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    image, weight = _image(call), call.raw("weight")
    outputs = len(weight)
    step = max(1, _WEIGHTS // max(1, weight[0].size))
    if step >= outputs:
        return _convolve(call, image, _filters(call), pad, stride, dilation)
    result = new_result(call.result, call.precision)
    for start in range(0, outputs, step):
        part = slice(start, start + step)
        data, weight, bias, *points = call.operands
        operands = (data, weight[part], bias[part] if bias.size > 1 else bias, *points)
        kind = Type(call.result.dtype, result[..., part].shape)
        group = replace(call, operands=operands, results=(kind,))
        result[..., part] = _convolve(group, image, _filters(group), pad, stride, dilation)
    return result


def _convolve(
    call: Call,
    image: Image,
    weight: Array,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    kernel = weight.shape[1:-1]
    matrix = weight.reshape(weight.shape[0], -1).T
    products = Products(image.largest, matrix)
    matrix = products.convert(matrix)
    bias = call.value("bias")
    result = new_result(call.result, call.precision)
    flat_result = result.reshape(len(result), result.shape[1], -1, len(weight))
    copied = matrix.shape[0] * flat_result.shape[2] * products.kind.itemsize
    step = max(1, _COPIED_BYTES // max(1, copied))
    border = Border(pad, stride, dilation, call.outside)
    for batch, rows in _blocks(result, step):
        padded = border.around(image, batch, rows, kernel, products.kind)
        # [positions..., channels, window...] -> [positions..., window..., channels]
        part = np.moveaxis(_windows(padded, kernel, stride, dilation), len(kernel), -1)
        found = products.multiply(part.reshape(-1, matrix.shape[0]), matrix)
        target = flat_result[batch, rows]
        target[...] = (found + bias).reshape(target.shape)
    return result


def convolve_depthwise(call: Call) -> Array:
    """Return the sums over the window alone, for each channel and multiplier; see `convolve`."""
    image, weight = _image(call), _filters(call)
    # sum((x - zp) * w) = sum(x * w) - zp * sum(w), where the border of x is zp.
    point, image = image.point, image._replace(point=0)
    height, width, _, multiplier = weight.shape
    stride, dilation = call.attributes["stride"], call.attributes["dilation"]
    largest = None if image.largest is None else max(image.largest, abs(point))
    products = Products(largest, weight.reshape(height * width, -1))
    kind = products.sum_kind
    result = new_result(call.result, call.precision)
    columns, outputs = result.shape[2:]
    # numpy multiplies long lines faster than those of the channels alone.
    repeats = max(1, min(columns, _LINE // outputs))
    line = repeats * outputs
    factors = weight.reshape(height, width, outputs).astype(kind)
    border = Border(call.attributes["pad"], stride, dilation, point or call.outside)
    # With a stride of 2, elements of even and of odd columns are multiplied apart.
    phases = [
        _Phase(
            border,
            first,
            [x * dilation[1] // stride[1] for x in taps],
            _repeated(factors[:, taps], repeats),
        )
        for first in range(stride[1])
        if (taps := [x for x in range(width) if x * dilation[1] % stride[1] == first])
    ]
    bias = call.value("bias")
    if point:
        bias = bias.astype(np.int64) - point * weight.sum(axis=(0, 1), dtype=np.int64).reshape(-1)
    has_bias = bias.any()
    whole = products.whole_kind(bias, result.dtype)
    bias = _repeated(bias.astype(whole), max(1, _LINE // outputs) * (outputs // bias.size))
    size = columns * outputs * kind.itemsize
    step = max(1, _SUMMED_BYTES // max(1, size))
    for batch, rows in _blocks(result, step):
        for phase in phases:
            phase.load(image, batch, rows, kind, multiplier)
        whole_lines = result[batch, rows].reshape(-1, columns * outputs)
        for start in range(0, columns * outputs, line):
            target = whole_lines[:, start : start + line]
            found = target if whole == target.dtype else np.empty(target.shape, whole)
            sums = found if found.dtype == kind else np.empty(target.shape, kind)
            for phase in phases:
                phase.multiply(start, sums, is_first=phase is phases[0])
            if sums is not found:
                np.copyto(found, sums, casting="unsafe")
            if has_bias:
                _add_to_lines(found, bias)
            if found is not target:
                target[...] = found
    return result


@dataclass
class _Phase:
    """Taps along a line of a window whose elements of an image are adjacent.

    border: how the window moves.
    first: the first column of the image that they are multiplied by; the others are a stride apart.
    distances: of each tap, how many of these columns it is from the first one.
    factors: their weights, [window rows, taps, elements of a line].
    memory, products: of the first block, which has the most rows; later ones use them again.
    part: these columns of a block.
    """

    border: Border
    first: int
    distances: list[int]
    factors: Array
    memory: Array | None = None
    products: Array | None = None
    part: Array | None = None

    def load(
        self, image: Image, batch: int, rows: slice, kind: np.dtype[Any], multiplier: int
    ) -> None:
        """Take the columns of a block."""
        columns = (self.first, self.border.stride[1])
        window = (len(self.factors), 1)
        padded = self.border.around(
            image, batch, rows, window, kind, columns=columns, memory=self.memory
        )
        if self.memory is None:
            self.memory = padded
        self.part = np.repeat(padded, multiplier, axis=-1) if multiplier > 1 else padded

    def multiply(self, start: int, sums: Array, *, is_first: bool) -> None:
        """Add products to lines of sums, which begin at the element `start`, or write the first ones."""
        assert self.part is not None
        outputs, length = self.part.shape[-1], sums.shape[-1]
        row, _, item = self.part.strides
        step = self.distances[1] - self.distances[0] if self.distances[1:] else 0
        rows, columns = self.border.dilation[0] * row, step * outputs * item
        elements: Array = np.ndarray(
            (*self.factors.shape[:2], *sums.shape),
            self.part.dtype,
            self.part,
            (start + self.distances[0] * outputs) * item,
            (rows, columns, self.border.stride[0] * row, item),
        )
        # One pass for each tap, where a product and a sum would take two.
        if is_first:
            np.einsum("yxrc,yxc->rc", elements, self.factors[..., :length], out=sums)
        else:
            if self.products is None:
                self.products = np.empty(sums.shape, sums.dtype)
            found = self.products[: len(sums), :length]
            np.einsum("yxrc,yxc->rc", elements, self.factors[..., :length], out=found)
            sums += found


def convolve_transposed(call: Call) -> Array:
    """Return the sums of the products of each element of the image with the whole window.

    The product of the element at (y, x) with the weight at (ky, kx) is added at
    (y * stride + ky + out_pad_top, x * stride + kx + out_pad_left).
    """
    image, weight = _image(call), _filters(call)
    _, height, width, channels = image.array.shape
    outputs, kernel_y, kernel_x, _ = weight.shape
    top, _, left, _ = call.attributes["out_pad"]
    stride_y, stride_x = call.attributes["stride"]
    _, _, columns, _ = call.result.shape
    products = Products(image.largest, weight.reshape(-1, channels).T)
    matrices = products.convert(weight)
    bias = call.value("bias")
    result = new_result(call.result, call.precision)
    kind = np.dtype(np.int64) if call.is_integer else products.kind
    step = max(kernel_y, _SUMMED_BYTES // max(1, columns * outputs * kind.itemsize))
    for batch, block in _blocks(result, step):
        sums: Array = np.zeros((block.stop - block.start, columns, outputs), kind)
        # The lines of the image that the block has products of, in its type.
        needed = _reaching(block.start - top - kernel_y + 1, block.stop - top, stride_y, height)
        lines = image._replace(array=image.array[batch, needed]).convert(products.kind)
        for ky, kx in itertools.product(range(kernel_y), range(kernel_x)):
            y = _reaching(block.start - top - ky, block.stop - top - ky, stride_y, height)
            x = _reaching(-left - kx, columns - left - kx, stride_x, width)
            if y.start >= y.stop or x.start >= x.stop:
                continue
            taken = lines[y.start - needed.start : y.stop - needed.start, x]
            part = products.multiply(taken.reshape(-1, channels), matrices[:, ky, kx].T)
            row, column = (
                y.start * stride_y + ky + top - block.start,
                x.start * stride_x + kx + left,
            )
            sums[row::stride_y, column::stride_x][: taken.shape[0], : taken.shape[1]] += (
                part.reshape(*taken.shape[:2], outputs)
            )
        result[batch, block] = sums + bias
    return result


def _reaching(start: int, stop: int, stride: int, size: int) -> slice:
    """Return the indices of an axis that are multiplied by the stride to a number of a range."""
    first, last = -(-start // stride), -(-stop // stride)
    return slice(max(0, first), max(0, min(size, last)))


def pool_maximum(call: Call) -> Array:
    """Return the greatest element of each window, without those outside the image."""
    image = Image(call.raw("input"), 0, call.widened)
    kernel, stride, pad = _pooling(call)
    kind = image.array.dtype if call.is_integer else call.widened(image.array[:0]).dtype
    least = -np.inf if not call.is_integer else np.iinfo(kind).min
    function = np.fmax if ignores_nan(call) else np.maximum
    result = new_result(call.result, call.precision)
    border = Border(pad, stride, (1, 1), least)
    for batch, rows in _blocks(result, _pooled_rows(result)):
        padded = border.around(image, batch, rows, kernel, kind, is_read=True)
        largest = _combine(padded, kernel, stride, function)
        if ignores_nan(call):
            # A window with nothing but NaN is NaN.
            is_number = ~np.isnan(border.around(image, batch, rows, kernel, kind, np.nan))
            counted = _combine(is_number, kernel, stride, np.logical_or)
            largest = np.where(counted, largest, np.nan)
        result[batch, rows] = largest
    return result


def pool_average(call: Call) -> Array:
    """Return the mean of each window, without the elements outside the image.

    Integers: the sum of (input - input_zp) times a reciprocal of the count, as a multiplier of 31 bits
    and a shift, rounded half up; then output_zp is added, and the result saturates.
    """
    image = _image(call)
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
    for batch, rows in _blocks(result, _pooled_rows(result)):
        padded = border.around(image, batch, rows, kernel, kind, is_read=True)
        total = _combine(padded, kernel, stride, np.add)
        counts = (by_row[rows, None] * by_column)[:, :, None]
        if call.is_integer:
            result[batch, rows] = _rounded_mean(call, total, counts)
        else:
            if not np.isfinite(total.sum()):
                # A sum may leave FP32, or one on the way to it, where the mean does not.
                total = _combine(padded.astype(np.float64), kernel, stride, np.add)
            # A window of one element is a view of the image, which stays as it is.
            result[batch, rows] = total / counts.astype(total.dtype)
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


def _pooled_rows(result: Array) -> int:
    return max(1, PART // max(1, result[:1, :1].size))


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


def convolve_block_scaled(call: Call) -> Array:
    """Return the convolution of the numbers that block-scaled data and weights stand for."""
    from tosa_convert.reference.block_scaled import scaled

    image = Image(scaled(call, "input"), 0, call.widened)
    pad, stride, dilation = (call.sizes(name) for name in ("pad", "stride", "dilation"))
    return _convolve(call, image, scaled(call, "weight"), pad, stride, dilation)


def _pooling(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, stride and padding, which are attributes, or operands of adaptive pooling."""
    names = ("kernel", "stride", "pad")
    if call.has("kernel"):
        kernel, stride, pad = (call.sizes(name) for name in names)
    else:
        kernel, stride, pad = (tuple(call.attributes[name]) for name in names)
    return kernel, stride, pad


def _image(call: Call) -> Image:
    """Return the input, of which its zero point is to be subtracted."""
    has_point = call.is_integer and call.has("input_zp")
    return Image(call.raw("input"), call.number("input_zp") if has_point else 0, call.widened)


def _filters(call: Call) -> Array:
    """Return the weights without their zero point."""
    weight = call.value("weight")
    return weight - call.number("weight_zp") if call.is_integer else weight


def _add_to_lines(lines: Array, row: Array) -> None:
    """Add the beginning of a row to each line; several lines at once if the row repeats itself so."""
    if lines.flags.c_contiguous and lines.size % row.size == row.size % lines.shape[1] == 0:
        lines = lines.reshape(-1, row.size)
    lines += row[: lines.shape[1]]


def _repeated(array: Array, count: int) -> Array:
    """Return an array with its last axis so many times."""
    return array[..., None, :].repeat(count, axis=-2).reshape(*array.shape[:-1], -1)


def _blocks(result: Array, step: int) -> Iterator[tuple[int, slice]]:
    """Iterate over the batches of a result, and blocks of their rows."""
    batches, rows = result.shape[:2]
    for batch, start in itertools.product(range(batches), range(0, rows, step)):
        yield batch, slice(start, min(start + step, rows))


def _windows(
    image: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """Return a view [positions..., channels, window...] of a padded image."""
    count = len(kernel)
    rows = zip(image.shape, kernel, stride, dilation, strict=False)
    positions = [(size - (n - 1) * apart - 1) // step + 1 for size, n, step, apart in rows]
    moved = [a * b for a, b in zip(image.strides, stride, strict=False)]
    inside = [a * b for a, b in zip(image.strides, dilation, strict=False)]
    shape = (*positions, image.shape[count], *kernel)
    return as_strided(image, shape, (*moved, image.strides[count], *inside), writeable=False)


def _counts(size: int, kernel: int, stride: int, pad: Sequence[int]) -> Array:
    """Return how many elements of each window along an axis are inside the image."""
    starts = np.arange(0, size + pad[0] + pad[1] - kernel + 1, stride) - pad[0]
    inside: Array = np.minimum(starts + kernel, size) - np.maximum(starts, 0)
    return np.maximum(inside, 1)


OPERATIONS: Final[dict[str, Operation]] = {
    "AVG_POOL2D": pool_average,
    "AVG_POOL2D_ADAPTIVE": pool_average,
    "CONV2D": convolve,
    "CONV2D_BLOCK_SCALED": convolve_block_scaled,
    "CONV3D": convolve,
    "DEPTHWISE_CONV2D": convolve_depthwise,
    "MAX_POOL2D": pool_maximum,
    "MAX_POOL2D_ADAPTIVE": pool_maximum,
    "TRANSPOSE_CONV2D": convolve_transposed,
}
