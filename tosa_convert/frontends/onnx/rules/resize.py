"""Resize and Upsample with the positions of onnxruntime, and what samples where an operand points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.frontends.lowering import image_sampling, movement, resize
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import is_float, is_small
from tosa_convert.frontends.onnx.node import OTHER_SIZE, Node, Rule
from tosa_convert.frontends.onnx.rules.products import convolved

Positions = np.ndarray[Any, Any]
#: Scales are FP32: a size is taken for a whole number within this.
_WHOLE: Final = 1e-4
#: Positions that are this close to the middle of two elements are there, as in onnxruntime.
_TIE: Final = 1e-6
#: The opset in which Resize got a region of interest, and attributes for positions and rounding.
_MODES_SINCE: Final = 11


class _Axis(NamedTuple):
    """One axis: its sizes, the scale, and the region of interest."""

    axis: int
    size: int
    wanted: int
    scale: float
    start: float
    end: float


def _resize(n: Node) -> Array:
    s, x, mode = n.scope, n.array(0), n.get("mode", "nearest")
    axes = _axes(n)
    if mode == "nearest":
        rounding = {row.axis: _positions(row, _coordinates(n)) for row in axes}
        indices = {
            row.axis: _clipped(_nearest(rounding[row.axis], _nearest_mode(n, row)), row.size)
            for row in axes
        }
        return _extrapolated(n, resize.selected(s, x, indices), axes)
    if not is_float(x.dtype):
        return _of_integers(n, axes, mode)
    return _interpolated(n, x, axes, mode)


def _of_integers(n: Node, axes: Sequence[_Axis], mode: str) -> Array:
    """Resize bytes as real numbers; their fractions are cut off, as in onnxruntime."""
    x = n.array(0)
    if not is_small(x.dtype) or x.dtype.itemsize > 1:
        raise NotLowered(f"it interpolates {x.dtype}", "cast to float32 and back")
    s = n.scope
    real = _interpolated(n, converted(s, x, np.float32), axes, mode)
    return converted(s, real, x.dtype)


def _interpolated(n: Node, x: Array, axes: Sequence[_Axis], mode: str) -> Array:
    s = n.scope
    if _is_enlarged(n, x, mode, axes):
        aligned = _coordinates(n) == "align_corners"
        found = [resize.linear_axis(row.size, row.wanted, aligned) for row in axes[2:]]
        if all(axis.is_allowed() for axis in found):
            return resize.resized(s, x, found, "BILINEAR")
    _refuse_unclear_corners(n, x)
    matrices = {row.axis: _matrix(n, row, _positions(row, _coordinates(n)), mode) for row in axes}
    return _extrapolated(n, resize.multiplied(s, x, matrices), axes)


def _extrapolated(n: Node, made: Array, axes: Sequence[_Axis]) -> Array:
    """Replace what lies beyond the borders, if the region of interest does."""
    if _coordinates(n) != "tf_crop_and_resize":
        return made
    for row in axes:
        positions = _positions(row, "tf_crop_and_resize")
        mask = (positions < 0) | (positions > row.size - 1)
        if mask.any():
            shape = [1] * made.rank
            shape[row.axis] = len(mask)
            value = constant(np.asarray(n.get("extrapolation_value", 0.0), made.dtype))
            made = n.scope.select(constant(mask.reshape(shape)), value, made)
    return made


def _refuse_unclear_corners(n: Node, x: Array) -> None:
    """Refuse corners aligned to a fractional size, where ONNX's tests and onnxruntime disagree."""
    if n.has(3) or _coordinates(n) != "align_corners":
        return
    scales = n.known(2).reshape(-1)
    axes = n.get("axes") or range(x.rank)
    exact = [x.shape[axis] * float(scale) for axis, scale in zip(axes, scales, strict=True)]
    if any(abs(size - round(size)) > _WHOLE for size in exact):
        raise NotLowered(
            "ONNX's definition and onnxruntime disagree on corners of a size that is not whole",
            "give it sizes, not scales",
        )


def _coordinates(n: Node) -> str:
    """Return how positions of the result lie among those of the operand."""
    if n.opset < _MODES_SINCE:
        return "asymmetric"
    return str(n.get("coordinate_transformation_mode", "half_pixel"))


