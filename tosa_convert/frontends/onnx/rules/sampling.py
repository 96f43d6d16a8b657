"""GridSample, AffineGrid, RoiAlign and DeformConv."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import layout, sampling
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import is_float
from tosa_convert.frontends.onnx.node import Node, Rule
from tosa_convert.frontends.onnx.rules.products import convolved

#: The opset in which pixels of RoiAlign got their centres between whole positions.
_HALF_SINCE: Final = 16


def _grid_sample(n: Node) -> Array:
    """Sample an image: nearest, linear and cubic, over two or three axes."""
    image = n.array(0)
    if not is_float(image.dtype):
        raise NotLowered(f"it samples an image of {image.dtype}", "cast to float32 and back")
    mode = str(n.get("mode", "linear")).removeprefix("bi")
    padding = str(n.get("padding_mode", "zeros"))
    is_aligned = bool(n.get("align_corners", 0))
    return sampling.grid_sample(n.scope, image, n.array(1), mode, padding, is_aligned)


def _affine_grid(n: Node) -> Array:
    sizes = n.ints(1)[2:]
    return sampling.affine_grid(n.scope, n.array(0), sizes, bool(n.get("align_corners", 0)))


def _roi_align(n: Node) -> Array:
    """Average samples of regions."""
    image, number = n.array(0), int(n.get("sampling_ratio", 0))
    if n.get("mode", "avg") != "avg":
        raise NotLowered("it takes the greatest of weighted elements", "use the mode avg")
    if number < 1:
        raise NotLowered("the count of samples depends on the region", "set sampling_ratio")
    default = "half_pixel" if n.since >= _HALF_SINCE else "output_half_pixel"
    is_half = n.get("coordinate_transformation_mode", default) == "half_pixel"
    made = [int(n.get(name, 1)) for name in ("output_height", "output_width")]
    rows, columns = (
        sampling.Region(size, count, number)
        for size, count in zip(image.shape[2:], made, strict=True)
    )
    scale = float(n.get("spatial_scale", 1.0))
    given = n.scope, image, n.array(1), n.array(2)
    return sampling.roi_align(*given, (rows, columns), scale, is_half)


def _deform_conv(n: Node) -> Array:
    """Sample the image where each element of the kernel points, then multiply with the kernel."""
    s, x, weight, offset = n.scope, n.array(0), n.array(1), n.array(2)
    batch, channels, *sizes = x.shape
    outputs, each, *kernel = weight.shape
    if len(sizes) != 2:
        raise NotLowered(f"it has {len(sizes)} axes, and the definition is of two")
    groups, made = int(n.get("offset_group", 1)), offset.shape[2:]
    count = math.prod(kernel)
    moves = layout.reshape(s, offset, (batch * groups, count, 2, *made))
    places = [_places(n, moves, axis, size, kernel) for axis, size in enumerate(sizes)]
    grid = layout.concatenate(s, places[::-1], 3)
    image = layout.reshape(s, x, (batch * groups, channels // groups, *sizes))
    values = sampling.grid_sample(s, image, grid)
    if n.has(4):
        mask = layout.reshape(s, n.array(4), (batch * groups, 1, count * made[0], made[1]))
        values = s.mul(values, mask)
    values = layout.reshape(s, values, (batch, channels * count, *made))
    filters = layout.reshape(s, weight, (outputs, each * count, 1, 1))
    # The node's other attributes say where the points are.
    point = replace(n, attributes={"group": int(n.get("group", 1))})
    return convolved(point, values, filters, n.optional(3), values.dtype)


def _places(n: Node, moves: Array, axis: int, size: int, kernel: list[int]) -> Array:
    """Return where the elements of the kernel point along an axis, from -1 to 1."""
    s, made = n.scope, moves.shape[3:]
    step = (n.get("strides") or [1, 1])[axis]
    gap = (n.get("dilations") or [1, 1])[axis]
    pad = (n.get("pads") or [0] * 4)[axis]
    inner, outer = np.arange(kernel[axis]), np.arange(made[axis])
    line = inner[:, None] * gap + outer[None, :] * step - pad
    # From the first to the last element is -1 + 1/size to 1 - 1/size.
    start = line.reshape((-1, 1, made[0], 1) if not axis else (1, -1, 1, made[1]))
    start = np.broadcast_to(start, (*kernel, *made)).reshape(1, -1, 1, *made)
    part = layout.part(s, moves, 2, axis, axis + 1)
    at = s.add(part, constant(start.astype(moves.dtype)))
    at = s.add(s.mul(at, 2 / size), 1 / size - 1)
    return layout.reshape(s, at, (moves.shape[0], moves.shape[1] * made[0], made[1], 1))


RULES: Final[dict[str, Rule]] = {
    "AffineGrid": _affine_grid,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
