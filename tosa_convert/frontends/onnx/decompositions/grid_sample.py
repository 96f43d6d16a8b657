"""GridSample: the neighbours of each position, gathered and weighted. AffineGrid: the positions."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.node import Decomposition

#: A neighbour along one axis: its index as INT64, its weight, and whether it lies inside.
Neighbour = tuple[str, str, str]


def grid_sample(e: Decomposition) -> None:
    """Nearest, linear and cubic, over two or three axes."""
    shape, grid = e.shape(0), e.shape(1)
    batch, channels, *sizes = shape
    mode = e.attribute("mode", "linear").removeprefix("bi")
    padding = e.attribute("padding_mode", "zeros")
    e.leave_if(e.type(0) != TensorProto.FLOAT, "it is not f32")
    count = int(np.prod(grid[1:-1]))
    flat = e.reshape(e.inputs[1], [batch, count, len(sizes)])
    # The last coordinate belongs to the first axis.
    axes = [
        _neighbours(
            e, e.slice(flat, 2, len(sizes) - 1 - axis, len(sizes) - axis), size, mode, padding
        )
        for axis, size in enumerate(sizes)
    ]
    image = e.reshape(e.inputs[0], [batch, channels, int(np.prod(sizes))])
    total = ""
    for corner in product(*axes):
        part = _weighted(e, image, corner, sizes, (batch, channels, count), padding)
        total = e.op("Add", total, part) if total else part
    e.result(e.reshape(total, [batch, channels, *grid[1:-1]]))


def _weighted(
    e: Decomposition,
    image: str,
    corner: tuple[Neighbour, ...],
    sizes: list[int],
    shape: tuple[int, int, int],
    padding: str,
) -> str:
    batch, channels, count = shape
    place, weight = "", ""
    for (index, factor, inside), size in zip(corner, sizes, strict=True):
        if padding == "zeros":
            factor = e.op("Mul", factor, inside)
        weight = e.op("Mul", weight, factor) if weight else factor
        place = e.op("Add", e.op("Mul", place, e.ints(size)), index) if place else index
    row = e.reshape(place, [batch, 1, count])
    indices = e.op("Expand", row, e.ints(batch, channels, count))
    values = e.op("GatherElements", image, indices, axis=2)
    return e.op("Mul", values, e.reshape(weight, [batch, 1, count]))


def _neighbours(e: Decomposition, x: str, size: int, mode: str, padding: str) -> list[Neighbour]:
    """Return the neighbours of positions along one axis; x: from -1 to 1."""
    corners = bool(e.attribute("align_corners", 0))
    half = (size - 1) / 2
    factor = half if corners else size / 2
    x = e.op("Add", e.op("Mul", x, e.like(factor)), e.like(half))
    if mode == "nearest":
        x = e.op("Round", x)
    if padding == "border":
        x = e.op("Max", e.op("Min", x, e.like(size - 1)), e.like(0))
    elif padding == "reflection":
        x = _reflected(e, x, size, corners)
    if mode == "nearest":
        x = e.op("Round", x)
        return [
            _at(e, x, e.op("Add", e.op("Mul", x, e.like(0)), e.like(1)), size, padding, corners)
        ]
    base = e.op("Floor", x)
    fraction = e.op("Sub", x, base)
    if mode == "linear":
        weights = [e.op("Sub", e.like(1), fraction), fraction]
        offsets = [0, 1]
    else:
        weights, offsets = _cubic(e, fraction), [-1, 0, 1, 2]
    return [
        _at(e, e.op("Add", base, e.like(offset)), weight, size, padding, corners)
        for offset, weight in zip(offsets, weights, strict=True)
    ]


def _cubic(e: Decomposition, t: str) -> list[str]:
    """Compute the weights of Keys' kernel with a = -0.75, as polynomials of the fraction."""
    a = -0.75
    rows = [
        [0.0, a, -2 * a, a],
        [1.0, 0.0, -(a + 3), a + 2],
        [0.0, -a, 2 * a + 3, -(a + 2)],
        [0.0, 0.0, a, -a],
    ]
    found = []
    for c0, c1, c2, c3 in rows:
        value = e.like(c3)
        for c in (c2, c1, c0):
            value = e.op("Add", e.op("Mul", value, t), e.like(c))
        found.append(value)
    return found


def _reflected(e: Decomposition, x: str, size: int, corners: bool) -> str:
    """Mirror positions outside at the border until they lie inside."""
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return e.op("Mul", x, e.like(0))
    away = e.op("Abs", e.op("Sub", x, e.like(low)))
    turns = e.op("Floor", e.op("Div", away, e.like(2 * span)))
    rest = e.op("Sub", away, e.op("Mul", turns, e.like(2 * span)))
    back = e.op("Min", rest, e.op("Sub", e.like(2 * span), rest))
    return e.op("Add", back, e.like(low))


def _at(e: Decomposition, x: str, weight: str, size: int, padding: str, corners: bool) -> Neighbour:
    inside = ""
    if padding == "zeros":
        inner = e.op("Equal", x, e.op("Max", e.op("Min", x, e.like(size - 1)), e.like(0)))
        inside = e.cast(inner, TensorProto.FLOAT)
    elif padding == "reflection":
        x = _reflected(e, x, size, corners)
    clamped = e.op("Max", e.op("Min", x, e.like(size - 1)), e.like(0))
    return e.cast(clamped, TensorProto.INT64), weight, inside