def _nearest_mode(n: Node, row: _Axis) -> str:
    """Return how a position is rounded; opset 10 leaves it open, and onnxruntime does this."""
    if n.opset < _MODES_SINCE:
        return "ceil" if row.scale < 1 else "floor"
    return str(n.get("nearest_mode", "round_prefer_floor"))


def _scaled(n: Node, size: int, scale: float) -> int:
    """Return the size of a result as onnxruntime computes it: in FP32, so that 10 * 2.3 is 23."""
    made = int(np.floor(np.float32(size) * np.float32(scale)))
    if made != math.floor(size * scale):
        n.remark(OTHER_SIZE)
    return made


def _axes(n: Node) -> list[_Axis]:
    """Return what becomes of each axis, from the first to the last."""
    shape = n.array(0).shape
    has_roi = n.opset >= _MODES_SINCE
    axes = [int(axis) % len(shape) for axis in n.get("axes") or range(len(shape))]
    region = n.known(1).reshape(-1) if has_roi and n.has(1) and n.array(1).size else None
    count = len(axes)
    if n.has(3) and n.array(3).size:
        sizes = n.ints(3)
        scales = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = n.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * count
            sizes = [math.floor(scale * shape[axis] + 0.5) for axis in axes]
    else:
        factors = n.get("scales") or n.known(2 if has_roi else 1).reshape(-1).tolist()
        scales = [float(scale) for scale in factors]
        sizes = [_scaled(n, shape[axis], scale) for scale, axis in zip(scales, axes, strict=True)]
    rows = []
    for index, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        start, end = (region[index], region[index + count]) if region is not None else (0.0, 1.0)
        rows.append(_Axis(axis, shape[axis], size, scale, float(start), float(end)))
    is_copy = all(row.wanted == row.size for row in rows)
    return sorted(_copied(n, row, is_copy) for row in rows)


def _copied(n: Node, row: _Axis, is_copy: bool) -> _Axis:
    """Return an axis as it is if onnxruntime leaves it so, whatever the positions are."""
    if not is_copy and row.scale != 1 and not (n.get("antialias", 0) and row.wanted == row.size):
        return row
    kept, mode = _Axis(row.axis, row.size, row.size, 1.0, 0.0, 1.0), _coordinates(n)
    if not np.allclose(_positions(row, mode), _positions(kept, mode)):
        n.remark(
            "leaves an axis of the same size as it is, as onnxruntime, and ONNX moves elements"
        )
    return kept


def _is_enlarged(n: Node, x: Array, mode: str, axes: Sequence[_Axis]) -> bool:
    """Return whether RESIZE, which NPUs prefer, computes it: the usual linear enlargement of images."""
    usual = ("half_pixel", "pytorch_half_pixel", "align_corners")
    return (
        mode == "linear"
        and x.rank == 4
        and len(axes) == 4
        and x.data is None
        and str(x.dtype) in ("float32", "float16", "bfloat16")
        and _coordinates(n) in usual
        and not n.get("antialias", 0)
        and not n.get("exclude_outside", 0)
        and not n.get("axes")
        and n.get("keep_aspect_ratio_policy", "stretch") == "stretch"
        and all(row.wanted == row.size for row in axes if row.axis < 2)
        and all(row.wanted >= row.size and row.wanted % row.size == 0 for row in axes)
        and all(row.wanted > 1 for row in axes if row.axis >= 2)
        and all(row.size * row.scale == row.wanted for row in axes)
        and any(row.wanted != row.size for row in axes)
    )


def _positions(row: _Axis, mode: str) -> Positions:
    """Compute positions among the old elements in FP32, as onnxruntime does: ties differ in FP64."""
    x, half = np.arange(row.wanted, dtype=np.float32), np.float32(0.5)
    scale, last = np.float32(row.scale), np.float32(row.size - 1)
    span = np.float32(max(row.wanted - 1, 1))
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and row.wanted > 1):
        return (x + half) / scale - half
    if mode == "half_pixel_symmetric":
        # onnxruntime adds in FP64.
        adjustment = np.float32(row.wanted) / (scale * np.float32(row.size))
        offset = np.float32(row.size / 2) * (1 - adjustment)
        return (offset + (x.astype(np.float64) + 0.5) / scale - 0.5).astype(np.float32)
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
    raise NotLowered(f"ONNX does not define the mode {mode} of positions")


