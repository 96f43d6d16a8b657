"""Products of matrices, and convolutions, with any layout, groups and dilations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import computed, with_zero_point
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32, is_float, is_small

#: Most products of integers that MATMUL does not take, which are elementwise.
_MOST_PRODUCTS: Final = 1 << 22
#: The most bytes of a product of constants that is computed at once, unless they have more.
_MOST_FOLDED: Final = 1 << 16
_BYTES: Final = (np.dtype(np.int8), np.dtype(np.uint8))
#: Groups of a convolution up to which each has an operator of its own: 5 operators, with slices.
_FEW_GROUPS: Final = 2
#: Elements of the sums of single channels above which groups have operators of their own.
_MOST_SUMS: Final = 1 << 23


#: The zero points of bytes that are multiplied.
Zeros = tuple[int, int]
#: The dimensions of both operands.
Pair = tuple[Sequence[int], Sequence[int]]


def dot_general(s: Scope, a: Array, b: Array, numbers: tuple[Pair, Pair], dtype: Any) -> Array:
    """Multiply arrays. numbers: the dimensions that are summed, and those of the batch."""
    if {a.dtype, b.dtype, np.dtype(dtype)} == {BOOL}:
        left, right = (s.cast(one, np.int8) for one in (a, b))
        return s.greater(dot_general(s, left, right, numbers, INT32), 0)
    (contracted_a, contracted_b), (batch_a, batch_b) = numbers
    free_a = [k for k in range(a.rank) if k not in (*contracted_a, *batch_a)]
    free_b = [k for k in range(b.rank) if k not in (*contracted_b, *batch_b)]
    a = movement.transpose(s, a, (*batch_a, *free_a, *contracted_a), merges=True)
    b = movement.transpose(s, b, (*batch_b, *contracted_b, *free_b), merges=True)
    batches, rows = a.shape[: len(batch_a)], a.shape[len(batch_a) :][: len(free_a)]
    columns = b.shape[len(batch_b) + len(contracted_b) :]
    depth = math.prod(a.shape[len(batch_a) + len(free_a) :])
    count = math.prod(batches)
    left = movement.reshape(s, a, (count, math.prod(rows), depth))
    right = movement.reshape(s, b, (count, depth, math.prod(columns)))
    made = product(s, left, right, dtype)
    return movement.reshape(s, made, (*batches, *rows, *columns))


def product(s: Scope, a: Array, b: Array, dtype: Any, zeros: Zeros = (0, 0)) -> Array:
    """Multiply [N, H, C] by [N, C, W]. dtype: of the result. zeros: the zero points of bytes."""
    if a.data is not None and b.data is not None and _is_folded(a, b, dtype):
        return _of_constants(a, b, dtype, zeros)
    if a.dtype in _BYTES and b.dtype in _BYTES:
        return converted(s, _of_bytes(s, a, b, zeros), dtype)
    if is_float(a.dtype) and is_float(b.dtype):
        if a.dtype != b.dtype:
            a, b = converted(s, a, FLOAT32), converted(s, b, FLOAT32)
        # XLA sums in float32.
        made = s.apply("matmul", [a, b], FLOAT32, dtype="fp32")
        return converted(s, made, dtype)
    if is_float(a.dtype) or is_float(b.dtype):
        return product(s, converted(s, a, FLOAT32), converted(s, b, FLOAT32), dtype)
    kind = INT32 if is_small(a.dtype) or is_small(b.dtype) else a.dtype
    made = _by_elements(s, converted(s, a, kind), converted(s, b, kind))
    return converted(s, made, dtype)


def by_matrix(s: Scope, a: Array, matrix: Any) -> Array:
    """Multiply the last dimension by a constant matrix."""
    held = constant(matrix.astype(a.dtype)[None])
    flat = movement.reshape(s, a, (1, a.size // a.shape[-1], a.shape[-1]))
    made = product(s, flat, held, a.dtype)
    return movement.reshape(s, made, (*a.shape[:-1], matrix.shape[1]))


def _is_folded(a: Array, b: Array, dtype: Any) -> bool:
    """Return whether the product of constants is not much larger than they are."""
    made = a.shape[0] * a.shape[1] * b.shape[2] * np.dtype(dtype).itemsize
    held = sum(math.prod(item.stored) * item.dtype.itemsize for item in (a, b))
    return bool(made <= max(_MOST_FOLDED, 2 * held))


def _of_constants(a: Array, b: Array, dtype: Any, zeros: Zeros) -> Array:
    kind: Any = np.float64 if is_float(a.dtype) or is_float(b.dtype) else np.int64
    left, right = (
        whole_data(item).astype(kind) - zero for item, zero in zip((a, b), zeros, strict=True)
    )
    with np.errstate(all="ignore"):
        made = np.matmul(left, right)
    return constant(made.astype(dtype))


def _of_bytes(s: Scope, a: Array, b: Array, zeros: Zeros) -> Array:
    left, left_zero = with_zero_point(s, a, zeros[0])
    right, right_zero = with_zero_point(s, b, zeros[1])
    points = {
        "a_zp": s.value(constant([left_zero], np.int8)),
        "b_zp": s.value(constant([right_zero], np.int8)),
    }
    return s.apply("matmul", [left, right], INT32, **points)


def _by_elements(s: Scope, a: Array, b: Array) -> Array:
    """Multiply integers of 32 bits, which MATMUL does not take: MUL and REDUCE_SUM."""
    count, rows, depth = a.shape
    columns = b.shape[2]
    if count * rows * depth * columns > _MOST_PRODUCTS:
        reason = f"TOSA's MATMUL does not take {a.dtype}, and there are too many products for MUL"
        raise NotLowered(reason, "multiply int8, into sums of int32, or float32")
    left = movement.reshape(s, a, (count, rows, depth, 1))
    right = movement.reshape(s, b, (count, 1, depth, columns))
    return summed(s, computed(s, "mul", left, right), (2,))


_MOST_DIMENSIONS: Final = 3


@dataclass(frozen=True)
class Window:
    """What a convolution does along its spatial dimensions: one number, or pair, for each.

    spread: the distance of the input's elements, with zeros between them. zeros: the zero points of
    an input and of filters of bytes.
    """

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    spread: tuple[int, ...]
    dilation: tuple[int, ...]
    zeros: Zeros = (0, 0)


#: The batch and the channels of an array, or the channels of filters, then the spatial dimensions.
Layout = Sequence[int]


def conv_general_dilated(
    s: Scope,
    a: Array,
    weight: Array,
    window: Window,
    layouts: tuple[Layout, Layout, Layout],
    dtype: Any,
    groups: int = 1,
    batch_groups: int = 1,
    bias: Array | None = None,
) -> Array:
    """Convolve. layouts: of input, filters (output channels first), result. bias: of output channels."""
    count = len(window.strides)
    if count > _MOST_DIMENSIONS:
        reason = f"TOSA does not have convolutions of {count} dimensions"
        raise NotLowered(reason, f"use at most {_MOST_DIMENSIONS} spatial dimensions")
    a, weight = _channels_last(s, a, layouts[0]), _channels_last(s, weight, layouts[1])
    a, weight, window = _two_dimensional(s, a, weight, window)
    made = _grouped(s, a, weight, window, groups, batch_groups, bias)
    made = movement.reshape(s, made, (made.shape[0], *made.shape[made.rank - count - 1 :]))
    order = (layouts[2][0], *layouts[2][2:], layouts[2][1])
    made = movement.transpose(s, made, np.argsort(order).tolist())
    return converted(s, made, dtype)


def conv_transposed(
    s: Scope, a: Array, weight: Array, window: Window, groups: int = 1, bias: Array | None = None
) -> Array:
    """Convolve [batch, channels, ...] with zeros between its elements with filters backwards.

    weight: [inputs, outputs of a group, ...]. window: `spread` is the step of the result, and `padding`
    is taken away from it.
    """
    kernel, rank = weight.shape[2:], weight.rank
    inner, outer = weight.shape[0] // groups, weight.shape[1]
    split = movement.reshape(s, weight, (groups, inner, outer, *kernel))
    split = movement.transpose(s, split, (0, 2, 1, *range(3, 1 + rank)))
    filters = movement.reshape(s, split, (groups * outer, inner, *kernel))
    gaps = window.dilation
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    if any(gap != 1 for gap in gaps):
        filters = movement.spread(s, filters, [0, 0, *(gap - 1 for gap in gaps)], 0)
        gaps = (1,) * len(kernel)
    filters = movement.reverse(s, filters, range(2, rank))
    sides = tuple(
        (span - 1 - low, span - 1 - high)
        for span, (low, high) in zip(spans, window.padding, strict=True)
    )
    window, spec = replace(window, padding=sides, dilation=gaps), tuple(range(rank))
    return conv_general_dilated(s, a, filters, window, (spec, spec, spec), a.dtype, groups, 1, bias)


def _channels_last(s: Scope, a: Array, spec: Sequence[int]) -> Array:
    """Put batch, or output channels, first; then the spatial dimensions; then the input channels."""
    return movement.transpose(s, a, (spec[0], *spec[2:], spec[1]))


def _two_dimensional(
    s: Scope, a: Array, weight: Array, window: Window
) -> tuple[Array, Array, Window]:
    """Express a convolution of one dimension, or none, as one of two."""
    missing = max(0, 2 - len(window.strides))
    ones = (1,) * missing
    a = movement.reshape(s, a, (a.shape[0], *ones, *a.shape[1:]))
    weight = movement.reshape(s, weight, (weight.shape[0], *ones, *weight.shape[1:]))
    return (
        a,
        weight,
        Window(
            ones + window.strides,
            ((0, 0),) * missing + window.padding,
            ones + window.spread,
            ones + window.dilation,
            window.zeros,
        ),
    )


def _grouped(
    s: Scope,
    a: Array,
    weight: Array,
    window: Window,
    groups: int,
    batch_groups: int,
    bias: Array | None,
) -> Array:
    """Convolve groups of channels or batches one after another, unless an operator does them all."""
    channels, outputs = a.shape[-1], weight.shape[0]
    if groups == 1 and batch_groups == 1:
        return _convolved(s, a, weight, window, bias)
    is_flat = len(window.strides) == 2 and batch_groups == 1
    if is_flat and groups == channels and weight.shape[-1] == 1:
        return _depthwise(s, a, weight, window, bias)
    if is_flat and is_float(a.dtype) and _is_summed(a, weight, window, groups):
        return _summed_by_group(s, a, weight, window, groups, bias)
    is_deep = len(window.strides) == 3 and batch_groups == 1 and is_float(a.dtype)
    if is_deep and groups > _FEW_GROUPS:
        return _by_depth(s, a, weight, window, groups, bias)
    count = groups * batch_groups
    parts = []
    for index in range(count):
        axis = a.rank - 1 if batch_groups == 1 else 0
        size, filters = a.shape[axis] // count, outputs // count
        part = movement.part(s, a, axis, index * size, (index + 1) * size)
        span = index * filters, (index + 1) * filters
        own = movement.part(s, weight, 0, *span)
        shift = None if bias is None else movement.part(s, bias, 0, *span)
        parts.append(_convolved(s, part, own, window, shift))
    assert outputs % count == 0
    return movement.concatenate(s, parts, a.rank - 1)


def _by_depth(
    s: Scope, a: Array, weight: Array, window: Window, groups: int, bias: Array | None
) -> Array:
    """Sum convolutions of two dimensions, one for each depth in the filters."""
    a, window = _fitted(s, a, weight.shape[1:-1], window)
    (low, high), *others = window.padding
    a = movement.pad(s, a, [0, low, 0, 0, 0], [0, high, 0, 0, 0], 0)
    step, gap = window.strides[0], window.dilation[0]
    depth = (a.shape[1] - (weight.shape[1] - 1) * gap - 1) // step + 1
    flat = Window(window.strides[1:], tuple(others), (1, 1), window.dilation[1:], window.zeros)
    parts = []
    for place in range(weight.shape[1]):
        first = place * gap
        part = movement.part(s, a, 1, first, first + (depth - 1) * step + 1, step)
        part = movement.reshape(s, part, (a.shape[0] * depth, *a.shape[2:]))
        filters = movement.part(s, weight, 1, place, place + 1)
        filters = movement.reshape(s, filters, (weight.shape[0], *weight.shape[2:]))
        parts.append(_grouped(s, part, filters, flat, groups, 1, bias if place == 0 else None))
    total = reduce(s.add, parts)
    return movement.reshape(s, total, (a.shape[0], depth, *total.shape[1:]))


def _is_summed(a: Array, weight: Array, window: Window, groups: int) -> bool:
    """Return whether each channel is convolved by itself, and the channels of a group are summed.

    DEPTHWISE_CONV2D with as many results for each channel as its group has, RESHAPE, REDUCE_SUM and
    RESHAPE: the products of the convolution, and 4 operators for any number of groups. One for each
    group takes 2 * groups + 1 operators. One CONV2D with zeros outside of the groups takes `groups`
    times the products and the weights, and an infinite element would be NaN in other groups.
    """
    sizes = [
        (spread * (size - 1) + 1 + low + high - gap * (kernel - 1) - 1) // stride + 1
        for size, kernel, (low, high), spread, gap, stride in zip(
            a.shape[1:-1],
            weight.shape[1:-1],
            window.padding,
            window.spread,
            window.dilation,
            window.strides,
            strict=True,
        )
    ]
    sums = a.shape[0] * math.prod(sizes) * weight.shape[-1] * weight.shape[0]
    return groups > _FEW_GROUPS and sums <= _MOST_SUMS


def _summed_by_group(
    s: Scope, a: Array, weight: Array, window: Window, groups: int, bias: Array | None
) -> Array:
    outputs, height, width, size = weight.shape
    each = outputs // groups
    filters = movement.reshape(s, weight, (groups, each, height, width, size))
    filters = movement.transpose(s, filters, (0, 4, 1, 2, 3))
    filters = movement.reshape(s, filters, (groups * size * each, height, width, 1))
    made = _depthwise(s, a, filters, window, None)
    sizes = made.shape[:-1]
    made = movement.reshape(s, made, (math.prod(sizes), groups, size, each))
    made = movement.reshape(s, summed(s, made, (2,), keep=True), (*sizes, outputs))
    return made if bias is None else s.add(made, bias)


def _convolved(
    s: Scope, a: Array, weight: Array, window: Window, bias: Array | None = None
) -> Array:
    """Lower a convolution without groups."""
    if _is_transposed(a, window):
        return _transposed(s, a, weight, window, bias)
    a, window = _fitted(s, a, weight.shape[1:-1], window)
    name = "conv2d" if len(window.strides) == 2 else "conv3d"
    return _operator(s, name, a, weight, weight.shape[0], _attributes(window), bias)


def _depthwise(s: Scope, a: Array, weight: Array, window: Window, bias: Array | None) -> Array:
    """Convolve each channel with its own filters."""
    channels, (outputs, height, width, _) = a.shape[-1], weight.shape
    a, window = _fitted(s, a, (height, width), window)
    filters = movement.transpose(s, weight, (1, 2, 3, 0))
    filters = movement.reshape(s, filters, (height, width, channels, outputs // channels))
    return _operator(s, "depthwise_conv2d", a, filters, outputs, _attributes(window), bias)


def _attributes(window: Window) -> dict[str, Any]:
    pads = [n for pair in window.padding for n in pair]
    attributes = {"pad": pads, "stride": window.strides, "dilation": window.dilation}
    return attributes | ({"zeros": window.zeros} if any(window.zeros) else {})


def _fitted(s: Scope, a: Array, kernel: Sequence[int], window: Window) -> tuple[Array, Window]:
    """Insert zero points into the input, and pad it such that windows end exactly at the border."""
    if any(n != 1 for n in window.spread):
        a, window = _spread_out(s, a, window)
    padding = []
    for axis, (low, high) in enumerate(window.padding):
        span = a.shape[axis + 1] + low + high - (kernel[axis] - 1) * window.dilation[axis] - 1
        padding.append((low, high - span % window.strides[axis]))
    if any(n < 0 for pair in padding for n in pair):
        before = [0, *(min(0, pair[0]) for pair in padding), 0]
        after = [0, *(min(0, pair[1]) for pair in padding), 0]
        a = movement.pad(s, a, before, after, window.zeros[0])
        padding = [(max(0, low), max(0, high)) for low, high in padding]
    return a, replace(window, padding=tuple(padding), spread=(1,) * len(padding))


def _spread_out(s: Scope, a: Array, window: Window) -> tuple[Array, Window]:
    """Insert zero points between the elements of images; those after the last one are padding."""
    steps, zero = window.spread, window.zeros[0]
    if len(steps) != 2:
        return movement.spread(s, a, [0, *(n - 1 for n in steps), 0], zero), window
    count, *sizes, channels = a.shape
    parts = [
        n for size, step in zip(sizes, steps, strict=True) for n in (size, 1)[: 1 + (step > 1)]
    ]
    more = [n for step in steps for n in (0, step - 1)[: 1 + (step > 1)]]
    wide = movement.reshape(s, a, (count, *parts, channels))
    wide = movement.pad(s, wide, [0] * wide.rank, [0, *more, 0], zero)
    spans = [size * step for size, step in zip(sizes, steps, strict=True)]
    padding = tuple(
        (low, high - step + 1) for (low, high), step in zip(window.padding, steps, strict=True)
    )
    return movement.reshape(s, wide, (count, *spans, channels)), replace(window, padding=padding)


def _is_transposed(a: Array, window: Window) -> bool:
    """Return whether TRANSPOSE_CONV2D computes it: the gradient of a strided convolution."""
    return (
        len(window.strides) == 2
        and any(n != 1 for n in window.spread)
        and all(n == 1 for n in (*window.strides, *window.dilation))
        and is_float(a.dtype)
    )


def _transposed(s: Scope, a: Array, weight: Array, window: Window, bias: Array | None) -> Array:
    filters = movement.reverse(s, weight, (1, 2))
    # Negative padding takes borders away, up to one less than the kernel; the rest is cut.
    pads = [max(n, 0) for pair in window.padding for n in pair]
    sizes = [size for size in weight.shape[1:-1] for _ in range(2)]
    pads = [n - (size - 1) for size, n in zip(sizes, pads, strict=True)]
    attributes = {"out_pad": pads, "stride": window.spread}
    made = _operator(s, "transpose_conv2d", a, filters, weight.shape[0], attributes, bias)
    low, high = ([0, *(min(pair[k], 0) for pair in window.padding), 0] for k in (0, 1))
    return movement.pad(s, made, low, high, 0)


def _operator(
    s: Scope,
    name: str,
    a: Array,
    weight: Array,
    outputs: int,
    attributes: dict[str, Any],
    bias: Array | None,
) -> Array:
    """Add a convolution of TOSA: FP32, or INT32 of integers, unless TOSA keeps the type."""
    if is_float(a.dtype):
        if weight.dtype != a.dtype:
            a, weight = converted(s, a, FLOAT32), converted(s, weight, FLOAT32)
        bias = constant(np.zeros(outputs, a.dtype)) if bias is None else converted(s, bias, a.dtype)
        return s.apply(name, [a, weight, bias], a.dtype, **attributes, acc_type="fp32")
    if a.dtype == np.int16 and weight.dtype == np.int8:
        return _of_16_bits(s, name, a, weight, outputs, attributes, bias)
    if a.dtype.itemsize != 1 or weight.dtype.itemsize != 1:
        reason = f"TOSA's convolutions do not take {a.dtype} with filters of {weight.dtype}"
        raise NotLowered(reason, "convolve int8, into sums of int32, or float32")
    of_input, of_filters = attributes.pop("zeros", (0, 0))
    held, zero = with_zero_point(s, a, of_input)
    filters, filter_zero = with_zero_point(s, weight, of_filters)
    zeros = {
        "input_zp": s.value(constant([zero], np.int8)),
        "weight_zp": s.value(constant([filter_zero], np.int8)),
    }
    bias = constant(np.zeros(outputs, np.int32)) if bias is None else converted(s, bias, INT32)
    return s.apply(name, [held, filters, bias], INT32, **zeros, **attributes)


def _of_16_bits(
    s: Scope,
    name: str,
    a: Array,
    weight: Array,
    outputs: int,
    attributes: dict[str, Any],
    bias: Array | None,
) -> Array:
    """Add a convolution whose sums have 48 bits, as an array of int64 that only RESCALE takes."""
    attributes.pop("zeros", None)
    if bias is not None and bias.data is None:
        raise NotLowered("TOSA has no computed bias of INT48", "make the bias a constant")
    data = np.zeros(outputs, np.int64) if bias is None else whole_data(bias).astype(np.int64)
    held = s.builder.const(data, dtype="int48")
    made = getattr(s.builder, name)(s.whole(a), s.whole(weight), held, **attributes)
    return s.array(made, np.int64)
