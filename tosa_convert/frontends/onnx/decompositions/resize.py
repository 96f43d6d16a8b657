"""Resize: along each axis a product with a constant matrix, or a selection of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
)
from tosa_convert.frontends.onnx.shapes import scaled
from tosa_convert.records import NamedTuple

Matrix = np.ndarray[Any, Any]
#: Scales are f32: a size is taken for a whole number within this.
_WHOLE = 1e-4
#: The opset in which Resize got a region of interest, and attributes for positions and rounding.
_MODES_SINCE: Final = 11


class _Axis(NamedTuple):
    """One axis that changes: its sizes, the scale, and the region of interest."""

    axis: int
    size: int
    wanted: int
    scale: float
    start: float
    end: float


def resize(e: Decomposition) -> None:
    """Decompose every mode of Resize. torch-mlir gets nearest neighbours and shrinking wrong."""
    mode = e.attribute("mode", "nearest")
    if mode != "nearest" and e.type(0) in (TensorProto.INT8, TensorProto.UINT8):
        # torch-mlir makes an invalid RESIZE of them.
        real = e.cast(e.inputs[0], TensorProto.FLOAT)
        made = e.op("Resize", real, *e.inputs[1:], **e.attributes)
        e.result(e.cast(made, e.type(0)))
        return
    axes = _axes(e)
    if _lowers_right(e, mode, axes):
        _by_scales(e, axes)
        return
    _refuse_unclear_corners(e, mode)
    x, outside = e.inputs[0], []
    floating = np.issubdtype(e.numpy_type(), np.floating)
    e.leave_if(mode != "nearest" and not floating, "it interpolates integers")
    for row in axes:
        positions = _positions(row, _coordinates(e))
        if _coordinates(e) == "tf_crop_and_resize":
            outside.append((row.axis, (positions < 0) | (positions > row.size - 1)))
        if mode == "nearest":
            x = _select(e, x, row, _nearest(positions, _nearest_mode(e, row)))
        else:
            x = _multiply(e, x, row, _matrix(e, row, positions, mode))
    for axis, mask in outside:
        if mask.any():
            shape = [1] * len(e.shape(0))
            shape[axis] = len(mask)
            value = e.like(e.attribute("extrapolation_value", 0.0))
            x = e.op("Where", e.constant(mask.reshape(shape)), value, x)
    e.result(x)


def _refuse_unclear_corners(e: Decomposition, mode: str) -> None:
    """Refuse corners aligned to a fractional size, where ONNX's tests and onnxruntime disagree."""
    if mode == "nearest" or e.has(3):
        return
    if _coordinates(e) != "align_corners":
        return
    shape, scales = e.shape(0), e.value(2).reshape(-1)
    axes = e.attribute("axes", list(range(len(shape))))
    exact = [shape[axis] * float(scale) for axis, scale in zip(axes, scales, strict=True)]
    if any(abs(size - round(size)) > _WHOLE for size in exact):
        raise RefusedError(
            "ONNX's definition and onnxruntime disagree on corners of a size that is not a whole "
            "number; give it sizes, not scales"
        )


def _coordinates(e: Decomposition) -> str:
    """Return how positions of the result lie among those of the operand."""
    if e.opset < _MODES_SINCE:
        return "asymmetric"
    return str(e.attribute("coordinate_transformation_mode", "half_pixel"))


def _nearest_mode(e: Decomposition, row: _Axis) -> str:
    """Return how a position is rounded.

    The definition of opset 10 leaves it open; onnxruntime does this.
    """
    if e.opset < _MODES_SINCE:
        return "ceil" if row.scale < 1 else "floor"
    return str(e.attribute("nearest_mode", "round_prefer_floor"))


def upsample(e: Decomposition) -> None:
    """Decompose Resize's predecessor: nearest neighbours or linear, with asymmetric positions."""
    mode = e.attribute("mode", "nearest")
    scales = e.value(1) if e.has(1) else np.array(e.attribute("scales"))
    x = e.inputs[0]
    for axis, (size, scale) in enumerate(zip(e.shape(0), scales, strict=True)):
        row = _Axis(axis, size, scaled(size, scale), float(scale), 0.0, 1.0)
        positions = _positions(row, "asymmetric")
        if mode == "nearest":
            x = _select(e, x, row, _nearest(positions, "floor"))
        else:
            x = _multiply(e, x, row, _weights(positions, row, _linear))
    e.result(x)


def _axes(e: Decomposition) -> list[_Axis]:
    """Return what becomes of each axis, from the first to the last."""
    shape = e.shape(0)
    roi_index, scales_index = (1, 2) if e.opset >= _MODES_SINCE else (-1, 1)
    axes = e.attribute("axes", list(range(len(shape))))
    axes = [axis % len(shape) for axis in axes]
    roi = e.value(1) if roi_index == 1 and e.has(1) and e.value(1).size else None
    count = len(axes)
    rows = []
    if e.has(3):
        sizes = [int(size) for size in e.value(3)]
        scales = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = e.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * count
            sizes = [math.floor(scale * shape[axis] + 0.5) for axis in axes]
    else:
        scales = [float(scale) for scale in e.value(scales_index)]
        sizes = [scaled(shape[axis], s) for s, axis in zip(scales, axes, strict=True)]
    for index, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        start, end = (roi[index], roi[index + count]) if roi is not None else (0.0, 1.0)
        rows.append(_Axis(axis, shape[axis], size, scale, float(start), float(end)))
    return sorted(rows)


