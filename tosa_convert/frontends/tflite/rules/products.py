"""Convolutions, and products of matrices: of floats, and of integers that are rescaled after them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.products import Window, conv_general_dilated, product
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32, is_float
from tosa_convert.frontends.tflite.node import Node, Rule, scale_of
from tosa_convert.frontends.tflite.read import Tensor
from tosa_convert.frontends.tflite.rescale import rescaled
from tosa_convert.frontends.tflite.rules.windows import _SAME, padding_of
from tosa_convert.frontends.tflite.scales import (
    Scale,
    narrow_rescale_of,
    rescale_of,
    single,
)

_INT8, _INT16 = np.dtype(np.int8), np.dtype(np.int16)
#: In place of INT48, of which numpy has no type.
_INT48: Final = np.dtype(np.int64)
#: Batch and channels, or output channels first and input channels last, then height and width.
_IMAGE: Final = (0, 3, 1, 2)
_VOLUME: Final = (0, 4, 1, 2, 3)
_FILTERS_OF_VOLUME: Final = (4, 3, 0, 1, 2)


# -- what comes after a sum of products ------------------------------------------------------------


def is_per_channel(weights: Tensor) -> bool:
    return len(weights.scales) > 1


def scales_after(x: Tensor, weights: Tensor, result: Tensor) -> list[float]:
    """Return the quotients of scales for each channel, or one, as TFLite computes them."""
    given, to = scale_of(x), scale_of(result)
    if is_per_channel(weights):
        return [given * scale / to for scale in weights.scales]
    return [single(given * weights.scales[0]) / to]


def at_result(
    n: Node,
    sums: Array,
    scales: Sequence[float],
    is_once: bool = False,
    is_exact: bool = False,
) -> Array:
    """Return sums at the result's scale. is_once: round once. is_exact: multiply by 31 bits."""
    s, target = n.scope, _INT16 if n.result.dtype == "int16" else _INT8
    if n.result.dtype not in ("int8", "uint8", "int16"):
        raise NotLowered(f"TFLite has no kernel with results of {n.result.dtype}")
    is_wide = sums.dtype == _INT48
    if is_wide and is_exact:
        sums, is_wide = rescaled(s, sums, (1 << 14, 14), INT32, is_narrow=True), False
    pairs: list[Scale] = [narrow_rescale_of(one) if is_wide else rescale_of(one) for one in scales]
    return rescaled(s, sums, pairs, target, zero=n.result_zero, is_once=is_once, is_narrow=is_wide)


def _operands(n: Node, x: int, weights: int, bias: int) -> tuple[Array, Array, Array | None]:
    """Return input, weights and bias; weights of integers become FP32 beside an input of floats."""
    s = n.scope
    image, filters = n.array(x), n.array(weights)
    made = n.array(bias) if n.has(bias) else None
    if is_float(image.dtype):
        wide = filters if is_float(filters.dtype) else dequantised(n, weights)
        return image, converted(s, wide, image.dtype), made
    if is_float(filters.dtype) or (made is not None and is_float(made.dtype)):
        raise ValueError("weights or a bias of floats for integers")
    return image, filters, made


def dequantised(n: Node, index: int) -> Array:
    s, a, tensor = n.scope, n.array(index), n.tensor(index)
    shape = [1] * a.rank
    if is_per_channel(tensor):
        shape[tensor.axis] = -1
    factors = np.array(tensor.scales, np.float32).reshape(shape)
    whole = s.cast(a, FLOAT32)
    return s.mul(s.sub(whole, n.zero(index)) if n.zero(index) else whole, constant(factors))


def _zeros(n: Node, x: int, weights: int) -> tuple[int, int]:
    if is_float(n.array(x).dtype):
        return 0, 0
    return n.zero(x), n.zero(weights)


def _finished(n: Node, sums: Array, x: int, weights: int, bias: int, activation: int) -> Array:
    """Return what a convolution gives after its scales and its activation."""
    if not is_float(sums.dtype):
        # With a bias of 32 bits, sums have as many.
        is_short = n.has(bias) and n.array(bias).dtype == INT32
        scales = scales_after(n.tensor(x), n.tensor(weights), n.result)
        sums = at_result(n, sums, scales, is_exact=is_short)
    return n.activated(sums, activation)


# -- convolutions ----------------------------------------------------------------------------------


def _convolution(n: Node) -> Array:
    x, filters, bias = _operands(n, 0, 1, 2)
    strides, gaps = (n.option(2), n.option(1)), (n.option(5, default=1), n.option(4, default=1))
    kernel = filters.shape[1:3]
    x, pads = _with_borders(n, x, padding_of(n.option(0, "b"), x.shape[1:3], kernel, strides, gaps))
    groups, rest = divmod(x.shape[3], filters.shape[3])
    if rest:
        raise ValueError("channels")
    sums = _convolved(
        n, x, filters, bias, Window(strides, pads, (1, 1), gaps, _zeros(n, 0, 1)), groups
    )
    return _finished(n, sums, 0, 1, 2, 3)