def affine_grid(e: Decomposition) -> None:
    """Multiply the positions of the pixels, which are constants, by the matrix of each image."""
    batch = e.shape(0)[0]
    sizes = [int(size) for size in e.value(1).reshape(-1)[2:]]
    corners = bool(e.attribute("align_corners", 0))
    lines = [_positions(size, corners=corners) for size in sizes]
    # The last axis comes first: x, y, z.
    grid = [part.reshape(-1) for part in reversed(np.meshgrid(*lines, indexing="ij"))]
    points = np.stack([*grid, np.ones_like(grid[0])], axis=-1)
    matrix = e.transpose(e.inputs[0], [0, 2, 1])
    moved = e.op("MatMul", e.like(np.broadcast_to(points, (batch, *points.shape))), matrix)
    e.result(e.reshape(moved, [batch, *sizes, len(sizes)]))


def _positions(size: int, *, corners: bool) -> NDArray[np.float64]:
    """Return positions along an axis from -1 to 1: the pixels' centres, or from corner to corner."""
    if corners:
        return np.linspace(-1, 1, size)
    return (2 * np.arange(size) + 1) / size - 1


def deform_conv(e: Decomposition) -> None:
    """Sample the image where each element of the kernel points, then multiply with the kernel."""
    e.leave_if(e.opset < 16, "GridSample is new in opset 16")
    batch, channels, *sizes = e.shape(0)
    outputs, each, *kernel = e.shape(1)
    e.leave_if(len(sizes) != 2, "it has not two axes")
    groups = int(e.attribute("offset_group", 1))
    steps, gaps = e.attribute("strides", [1, 1]), e.attribute("dilations", [1, 1])
    pads, made = e.attribute("pads", [0] * 4), e.shape(2)[2:]
    count = kernel[0] * kernel[1]
    moves = e.reshape(e.inputs[2], [batch * groups, count, 2, *made])
    coordinates = []
    for axis, size in enumerate(sizes):
        inner, outer = [np.arange(n) for n in (kernel[axis], made[axis])]
        line = inner[:, None] * gaps[axis] + outer[None, :] * steps[axis] - pads[axis]
        # From the first to the last element is -1 + 1/size to 1 - 1/size.
        start = line.reshape([-1, 1, made[0], 1] if not axis else [1, -1, 1, made[1]])
        start = np.broadcast_to(start, [*kernel, *made]).reshape(1, count, 1, *made)
        places = e.op("Add", e.slice(moves, 2, axis, axis + 1), e.like(start))
        places = e.op("Add", e.op("Mul", places, e.like(2 / size)), e.like(1 / size - 1))
        coordinates.append(e.reshape(places, [batch * groups, count * made[0], made[1], 1]))
    grid = e.op("Concat", *reversed(coordinates), axis=3)
    image = e.reshape(e.inputs[0], [batch * groups, channels // groups, *sizes])
    values = e.op("GridSample", image, grid)
    if e.has(4):
        mask = e.reshape(e.inputs[4], [batch * groups, 1, count * made[0], made[1]])
        values = e.op("Mul", values, mask)
    values = e.reshape(values, [batch, channels * count, *made])
    weight = e.reshape(e.inputs[1], [outputs, each * count, 1, 1])
    given = [values, weight] + ([e.inputs[3]] if e.has(3) else [])
    e.result(e.op("Conv", *given, group=int(e.attribute("group", 1))))


def roi_align(e: Decomposition) -> None:
    """Average samples of regions by a matrix for the rows and one for the columns of each region."""
    number, (rows, columns) = int(e.attribute("sampling_ratio", 0)), e.shape(0)[2:]
    e.leave_if(e.attribute("mode", "avg") != "avg", "it takes the greatest of weighted elements")
    e.leave_if(number < 1, "the count of samples depends on the region")
    default = "half_pixel" if e.opset >= 16 else "output_half_pixel"
    half = e.attribute("coordinate_transformation_mode", default) == "half_pixel"
    scaled = e.op("Mul", e.inputs[1], e.like(float(e.attribute("spatial_scale", 1.0))))
    if half:
        scaled = e.op("Sub", scaled, e.like(0.5))
    matrices = []
    for first, size, name in ((1, rows, "output_height"), (0, columns, "output_width")):
        made = int(e.attribute(name, 1))
        low = e.slice(scaled, 1, first, first + 1)
        span = e.op("Sub", e.slice(scaled, 1, first + 2, first + 3), low)
        if not half:
            span = e.op("Max", span, e.like(1))
        parts = (np.arange(made * number) + 0.5) / (made * number)
        at = e.op("Add", e.op("Mul", span, e.like(parts.reshape(1, -1))), low)
        outside = e.op("Or", e.op("Less", at, e.like(-1)), e.op("Less", e.like(size), at))
        inside = e.op("Max", e.op("Min", at, e.like(size - 1)), e.like(0))
        inside, outside = (e.reshape(x, [-1, made, number, 1]) for x in (inside, outside))
        away = e.op("Abs", e.op("Sub", inside, e.like(np.arange(size).reshape(1, 1, 1, -1))))
        weight = e.op("Max", e.op("Sub", e.like(1), away), e.like(0))
        weight = e.op("Where", outside, e.like(0), weight)
        mean = e.op("Mul", e.reduce("ReduceSum", weight, [2], keepdims=0), e.like(1 / number))
        matrices.append(e.unsqueeze(mean, 1))
    image = e.op("Gather", e.inputs[0], e.inputs[2], axis=0)
    lines = e.op("MatMul", matrices[0], image)
    e.result(e.op("MatMul", lines, e.transpose(matrices[1], [0, 1, 3, 2])))