def _nearest(positions: Positions, mode: str) -> Positions:
    half = 0.5 + _TIE
    rounded: dict[str, Callable[[Positions], Positions]] = {
        "round_prefer_floor": lambda x: np.ceil(x - half),
        "round_prefer_ceil": lambda x: np.floor(x + half),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return rounded[mode](positions.astype(np.float64))


def _clipped(positions: Positions, size: int) -> Positions:
    return np.clip(positions, 0, size - 1).astype(np.int64)


def _matrix(n: Node, row: _Axis, positions: Positions, mode: str) -> Positions:
    factor = min(row.scale, 1.0) if n.get("antialias", 0) else 1.0
    kernel = resize.linear if mode == "linear" else resize.cubic(n.get("cubic_coeff_a", -0.75))
    outside = bool(n.get("exclude_outside", 0))
    reach = 1 if mode == "linear" else 2
    return resize.weights(positions, row.size, kernel, reach, factor, outside)


# -- GridSample, AffineGrid, RoiAlign and DeformConv -----------------------------------------------

#: The opset in which pixels of RoiAlign got their centres between whole positions.
_HALF_SINCE: Final = 16


def _grid_sample(n: Node) -> Array:
    image = n.array(0)
    if not is_float(image.dtype):
        raise NotLowered(f"it samples an image of {image.dtype}", "cast to float32 and back")
    mode = str(n.get("mode", "linear")).removeprefix("bi")
    padding = str(n.get("padding_mode", "zeros"))
    is_aligned = bool(n.get("align_corners", 0))
    return image_sampling.grid_sample(n.scope, image, n.array(1), mode, padding, is_aligned)


def _affine_grid(n: Node) -> Array:
    sizes = n.ints(1)[2:]
    return image_sampling.affine_grid(n.scope, n.array(0), sizes, bool(n.get("align_corners", 0)))


def _roi_align(n: Node) -> Array:
    image, number = n.array(0), int(n.get("sampling_ratio", 0))
    if n.get("mode", "avg") != "avg":
        raise NotLowered("it takes the greatest of weighted elements", "use the mode avg")
    if number < 1:
        raise NotLowered("the count of samples depends on the region", "set sampling_ratio")
    default = "half_pixel" if n.since >= _HALF_SINCE else "output_half_pixel"
    is_half = n.get("coordinate_transformation_mode", default) == "half_pixel"
    made = [int(n.get(name, 1)) for name in ("output_height", "output_width")]
    rows, columns = (
        image_sampling.Region(size, count, number)
        for size, count in zip(image.shape[2:], made, strict=True)
    )
    scale = float(n.get("spatial_scale", 1.0))
    given = n.scope, image, n.array(1), n.array(2)
    return image_sampling.roi_align(*given, (rows, columns), scale, is_half)


def _deform_conv(n: Node) -> Array:
    """Sample the image where each element of the kernel points, then multiply with the kernel."""
    s, x, weight, offset = n.scope, n.array(0), n.array(1), n.array(2)
    batch, channels, *sizes = x.shape
    outputs, each, *kernel = weight.shape
    if len(sizes) != 2:
        raise NotLowered(f"it has {len(sizes)} axes, and the definition is of two")
    groups, made = int(n.get("offset_group", 1)), offset.shape[2:]
    count = math.prod(kernel)
    moves = movement.reshape(s, offset, (batch * groups, count, 2, *made))
    places = [_places(n, moves, axis, size, kernel) for axis, size in enumerate(sizes)]
    grid = movement.concatenate(s, places[::-1], 3)
    image = movement.reshape(s, x, (batch * groups, channels // groups, *sizes))
    values = image_sampling.grid_sample(s, image, grid)
    if n.has(4):
        mask = movement.reshape(s, n.array(4), (batch * groups, 1, count * made[0], made[1]))
        values = s.mul(values, mask)
    values = movement.reshape(s, values, (batch, channels * count, *made))
    filters = movement.reshape(s, weight, (outputs, each * count, 1, 1))
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
    part = movement.part(s, moves, 2, axis, axis + 1)
    at = s.add(part, constant(start.astype(moves.dtype)))
    at = s.add(s.mul(at, 2 / size), 1 / size - 1)
    return movement.reshape(s, at, (moves.shape[0], moves.shape[1] * made[0], made[1], 1))


#: Upsample is Resize's predecessor, which has no positions and no region of interest either.
RULES: Final[dict[str, Rule]] = {
    "Resize": _resize,
    "Upsample": _resize,
    "AffineGrid": _affine_grid,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