def _lowers_right(e: Decomposition, mode: str, axes: list[_Axis]) -> bool:
    """Return whether TOSA's RESIZE computes it: the usual linear enlargement of images.

    NPUs prefer RESIZE.
    """
    usual = ("half_pixel", "pytorch_half_pixel", "align_corners")
    return (
        mode == "linear"
        and len(e.shape(0)) == 4
        and _coordinates(e) in usual
        and not e.attribute("antialias", 0)
        and not e.attribute("exclude_outside", 0)
        and "axes" not in {attribute.name for attribute in e.node.attribute}
        and e.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
        and all(row.wanted == row.size for row in axes if row.axis < 2)
        and all(row.wanted >= row.size and row.wanted % row.size == 0 for row in axes)
        and all(row.wanted > 1 for row in axes if row.axis >= 2)
        and all(row.size * row.scale == row.wanted for row in axes)
    )


def _by_scales(e: Decomposition, axes: list[_Axis]) -> None:
    """Rewrite Resize as torch-mlir lowers it: with scales instead of sizes, without torch's own name."""
    positions = _coordinates(e)
    e.leave_if(not e.has(3) and positions != "pytorch_half_pixel", "torch-mlir lowers it")
    # Both have the same positions where more than one element is wanted.
    positions = positions.removeprefix("pytorch_")
    scales = e.constant([row.scale for row in axes], np.float32)
    given = {"mode": "linear", "coordinate_transformation_mode": positions}
    e.result(e.op("Resize", e.inputs[0], "", scales, **given))


def _positions(row: _Axis, mode: str) -> Matrix:
    """Compute where each new element lies among the old ones, in FP32 as onnxruntime does.

    A position that lies half way between two elements in FP32 need not do so in FP64.
    """
    x, half = np.arange(row.wanted, dtype=np.float32), np.float32(0.5)
    scale, last = np.float32(row.scale), np.float32(row.size - 1)
    span = np.float32(max(row.wanted - 1, 1))
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and row.wanted > 1):
        return (x + half) / scale - half
    if mode == "half_pixel_symmetric":
        offset = np.float32(row.size / 2 * (1 - row.wanted / (row.scale * row.size)))
        return offset + (x + half) / scale - half
    if mode == "align_corners":
        return x * last / span if row.wanted > 1 else np.zeros(1)
    if mode == "asymmetric":
        return x / scale
    start, end = np.float32(row.start), np.float32(row.end)
    if mode == "tf_crop_and_resize":
        if row.wanted == 1:
            return np.array([half * (start + end) * last])
        return start * last + x * (end - start) * last / span
    if mode == "pytorch_half_pixel":
        return np.zeros(1)
    raise NotDecomposedError(f"unknown mode {mode}")


def _nearest(positions: Matrix, mode: str) -> Matrix:
    rounded: dict[str, Callable[[Matrix], Matrix]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return rounded[mode](positions)


def _select(e: Decomposition, x: str, row: _Axis, positions: Matrix) -> str:
    """Select elements by positions: by repetition where each occurs equally often, else by a gather."""
    indices = np.clip(positions, 0, row.size - 1).astype(np.int64)
    if np.array_equal(indices, np.arange(row.size)):
        return x
    times = row.wanted // row.size
    if np.array_equal(indices, np.repeat(np.arange(row.size), times)):
        wide = e.op("Concat", *[e.unsqueeze(x, row.axis + 1)] * times, axis=row.axis + 1)
        # The axes after this one have their old sizes: they are resized from the first to the last.
        return e.reshape(wide, [*[0] * row.axis, row.wanted, *e.shape(0)[row.axis + 1 :]])
    return e.op("Gather", x, e.ints(*indices.tolist()), axis=row.axis)


def _multiply(e: Decomposition, x: str, row: _Axis, matrix: Matrix) -> str:
    """Multiply the matrix by the value along an axis."""
    if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(row.size)):
        return x
    rank = len(e.shape(0))
    order = [axis for axis in range(rank) if axis != row.axis] + [row.axis]
    moved = e.transpose(x, order)
    product = e.op("MatMul", moved, e.constant(matrix.T, e.numpy_type()))
    return e.transpose(product, [order.index(axis) for axis in range(rank)])


def _matrix(e: Decomposition, row: _Axis, positions: Matrix, mode: str) -> Matrix:
    factor = min(row.scale, 1.0) if e.attribute("antialias", 0) else 1.0
    a = e.attribute("cubic_coeff_a", -0.75)
    kernel = _linear if mode == "linear" else _cubic(a)
    outside = bool(e.attribute("exclude_outside", 0))
    return _weights(positions, row, kernel, 1 if mode == "linear" else 2, factor, outside)


def _weights(
    positions: Matrix,
    row: _Axis,
    kernel: Callable[[Matrix], Matrix],
    reach: int = 1,
    factor: float = 1.0,
    exclude_outside: bool = False,
) -> Matrix:
    """Compute each old element's weight in each new one; elements beyond the border repeat it."""
    matrix = np.zeros((row.wanted, row.size))
    first = math.floor(-reach / factor) + 1
    for index, position in enumerate(positions):
        base = math.ceil(position) - 1
        neighbours = base + np.arange(first, reach + 1 - first - (reach - 1))
        weights = kernel((neighbours - position) * factor)
        inside = (neighbours >= 0) & (neighbours < row.size)
        if exclude_outside:
            weights = np.where(inside, weights, 0)
        if exclude_outside or factor != 1.0:
            weights = weights / weights.sum()
        np.add.at(matrix[index], np.clip(neighbours, 0, row.size - 1), weights)
    return matrix


def _linear(distance: Matrix) -> Matrix:
    return np.clip(1 - np.abs(distance), 0, 1)


def _cubic(a: float) -> Callable[[Matrix], Matrix]:
    def kernel(distance: Matrix) -> Matrix:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return kernel
