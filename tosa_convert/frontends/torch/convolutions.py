"""Torch's convolutions of groups, and transposed ones, in the forms that TOSA has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tosa_convert.frontends.recipes import FEW_GROUPS, is_summed_by_group
from tosa_convert.frontends.torch.windows import all_sizes

_convolve: Final[Callable[..., Any]] = torch.ops.aten.convolution


def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """Convolutions of groups by those of single channels; transposed ones with zeros in the kernel."""
    axes = weight.dim() - 2
    step, pads, gaps = (all_sizes(value, axes) for value in (stride, padding, dilation))
    if not transposed:
        if groups == 1 or (axes < 3 and (weight.shape[1] == 1 or groups <= FEW_GROUPS)):
            return NotImplemented  # The rules have them.
        return _of_groups(x, weight, bias, step, pads, gaps, groups)
    if groups == 1 and gaps == [1] * axes and axes < 3:
        return NotImplemented
    for axis, gap in enumerate(gaps, 2):
        weight = _with_gaps(weight, axis, gap)
    extra, ones = all_sizes(output_padding, axes), [1] * axes
    if groups > FEW_GROUPS or axes == 3:  # TOSA has it for two axes.
        return _transposed_of_groups(x, weight, bias, step, pads, extra, groups)
    parts = zip(x.chunk(groups, 1), weight.chunk(groups, 0), strict=True)
    results = [_convolve(part, w, None, step, pads, ones, True, extra, 1) for part, w in parts]
    result = torch.cat(results, 1) if groups > 1 else results[0]
    return result if bias is None else result + bias.reshape([1, -1, *ones])


def convolution_of_times(x: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Lower `conv_tbc`, whose tensors and kernels have places first and channels last."""
    x, weight = x.permute(1, 2, 0), weight.permute(2, 1, 0)
    return _convolve(x, weight, bias, [1], [pad], [1], False, [0], 1).permute(2, 0, 1)


def _of_groups(
    x: Any,
    weight: Any,
    bias: Any,
    step: list[int],
    pads: list[int],
    gaps: list[int],
    groups: int,
) -> Any:
    """Convolve each channel by itself, and sum over the channels of a group; see `recipes`."""
    axes, size, each = weight.dim() - 2, weight.shape[1], weight.shape[0] // groups
    spans = [(k - 1) * gap + 1 for k, gap in zip(weight.shape[2:], gaps, strict=True)]
    rows = zip(x.shape[2:], pads, spans, step, strict=True)
    sizes = [(length + 2 * pad - span) // s + 1 for length, pad, span, s in rows]
    if not is_summed_by_group(groups, x.shape[0] * math.prod(sizes) * size * weight.shape[0]):
        weights = weight.chunk(groups, 0)
        shifts = [None] * groups if bias is None else bias.chunk(groups)
        parts = zip(x.chunk(groups, 1), weights, shifts, strict=True)
        zeros = [0] * axes
        return torch.cat([_convolve(*row, step, pads, gaps, False, zeros, 1) for row in parts], 1)
    if axes == 3:
        return _by_depth(x, weight, bias, step, pads, gaps, groups, sizes[0])
    kernel = weight.reshape(groups, each, size, *weight.shape[2:]).transpose(1, 2)
    kernel = kernel.reshape(groups * size * each, 1, *weight.shape[2:])
    y = _convolve(x, kernel, None, step, pads, gaps, False, [0] * axes, groups * size)
    # Channels are last, as in TOSA, so that no transpose is between the convolution and the sum.
    last = y.movedim(1, -1)
    sums = last.reshape(-1, groups, size, each).sum(2).reshape([*last.shape[:-1], groups * each])
    return (sums if bias is None else sums + bias).movedim(-1, 1)


def _by_depth(
    x: Any,
    weight: Any,
    bias: Any,
    step: list[int],
    pads: list[int],
    gaps: list[int],
    groups: int,
    depth: int,
) -> Any:
    """Sum convolutions over height and width, one for each depth in the kernel."""
    total, count = None, x.shape[0]
    planes = torch.constant_pad_nd(x, [0, 0, 0, 0, pads[0], pads[0]]).movedim(2, 1)
    for place in range(weight.shape[2]):
        start = place * gaps[0]
        end = start + (depth - 1) * step[0] + 1
        part = torch.ops.aten.slice.Tensor(planes, 1, start, end, step[0]).flatten(0, 1)
        shift = bias if place == 0 else None
        rest = step[1:], pads[1:], gaps[1:], False, [0, 0], groups
        made = _convolve(part, weight[:, :, place], shift, *rest)
        total = made if total is None else total + made
    assert total is not None
    return total.reshape(count, depth, *total.shape[1:]).movedim(1, 2)


def _transposed_of_groups(
    x: Any,
    weight: Any,
    bias: Any,
    step: list[int],
    pads: list[int],
    extra: list[int],
    groups: int,
) -> Any:
    """Put zeros between the elements, and convolve with the kernel backwards."""
    axes, each = len(step), weight.shape[1]
    kernel = (
        weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2).flip([*range(3, axes + 3)])
    )
    kernel = kernel.reshape(groups * each, -1, *weight.shape[2:])
    around: list[int] = []
    for axis, (s, k, pad, more) in enumerate(
        zip(step, weight.shape[2:], pads, extra, strict=True), 2
    ):
        if s > 1:
            wide = x.unsqueeze(axis + 1)
            fill = [0, 0] * (wide.dim() - axis - 2) + [0, s - 1]
            x = torch.constant_pad_nd(wide, fill).flatten(axis, axis + 1)
        around = [k - 1 - pad, k - pad - s + more, *around]
    x = torch.constant_pad_nd(x, around)
    ones, zeros = [1] * axes, [0] * axes
    return _convolve(x, kernel, bias, ones, zeros, ones, False, zeros, groups)


