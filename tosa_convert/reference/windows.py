"""Convolutions and pooling: operators that slide a window over an image of NHWC or NDHWC.

The elements outside the image are those of value zero: the zero point is subtracted before the padding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tosa_convert.reference.call import Array, Call, Operation, integer_limits
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.products import Products

#: Bytes of the windows that are copied for one product of matrices.
_COPIED_BYTES: Final = 8 << 20
#: Bytes of the sums of a depthwise convolution that are added to at a time.
_SUMMED_BYTES: Final = 1 << 18


def convolve(call: Call) -> Array:
    """Return the sums over window and channels of (input - input_zp) * (weight - weight_zp), plus bias.

    CONV2D and CONV3D. The sums of integers are exact; those of floating point are those of BLAS in FP32,
    which adds in an order of its own, as the specification allows.
    """
    image, weight = _shifted(call, "input", "weight")
    pad, stride, dilation = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    return _convolve(call, image, weight, pad, stride, dilation)


def _convolve(
    call: Call,
    image: Array,
    weight: Array,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    kernel = weight.shape[1:-1]
    products = Products(image, weight, math.prod(weight.shape[1:]))
    matrix = products.convert(weight).reshape(weight.shape[0], -1).T
    padded = pad_image(products.convert(image), pad, call.outside)
    windows = _windows(padded, kernel, stride, dilation)
    rows = windows.shape[1]
    step = max(1, _COPIED_BYTES // max(1, windows[:1, :1].size * padded.itemsize))
    parts = []
    for batch, start in itertools.product(range(len(windows)), range(0, rows, step)):
        # [rows, ..., channels, window...] -> [positions, window..., channels]
        part = np.moveaxis(windows[batch, start : start + step], len(kernel), -1)
        flat = part.reshape(-1, matrix.shape[0])
        parts.append(products.multiply(flat, matrix))
    shape = (*windows.shape[: len(kernel) + 1], weight.shape[0])
    return np.concatenate(parts).reshape(shape) + call.value("bias")


def convolve_depthwise(call: Call) -> Array:
    """Return the sums over the window alone, for each channel and multiplier; see `convolve`."""
    image, weight = _shifted(call, "input", "weight")
    height, width, channels, multiplier = weight.shape
    attributes = call.attributes
    kind = Products(image, weight, height * width).sum_kind
    padded = pad_image(image.astype(kind, copy=False), attributes["pad"], call.outside)
    weight = weight.astype(kind, copy=False)
    if multiplier > 1:
        padded = np.repeat(padded, multiplier, axis=-1)
    weight = weight.reshape(height, width, channels * multiplier)
    windows = _windows(padded, (height, width), attributes["stride"], attributes["dilation"])
    total = np.empty(windows.shape[:4], kind)
    step = max(1, _SUMMED_BYTES // max(1, total[:1, :1].nbytes))
    for batch, start in itertools.product(range(len(total)), range(0, total.shape[1], step)):
        part = windows[batch, start : start + step]
        sums = total[batch, start : start + step]
        sums[...] = 0
        for y, x in itertools.product(range(height), range(width)):
            sums += part[..., y, x] * weight[y, x]
    return total + call.value("bias")


def convolve_transposed(call: Call) -> Array:
    """Return the sums of the products of each element of the image with the whole window.

    The product of the element at (y, x) with the weight at (ky, kx) is added at
    (y * stride + ky + out_pad_top, x * stride + kx + out_pad_left).
    """
    image, weight = _shifted(call, "input", "weight")
    count, height, width, channels = image.shape
    outputs, kernel_y, kernel_x, _ = weight.shape
    top, _, left, _ = call.attributes["out_pad"]
    stride_y, stride_x = call.attributes["stride"]
    _, rows, columns, _ = call.result.shape
    products = Products(image, weight, channels)
    flat = products.convert(image).reshape(-1, channels)
    matrices = products.convert(weight)
    sums: Any = np.zeros(
        (
            count,
            max((height - 1) * stride_y + kernel_y + max(top, 0), rows - min(top, 0)),
            max((width - 1) * stride_x + kernel_x + max(left, 0), columns - min(left, 0)),
            outputs,
        ),
        np.int64 if call.is_integer else image.dtype,
    )
    for ky, kx in itertools.product(range(kernel_y), range(kernel_x)):
        part = products.multiply(flat, matrices[:, ky, kx].T).reshape(count, height, width, outputs)
        y, x = ky + max(top, 0), kx + max(left, 0)
        sums[
            :,
            y : y + (height - 1) * stride_y + 1 : stride_y,
            x : x + (width - 1) * stride_x + 1 : stride_x,
        ] += part
    y, x = max(-top, 0), max(-left, 0)
    result: Array = sums[:, y : y + rows, x : x + columns] + call.value("bias")
    return result


def pool_maximum(call: Call) -> Array:
    """Return the greatest element of each window, without those outside the image."""
    value = call.value("input")
    kernel, stride, pad = _pooling(call)
    least = -np.inf if not call.is_integer else np.iinfo(value.dtype).min
    function = np.fmax if ignores_nan(call) else np.maximum
    windows = _windows(pad_image(value, pad, least), kernel, stride, (1, 1))
    result = windows[..., 0, 0]
    for y, x in itertools.islice(itertools.product(*map(range, kernel)), 1, None):
        result = function(result, windows[..., y, x])
    if ignores_nan(call):
        # A window with nothing but NaN is NaN.
        numbers = pad_image((~np.isnan(value)).astype(np.int32), pad, 0)
        counts = _windows(numbers, kernel, stride, (1, 1)).sum(axis=(-2, -1))
        result = np.where(counts > 0, result, np.nan)
    return result


def pool_average(call: Call) -> Array:
    """Return the mean of each window, without the elements outside the image.

    Integers: the sum of (input - input_zp) times a reciprocal of the count, as a multiplier of 31 bits
    and a shift, rounded half up; then output_zp is added, and the result saturates.
    """
    value = call.value("input")
    kernel, stride, pad = _pooling(call)
    if call.is_integer:
        value = value.astype(np.int64) - call.number("input_zp")
    windows = _windows(pad_image(value, pad, call.outside), kernel, stride, (1, 1))
    total = np.zeros(windows.shape[:4], value.dtype)
    for y, x in itertools.product(*map(range, kernel)):
        total += windows[..., y, x]
    _, height, width, _ = value.shape
    rows = _counts(height, kernel[0], stride[0], pad[:2])
    columns = _counts(width, kernel[1], stride[1], pad[2:])
    counts = (rows[:, None] * columns)[None, :, :, None]
    if not call.is_integer:
        return np.divide(total, counts.astype(value.dtype))
    # The greatest power of two below the count, times 2^30, divided by the count.
    bits = np.ceil(np.log2(counts)).astype(np.int64)
    multiplier = (((np.int64(1) << 30) + 1) << bits) // counts
    shift = 30 + bits
    scaled = (total * multiplier + (np.int64(1) << (shift - 1))) >> shift
    low, high = integer_limits(call.result.dtype)
    return np.asarray(np.clip(scaled + call.number("output_zp"), low, high))


def convolve_block_scaled(call: Call) -> Array:
    """Return the convolution of the numbers that block-scaled data and weights stand for."""
    from tosa_convert.reference.block_scaled import scaled

    image, weight = scaled(call, "input"), scaled(call, "weight")
    pad, stride, dilation = (call.sizes(name) for name in ("pad", "stride", "dilation"))
    return _convolve(call, image, weight, pad, stride, dilation)


def _pooling(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, stride and padding, which are attributes, or operands of adaptive pooling."""
    names = ("kernel", "stride", "pad")
    if call.has("kernel"):
        kernel, stride, pad = (call.sizes(name) for name in names)
    else:
        kernel, stride, pad = (tuple(call.attributes[name]) for name in names)
    return kernel, stride, pad


def _shifted(call: Call, *names: str) -> Iterator[Array]:
    """Iterate over operands without their zero points."""
    for name in names:
        value = call.value(name)
        point = f"{name}_zp"
        yield value - call.number(point) if call.is_integer and call.has(point) else value


def pad_image(image: Array, pad: Sequence[int], value: float) -> Array:
    """Return an image with a border around its spatial axes; `image` itself if there is none."""
    if not any(pad):
        return image
    sizes = [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)]
    return np.pad(image, sizes, constant_values=value)


def _windows(
    image: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """Return a view [batch, positions..., channels, window...] of a padded image."""
    axes = tuple(range(1, 1 + len(kernel)))
    extents = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True))
    over: Any = sliding_window_view
    view = over(image, extents, axes)
    strided = tuple(slice(None, None, step) for step in stride)
    dilated = tuple(slice(None, None, step) for step in dilation)
    found: Array = view[(slice(None), *strided, slice(None), *dilated)]
    return found


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
