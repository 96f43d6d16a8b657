"""Transposed convolutions of groups, with gaps in the kernel, or with padding that is computed."""

from __future__ import annotations

from typing import Any

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError


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
    channels, results = e.shape(1)[0] // groups, []
    for group in range(groups):
        low, high = group * channels, (group + 1) * channels
        x = e.slice(e.inputs[0], 1, low, high) if groups > 1 else e.inputs[0]
        part = e.slice(weight, 0, low, high) if groups > 1 else weight
        results.append(e.op("ConvTranspose", x, part, **attributes))
    y = e.op("Concat", *results, axis=1) if groups > 1 else results[0]
    if e.has(2):
        y = e.op("Add", y, e.reshape(e.inputs[2], [1, -1, *[1] * count]))
    e.result(y)


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
