"""Operators that move elements to known positions, or combine them at positions that are not known."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError

#: Updates that are made one after the other.
_STEPS: Final = 64
#: Elements of a matrix, or of a table of comparisons.
_MATRIX: Final = 1 << 22
_PAD_MODES: Final = ("constant", "reflect", "edge", "wrap")
_COMBINE: Final = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def reverse_sequence(e: Decomposition) -> None:
    """Reverse each sequence by a gather, where the lengths are known."""
    shape, lengths = e.shape(0), e.value(1).reshape(-1)
    batch, time = int(e.attribute("batch_axis", 1)), int(e.attribute("time_axis", 0))
    steps = np.arange(shape[time])[:, None]
    indices = np.where(steps < lengths, lengths - 1 - steps, steps) * len(lengths)
    flat = (indices + np.arange(len(lengths))).reshape(-1)
    order = [time, batch, *range(2, len(shape))]
    x = e.reshape(e.transpose(e.inputs[0], order), [-1, *shape[2:]])
    moved = e.op("Gather", x, e.ints(*flat.tolist()), axis=0)
    whole = e.reshape(moved, [shape[time], shape[batch], *shape[2:]])
    e.result(e.transpose(whole, [order.index(axis) for axis in range(len(shape))]))


def depth_to_space(e: Decomposition) -> None:
    """Make rows and columns of channels; torch-mlir takes the wrong channels in mode CRD."""
    batch, channels, height, width = e.shape(0)
    size = int(e.attribute("blocksize"))
    left = channels // size**2
    if e.attribute("mode", "DCR") == "CRD":
        parts, order = [batch, left, size, size, height, width], [0, 1, 4, 2, 5, 3]
    else:
        parts, order = [batch, size, size, left, height, width], [0, 3, 4, 1, 5, 2]
    moved = e.transpose(e.reshape(e.inputs[0], parts), order)
    e.result(e.reshape(moved, [batch, left, height * size, width * size]))


def tensor_scatter(e: Decomposition) -> None:
    """Replace elements of a cache by the update, where the positions are known."""
    shape, update = e.shape(0), e.shape(1)
    axis = int(e.attribute("axis", -2)) % len(shape)
    starts = e.value(2).reshape(-1) if e.has(2) else np.zeros(shape[0], np.int64)
    circular = e.attribute("mode", "linear") == "circular"
    rows = []
    for index, start in enumerate(starts):
        old, new = (
            e.slice(e.inputs[0], 0, index, index + 1),
            e.slice(e.inputs[1], 0, index, index + 1),
        )
        both = e.op("Concat", old, new, axis=axis)
        positions = np.arange(shape[axis])
        places = int(start) + np.arange(update[axis])
        places = places % shape[axis] if circular else places
        positions[places] = shape[axis] + np.arange(update[axis])
        rows.append(e.op("Gather", both, e.ints(*positions.tolist()), axis=axis))
    e.result(e.op("Concat", *rows, axis=0))


def column_to_image(e: Decomposition) -> None:
    """Col2Im: a product with a constant matrix of zeros and ones."""
    image, block = [int(v) for v in e.value(1)], [int(v) for v in e.value(2)]
    count = len(image)
    gaps, steps = e.attribute("dilations", [1] * count), e.attribute("strides", [1] * count)
    pads = e.attribute("pads", [0] * (2 * count))
    batch, channels, places = e.shape(0)
    channels //= int(np.prod(block))
    inputs, outputs = int(np.prod(block)) * places, int(np.prod(image))
    e.leave_if(inputs * outputs > _MATRIX, "the image is too large")
    grid = [
        (image[a] + pads[a] + pads[a + count] - (block[a] - 1) * gaps[a] - 1) // steps[a] + 1
        for a in range(count)
    ]
    matrix = np.zeros((inputs, outputs))
    for row, (inner, place) in enumerate(product(np.ndindex(*block), np.ndindex(*grid))):
        position = [place[a] * steps[a] - pads[a] + inner[a] * gaps[a] for a in range(count)]
        if all(0 <= p < size for p, size in zip(position, image, strict=True)):
            matrix[row, np.ravel_multi_index(position, image)] = 1
    x = e.reshape(e.inputs[0], [batch * channels, inputs])
    y = e.op("MatMul", x, e.constant(matrix, e.numpy_type()))
    e.result(e.reshape(y, [batch, channels, *image]))


def scatter_nd(e: Decomposition) -> None:
    """Combine updates one after the other: TOSA's SCATTER takes each position once."""
    kind = _COMBINE.get(e.attribute("reduction", "none"))
    if kind is None:
        raise NotDecomposedError("torch-mlir lowers it")
    shape, indices = e.shape(0), e.shape(1)
    width = indices[-1]
    count = int(np.prod(indices[:-1]))
    e.leave_if(count > _STEPS, f"it has {count} updates")
    places = e.reshape(e.inputs[1], [count, width])
    updates = e.reshape(e.inputs[2], [count, *shape[width:]])
    x = e.inputs[0]
    for index in range(count):
        place = e.slice(places, 0, index, index + 1)
        new = e.op(kind, e.op("GatherND", x, place), e.slice(updates, 0, index, index + 1))
        x = e.op("ScatterND", x, place, new)
    e.result(x)


