"""Convolutions of groups; transposed ones, also with gaps in the kernel, or with computed padding."""

from __future__ import annotations

from math import prod
from typing import Any

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError
from tosa_convert.frontends.recipes import FEW_GROUPS, is_summed_by_group


def conv(e: Decomposition) -> None:
    """Convolve each channel by itself and sum over each group, or make one Conv per group."""
    groups, (channels, size, *kernel) = int(e.attribute("group", 1)), e.shape(1)
    axes, each = len(kernel), channels // groups
    is_lowered = groups == 1 or (axes < 3 and (size == 1 or groups <= FEW_GROUPS))
    e.leave_if(is_lowered, "torch-mlir lowers it")
    made = e.output_shape()
    if axes == 3 or not is_summed_by_group(groups, prod(made) * size):
        attributes, results = {**e.attributes, "group": 1}, []
        for group in range(groups):
            low, high = group * each, (group + 1) * each
            x = e.slice(e.inputs[0], 1, group * size, (group + 1) * size)
            given = [x, e.slice(e.inputs[1], 0, low, high)]
            if e.has(2):
                given.append(e.slice(e.inputs[2], 0, low, high))
            results.append(e.op("Conv", *given, **attributes))
        return e.result(e.op("Concat", *results, axis=1))
    weight = e.reshape(e.inputs[1], [groups, each, size, prod(kernel)])
    weight = e.reshape(e.transpose(weight, [0, 2, 1, 3]), [groups * size * each, 1, *kernel])
    attributes = {**e.attributes, "group": groups * size}
    y = e.op("Conv", e.inputs[0], weight, **attributes)
    # Channels are last, as in TOSA, so that no transpose is between the convolution and the sum.
    last = e.transpose(y, [0, *range(2, axes + 2), 1])
    sums = e.reduce("ReduceSum", e.reshape(last, [-1, groups, size, each]), [2], keepdims=0)
    y = e.transpose(
        e.reshape(sums, [made[0], *made[2:], channels]), [0, axes + 1, *range(1, axes + 1)]
    )
    if e.has(2):
        y = e.op("Add", y, e.reshape(e.inputs[2], [1, -1, *[1] * axes]))
    return e.result(y)


def conv_transpose(e: Decomposition) -> None:
    """Make one ConvTranspose per group, with explicit padding and a kernel with zeros in its gaps."""
    sizes, kernel = e.shape(0)[2:], e.shape(1)[2:]
    count, groups = len(kernel), int(e.attribute("group", 1))
    gaps = e.attribute("dilations", [1] * count)
    automatic = e.attribute("auto_pad", "NOTSET").startswith("SAME")
    if groups == 1 and gaps == [1] * count and not automatic and not e.attribute("output_shape"):
        raise NotDecomposedError("torch-mlir lowers it")
    weight = e.inputs[1]
    for axis, gap in enumerate(gaps, 2):
        weight = _with_gaps(e, weight, [*e.shape(1)[:2], *_wide(kernel, gaps, axis - 2)], axis, gap)
    attributes = _geometry(e, sizes, _wide(kernel, gaps, count))
    pads = attributes["pads"]
    uneven = pads[:count] != pads[count:]
    if uneven:  # torch-mlir takes the same from both ends of an axis.
        attributes["pads"] = [0] * (2 * count)
    if groups > FEW_GROUPS and not uneven:
        return e.result(_by_zeros(e, weight, groups, **attributes))
    channels, results = e.shape(1)[0] // groups, []
    for group in range(groups):
        low, high = group * channels, (group + 1) * channels
        x = e.slice(e.inputs[0], 1, low, high) if groups > 1 else e.inputs[0]
        part = e.slice(weight, 0, low, high) if groups > 1 else weight
        results.append(e.op("ConvTranspose", x, part, **attributes))
    y = e.op("Concat", *results, axis=1) if groups > 1 else results[0]
    if uneven:
        for axis, size in enumerate(e.output_shape()[2:]):
            y = e.slice(y, axis + 2, pads[axis], pads[axis] + size)
    if e.has(2):
        y = e.op("Add", y, e.reshape(e.inputs[2], [1, -1, *[1] * count]))
    return e.result(y)


