"""Operators that move elements to known places, and those that make constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import helper

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.indexing import index32, offsets, rows_of_batches
from tosa_convert.frontends.lowering.resize import PADS, padded
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.frontends.onnx.header import RANDOM
from tosa_convert.frontends.onnx.node import Item, Node, Rule, place, refused
from tosa_convert.frontends.onnx.rules.indexing import taken


def _constant(n: Node) -> Array:
    """Return the value of a Constant, which has one of several attributes."""
    ((name, value),) = n.attributes.items()
    if name == "value":
        return n.walk.constant(value)
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name in kinds:
        return constant(np.asarray(value, kinds[name]))
    if name == "sparse_value":
        raise NotLowered("it is a sparse tensor", "store it as a dense one")
    return constant(np.asarray(value, object))


def _shape(n: Node) -> Array:
    shape = n.array(0).shape
    return constant(np.array(shape[n.get("start", 0) : n.get("end", len(shape))], np.int64))


def _constant_of_shape(n: Node) -> Array:
    value = n.get("value")
    number = np.zeros(1, np.float32) if value is None else n.walk.constant(value).data
    assert number is not None
    shape = tuple(n.ints(0))
    stored = shape if 0 in shape else (1,) * len(shape)
    return Array(
        number.dtype,
        shape,
        np.broadcast_to(number.reshape(-1)[:1], (1,))
        .reshape(-1)[: int(np.prod(stored))]
        .reshape(stored),
    )


def _identity(n: Node) -> Item | list[Item]:
    item = n.given[0]
    return [] if item is None else item


def _reshape(n: Node) -> Array:
    a = n.array(0)
    sizes = list(n.get("shape")) if n.since < 5 else n.ints(1)
    if not n.get("allowzero", 0):
        sizes = [a.shape[k] if size == 0 else size for k, size in enumerate(sizes)]
    if -1 in sizes:
        others = int(np.prod([size for size in sizes if size != -1]))
        sizes[sizes.index(-1)] = a.size // max(others, 1)
    return movement.reshape(n.scope, a, sizes)


def _transpose(n: Node) -> Array:
    a = n.array(0)
    return movement.transpose(n.scope, a, n.get("perm") or range(a.rank)[::-1])


def dtype_of(number: int) -> np.dtype[Any]:
    """Return the element type of ONNX's number of it."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def empty(dtype: Any, shape: Sequence[int]) -> Array:
    return constant(np.zeros(tuple(shape), dtype))


# -- shapes --------------------------------------------------------------------------------------


def _axes(n: Node, rank: int, index: int, since: int = 13) -> list[int] | None:
    """Return the axes of an attribute, or since an opset of an operand; None if there are none."""
    operand = n.ints(index) if n.since >= since and n.has(index) else None
    given = n.get("axes") if n.since < since else operand
    return None if given is None else [place(int(axis), rank) for axis in given]


def _squeeze(n: Node) -> Array:
    a = n.array(0)
    axes = _axes(n, a.rank, 1)
    gone = [k for k, size in enumerate(a.shape) if size == 1] if axes is None else axes
    if any(a.shape[k] != 1 for k in gone):
        raise NotLowered("an axis that it leaves out does not have the size 1")
    return movement.reshape(n.scope, a, [size for k, size in enumerate(a.shape) if k not in gone])


def _unsqueeze(n: Node) -> Array:
    a = n.array(0)
    count = len(n.get("axes")) if n.since < 13 else len(n.ints(1))
    axes = _axes(n, a.rank + count, 1) or []
    left = iter(a.shape)
    sizes = [1 if k in axes else next(left) for k in range(a.rank + count)]
    return movement.reshape(n.scope, a, sizes)


def _flatten(n: Node) -> Array:
    a, axis = n.array(0), int(n.get("axis", 1))
    sizes = math.prod(a.shape[:axis]), math.prod(a.shape[axis:])
    return movement.reshape(n.scope, a, sizes)


def _expand(n: Node) -> Array:
    a = n.array(0)
    shape = np.broadcast_shapes(a.shape, tuple(n.ints(1)))
    return movement.broadcast_to(n.scope, a, shape)