def scatter_elements(e: Decomposition) -> None:
    """Combine updates one row of indices after the other: in a row none occurs twice."""
    kind = _COMBINE.get(e.attribute("reduction", "none"))
    if kind is None:
        raise NotDecomposedError("torch-mlir lowers it")
    axis = int(e.attribute("axis", 0)) % len(e.shape(0))
    count = e.shape(1)[axis]
    e.leave_if(count > _STEPS, f"it has {count} updates")
    x = e.inputs[0]
    for index in range(count):
        place = e.slice(e.inputs[1], axis, index, index + 1)
        new = e.slice(e.inputs[2], axis, index, index + 1)
        new = e.op(kind, e.op("GatherElements", x, place, axis=axis), new)
        x = e.op("ScatterElements", x, place, new, axis=axis)
    e.result(x)


def pad_around(e: Decomposition) -> None:
    """Mode wrap: parts of the other end, one axis after the other; torch-mlir hangs on it."""
    e.leave_if(e.attribute("mode", "constant") != "wrap", "it does not wrap around")
    shape = list(e.shape(0))
    pads = [int(size) for size in e.value(1).reshape(-1)]
    axes = [int(axis) % len(shape) for axis in e.value(3).reshape(-1)] if e.has(3) else None
    axes = list(range(len(shape))) if axes is None else axes
    x = e.inputs[0]
    for number, axis in enumerate(axes):
        places = np.arange(-pads[number], shape[axis] + pads[number + len(axes)]) % shape[axis]
        if len(places) != shape[axis] or places.tolist() != list(range(shape[axis])):
            x = e.op("Gather", x, e.ints(*places.tolist()), axis=axis)
    e.result(x)


def crop(e: Decomposition) -> None:
    """Take negative pads away by a slice, and add the others."""
    e.leave_if(e.attribute("mode", "constant") not in _PAD_MODES, "its mode")
    rank = len(e.shape(0))
    given = e.value(1).reshape(-1) if e.opset >= 11 else e.attribute("pads")
    e.leave_if(all(int(size) >= 0 for size in given), "no pad is negative")
    axes = [int(axis) % rank for axis in e.value(3).reshape(-1)] if e.has(3) else range(rank)
    pads = np.zeros(2 * rank, np.int64)
    pads[[*axes, *(rank + axis for axis in axes)]] = given
    x = e.inputs[0]
    for axis, size in enumerate(e.shape(0)):
        before, after = (max(0, -int(pads[index])) for index in (axis, axis + rank))
        if before or after:
            x = e.slice(x, axis, before, size - after)
    left = np.maximum(pads, 0)
    if not left.any():
        return e.result(x)
    own = {name: value for name, value in e.attributes.items() if name != "pads"}
    if e.opset < 11:
        return e.result(e.op("Pad", x, pads=left.tolist(), **own))
    value = e.inputs[2:3] if e.has(2) else []
    return e.result(e.op("Pad", x, e.ints(*left.tolist()), *value, **own))


def extract_features(e: Decomposition) -> None:
    """ArrayFeatureExtractor: gather columns by their indices."""
    shape = e.shape(0)
    moved = e.op("Gather", e.inputs[0], e.reshape(e.inputs[1], [-1]), axis=len(shape) - 1)
    e.result(e.reshape(moved, [*(shape[:-1] or [1]), prod(e.shape(1))]))


def top_integers(e: Decomposition) -> None:
    """Rank every element by comparing it with all others, and pick the first ranks by sums.

    Of equal elements the one with the lower index is first.
    """
    kind = e.type(0)
    e.leave_if(kind not in (TensorProto.INT32, TensorProto.INT64), "torch-mlir lowers it")
    shape, count = e.shape(0), e.number(1)
    axis = int(e.attribute("axis", -1)) % len(shape)
    size = shape[axis]
    e.leave_if(prod(shape) * size > _MATRIX, "it has too many elements")
    order = [other for other in range(len(shape)) if other != axis] + [axis]
    rows = e.reshape(e.transpose(e.inputs[0], order), [-1, size])
    own, others = e.unsqueeze(rows, 2), e.unsqueeze(rows, 1)
    larger = (others, own) if e.attribute("largest", 1) else (own, others)
    earlier = e.constant(np.tri(size, k=-1, dtype=bool)[None])
    before = e.op("Or", e.op("Greater", *larger), e.op("And", e.op("Equal", others, own), earlier))
    ranks = e.reduce("ReduceSum", e.cast(before, TensorProto.INT32), [2], keepdims=0)
    wanted = e.constant(np.arange(count, dtype=np.int32).reshape(1, -1, 1))
    chosen = e.op("Equal", e.unsqueeze(ranks, 1), wanted)
    places = e.constant(np.arange(size, dtype=np.int64).reshape(1, 1, -1))
    for index, (source, zero) in enumerate(((others, e.like(0)), (places, e.ints(0)))):
        if e.wants(index):
            found = e.reduce("ReduceSum", e.op("Where", chosen, source, zero), [2], keepdims=0)
            found = e.reshape(found, [*(shape[other] for other in order[:-1]), count])
            e.result(e.transpose(found, [order.index(other) for other in range(len(shape))]), index)