def _by_zeros(
    e: Decomposition,
    weight: str,
    groups: int,
    strides: list[int],
    pads: list[int],
    output_padding: list[int],
    kernel_shape: list[int],
) -> str:
    """Put zeros between the elements, and convolve with the kernel backwards."""
    x, (count, channels, *sizes) = e.inputs[0], e.shape(0)
    axes, each = len(sizes), e.shape(1)[1]
    for axis, step in enumerate(strides):
        if step == 1:
            continue
        x = e.reshape(x, [count, channels, *sizes[: axis + 1], 1, *sizes[axis + 1 :]])
        x = e.pad(
            x, [0] * (axes + 3), [step - 1 if at == axis + 3 else 0 for at in range(axes + 3)]
        )
        sizes[axis] *= step
        x = e.reshape(x, [count, channels, *sizes])
    kernel = e.reshape(weight, [groups, channels // groups, each, *kernel_shape])
    kernel = e.transpose(kernel, [0, 2, 1, *range(3, axes + 3)])
    kernel = e.reshape(kernel, [groups * each, channels // groups, *kernel_shape])
    around: list[list[int]] = [[], []]
    for axis, (step, k, more) in enumerate(zip(strides, kernel_shape, output_padding, strict=True)):
        kernel = e.slice(kernel, axis + 2, k - 1, -k - 1, -1)
        low, high = k - 1 - pads[axis], k - pads[axis + axes] - step + more
        if min(low, high) < 0:
            x = e.slice(x, axis + 2, max(-low, 0), sizes[axis] - max(-high, 0))
        around[0].append(max(low, 0))
        around[1].append(max(high, 0))
    given = [x, kernel, *e.inputs[2:]]
    return e.op("Conv", *given, pads=[*around[0], *around[1]], group=groups)


def _wide(kernel: tuple[int, ...], gaps: list[int], count: int) -> list[int]:
    """Return the sizes of the kernel after gaps were put into its first `count` axes."""
    return [
        (size - 1) * gap + 1 if axis < count else size
        for axis, (size, gap) in enumerate(zip(kernel, gaps, strict=True))
    ]


def _with_gaps(e: Decomposition, weight: str, shape: list[int], axis: int, gap: int) -> str:
    if gap == 1:
        return weight
    size = shape[axis]
    narrow = e.reshape(weight, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    zero = e.op("Mul", narrow, e.like(0))
    wide = e.op("Concat", narrow, *[zero] * (gap - 1), axis=axis + 1)
    flat = e.reshape(wide, [*shape[:axis], size * gap, *shape[axis + 1 :]])
    return e.slice(flat, axis, 0, (size - 1) * gap + 1)


def _geometry(e: Decomposition, sizes: tuple[int, ...], kernel: list[int]) -> dict[str, Any]:
    """Strides and explicit padding."""
    count = len(kernel)
    stride = e.attribute("strides", [1] * count)
    extra = list(e.attribute("output_padding", [0] * count))
    pads = e.attribute("pads", [0] * (2 * count))
    wanted = e.attribute("output_shape")
    automatic = e.attribute("auto_pad", "NOTSET")
    if wanted is None and automatic.startswith("SAME"):
        wanted = [size * step for size, step in zip(sizes, stride, strict=True)]
    if wanted is not None:
        before, after = [], []
        for axis, (size, step, span) in enumerate(zip(sizes, stride, kernel, strict=True)):
            total = step * (size - 1) + extra[axis] + span - wanted[-count:][axis]
            if total < 0:
                extra[axis], total = extra[axis] - total, 0
            low = total // 2 if automatic == "SAME_UPPER" else total - total // 2
            before.append(low)
            after.append(total - low)
        pads = [*before, *after]
    return {"strides": stride, "pads": list(pads), "output_padding": extra, "kernel_shape": kernel}
