"""MaxUnpool and Col2Im, which put elements where windows took them from."""

from __future__ import annotations

import math
from itertools import product as combinations
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.indexing import as_rows, from_rows, index32, write_rows
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant, is_float
from tosa_convert.frontends.onnx.node import Node, Rule

#: Most elements of a matrix.
_MATRIX: Final = 1 << 22


def _max_unpool(n: Node) -> Array:
    """Put the elements where a pool of windows that do not overlap found them, among zeros."""
    s, x, kernel = n.scope, n.array(0), n.get("kernel_shape")
    count = len(kernel)
    stride, pads = n.get("strides") or [1] * count, n.get("pads") or [0] * 2 * count
    if any(k > step for k, step in zip(kernel, stride, strict=True)):
        raise NotLowered("its windows overlap", "use strides of at least the size of the window")
    sizes = [
        (size - 1) * stride[axis] + kernel[axis] - pads[axis] - pads[axis + count]
        for axis, size in enumerate(x.shape[2:])
    ]
    wanted = (*x.shape[:2], *sizes)
    if n.has(2) and n.ints(2) != list(wanted):
        raise NotLowered(
            "its sizes are not those of the pool: ONNX and onnxruntime differ on it",
            "leave out the sizes",
        )
    zeros = Array(x.dtype, (math.prod(wanted), 1), np.zeros((1, 1), x.dtype))
    places = layout.reshape(s, index32(s, n.array(1)), (x.size,))
    rows = layout.reshape(s, as_rows(s, x), (x.size, 1))
    made = write_rows(s, as_rows(s, zeros), places, rows)
    return layout.reshape(s, from_rows(s, made, x.dtype), wanted)


def _column_to_image(n: Node) -> Array:
    """Multiply with a constant matrix of zeros and ones."""
    s, x, image, block = n.scope, n.array(0), n.ints(1), n.ints(2)
    if not is_float(x.dtype):
        raise NotLowered(f"it adds elements of {x.dtype}", "cast to float32 and back")
    count = len(image)
    gaps, steps = (n.get(name) or [1] * count for name in ("dilations", "strides"))
    pads = n.get("pads") or [0] * (2 * count)
    batch, channels, places = x.shape
    channels //= math.prod(block)
    inputs, outputs = math.prod(block) * places, math.prod(image)
    if inputs * outputs > _MATRIX:
        raise NotLowered(f"an image of {image} is too large", "use a transposed convolution")
    grid = [
        (image[a] + pads[a] + pads[a + count] - (block[a] - 1) * gaps[a] - 1) // steps[a] + 1
        for a in range(count)
    ]
    matrix = np.zeros((inputs, outputs), x.dtype)
    for row, (inner, place) in enumerate(combinations(np.ndindex(*block), np.ndindex(*grid))):
        at = [place[a] * steps[a] - pads[a] + inner[a] * gaps[a] for a in range(count)]
        if all(0 <= p < size for p, size in zip(at, image, strict=True)):
            matrix[row, np.ravel_multi_index(at, image)] = 1
    flat = layout.reshape(s, x, (1, batch * channels, inputs))
    made = product(s, flat, constant(matrix[None]), x.dtype)
    return layout.reshape(s, made, (batch, channels, *image))


RULES: Final[dict[str, Rule]] = {"Col2Im": _column_to_image, "MaxUnpool": _max_unpool}