def _tile(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    if n.since < 6:
        repeats = [1] * a.rank
        repeats[n.number(2)] = n.number(1)
    else:
        repeats = n.ints(1)
    if 0 in repeats:
        return empty(a.dtype, [size * count for size, count in zip(a.shape, repeats, strict=True)])
    return movement.tile(s, a, repeats)


# -- parts ---------------------------------------------------------------------------------------


#: Positions from here on mean the end, or the beginning, of an axis of any size.
_TO_THE_END: Final = 2**31 - 1


def _slice(n: Node) -> Array:
    """Take a part. Positions are counted from the end where they are negative, and then clamped."""
    s, a = n.scope, n.array(0)
    if n.since < 10:
        starts, ends = list(n.get("starts")), list(n.get("ends"))
        axes = n.get("axes") or list(range(len(starts)))
        steps = [1] * len(starts)
    else:
        starts, ends = n.ints(1), n.ints(2)
        axes = n.ints(3) if n.has(3) else list(range(len(starts)))
        steps = n.ints(4) if n.has(4) else [1] * len(starts)
    low, high, by = [0] * a.rank, list(a.shape), [1] * a.rank
    backwards = []
    for start, end, one, step in zip(starts, ends, axes, steps, strict=True):
        axis = place(int(one), a.rank)
        size = a.shape[axis]
        if any(size < abs(position) < _TO_THE_END for position in (start, end)):
            n.walk.decide("Slice", b"%d" % size)
        first, last = (position + size if position < 0 else position for position in (start, end))
        if step < 0:
            backwards.append(axis)
            first, last = min(first, size - 1), max(last, -1)
            first, last = size - 1 - first, size - 1 - last
        low[axis], by[axis] = min(max(first, 0), size), abs(int(step))
        high[axis] = min(max(last, low[axis]), size)
    return part_of(s, movement.reverse(s, a, backwards) if backwards else a, low, high, by)


def part_of(
    s: Scope, a: Array, low: Sequence[int], high: Sequence[int], by: Sequence[int] | None = None
) -> Array:
    """Return a part, which may have no elements."""
    steps = by or [1] * a.rank
    shape = [-(-(last - first) // step) for first, last, step in zip(low, high, steps, strict=True)]
    if 0 in shape:
        return empty(a.dtype, shape)
    return movement.cut(s, a, low, high, steps)


def _split(n: Node) -> list[Array]:
    s, a = n.scope, n.array(0)
    axis = n.axis(a.rank)
    size = a.shape[axis]
    given = (n.get("split") or None) if n.since < 13 else (n.ints(1) if n.has(1) else None)
    if n.since < 2 and n.has(1):
        given = n.ints(1)
    if given is None:
        count = int(n.get("num_outputs") or len(n.wanted))
        each = -(-size // count)
        given = [min(each, size - each * index) for index in range(count)]
    made, start = [], 0
    for wanted, part in zip(n.wanted, given, strict=False):
        low, high = [0] * a.rank, list(a.shape)
        low[axis], high[axis] = start, start + int(part)
        start += int(part)
        made.append(part_of(s, a, low, high) if wanted else empty(a.dtype, (0,)))
    return made


# -- pads ----------------------------------------------------------------------------------------


def _pad(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    pads = n.ints(1) if n.since >= 11 else list(n.get("pads" if n.since >= 2 else "paddings"))
    axes = [place(axis, a.rank) for axis in n.ints(3)] if n.has(3) else list(range(a.rank))
    low, high = [0] * a.rank, [0] * a.rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        low[axis], high[axis] = int(before), int(after)
    mode = n.get("mode", "constant")
    if mode == "constant":
        if n.since < 11:
            value = constant(np.asarray(n.get("value", 0.0), a.dtype))
        else:
            value = n.optional(2) or constant(np.zeros((), a.dtype))
        held = s.viewed(a, carrier(a.dtype))
        filled = s.viewed(movement.reshape(s, value, ()), carrier(a.dtype))
        return s.viewed(movement.pad(s, held, low, high, filled), a.dtype)
    if mode not in PADS:
        raise NotLowered(f"the mode {mode} of Pad is not known")
    # Negative pads come first.
    starts = [max(0, -n) for n in low]
    stops = [size - max(0, -n) for size, n in zip(a.shape, high, strict=True)]
    a = part_of(s, a, starts, stops)
    more = {axis: (max(0, low[axis]), max(0, high[axis])) for axis in range(a.rank)}
    return padded(s, a, more, mode)


# -- blocks --------------------------------------------------------------------------------------


def _depth_to_space(n: Node) -> Array:
    s, a, size = n.scope, n.array(0), int(n.get("blocksize"))
    batch, channels, height, width = a.shape
    left = channels // size**2
    if n.get("mode", "DCR") == "CRD":
        parts, order = (batch, left, size, size, height, width), (0, 1, 4, 2, 5, 3)
    else:
        parts, order = (batch, size, size, left, height, width), (0, 3, 4, 1, 5, 2)
    moved = movement.transpose(s, movement.reshape(s, a, parts), order)
    return movement.reshape(s, moved, (batch, left, height * size, width * size))


def _space_to_depth(n: Node) -> Array:
    s, a, size = n.scope, n.array(0), int(n.get("blocksize"))
    batch, channels, height, width = a.shape
    rows, columns = height // size, width // size
    parts = (batch, channels, rows, size, columns, size)
    order = (0, 1, 3, 5, 2, 4) if n.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    moved = movement.transpose(s, movement.reshape(s, a, parts), order)
    return movement.reshape(s, moved, (batch, channels * size**2, rows, columns))


def _reverse_sequence(n: Node) -> Array:
    """Reverse the first elements of each sequence: rows of a table, unless all have as many."""
    s, a = n.scope, n.array(0)
    batch, time = int(n.get("batch_axis", 1)), int(n.get("time_axis", 0))
    lengths = movement.reshape(s, index32(s, n.array(1)), (a.shape[batch], 1))
    steps = offsets(a.shape[time], 2, 1)
    places = s.select(s.greater(lengths, steps), s.sub(s.sub(lengths, 1), steps), steps)
    if places.data is not None and (places.data == places.data[:1]).all():
        return taken(s, a, time, places.data[0])
    order = [batch, time, *(k for k in range(a.rank) if k not in (batch, time))]
    moved = movement.transpose(s, a, order)
    columns = a.size // (a.shape[batch] * a.shape[time])
    table = movement.reshape(s, moved, (*moved.shape[:2], columns))
    made = movement.reshape(s, rows_of_batches(s, table, places), moved.shape)
    return movement.transpose(s, made, np.argsort(order).tolist())


def _trilu(n: Node) -> Array:
    """Keep one side of a diagonal, by a constant mask."""
    s, a = n.scope, n.array(0)
    offset = n.number(1)
    mask = np.ones(a.shape[-2:], np.bool_)
    mask = np.triu(mask, offset) if n.get("upper", 1) else np.tril(mask, offset)
    mask = mask.reshape((1,) * (a.rank - 2) + mask.shape)
    if a.data is not None:
        return constant(np.where(mask, whole_data(a), np.zeros((), a.dtype)).astype(a.dtype))
    kind = carrier(a.dtype)
    zero = constant(np.zeros((1,) * a.rank, kind))
    return s.viewed(s.select(constant(mask), s.viewed(a, kind), zero), a.dtype)


# -- constants -----------------------------------------------------------------------------------


def _range(n: Node) -> Array:
    start, limit, delta = (n.known(index).reshape(-1)[0] for index in range(3))
    count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    steps = np.arange(count).astype(start.dtype)
    return constant((start + steps * delta).astype(start.dtype))


def _eye_like(n: Node) -> Array:
    a = n.array(0)
    dtype = n.walk.dtype(int(n.get("dtype"))) if n.get("dtype") is not None else a.dtype
    return constant(np.eye(a.shape[0], a.shape[1], int(n.get("k", 0))).astype(dtype))


def _center_crop_pad(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    wanted = n.ints(1)
    axes = [place(int(axis), a.rank) for axis in n.get("axes") or range(len(wanted))]
    low, high = [0] * a.rank, [0] * a.rank
    for axis, size in zip(axes, wanted, strict=True):
        more = size - a.shape[axis]
        low[axis] = more // 2 if more >= 0 else -((-more) // 2)
        high[axis] = more - low[axis]
    kind = carrier(a.dtype)
    zero = constant(np.zeros((), kind))
    return s.viewed(movement.pad(s, s.viewed(a, kind), low, high, zero), a.dtype)


def _dropout(n: Node) -> list[Array]:
    """Return what inference gives: the elements, and a mask that is true everywhere."""
    a = n.array(0)
    training = n.has(2) and bool(n.known(2).reshape(-1)[0])
    ratio = float(n.known(1).reshape(-1)[0]) if training and n.has(1) else 0.5
    if training and ratio:
        raise NotLowered("it draws random numbers")
    kind = np.bool_ if n.since >= 10 else a.dtype
    return [a, Array(np.dtype(kind), a.shape, np.ones((1,) * a.rank, kind))]


RULES: Final[dict[str, Rule]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda n: constant(np.array(n.array(0).size, np.int64)),
    "Transpose": _transpose,
    "CenterCropPad": _center_crop_pad,
    "Concat": lambda n: movement.concatenate(n.scope, n.arrays, n.axis(n.array(0).rank, 1)),
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Pad": _pad,
    "Range": _range,
    "ReverseSequence": _reverse_sequence,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    **dict.fromkeys(RANDOM, refused("it draws random numbers")),
}
#: Constants are moved as views by these.
OWN: Final = frozenset(RULES) - {"Pad", "ReverseSequence"}
