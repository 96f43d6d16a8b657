"""Pools that TOSA does not have: over one or three axes, with gaps, of other norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.integers import as_bits, widened
from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
)
from tosa_convert.records import NamedTuple

#: Elements of a window that are compared one after the other.
_COMPARED: Final = 64


class Windows(NamedTuple):
    """The windows of a pool along its axes."""

    kernel: list[int]
    stride: list[int]
    gap: list[int]
    before: list[int]
    after: list[int]


def _windows_of(e: Decomposition) -> Windows:
    """Return the windows by the attributes that all pools share."""
    sizes = e.shape(0)[2:]
    kernel = e.attribute("kernel_shape")
    count = len(kernel)
    stride = e.attribute("strides", [1] * count)
    gap = e.attribute("dilations", [1] * count)
    pads = e.attribute("pads", [0] * (2 * count))
    before, after = list(pads[:count]), list(pads[count:])
    automatic = e.attribute("auto_pad", "NOTSET")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, gap, strict=True)]
    for axis, (size, span, step) in enumerate(zip(sizes, spans, stride, strict=True)):
        if automatic.startswith("SAME"):
            total = max((math.ceil(size / step) - 1) * step + span - size, 0)
            low, high = total // 2, total - total // 2
            before[axis], after[axis] = (low, high) if automatic == "SAME_UPPER" else (high, low)
    return Windows(kernel, stride, gap, before, after)


def _rounds_down(e: Decomposition) -> bool:
    """Write a pool whose sizes are rounded up as one with more padding, whose sizes are rounded down.

    A window without an element of the input is left out, as by onnxruntime.
    """
    if not e.attribute("ceil_mode", 0):
        return False
    sizes, windows = e.shape(0)[2:], _windows_of(e)
    extra = []
    for size, kernel, step, gap, before, after in zip(sizes, *windows, strict=True):
        room = size + before + after - (kernel - 1) * gap - 1
        steps = math.ceil(room / step)
        extra.append(max((steps - (steps * step >= size + before)) * step - room, 0))
    x, before, after = e.inputs[0], windows.before, windows.after
    given = {**e.attributes, "ceil_mode": None, "auto_pad": None}
    if given.pop("count_include_pad", 0) and any(
        extra
    ):  # The padding counts, what is added does not.
        x = e.pad(x, [0, 0, *before], [0, 0, *after])
        before, after = [0] * len(sizes), [0] * len(sizes)
    elif e.attribute("count_include_pad", 0):
        given["count_include_pad"] = 1
    given["pads"] = [*before, *(a + b for a, b in zip(after, extra, strict=True))]
    for index, name in enumerate(e.ops(e.node.op_type, x, outputs=len(e.node.output), **given)):
        if e.wants(index):
            e.result(name, index)
    return True


def average_pool(e: Decomposition) -> None:
    """Add up each window by slices, times the reciprocal of its count of elements."""
    if _rounds_down(e):
        return
    windows = _windows_of(e)
    e.leave_if(len(windows.kernel) == 2 and windows.gap == [1, 1], "torch-mlir lowers it")
    include = bool(e.attribute("count_include_pad", 0))
    counts = _window_sizes(e.shape(0)[2:], windows, include)
    total = _reduced(e, _padded(e, e.inputs[0], windows, 0), windows, "Add")
    e.result(e.op("Mul", total, e.constant(1 / counts, e.numpy_type())))


def lp_pool(e: Decomposition) -> None:
    """Compute the root of the sum of powers of each window."""
    if _rounds_down(e):
        return
    windows, p = _windows_of(e), int(e.attribute("p", 2))
    powers = e.op("Abs", e.inputs[0])
    for _ in range(p - 1):
        powers = e.op("Mul", powers, e.op("Abs", e.inputs[0]))
    total = _reduced(e, _padded(e, powers, windows, 0), windows, "Add")
    if p == 1:
        e.result(total)
    else:
        e.result(e.op("Sqrt", total) if p == 2 else e.op("Pow", total, e.like(1 / p)))


def max_pool(e: Decomposition) -> None:
    """Compute the maximum of each window by slices; that of UINT8 by INT8."""
    if e.type(0) == TensorProto.UINT8:
        return _max_of_bytes(e)
    if _rounds_down(e):
        return None
    windows = _windows_of(e)
    plain = len(windows.kernel) == 2 and windows.gap == [1, 1]
    kind = e.numpy_type()
    least = np.iinfo(kind).min if kind.kind in "iu" else -np.inf
    if e.wants(1):
        around = any((*windows.before, *windows.after))
        e.leave_if(
            plain and not around and not e.attribute("storage_order"), "torch-mlir lowers it"
        )
        return _max_with_positions(e, windows, least)
    if plain:
        raise NotDecomposedError("torch-mlir lowers it")
    return e.result(_reduced(e, _padded(e, e.inputs[0], windows, least), windows, "Max"))


def _max_of_bytes(e: Decomposition) -> None:
    """Move the range to that of INT8, and back."""
    middle = e.constant(128, np.int32)
    number = e.op("Sub", widened(e, e.inputs[0], TensorProto.UINT8), middle)
    signed = as_bits(e, number, TensorProto.INT8)
    results = e.ops("MaxPool", signed, outputs=len(e.node.output), **e.attributes)
    found = e.op("Add", e.cast(results[0], TensorProto.INT32), middle)
    e.result(as_bits(e, found, TensorProto.UINT8))
    if e.wants(1):
        e.result(results[1], 1)


def _max_with_positions(e: Decomposition, windows: Windows, least: Any) -> None:
    """Compare the elements of each window in turn: the first of equal ones is taken."""
    batch, channels, *sizes = e.shape(0)
    e.leave_if(math.prod(windows.kernel) > _COMPARED, "its windows are too large")
    x = _padded(e, e.inputs[0], windows, least)
    counts = e.output_shape()[2:]
    planes = np.arange(batch * channels).reshape(batch, channels, *[1] * len(sizes))
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    if e.attribute("storage_order"):
        strides = [math.prod(sizes[:axis]) for axis in range(len(sizes))]
    best = at = ""
    for offsets in np.ndindex(*windows.kernel):
        part, position = x, planes * math.prod(sizes)
        for axis, offset in enumerate(offsets):
            first, step = offset * windows.gap[axis], windows.stride[axis]
            part = e.slice(part, axis + 2, first, first + (counts[axis] - 1) * step + 1, step)
            line = np.arange(counts[axis]) * step + first - windows.before[axis]
            shape = [-1 if other == axis else 1 for other in range(len(sizes))]
            position = position + line.reshape(shape) * strides[axis]
        positions = e.constant(position, np.int64)
        if not best:
            best, at = part, positions
            continue
        larger = e.op("Greater", part, best)
        best, at = e.op("Where", larger, part, best), e.op("Where", larger, positions, at)
    e.result(best)
    e.result(at, 1)


def max_unpool(e: Decomposition) -> None:
    """Put the elements where a pool of windows that do not overlap found them, among zeros."""
    kernel = e.attribute("kernel_shape")
    count = len(kernel)
    stride, pads = e.attribute("strides", [1] * count), e.attribute("pads", [0] * 2 * count)
    e.leave_if(any(k > s for k, s in zip(kernel, stride, strict=True)), "its windows overlap")
    shape = e.shape(0)
    sizes = [
        (size - 1) * stride[axis] + kernel[axis] - pads[axis] - pads[axis + count]
        for axis, size in enumerate(shape[2:])
    ]
    wanted = [*shape[:2], *sizes]
    if e.has(2) and [int(size) for size in e.value(2)] != wanted:
        raise RefusedError("its sizes are not those of the pool: ONNX and onnxruntime differ on it")
    zeros = e.constant(np.zeros(math.prod(wanted), e.numpy_type()))
    places, values = e.reshape(e.inputs[1], [-1]), e.reshape(e.inputs[0], [-1])
    e.result(e.reshape(e.op("ScatterElements", zeros, places, values, axis=0), wanted))


def global_lp_pool(e: Decomposition) -> None:
    """Compute the norm over all axes but the first two."""
    p, axes = int(e.attribute("p", 2)), list(range(2, len(e.shape(0))))
    e.leave_if(p not in (1, 2), "another norm")
    e.result(e.reduce("ReduceL1" if p == 1 else "ReduceL2", e.inputs[0], axes))


def _padded(e: Decomposition, x: str, windows: Windows, fill: Any) -> str:
    if not any((*windows.before, *windows.after)):
        return x
    return e.pad(x, [0, 0, *windows.before], [0, 0, *windows.after], fill)


def _reduced(e: Decomposition, x: str, windows: Windows, kind: str) -> str:
    """Reduce each window, one axis after the other."""
    rows = zip(e.shape(0)[2:], *windows, strict=True)
    for axis, (size, kernel, stride, gap, *around) in enumerate(rows, 2):
        count = (size + sum(around) - (kernel - 1) * gap - 1) // stride + 1
        parts = [
            e.slice(x, axis, p * gap, p * gap + (count - 1) * stride + 1, stride)
            for p in range(kernel)
        ]
        x = parts[0]
        for part in parts[1:]:
            x = e.op(kind, x, part)
    return x


def _window_sizes(sizes: Sequence[int], windows: Windows, include: bool) -> Any:
    """Count the elements of the input, or of it and its padding, in each window."""
    result = np.ones((1, 1))
    rows = zip(sizes, *windows, strict=True)
    for size, kernel, stride, gap, before, after in rows:
        inside = np.full(size + before + after, 1.0 if include else 0.0)
        inside[before : before + size] = 1.0
        starts = range(0, len(inside) - (kernel - 1) * gap, stride)
        counts = [inside[s : s + (kernel - 1) * gap + 1 : gap].sum() for s in starts]
        result = result[..., None] * np.array(counts)
    return result
