"""Pools that TOSA does not have: over one or three axes, with gaps, of other norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError


class Windows(NamedTuple):
    """The windows of a pool along its axes. extra: elements beyond the padding that ceil_mode adds."""

    kernel: list[int]
    stride: list[int]
    gap: list[int]
    before: list[int]
    after: list[int]
    extra: list[int]


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
    extra = [0] * count
    for axis, (size, span, step) in enumerate(zip(sizes, spans, stride, strict=True)):
        if automatic.startswith("SAME"):
            total = max((math.ceil(size / step) - 1) * step + span - size, 0)
            low, high = total // 2, total - total // 2
            before[axis], after[axis] = (low, high) if automatic == "SAME_UPPER" else (high, low)
        if e.attribute("ceil_mode", 0):
            room = size + before[axis] + after[axis] - span
            steps = math.ceil(room / step)
            if steps * step >= size + before[axis]:  # The last window would lie in the padding.
                steps -= 1
            extra[axis] = max(steps * step - room, 0)
    return Windows(kernel, stride, gap, before, after, extra)


def average_pool(e: Decomposition) -> None:
    """Add up each window by slices, times the reciprocal of its count of elements."""
    windows = _windows_of(e)
    e.leave_if(len(windows.kernel) == 2 and windows.gap == [1, 1], "torch-mlir lowers it")
    include = bool(e.attribute("count_include_pad", 0))
    counts = _window_sizes(e.shape(0)[2:], windows, include)
    total = _reduced(e, _padded(e, e.inputs[0], windows, 0), windows, "Add")
    e.result(e.op("Mul", total, e.constant(1 / counts, e.numpy_type())))


def lp_pool(e: Decomposition) -> None:
    """Compute the root of the sum of powers of each window."""
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
    """Compute the maximum of each window by slices."""
    windows = _windows_of(e)
    if e.wants(1) or (len(windows.kernel) == 2 and windows.gap == [1, 1]):
        raise NotDecomposedError("torch-mlir lowers it, or the positions are asked for")
    kind = e.numpy_type()
    least = -np.inf if np.issubdtype(kind, np.floating) else np.iinfo(kind).min
    e.result(_reduced(e, _padded(e, e.inputs[0], windows, least), windows, "Max"))


def global_lp_pool(e: Decomposition) -> None:
    """Compute the norm over all axes but the first two."""
    p, axes = int(e.attribute("p", 2)), list(range(2, len(e.shape(0))))
    e.leave_if(p not in (1, 2), "another norm")
    e.result(e.reduce("ReduceL1" if p == 1 else "ReduceL2", e.inputs[0], axes))


def _padded(e: Decomposition, x: str, windows: Windows, fill: Any) -> str:
    after = [a + b for a, b in zip(windows.after, windows.extra, strict=True)]
    if not any((*windows.before, *after)):
        return x
    return e.pad(x, [0, 0, *windows.before], [0, 0, *after], fill)


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
    for size, kernel, stride, gap, before, after, extra in rows:
        inside = np.zeros(size + before + after + extra)
        inside[: size + before + after] = 1.0 if include else 0.0
        inside[before : before + size] = 1.0
        starts = range(0, len(inside) - (kernel - 1) * gap, stride)
        counts = [inside[s : s + (kernel - 1) * gap + 1 : gap].sum() for s in starts]
        result = result[..., None] * np.array(counts)
    return result
