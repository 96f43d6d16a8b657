"""Products of matrices, and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout, products
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant, is_float
from tosa_convert.frontends.torch.rules.elementwise import combined
from tosa_convert.frontends.torch.rules.node import Node, Rule

# -- matrices ------------------------------------------------------------------------------------


def product(n: Node, a: Array, b: Array) -> Array:
    """Multiply matrices: [H, C] and [C, W], or batches of them."""
    s = n.scope
    x, y = (layout.reshape(s, one, (1,) * (3 - one.rank) + one.shape) for one in (a, b))
    made = products.product(s, x, y, n.dtype)
    return layout.reshape(s, made, n.shape)


def _scaled(n: Node, a: Array, factor: Any) -> Array:
    return a if factor == 1 else combined(n.scope, "mul", *n.arrays(a, factor))


def _sum_and_product(
    n: Node, bias: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    made = _scaled(n, product(n, a, b), alpha)
    if beta == 0:
        return made
    return combined(n.scope, "add", *n.arrays(made, _scaled(n, bias, beta)))


# -- convolutions --------------------------------------------------------------------------------


def _sizes(value: Any, count: int) -> list[int]:
    given = list(value) if isinstance(value, Sequence) else [value]
    return given * count if len(given) == 1 else given


def convolution(
    n: Node,
    a: Array,
    weight: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    """Convolve in the layout of TOSA, channels last; one dimension is the second of two."""
    axes = a.rank - 2
    if not is_float(a.dtype):
        raise NotLowered("TOSA has no convolution of these integers", "convolve in float32")
    step, pads, gaps = (_sizes(value, axes) for value in (stride, padding, dilation))
    extra = _sizes(output_padding, axes)
    x = _channels_last(n, a)
    if axes == 1:
        x = layout.reshape(n.scope, x, (x.shape[0], 1, *x.shape[1:]))
        weight = layout.reshape(n.scope, weight, (*weight.shape[:2], 1, weight.shape[2]))
        step, pads, gaps, extra = [1, *step], [0, *pads], [1, *gaps], [0, *extra]
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is None:
        bias = constant(np.zeros(channels, a.dtype))
    bias = n.convert(bias, a.dtype)
    weight = n.convert(weight, a.dtype)
    if transposed:
        made = _transposed(n, x, weight, bias, step, pads, gaps, extra, groups)
    else:
        made = _grouped(n, x, weight, bias, step, pads, gaps, groups)
    if axes == 1:
        made = layout.reshape(n.scope, made, (made.shape[0], *made.shape[2:]))
    return _channels_second(n, made)


def _channels_last(n: Node, a: Array) -> Array:
    return layout.transpose(n.scope, a, (0, *range(2, a.rank), 1))


def _channels_second(n: Node, a: Array) -> Array:
    return layout.transpose(n.scope, a, (0, a.rank - 1, *range(1, a.rank - 1)))


def _grouped(
    n: Node,
    x: Array,
    weight: Array,
    bias: Array,
    step: list[int],
    pads: list[int],
    gaps: list[int],
    groups: int,
) -> Array:
    s, outputs = n.scope, weight.shape[0]
    x, around = fitted(n, x, weight.shape[2:], step, [(p, p) for p in pads], gaps)
    attributes = {
        "pad": [p for pair in around for p in pair],
        "stride": step,
        "dilation": gaps,
        "acc_type": "fp32",
    }
    if groups == x.shape[-1] and weight.shape[1] == 1 and weight.rank == 4 and groups > 1:
        height, width = weight.shape[2:]
        parts = layout.reshape(s, weight, (groups, outputs // groups, height, width))
        kernel = layout.transpose(s, parts, (2, 3, 0, 1))
        return s.apply("depthwise_conv2d", [x, kernel, bias], x.dtype, **attributes)
    kernel = _channels_last(n, weight)
    name = "conv2d" if weight.rank == 4 else "conv3d"
    each, size = outputs // groups, weight.shape[1]
    made = []
    for number in range(groups):
        part = (
            x if groups == 1 else layout.part(s, x, x.rank - 1, number * size, (number + 1) * size)
        )
        first, last = number * each, (number + 1) * each
        own = [layout.part(s, one, 0, first, last) for one in (kernel, bias)]
        made.append(s.apply(name, [part, *own], x.dtype, **attributes))
    return layout.concatenate(s, made, x.rank - 1)


def fitted(
    n: Node,
    x: Array,
    kernel: Sequence[int],
    step: Sequence[int],
    pads: Sequence[tuple[int, int]],
    gaps: Sequence[int],
) -> tuple[Array, list[tuple[int, int]]]:
    """Return an input, channels last, and the padding with which windows end at the border."""
    found = []
    stops = list(x.shape)
    for axis, (low, high) in enumerate(pads):
        span = x.shape[axis + 1] + low + high - (kernel[axis] - 1) * gaps[axis] - 1
        high -= span % step[axis]
        if high < 0:
            stops[axis + 1] += high
            high = 0
        found.append((low, high))
    if tuple(stops) != x.shape:
        x = layout.cut(n.scope, x, [0] * x.rank, stops)
    return x, found


def _transposed(
    n: Node,
    x: Array,
    weight: Array,
    bias: Array,
    step: list[int],
    pads: list[int],
    gaps: list[int],
    extra: list[int],
    groups: int,
) -> Array:
    """Lower a transposed convolution of two dimensions; the kernel [I, O, H, W] has no gaps."""
    if groups != 1 or any(gap != 1 for gap in gaps) or weight.rank != 4:
        raise NotLowered("TOSA does not have this transposed convolution", "")
    s = n.scope
    kernel = layout.transpose(s, weight, (1, 2, 3, 0))
    # Padding takes away the borders of the result; TOSA takes less than the kernel.
    around, cuts = [], []
    for size, pad, more in zip(weight.shape[2:], pads, extra, strict=True):
        low, high = -pad, more - pad
        least = 1 - size
        around += [max(low, least), max(high, least)]
        cuts.append((min(0, low - least), min(0, high - least)))
    made = s.apply(
        "transpose_conv2d",
        [x, kernel, bias],
        x.dtype,
        out_pad=around,
        stride=step,
        acc_type="fp32",
    )
    if any(n for pair in cuts for n in pair):
        low_, high_ = [0, *(p for p, _ in cuts), 0], [0, *(p for _, p in cuts), 0]
        made = layout.pad(s, made, low_, high_, 0)
    return made


RULES: Final[dict[str, Rule]] = {
    "mm": product,
    "bmm": product,
    "addmm": _sum_and_product,
    "baddbmm": _sum_and_product,
    "convolution": convolution,
}
