"""Convolutions over images of NHWC or NDHWC; zero points are subtracted before the padding."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    Type,
    is_float,
    new_result,
)
from tosa_convert.reference.parts import affordable, steps
from tosa_convert.reference.products import Products
from tosa_convert.reference.windows import Border, Image, blocks, image_of

#: Bytes of the windows that are copied for one product of matrices.
_COPIED_BYTES: Final = 2 << 20
#: Weights that are converted to wider types at a time.
_WEIGHTS: Final = 1 << 20
#: Bytes of the sums of a depthwise convolution that are added to at a time.
_SUMMED_BYTES: Final = 1 << 20
#: Bytes that a weight of it is converted in.
_FACTOR_BYTES: Final = 16
#: Elements that are multiplied before they are added to sums.
_MULTIPLIED: Final = 1 << 17
#: Elements that `einsum` takes for buffers.
_BUFFERED: Final = 3 << 13
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
    """Return the sums over the window alone, for each channel and multiplier, as CONV2D."""
    height, width, channels, multiplier = call.raw("weight").shape
    free = affordable(call, 1, sys.maxsize)
    step = free // (2 * _FACTOR_BYTES * height * width * multiplier)
    if step < channels:
        return _in_groups(call, _convolve_depthwise, max(1, step))
    extent = (height - 1) * call.attributes["dilation"][0] + 1
    columns, outputs = call.result.shape[2:]
    window = max(extent * call.raw("input").shape[2] * (channels + outputs) * 4, columns)
    if free < window:
        return _in_columns(call, columns * free // (2 * window))
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
    free = affordable(call, 1, sys.maxsize) // kind.itemsize
    long = min(free // (4 * (height * width + 2)), _LINE)
    repeats = max(1, min(columns, long // outputs))
    line = repeats * outputs
    factors = weight.reshape(height, width, outputs).astype(kind)
    border = Border(call.attributes["pad"], stride, dilation, point or call.outside)
    most = min(free // 4, _MULTIPLIED)
    phases = _phases(border, factors, repeats, most)
    bias = call.value("bias")
    if point:
        bias = bias.astype(np.int64) - point * weight.sum(axis=(0, 1), dtype=np.int64).reshape(-1)
    has_bias = bool(bias.any())
    whole = products.whole_kind(bias, result.dtype)
    bias = _repeated(bias.astype(whole), max(1, long // outputs) * (outputs // bias.size))
    # Columns of one phase at a time, if a line has all of them.
    is_whole = line >= columns * outputs
    # Sums, products, and the former with a bias in a type that is not that of the memory of the result.
    has_own = whole != result.dtype and not (is_whole and whole.itemsize == result.itemsize)
    summed = kind.itemsize + has_own * whole.itemsize
    beside = ((height * width + 2) * line + (len(phases) > 1) * max(most, line)) * kind.itemsize
    step = _depthwise_rows(call, kind, len(phases) if is_whole else 1, line * summed, beside)
    row = bias if has_bias else None
    last = phases[-1] if len(phases) > 1 and kind == whole else None
    for batch, rows in _rows(result, step):
        for phase in () if is_whole else phases:
            phase.load(image, batch, rows, kind, multiplier)
        whole_lines = result[batch, rows].reshape(-1, columns * outputs)
        for start in range(0, columns * outputs, line):
            target = whole_lines[:, start : start + line]
            found = np.empty(target.shape, whole) if has_own else target.view(whole)
            sums = found if found.dtype == kind else np.empty(target.shape, kind)
            for phase in phases:
                if is_whole:
                    phase.load(image, batch, rows, kind, multiplier)
                finish = (row, target) if phase is last else None
                phase.multiply(start, sums, is_first=phase is phases[0], finish=finish)
                if is_whole:
                    phase.drop()
            if sums is not found:
                np.copyto(found, sums, casting="unsafe")
            if last is None:
                _finish(found, row, target)
    return result


def _depthwise_rows(call: Call, kind: np.dtype[Any], phases: int, summed: int, beside: int) -> int:
    """Return how many rows of a result are computed at a time; blocks are of about the same size."""
    image = call.raw("input")
    height, _, channels, multiplier = call.raw("weight").shape
    size = image.shape[2] * channels * (1 + multiplier * (multiplier > 1)) * kind.itemsize
    size *= 1 if call.is_integer or image.dtype == kind else 2
    size //= phases
    beside += (height - 1) * call.attributes["dilation"][0] * size + _BUFFERED * kind.itemsize
    _, rows, columns, outputs = call.result.shape
    most = max(1, _SUMMED_BYTES // max(1, columns * outputs * kind.itemsize))
    each = call.attributes["stride"][0] * size + summed
    step = affordable(call, each, most, beside=beside, times=1.9 if phases > 1 else 1.6)
    return -(-rows // -(-rows // step))


def _finish(lines: Array, bias: Array | None, target: Array) -> None:
    """Add a bias, the beginning of a row, to lines of sums, and convert them, perhaps in place."""
    if lines.dtype == target.dtype:
        if bias is not None:
            _add_to_lines(lines, bias, lines)
        return
    for rows in steps(len(target), max(1, _MULTIPLIED // max(1, target.shape[1]))):
        part = lines[rows]
        if bias is not None:
            part = _add_to_lines(part, bias, np.empty(part.shape, part.dtype))
        target[rows] = part


def _phases(border: Border, factors: Array, repeats: int, most: int) -> list[_Phase]:
    """Return the taps of a line: with a stride of 2, those of even and of odd columns are apart."""
    width, dilation, stride = factors.shape[1], border.dilation[1], border.stride[1]
    return [
        _Phase(
            border,
            first,
            [x * dilation // stride for x in taps],
            _repeated(factors[:, taps], repeats),
            most,
        )
        for first in range(stride)
        if (taps := [x for x in range(width) if x * dilation % stride == first])
    ]


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
    most: elements that are multiplied at a time.
    memory, products: of the first block, which has the most rows; later ones use them again.
    part: these columns of a block.
    """

    border: Border
    first: int
    distances: list[int]
    factors: Array
    most: int
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

    def drop(self) -> None:
        """Let the columns go, for those of another phase."""
        self.memory = self.part = None

    def multiply(
        self,
        start: int,
        sums: Array,
        *,
        is_first: bool,
        finish: tuple[Array | None, Array] | None = None,
    ) -> None:
        """Add products to lines of sums, or write the first ones; finish: the bias, and where to."""
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
                count = min(len(sums), max(1, self.most // length))
                self.products = np.empty((count, length), sums.dtype)
            for block in steps(len(sums), len(self.products)):
                found = self.products[: block.stop - block.start, :length]
                taken = elements[:, :, block]
                np.einsum("yxrc,yxc->rc", taken, self.factors[..., :length], out=found)
                if finish is None:
                    sums[block] += found
                    continue
                found += sums[block]
                bias, target = finish
                if bias is not None:
                    _add_to_lines(found, bias, found)
                target[block] = found


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
    """Return weights [outputs, terms], less their zero point, and the products with an image."""
    if is_float(weight.dtype):
        empty = np.empty((weight.shape[1], 0), call.widened(weight[:0]).dtype)
        return Image(weight, 0, call.widened), Products(None, empty)
    weight = weight if weight.dtype.kind == "i" else weight.astype(np.int8)
    filters = Image(weight, call.number("weight_zp"), call.widened)
    return filters, Products(image.largest, weight.T, filters.point)


def _add_to_lines(lines: Array, row: Array, out: Array) -> Array:
    """Add the beginning of a row to each line; several lines at once if the row repeats itself so."""
    is_repeated = lines.size % row.size == row.size % lines.shape[1] == 0
    if is_repeated and lines.flags.c_contiguous and out.flags.c_contiguous:
        np.add(lines.reshape(-1, row.size), row, out=out.reshape(-1, row.size))
    else:
        np.add(lines, row[: lines.shape[1]], out=out)
    return out


def _repeated(array: Array, count: int) -> Array:
    """Return an array with its last axis so many times."""
    return array[..., None, :].repeat(count, axis=-2).reshape(*array.shape[:-1], -1)


def _rows(result: Array, step: int) -> Iterator[tuple[int, slice]]:
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
