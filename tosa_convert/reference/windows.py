"""Convolutions: operators that slide a window of weights over an image of NHWC or NDHWC.

The elements outside the image are those of value zero: the zero point is subtracted before the padding.
"""

from __future__ import annotations

import itertools
import math
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
    is_float,
    new_result,
)
from tosa_convert.reference.images import Border, Image, blocks, image_of
from tosa_convert.reference.parts import affordable, steps
from tosa_convert.reference.products import Products

#: Bytes of the windows that are copied for one product of matrices.
_COPIED_BYTES: Final = 2 << 20
#: Weights that are converted to wider types at a time.
_WEIGHTS: Final = 1 << 20
#: Bytes of the sums of a depthwise convolution that are added to at a time.
_SUMMED_BYTES: Final = 1 << 20
#: Bytes that a weight of it is converted in.
_FACTOR_BYTES: Final = 16
#: Bytes that `einsum` takes for buffers.
_BUFFERED_BYTES: Final = 3 << 15
#: Sums of a depthwise convolution that numpy adds to before it goes to the next line.
_LINE: Final = 1 << 13


def convolve(call: Call) -> Array:
    """Return the sums over window and channels of (input - input_zp) * (weight - weight_zp), plus bias.

    CONV2D and CONV3D. The sums of integers are exact; those of floating point are those of BLAS in FP32,
    which adds in an order of its own, as the specification allows.
    """
    pad, stride, dilation = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    return _convolve(call, image_of(call), call.raw("weight"), pad, stride, dilation)