def _depthwise(n: Node) -> Array:
    s, (x, filters, bias) = n.scope, _operands(n, 0, 1, 2)
    strides, gaps = (n.option(2), n.option(1)), (n.option(6, default=1), n.option(5, default=1))
    _, height, width, outputs = filters.shape
    kernel = height, width
    x, pads = _with_borders(n, x, padding_of(n.option(0, "b"), x.shape[1:3], kernel, strides, gaps))
    if outputs % x.shape[3]:
        raise ValueError("channels")
    window = Window(strides, pads, (1, 1), gaps, _zeros(n, 0, 1))
    held = movement.transpose(s, filters, (3, 1, 2, 0))
    groups = x.shape[3]
    sums = _convolved(n, x, held, bias, window, groups, is_depthwise=True)
    return _finished(n, sums, 0, 1, 2, 4)


def _with_borders(
    n: Node, x: Array, pads: Sequence[tuple[int, int]]
) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Add the zero points of a PAD before a convolution to those that it adds itself."""
    for made, before, more in n.walk.padded:
        if made is x:
            pairs = zip(pads, more, strict=True)
            return before, tuple((low + a, high + b) for (low, high), (a, b) in pairs)
    return x, tuple(pads)


def _convolved(
    n: Node,
    x: Array,
    filters: Array,
    bias: Array | None,
    window: Window,
    groups: int,
    is_depthwise: bool = False,
) -> Array:
    s = n.scope
    if x.dtype == _INT16 and groups > 1 and not is_depthwise:
        raise NotLowered("TOSA does not join sums of INT48", "convolve the groups one by one")
    dtype = x.dtype if is_float(x.dtype) else _INT48 if x.dtype == _INT16 else INT32
    layouts = (_IMAGE, _IMAGE, _IMAGE)
    return conv_general_dilated(s, x, filters, window, layouts, dtype, groups, bias=bias)


def _volumes(n: Node) -> Array:
    x, filters, bias = _operands(n, 0, 1, 2)
    _refuse_integers(x)
    strides = n.option(1), n.option(3), n.option(2)
    gaps = (n.option(5, default=1), n.option(7, default=1), n.option(6, default=1))
    pads = padding_of(n.option(0, "b"), x.shape[1:4], filters.shape[:3], strides, gaps)
    layouts = (_VOLUME, _FILTERS_OF_VOLUME, _VOLUME)
    window = Window(strides, pads, (1, 1, 1), gaps)
    sums = conv_general_dilated(n.scope, x, filters, window, layouts, x.dtype, bias=bias)
    return n.activated(sums, 4)


def _refuse_integers(x: Array) -> None:
    if not is_float(x.dtype):
        raise NotLowered(f"TFLite has no kernel of {x.dtype}", "convolve float32")


def _transposed(n: Node) -> Array:
    """Write TRANSPOSE_CONV2D; what it gives beyond the result is cut off."""
    s, (x, filters, bias) = n.scope, _operands(n, 2, 1, 3)
    sizes = n.ints(0)[1:3]
    strides = n.option(2), n.option(1)
    kernel, outputs = filters.shape[1:3], filters.shape[0]
    before = [pair[0] for pair in padding_of(n.option(0, "b"), sizes, kernel, strides, (1, 1))]
    pads: list[int] = []
    for size, given, stride, own, low in zip(
        sizes, x.shape[1:3], strides, kernel, before, strict=True
    ):
        pads += [-low, size - (given - 1) * stride - own + low]
    more = [max(0, 1 - own - pad) for own, pad in zip(np.repeat(kernel, 2), pads, strict=True)]
    wide = [pad + extra for pad, extra in zip(pads, more, strict=True)]
    zeros: dict[str, Any] = {}
    if not is_float(x.dtype):
        given_zero, own_zero = _zeros(n, 2, 1)
        zeros["input_zp"] = np.array([given_zero], x.dtype)
        zeros["weight_zp"] = np.array([own_zero], filters.dtype)
    held_bias = _bias(s, x, bias, outputs)
    value = s.builder.transpose_conv2d(
        s.whole(x), s.whole(filters), held_bias, out_pad=wide, stride=strides, **zeros
    )
    dtype = x.dtype if is_float(x.dtype) else _INT48 if x.dtype == _INT16 else INT32
    sums = s.array(value, dtype)
    if any(more):
        raise NotLowered("its result is smaller than its windows reach", "use a larger result")
    return _finished(n, sums, 2, 1, 3, 3)


def _bias(s: Scope, x: Array, bias: Array | None, count: int) -> Any:
    """Return the bias as the operators of TOSA want it."""
    if x.dtype == _INT16:
        return wide_bias(s, bias, count)
    if bias is None:
        return s.value(constant(np.zeros(count, x.dtype if is_float(x.dtype) else np.int32)))
    return s.whole(converted(s, bias, x.dtype if is_float(x.dtype) else INT32))


def wide_bias(s: Scope, bias: Array | None, count: int) -> Any:
    if bias is not None and bias.data is None:
        raise NotLowered(
            "its bias is computed, and TOSA has no computed INT48", "make it a constant"
        )
    data = np.zeros(count, np.int64) if bias is None or bias.data is None else bias.data
    return s.builder.const(np.broadcast_to(data, (count,)).astype(np.int64), dtype="int48")


def _transposed_volumes(n: Node) -> Array:
    """Compute CONV3D of the elements with zeros between them, with the kernel reversed."""
    s, (x, filters, bias) = n.scope, _operands(n, 2, 1, 3)
    _refuse_integers(x)
    if [n.option(at, default=1) for at in (5, 6, 7)] != [1, 1, 1]:
        raise NotLowered("TFLite does not run dilations of it", "leave them out")
    sizes = n.ints(0)[1:4]
    strides = n.option(1), n.option(3), n.option(2)
    kernel = filters.shape[:3]
    pads = []
    extents = zip(sizes, x.shape[1:4], strides, kernel, strict=True)
    for size, given, stride, own in extents:
        reach = (given - 1) * stride
        low = max(0, (reach + own - size) // 2) if n.option(0, "b") == _SAME else 0
        pads.append((own - 1 - low, size + low - reach - 1))
    held = movement.reverse(s, filters, (0, 1, 2))
    held = movement.transpose(s, held, (3, 0, 1, 2, 4))
    window = Window((1, 1, 1), tuple(pads), strides, (1, 1, 1))
    layouts = (_VOLUME, _VOLUME, _VOLUME)
    sums = conv_general_dilated(s, x, held, window, layouts, x.dtype, bias=bias)
    return n.activated(sums, 4)


# -- products of matrices --------------------------------------------------------------------------


def _fully_connected(n: Node) -> Array:
    """Compute CONV2D of rows with a window of one element."""
    s, (x, weights, bias) = n.scope, _operands(n, 0, 1, 2)
    if n.option(1, "b"):
        raise NotLowered("its weights are shuffled", "convert it with the default format")
    outputs, size = weights.shape
    if x.size % max(size, 1):
        raise ValueError("sizes")
    rows = movement.reshape(s, x, (x.size // size, 1, 1, size))
    filters = movement.reshape(s, weights, (outputs, 1, 1, size))
    ones = rows.shape[1:3]
    window = Window(ones, ((0, 0), (0, 0)), ones, ones, _zeros(n, 0, 1))
    sums = _convolved(n, rows, filters, bias, window, 1)
    if not is_float(sums.dtype):
        scales = scales_after(n.tensor(0), n.tensor(1), n.result)
        # By experiment: TFLite's reference kernel, unlike those of convolutions, rounds once.
        sums = at_result(n, sums, scales, is_once=True, is_exact=True)
    made = n.activated(sums, 0)
    shape = (*x.shape[:-1], outputs) if n.flag(2) else (x.size // size, outputs)
    return movement.reshape(s, made, shape)


def _batch_matmul(n: Node) -> Array:
    """Compute MATMUL of each pair of matrices, of which the smaller batch is repeated."""
    s, (x, y) = n.scope, n.arrays
    if is_float(x.dtype) and not is_float(y.dtype):
        y = converted(s, dequantised(n, 1), x.dtype)
    if x.dtype != y.dtype:
        raise ValueError("types")
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    count = math.prod(batch)
    matrices = []
    for value, is_adjoint in ((x, n.flag(0)), (y, n.flag(1))):
        sizes = value.shape[-2:]
        whole = movement.broadcast_to(s, value, (*batch, *sizes))
        matrix = movement.reshape(s, whole, (count, *sizes))
        matrices.append(movement.transpose(s, matrix, (0, 2, 1)) if is_adjoint else matrix)
    rows, columns = matrices[0].shape[1], matrices[1].shape[2]
    shape = (*batch, rows, columns)
    if x.dtype == _INT16:
        sums = s.apply("matmul", matrices, _INT48)
    else:
        # The kernel whose result has 32 bits leaves zero points out.
        is_whole = is_float(x.dtype) or n.result.dtype == "int32"
        zeros = (0, 0) if is_whole else (n.zero(0), n.zero(1))
        kind = x.dtype if is_float(x.dtype) else INT32
        sums = product(s, matrices[0], matrices[1], kind, zeros)
        if is_whole:
            return movement.reshape(s, sums, shape)
    scale = single(n.scale(0) * n.scale(1)) / n.result_scale
    return movement.reshape(s, at_result(n, sums, [scale]), shape)


RULES: Final[dict[str, Rule]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _volumes,
    "CONV_3D_TRANSPOSE": _transposed_volumes,
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
}
