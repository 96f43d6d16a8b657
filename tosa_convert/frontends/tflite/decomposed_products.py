"""Decompositions of operators of windows and matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.decomposition import (
    Decompose,
    Given,
    around,
    between,
    broadcast,
    sizes_of,
)


def _transposed_convolution(b: Builder, given: Given) -> list[Value]:
    """CONV3D of the elements with zeros between them, with the kernel reversed."""
    sizes, weights, x = given.constants[0], given.constants[1], given.operands[2]
    kernel = weights[::-1, ::-1, ::-1].transpose(3, 0, 1, 2, 4)
    pads: list[int] = []
    for axis, (stride, before) in enumerate(
        zip(given.facts["strides"], given.facts["before"], strict=True), 1
    ):
        x = _spread(b, x, axis, stride)
        reach, size = kernel.shape[axis] - 1, (x.shape or ())[axis]
        pads += [reach - before, int(sizes[axis]) + before - size]
    outside = np.zeros((5, 2), np.int64)
    outside[1:4] = np.array(pads).reshape(3, 2)
    # CONV3D has no negative padding, and limits it to the kernel.
    x = b.pad(x, np.maximum(outside, 0).reshape(-1).tolist())
    if np.any(outside < 0):
        start = np.maximum(-outside[:, 0], 0)
        end = np.array(x.shape or ()) - np.maximum(-outside[:, 1], 0)
        x = b.slice(x, start.tolist(), (end - start).tolist())
    bias = (
        given.operands[3]
        if len(given.operands) > 3
        else b.const(np.zeros(kernel.shape[0], np.float32))
    )
    weight = b.const(np.ascontiguousarray(kernel))
    y = b.conv3d(x, weight, bias, pad=[0] * 6, stride=[1] * 3, dilation=[1] * 3)
    return [between(b, y, given.facts["bounds"])]


def _spread(b: Builder, x: Value, axis: int, stride: int) -> Value:
    """Put zeros between the elements of an axis of the value."""
    shape = tuple(x.shape or ())
    size = shape[axis]
    if stride == 1:
        return x
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    x = b.reshape(x, (before, size, 1, after))
    x = b.pad(x, [0, 0, 0, 0, 0, stride - 1, 0, 0])
    x = b.reshape(x, (before, size * stride, after))
    wanted = (size - 1) * stride + 1
    x = b.slice(x, (0, 0, 0), (before, wanted, after))
    return b.reshape(x, (*shape[:axis], wanted, *shape[axis + 1 :]))


def _batch_matmul(b: Builder, given: Given) -> list[Value]:
    """MATMUL of each pair of matrices, of which the smaller batch is repeated."""
    x, y = given.operands[:2]
    facts = given.facts
    *batch, rows, columns = given.shape
    count = math.prod(batch)
    matrices = []
    for value, is_adjoint in ((x, facts["adjoint"][0]), (y, facts["adjoint"][1])):
        sizes = sizes_of(value)[-2:]
        matrix = b.reshape(broadcast(b, value, (*batch, *sizes)), (count, *sizes))
        matrices.append(b.transpose(matrix, perms=[0, 2, 1]) if is_adjoint else matrix)
    if facts["dtype"] == "float32":
        return [b.reshape(b.matmul(*matrices), given.shape)]
    dtype = facts["dtype"]
    *zeros, result_zero = (
        b.const(np.array([zero], dtype)) for zero in (*facts["zero_points"], facts["zero_point"])
    )
    product = b.matmul(*matrices, *zeros)
    multiplier, shift = facts["sizes"]
    is_wide = dtype == "int16"
    found = b.rescale(
        product,
        b.const(np.array([multiplier], np.int16 if is_wide else np.int32)),
        b.const(np.array([shift], np.int8)),
        output_zp=result_zero,
        scale32=not is_wide,
        rounding_mode="SINGLE_ROUND" if is_wide else "DOUBLE_ROUND",
        dtype=dtype,
    )
    return [b.reshape(found, (*batch, rows, columns))]


def _root_of_mean_square(b: Builder, given: Given) -> list[Value]:
    """Compute the square root of the average of squares."""
    x, facts = given.operands[0], given.facts
    shape = list(sizes_of(x))
    pads = list(facts["pads"])
    for axis in (1, 2):  # AVG_POOL2D has no negative padding.
        shape[axis] += min(0, pads[2 * axis - 1])
    if shape != list(sizes_of(x)):
        x = b.slice(x, [0] * 4, shape)
    pads = [max(0, pad) for pad in pads]
    mean = b.avg_pool2d(b.mul(x, x), kernel=facts["kernel"], stride=facts["strides"], pad=pads)
    return [between(b, b.reciprocal(b.rsqrt(mean)), facts["bounds"])]


def _local_response(b: Builder, given: Given) -> list[Value]:
    """X / (bias + alpha * sum of squares of near channels) ** beta; the sum is a product with a band."""
    x, facts = given.operands[0], given.facts
    before, size, _ = around(x, len(given.shape) - 1)
    places = np.arange(size)
    band = np.abs(places[:, None] - places[None]) <= facts["radius"]
    flat = b.reshape(x, (1, before, size))
    squares = b.matmul(b.mul(flat, flat), b.const(band[None].astype(np.float32)))

    base = b.add(b.mul(squares, facts["alpha"]), facts["bias"])
    factor = b.reciprocal(b.pow(base, facts["beta"]))
    return [b.reshape(b.mul(flat, factor), given.shape)]


KINDS: Final[Mapping[str, Decompose]] = {
    "BATCH_MATMUL": _batch_matmul,
    "L2_POOL_2D": _root_of_mean_square,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "CONV_3D_TRANSPOSE": _transposed_convolution,
}