def _convolve(
    call: Call,
    image: Image,
    weight: Array,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    result: Array | None = None,
) -> Array:
    outputs, *kernel, channels = weight.shape
    filters, products = _filters(call, image, weight.reshape(outputs, -1))
    terms = filters.array.shape[1]
    bias = call.value("bias")
    result = new_result(call.result, call.precision) if result is None else result
    item = products.kind.itemsize
    # Many weights are converted in groups.
    is_converted = bool(filters.point) or filters.array.dtype != products.kind
    step = affordable(call, 3 * item * max(1, terms), max(1, _WEIGHTS // max(1, terms)))
    groups = steps(outputs, step if is_converted else outputs)
    whole: Array | None = None if is_converted else filters.array.T
    if is_converted and len(groups) == 1:
        whole = filters.convert(products.kind).T
    # The copied windows of a position, the lines of the image that they are in, and the sums.
    copied = (terms + kernel[0] * stride[1] * channels) * item
    each = copied + groups[0].stop * (item + (8 if call.is_integer else 0))
    size = affordable(call, each, max(1, _COPIED_BYTES // max(1, terms * item)))
    border = Border(pad, stride, dilation, call.outside)
    for batch, rows, columns in blocks(result, size):
        padded = border.around(image, batch, rows, kernel, products.kind, window=columns)
        # [positions..., channels, window...] -> [positions..., window..., channels]
        part = np.moveaxis(_windows(padded, kernel, stride, dilation), len(kernel), -1)
        part = part.reshape(-1, terms)
        for group in groups:
            matrix = filters.part(group).convert(products.kind).T if whole is None else whole
            found = products.multiply(part, matrix)
            found += bias[group] if bias.size > 1 else bias
            target = result[batch, rows, columns][..., group]
            target[...] = found.reshape(target.shape)
    return result


def convolve_depthwise(call: Call) -> Array:
    """Return the sums over the window alone, for each channel and multiplier; see `convolve`."""
    height, width, channels, multiplier = call.raw("weight").shape
    step = affordable(call, 2 * _FACTOR_BYTES * height * width * multiplier, channels)
    if step < channels:
        return _in_groups(call, _convolve_depthwise, step)
    extent = (height - 1) * call.attributes["dilation"][0] + 1
    columns, outputs = call.result.shape[2:]
    window = max(extent * call.raw("input").shape[2] * (channels + outputs) * 4, columns)
    if (part := affordable(call, 1, window)) < window:
        return _in_columns(call, columns * part // (2 * window))
    return _convolve_depthwise(call)


def _convolve_depthwise(call: Call) -> Array:
    image, weight = image_of(call), call.value("weight")
    height, width, _, multiplier = weight.shape
    if call.is_integer and call.number("weight_zp"):
        weight = weight - call.number("weight_zp")
    # sum((x - zp) * w) = sum(x * w) - zp * sum(w), where the border of x is zp.
    point, image = image.point, image._replace(point=0)
    stride, dilation = call.attributes["stride"], call.attributes["dilation"]
    largest = None if image.largest is None else max(image.largest, abs(point))
    products = Products(largest, weight.reshape(height * width, -1))
    kind = products.sum_kind
    result = new_result(call.result, call.precision)
    columns, outputs = result.shape[2:]
    # numpy multiplies long lines faster than those of the channels alone.
    long = affordable(call, 4 * (height * width + 2) * kind.itemsize, _LINE)
    repeats = max(1, min(columns, long // outputs))
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
    bias = _repeated(bias.astype(whole), max(1, long // outputs) * (outputs // bias.size))
    # The lines of the image, the products and sums of a line.
    size = math.prod(image.array.shape[2:]) * (1 + multiplier * (multiplier > 1)) * kind.itemsize
    if not call.is_integer and image.array.dtype != kind:
        size *= 2
    each = stride[0] * size + line * (2 * kind.itemsize + whole.itemsize)
    beside = (height - 1) * dilation[0] * size + (height * width + 4) * line * kind.itemsize
    most = max(1, _SUMMED_BYTES // max(1, columns * outputs * kind.itemsize))
    step = affordable(call, each, most, beside=beside + _BUFFERED_BYTES, times=1.9)
    for batch, rows in _rows(result, step):
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


def _in_groups(call: Call, function: Operation, step: int) -> Array:
    """Return a convolution that is computed for so many outputs, or channels of its own, at a time."""
    data, weight, bias, *points = call.operands
    is_depthwise = function is _convolve_depthwise
    axis, each = (2, weight.shape[3]) if is_depthwise else (0, 1)
    result = new_result(call.result, call.precision)
    for group in steps(weight.shape[axis], step):
        outputs = slice(group.start * each, group.stop * each)
        target = result[..., outputs]
        operands = (
            data[..., group] if is_depthwise else data,
            weight[(slice(None),) * axis + (group,)],
            bias[outputs] if bias.size > 1 else bias,
            *points,
        )
        kind = Type(call.result.dtype, target.shape)
        target[...] = function(replace(call, operands=operands, results=(kind,)))
    return result


def _in_columns(call: Call, step: int) -> Array:
    """Return a depthwise convolution that is computed for so many columns of the result at a time."""
    data, weight, *others = call.operands
    before = call.attributes["pad"][2]
    stride, dilation = call.attributes["stride"][1], call.attributes["dilation"][1]
    extent = (weight.shape[1] - 1) * dilation + 1
    result = new_result(call.result, call.precision)
    for columns in steps(result.shape[2], step):
        start = columns.start * stride - before
        stop = (columns.stop - 1) * stride + extent - before
        size, width = stop - start, data.shape[2]
        part = data[:, :, max(0, start) : max(0, min(stop, width))]
        sides = min(max(0, -start), size), min(max(0, stop - width), size)
        attributes = {**call.attributes, "pad": (*call.attributes["pad"][:2], *sides)}
        target = result[:, :, columns]
        group = replace(
            call,
            operands=(part, weight, *others),
            attributes=attributes,
            results=(Type(call.result.dtype, target.shape),),
        )
        target[...] = _convolve_depthwise(group)
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
    weight = call.raw("weight")
    step = affordable(call, 16 * weight[0].size, len(weight))
    if step < len(weight) and weight.dtype != np.float32:
        return _in_groups(call, _convolve_transposed, step)
    return _convolve_transposed(call)


def _convolve_transposed(call: Call) -> Array:
    image, weight = image_of(call), call.raw("weight")
    _, height, width, channels = image.array.shape
    outputs, kernel_y, kernel_x, _ = weight.shape
    top, _, left, _ = call.attributes["out_pad"]
    stride_y, stride_x = call.attributes["stride"]
    _, _, columns, _ = call.result.shape
    filters, products = _filters(call, image, weight.reshape(-1, channels))
    item = products.kind.itemsize
    is_converted = bool(filters.point) or filters.array.dtype != products.kind
    matrices = filters.convert(products.kind).reshape(weight.shape) if is_converted else weight
    bias = call.value("bias")
    result = new_result(call.result, call.precision)
    kind = np.dtype(np.int64) if call.is_integer else products.kind
    # Lines of sums, of the image, and of products.
    summed = columns * outputs * kind.itemsize
    each = summed + width * (2 * channels * item + outputs * (item + kind.itemsize)) // stride_y
    most = max(kernel_y, _SUMMED_BYTES // max(1, summed))
    is_sum = call.is_integer or result.dtype == kind
    for batch, block in _rows(result, max(stride_y, affordable(call, each, most))):
        # Integers wrap around as they would at the end.
        sums: Array = result[batch, block] if is_sum else np.empty(result[batch, block].shape, kind)
        sums[...] = 0
        # The lines of the image that the block has products of, in its type.
        needed = _reaching(block.start - top - kernel_y + 1, block.stop - top, stride_y, height)
        rows = image._replace(array=image.array[batch, needed])
        column = len(rows.array) * (2 * channels * item + outputs * (item + 12))
        for part in steps(width, affordable(call, column, width)):
            lines = rows._replace(array=rows.array[:, part]).convert(products.kind)
            for ky, kx in itertools.product(range(kernel_y), range(kernel_x)):
                y = _reaching(block.start - top - ky, block.stop - top - ky, stride_y, height)
                x = _reaching(-left - kx, columns - left - kx, stride_x, width)
                x = slice(max(x.start, part.start), min(x.stop, part.stop))
                if y.start >= y.stop or x.start >= x.stop:
                    continue
                taken = lines[
                    y.start - needed.start : y.stop - needed.start,
                    x.start - part.start : x.stop - part.start,
                ]
                found = products.multiply(taken.reshape(-1, channels), matrices[:, ky, kx].T)
                top_line = y.start * stride_y + ky + top - block.start
                target = sums[top_line::stride_y, x.start * stride_x + kx + left :: stride_x]
                target[: taken.shape[0], : taken.shape[1]] += found.reshape(
                    *taken.shape[:2], outputs
                ).astype(sums.dtype, copy=False)
        np.add(sums, bias, out=sums, casting="unsafe")
        if not is_sum:
            result[batch, block] = sums
    return result


def _reaching(start: int, stop: int, stride: int, size: int) -> slice:
    """Return the indices of an axis that are multiplied by the stride to a number of a range."""
    first, last = -(-start // stride), -(-stop // stride)
    return slice(max(0, first), max(0, min(size, last)))


def convolve_block_scaled(call: Call) -> Array:
    """Return the convolution of the numbers that block-scaled data and weights stand for."""
    from tosa_convert.reference.block_scaled import scaled

    image = Image(scaled(call, "input"), 0, call.widened)
    pad, stride, dilation = (call.sizes(name) for name in ("pad", "stride", "dilation"))
    result = new_result(call.result, call.precision)
    outputs, *window = call.raw("weight_data").shape
    for group in steps(outputs, affordable(call, 8 * math.prod(window), outputs)):
        operands = list(call.operands)
        bias = call.raw("bias")
        operands[4] = bias[group] if bias.size > 1 else bias
        part = replace(call, operands=tuple(operands))
        weight = scaled(call, "weight", group)
        _convolve(part, image, weight, pad, stride, dilation, result[..., group])
    return result


def _filters(call: Call, image: Image, weight: Array) -> tuple[Image, Products]:
    """Return weights, of which their zero point is to be subtracted, and the products with an image.

    weight: [outputs, terms].
    """
    if is_float(weight.dtype):
        empty = np.empty((weight.shape[1], 0), call.widened(weight[:0]).dtype)
        return Image(weight, 0, call.widened), Products(None, empty)
    weight = weight if weight.dtype.kind == "i" else weight.astype(np.int8)
    filters = Image(weight, call.number("weight_zp"), call.widened)
    return filters, Products(image.largest, weight.T, filters.point)


def _add_to_lines(lines: Array, row: Array) -> None:
    """Add the beginning of a row to each line; several lines at once if the row repeats itself so."""
    if lines.flags.c_contiguous and lines.size % row.size == row.size % lines.shape[1] == 0:
        lines = lines.reshape(-1, row.size)
    lines += row[: lines.shape[1]]


def _repeated(array: Array, count: int) -> Array:
    """Return an array with its last axis so many times."""
    return array[..., None, :].repeat(count, axis=-2).reshape(*array.shape[:-1], -1)


def _rows(result: Array, step: int) -> Iterator[tuple[int, slice]]:
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


OPERATIONS: Final[dict[str, Operation]] = {
    "CONV2D": convolve,
    "CONV2D_BLOCK_SCALED": convolve_block_scaled,
    "CONV3D": convolve,
    "DEPTHWISE_CONV2D": convolve_depthwise,
    "TRANSPOSE_CONV2D": convolve_transposed,
}