def _with_gaps(weight: Any, axis: int, gap: int) -> Any:
    """Put `gap - 1` zeros between the elements of the kernel along an axis."""
    if gap == 1:
        return weight
    size = weight.shape[axis]
    parts = weight.unsqueeze(axis + 1)
    zeros = torch.zeros_like(parts).repeat_interleave(gap - 1, axis + 1)
    wide = torch.cat([parts, zeros], axis + 1)
    shape = [*weight.shape]
    shape[axis] = size * gap
    return wide.reshape(shape).narrow(axis, 0, (size - 1) * gap + 1)


def gradients(
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Return the gradients of a convolution: by its input, its kernel and its bias, as the mask asks.

    That by the input is a transposed convolution, that by the kernel a convolution of the input with the
    gradient as the kernel, in which batch and channels change places.
    """
    if transposed:
        return NotImplemented
    axes = weight.dim() - 2
    step, pads, gaps = (all_sizes(value, axes) for value in (stride, padding, dilation))
    sizes = zip(
        *(x.shape[2:], grad.shape[2:], weight.shape[2:], step, pads, gaps),
        strict=True,
    )
    extra = [size - ((g - 1) * s - 2 * p + d * (k - 1) + 1) for size, g, k, s, p, d in sizes]
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        by_input = _convolve(grad, weight, None, step, pads, gaps, True, extra, groups)
    if output_mask[1]:
        batch, rest = x.shape[0], list(x.shape[2:])
        each, none = x.shape[1] // groups, [0] * axes
        rows = x.reshape(batch, groups, each, *rest).permute(2, 1, 0, *range(3, 3 + axes))
        rows = rows.reshape(each, groups * batch, *rest)
        made = _convolve(rows, grad.transpose(0, 1), None, gaps, pads, step, False, none, groups)
        for axis, size in enumerate(weight.shape[2:], 2):
            made = made.narrow(axis, 0, size)
        by_weight = made.transpose(0, 1)
    if output_mask[2]:
        by_bias = grad.sum([0, *range(2, 2 + axes)])
    return by_input, by_weight, by_bias
