"""Operators that move elements, repeat them, or make them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.indexing import (
    as_rows,
    as_table,
    combined_rows,
    dynamic_slice,
    dynamic_update_slice,
    from_rows,
    index32,
    rows_at,
    rows_of_batches,
    write_rows,
)
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32
from tosa_convert.frontends.tflite.node import Node, Rule, place

_SPATIAL: Final = "TFLite moves blocks of 3 or 4 dimensions"
#: Numbers that RANGE makes, at most.
_MOST: Final = 1 << 24


# -- shapes ----------------------------------------------------------------------------------------


def reshaped(n: Node, a: Array, shape: Sequence[int]) -> Array:
    return movement.reshape(n.scope, a, shape)


def _reshape(n: Node) -> Array:
    """Take the shape of the operand, else that of the options; -1 is what is left."""
    a = n.array(0)
    sizes = n.ints(1) if n.has(1) else n.operator.options.integers(0)
    if sizes.count(-1) == 1:
        rest = -math.prod(sizes)
        sizes = [(a.size // rest if rest else 0) if size == -1 else size for size in sizes]
    if math.prod(sizes) != a.size or any(size < 1 for size in sizes):
        raise ValueError(f"{list(a.shape)} to {sizes}")
    return reshaped(n, a, sizes)


def _squeeze(n: Node) -> Array:
    a = n.array(0)
    axes = {place(axis, a.rank) for axis in n.operator.options.integers(0)} or {
        k for k, size in enumerate(a.shape) if size == 1
    }
    if any(a.shape[axis] != 1 for axis in axes):
        raise ValueError("sizes")
    return reshaped(n, a, [size for axis, size in enumerate(a.shape) if axis not in axes])


def _expand_dims(n: Node) -> Array:
    a = n.array(0)
    axis = place(n.ints(1)[0], a.rank + 1)
    return reshaped(n, a, (*a.shape[:axis], 1, *a.shape[axis:]))


def _shape(n: Node) -> Array:
    return constant(np.array(n.array(0).shape, n.result.dtype))


def _rank(n: Node) -> Array:
    return constant(np.array(n.array(0).rank, np.int32))


def _common_shape(n: Node) -> Array:
    """Take the size of the second shape where that of the first one is 1."""
    s, shapes = n.scope, n.arrays
    rank = max(shape.size for shape in shapes)
    ones = [constant(np.ones(rank - shape.size, shape.dtype)) for shape in shapes]
    first, second = (
        movement.concatenate(s, [one, shape], 0) for one, shape in zip(ones, shapes, strict=True)
    )
    return s.select(s.equal(first, 1), second, first)


# -- layouts ---------------------------------------------------------------------------------------


def _transpose(n: Node) -> Array:
    a, order = n.array(0), n.ints(1)
    axes = [place(axis, a.rank) for axis in order]
    if sorted(axes) != list(range(a.rank)):
        raise ValueError("axes")
    return movement.transpose(n.scope, a, axes)


def _reverse(n: Node) -> Array:
    a = n.array(0)
    return movement.reverse(n.scope, a, [place(axis, a.rank) for axis in n.ints(1)])


def _blocks(n: Node, a: Array, sizes: Sequence[int], order: Sequence[int]) -> Array:
    s = n.scope
    return movement.transpose(s, movement.reshape(s, a, sizes), order)


def _depth_to_space(n: Node) -> Array:
    a, block = n.array(0), n.option(0)
    count, height, width, depth = a.shape
    sizes = count, height, width, block, block, depth // block**2
    made = _blocks(n, a, sizes, (0, 1, 3, 2, 4, 5))
    return reshaped(n, made, (count, height * block, width * block, depth // block**2))


def _space_to_depth(n: Node) -> Array:
    a, block = n.array(0), n.option(0)
    count, height, width, depth = a.shape
    tall, broad = height // block, width // block
    made = _blocks(n, a, (count, tall, block, broad, block, depth), (0, 1, 3, 2, 4, 5))
    return reshaped(n, made, (count, tall, broad, depth * block**2))


def _space_to_batch(n: Node) -> Array:
    s, a, block = n.scope, n.array(0), n.ints(1)
    pads = n.pairs(2)
    axes = _spatial(a, block)
    rest = a.rank - axes - 1
    low, high = ([0, *(pair[end] for pair in pads), *(0,) * rest] for end in (0, 1))
    a = movement.pad(s, a, low, high, n.result_zero if n.is_quantised else 0)
    sizes = [a.shape[0]]
    for size, own in zip(a.shape[1:], block, strict=False):
        sizes += [size // own, own]
    order = [*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes + 1, 2)]
    last = 2 * axes + 1
    order += range(last, last + rest)
    made = _blocks(n, a, [*sizes, *a.shape[axes + 1 :]], order)
    small = [size // own for size, own in zip(a.shape[1:], block, strict=False)]
    return reshaped(n, made, (a.shape[0] * math.prod(block), *small, *a.shape[axes + 1 :]))


def _batch_to_space(n: Node) -> Array:
    s, a, block = n.scope, n.array(0), n.ints(1)
    crops = n.pairs(2)
    axes = _spatial(a, block)
    count = a.shape[0] // math.prod(block)
    order = [axes]
    for axis in range(axes):
        order += [axes + 1 + axis, axis]
    order += range(2 * axes + 1, a.rank + axes)
    made = _blocks(n, a, [*block, count, *a.shape[1:]], order)
    large = [size * own for size, own in zip(a.shape[1:], block, strict=False)]
    made = reshaped(n, made, (count, *large, *a.shape[axes + 1 :]))
    starts = [0, *(pair[0] for pair in crops), *(0,) * (a.rank - axes - 1)]
    ends = [size - pair[1] for size, pair in zip(large, crops, strict=True)]
    stops = [count, *ends, *a.shape[axes + 1 :]]
    return movement.cut(s, made, starts, stops)


def _spatial(a: Array, block: Sequence[int]) -> int:
    if len(block) not in (1, 2) or a.rank < len(block) + 1 or min(block) < 1:
        raise NotLowered(_SPATIAL)
    return len(block)


def _reverse_sequence(n: Node) -> Array:
    """Gather from n - 1 - p for a position p of the first n elements, and from p for the others."""
    s, x, counts = n.scope, n.array(0), n.array(1)
    first, second = n.axis(1, x.rank), n.axis(0, x.rank)
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    moved = movement.transpose(s, x, (first, second, *rest))
    rows, size = moved.shape[:2]
    flat = movement.reshape(s, moved, (rows, size, math.prod(moved.shape[2:])))
    places = constant(np.arange(size, dtype=np.int32).reshape(1, size))
    count = movement.reshape(s, index32(s, counts), (rows, 1))
    index = s.select(s.greater(count, places), s.sub(s.sub(count, 1), places), places)
    made = movement.reshape(s, rows_of_batches(s, flat, index), moved.shape)
    return movement.transpose(s, made, np.argsort((first, second, *rest)).tolist())


# -- joined and taken apart ------------------------------------------------------------------------


def _concatenation(n: Node) -> Array:
    parts = [n.like(index) for index in range(len(n.given))]
    scales = {(n.tensors[at].scale, n.tensors[at].zero_point) for at in range(len(parts))}  # type: ignore[union-attr]
    if len(scales | {(n.result.scale, n.result.zero_point)}) > 1 and n.is_quantised:
        if n.result.dtype != "uint8":
            raise NotLowered("TFLite joins elements of one scale", "requantise the operands")
        parts = [_requantized(n, part, at) for at, part in enumerate(parts)]
    made = movement.concatenate(n.scope, parts, n.axis(0, parts[0].rank))
    return n.activated(made, 1)


def _requantized(n: Node, part: Array, index: int) -> Array:
    """Return bytes at the scale of the result; TFLite computes them in FP32."""
    from tosa_convert.frontends.tflite.rules.tables import looked_up, real_table

    if (n.scale(index), n.zero(index)) == (n.result_scale, n.result_zero):
        return part
    return looked_up(n.scope, part, real_table(n, lambda x: x, index))


def _pack(n: Node) -> Array:
    parts = [n.like(index) for index in range(len(n.given))]
    shape = parts[0].shape
    axis = n.axis(1, len(shape) + 1)
    if axis == len(shape):
        return movement.stack(n.scope, parts, axis)
    joined = movement.concatenate(n.scope, parts, axis)
    return reshaped(n, joined, (*shape[:axis], len(parts), *shape[axis:]))


def _unpack(n: Node) -> list[Array]:
    a = n.array(0)
    return movement.unstack(n.scope, a, n.axis(1, a.rank))


def _split(n: Node) -> list[Array]:
    a = n.array(1)
    axis = place(n.ints(0)[0], a.rank)
    count = len(n.results)
    if a.shape[axis] % count:
        raise ValueError("parts")
    return movement.split(n.scope, a, [a.shape[axis] // count] * count, axis)


def _split_by_sizes(n: Node) -> list[Array]:
    """Split into parts of the given sizes, one of which may be what the others leave."""
    a, sizes = n.array(0), n.ints(1)
    axis = place(n.ints(2)[0], a.rank)
    if sizes.count(-1) == 1:
        left = a.shape[axis] - sum(sizes) - 1
        sizes = [left if size == -1 else size for size in sizes]
    if sum(sizes) != a.shape[axis] or min(sizes) < 0:
        raise ValueError("parts")
    return movement.split(n.scope, a, sizes, axis)


# -- slices and borders ----------------------------------------------------------------------------


def _slice(n: Node) -> Array:
    s, a, sizes = n.scope, n.array(0), n.ints(2)
    begin = n.array(1)
    if begin.data is None:
        if -1 in sizes:
            raise NotLowered("it begins at a computed position and ends at the end")
        starts = [movement.part(s, begin, 0, axis, axis + 1) for axis in range(a.rank)]
        return dynamic_slice(s, a, [movement.reshape(s, one, ()) for one in starts], sizes)
    first = n.ints(1)
    stops = [
        whole if size == -1 else start + size
        for whole, start, size in zip(a.shape, first, sizes, strict=True)
    ]
    if min(first) < 0 or any(stop > whole for stop, whole in zip(stops, a.shape, strict=True)):
        raise ValueError("beyond the ends")
    return movement.cut(s, a, first, stops)


def _strided_slice(n: Node) -> Array:
    """Take a part axis by axis; backwards, the axis is reversed first."""
    s, a = n.scope, n.array(0)
    begin, end, strides = (n.ints(index) for index in (1, 2, 3))
    begin_mask, end_mask, ellipsis, new_axes, shrinks = (n.option(at) for at in range(5))
    named = sum(1 for at in range(len(begin)) if not (new_axes | ellipsis) >> at & 1)
    taken: list[range] = []
    shape: list[int] = []
    for at, step in enumerate(strides):
        if ellipsis >> at & 1:
            for _ in range(a.rank - named):
                taken.append(range(a.shape[len(taken)]))
                shape.append(len(taken[-1]))
            continue
        if new_axes >> at & 1:
            shape.append(1)
            continue
        size = a.shape[len(taken)]
        if shrinks >> at & 1:
            first = 0 if begin_mask >> at & 1 else begin[at]
            if not -size <= first < size:
                raise ValueError("beyond the ends")
            taken.append(range(first % size, first % size + 1))
            continue
        start = None if begin_mask >> at & 1 else begin[at]
        stop = None if end_mask >> at & 1 else end[at]
        places = range(*slice(start, stop, step).indices(size))
        if len(places) < 2:
            places = range(places.start, places.start + len(places))
        taken.append(places)
        shape.append(len(places))
    shape += a.shape[len(taken) :]
    taken += map(range, a.shape[len(taken) :])
    return movement.reshape(s, _taken(n, a, taken), shape)


def _taken(n: Node, a: Array, axes: Sequence[range]) -> Array:
    """Return the elements at places along each axis."""
    s, steps = n.scope, [abs(places.step) for places in axes]
    backwards = [axis for axis, step in enumerate(steps) if step != axes[axis].step]
    a = movement.reverse(s, a, backwards)
    starts = [
        size - 1 - places.start if axis in backwards else places.start
        for axis, (size, places) in enumerate(zip(a.shape, axes, strict=True))
    ]
    stops = [
        start + (len(places) - 1) * step + 1
        for start, places, step in zip(starts, axes, steps, strict=True)
    ]
    return movement.cut(s, a, starts, stops, steps)


def _pad(n: Node) -> Array:
    """Add zeros, which are zero points of quantised elements; or the element that is given."""
    s, a = n.scope, n.array(0)
    pads = n.pairs(1)
    if len(pads) != a.rank or any(min(pair) < 0 for pair in pads):
        raise ValueError("borders")
    low, high = ([pair[end] for pair in pads] for end in (0, 1))
    filling: Any = n.result_zero if n.is_quantised else 0
    if n.has(2):
        filling = movement.reshape(s, n.like(2), ())
    made = movement.pad(s, a, low, high, filling)
    if not n.has(2) and a.rank == 4 and pads[0] == pads[3] == (0, 0):
        n.walk.padded.append((made, a, [(low[at], high[at]) for at in (1, 2)]))
    return made


def _mirror_pad(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    skip = 1 if n.option(0, "b") == 0 else 0  # REFLECT leaves the border out.
    for axis, (low, high) in enumerate(n.pairs(1)):
        size = a.shape[axis]
        if max(low, high) > size - skip:
            raise ValueError("borders")
        parts = [a]
        if low:
            first = movement.part(s, a, axis, skip, skip + low)
            parts.insert(0, movement.reverse(s, first, (axis,)))
        if high:
            last = movement.part(s, a, axis, size - skip - high, size - skip)
            parts.append(movement.reverse(s, last, (axis,)))
        a = movement.concatenate(s, parts, axis)
    return a


# -- repeated and made -----------------------------------------------------------------------------


def _tile(n: Node) -> Array:
    a, times = n.array(0), n.ints(1)
    if any(count < 1 for count in times):
        raise NotLowered("TOSA does not have empty tensors")
    if a.data is not None:
        shape = [size * count for size, count in zip(a.shape, times, strict=True)]
        if math.prod(shape) > _MOST:
            raise NotLowered(f"it makes {math.prod(shape)} elements of a constant")
        return constant(np.tile(whole_data(a), times))
    return movement.tile(n.scope, a, times)


def _broadcast_to(n: Node) -> Array:
    a, shape = n.array(0), tuple(n.ints(1))
    if np.broadcast_shapes(a.shape, shape) != shape:
        raise ValueError("shapes")
    return movement.broadcast_to(n.scope, a, shape)


def _fill(n: Node) -> Array:
    value = movement.reshape(n.scope, n.array(1), ())
    return movement.broadcast_to(n.scope, value, n.ints(0))


def _range(n: Node) -> Array:
    first, last, step = (n.known(index).reshape(()) for index in range(3))
    if not step or math.ceil((last - first) / step) > _MOST:
        raise ValueError("steps")
    return constant(np.arange(first, last, step, dtype=first.dtype))


def _one_hot(n: Node) -> Array:
    s, indices, depth = n.scope, n.array(0), n.ints(1)[0]
    on, off = n.array(2), n.like(3, 2)
    rank = indices.rank + 1
    axis = place(n.option(0), rank)
    each = movement.reshape(s, indices, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    shape = [depth if k == axis else 1 for k in range(rank)]
    is_on = s.equal(each, movement.iota(indices.dtype, shape, axis))
    return s.select(is_on, *(movement.reshape(s, one, (1,) * rank) for one in (on, off)))


def _diagonal(n: Node) -> Array:
    """Make a matrix with a diagonal; the other elements are those of a matrix, or 0."""
    s, diagonal = n.scope, n.plain(len(n.given) - 1)
    size = diagonal.shape[-1]
    if size > 1 << 14:
        raise ValueError("a matrix without end")
    is_diagonal = constant(np.eye(size, dtype=bool))
    if len(n.given) == 2:
        others = n.plain(0)
        if others.shape[-2:] != (size, size):
            raise NotLowered("its matrices are not square", "use square matrices")
    else:
        others = constant(np.zeros((), diagonal.dtype))
    rows = movement.reshape(s, diagonal, (*diagonal.shape, 1))
    rows = movement.broadcast_to(s, rows, (*diagonal.shape, size))
    return s.select(is_diagonal, rows, others)


# -- read and written at indices -------------------------------------------------------------------


def _gather(n: Node) -> Array:
    s, a, index = n.scope, n.array(0), n.array(1)
    axis = n.axis(0, a.rank)
    batches = n.option(1)
    batches += index.rank if batches < 0 else 0
    if not 0 <= batches <= axis or a.shape[:batches] != index.shape[:batches]:
        raise ValueError("batches")
    places = _inside(n, index, a.shape[axis])
    count, middle = math.prod(a.shape[:batches]), a.shape[batches:axis]
    after = a.shape[axis + 1 :]
    taken = index.shape[batches:]
    if math.prod(middle) != 1:
        if batches:
            order = [*range(batches), axis, *range(batches, axis), *range(axis + 1, a.rank)]
            moved = movement.transpose(s, a, order)
            columns = math.prod(middle) * math.prod(after)
            table = movement.reshape(s, moved, (count, a.shape[axis], columns))
            flat = movement.reshape(s, places, (count, math.prod(taken)))
            found = rows_of_batches(s, table, flat)
            found = movement.reshape(s, found, (*a.shape[:batches], *taken, *middle, *after))
            first = batches + len(taken)
            last = first + len(middle)
            order = [*range(batches), *range(first, last), *range(batches, first)]
            return movement.transpose(s, found, [*order, *range(last, found.rank)])
        count = math.prod(middle)
        table = movement.reshape(s, a, (count, a.shape[axis], math.prod(after)))
        flat = movement.reshape(s, places, (1, math.prod(taken)))
        flat = movement.broadcast(s, flat, (count, flat.shape[1]), (0, 1))
    else:
        table = movement.reshape(s, a, (count, a.shape[axis], math.prod(after)))
        flat = movement.reshape(s, places, (count, math.prod(taken)))
    found = rows_of_batches(s, table, flat)
    return movement.reshape(s, found, (*a.shape[:axis], *taken, *after))


def _inside(n: Node, index: Array, size: int) -> Array:
    """Return indices as INT32; TFLite refuses those that are not inside."""
    if index.data is not None and index.data.size and size:
        if index.data.min() < 0 or index.data.max() >= size:
            raise ValueError("an index is outside")
        return Array(INT32, index.shape, index.data.astype(np.int32))
    return n.scope.cast(index, INT32)


def _places(n: Node, index: Array, shape: Sequence[int]) -> Array:
    """Return the rows in a table of dimensions `shape`, of indices along its last dimension."""
    s = n.scope
    if index.data is not None and index.data.size:
        lines = np.moveaxis(whole_data(index).astype(np.int64), -1, 0)
        return constant(np.ravel_multi_index(tuple(lines), shape).astype(np.int32))
    held = _inside(n, index, 0)
    if len(shape) > 1:
        steps = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        held = s.mul(held, constant(np.array(steps, np.int32)))
        held = by_operator(s, held, (held.rank - 1,), "reduce_sum")
    return movement.reshape(s, held, index.shape[:-1])


def _gather_nd(n: Node) -> Array:
    s, a, index = n.scope, n.array(0), n.array(1)
    depth = index.shape[-1]
    if depth > a.rank:
        raise ValueError("depth")
    held = as_rows(s, a)
    table = as_table(s, held, range(depth), range(depth, a.rank))
    found = rows_at(s, table, _places(n, index, a.shape[:depth]))
    made = movement.reshape(s, found, (*index.shape[:-1], *a.shape[depth:]))
    return from_rows(s, made, a.dtype)


def _scatter_nd(n: Node) -> Array:
    """Add updates to zeros; of truth values one that is true is enough."""
    s, index, updates, shape = n.scope, n.array(0), n.plain(1), n.ints(2)
    depth = index.shape[-1]
    rows, columns = math.prod(shape[:depth]), math.prod(shape[depth:])
    places = movement.reshape(s, _places(n, index, shape[:depth]), (math.prod(index.shape[:-1]),))
    held = movement.reshape(s, updates, (places.size, columns))
    word = "add"
    if places.data is not None and len(np.unique(whole_data(places))) == places.size:
        word = "set"
    elif held.dtype == BOOL:
        held, word = s.cast(held, np.int8), "max"
    table = constant(np.zeros((rows, columns), held.dtype))
    made = combined_rows(s, table, places, held, word)
    return movement.reshape(s, s.cast(made, updates.dtype), shape)


def _embedding_lookup(n: Node) -> Array:
    """Read rows of a table; those of integers become the floats that they stand for."""
    s, index, table = n.scope, n.array(0), n.array(1)
    count = table.shape[0]
    flat = movement.reshape(s, table, (count, table.size // count))
    places = _inside(n, index, count)
    made = from_rows(s, rows_at(s, as_rows(s, flat), places), table.dtype)
    if n.result.dtype == "float32" and table.dtype != FLOAT32:
        tensor = n.tensor(1)
        if n.zero(1) or len(tensor.scales) not in (1, count):
            raise NotLowered("TFLite wants a scale for each row, or one")
        made = converted(s, made, FLOAT32)
        factors = constant(np.array(tensor.scales, np.float32)[:, None])
        made = s.mul(made, rows_at(s, factors, places) if len(tensor.scales) > 1 else factors)
    return movement.reshape(s, made, (index.size, *table.shape[1:]))


def _dynamic_update_slice(n: Node) -> Array:
    """Write by SCATTER to places that begin where the operand says, within the tensor."""
    s, a, part, start = n.scope, n.array(0), n.like(1), index32(n.scope, n.array(2))
    most = [size - own for size, own in zip(a.shape, part.shape, strict=True)]
    if start.data is not None:
        first = np.clip(n.ints(2), 0, most).tolist()
        return dynamic_update_slice(s, a, part, [constant(np.int32(one)) for one in first])
    steps = np.array([math.prod(a.shape[axis + 1 :]) for axis in range(a.rank)], np.int32)
    begin = s.minimum(s.maximum(start, 0), constant(np.array(most, np.int32)))
    begin = by_operator(s, s.mul(begin, constant(steps)), (0,), "reduce_sum")
    grid = np.indices(part.shape).reshape(a.rank, part.size)
    offset = (steps[:, None] * grid).sum(0).astype(np.int32)
    places = s.add(begin, constant(offset))
    table, rows = (as_rows(s, movement.reshape(s, one, (one.size, 1))) for one in (a, part))
    made = write_rows(s, table, places, rows)
    return from_rows(s, movement.reshape(s, made, a.shape), a.dtype)


def _sparse_to_dense(n: Node) -> Array:
    s, shape = n.scope, n.ints(1)
    places = n.known(0).astype(np.int64)
    places = places.reshape(places.size // len(shape), len(shape))
    values, default = n.array(2), n.like(3, 2)
    rows = np.ravel_multi_index(tuple(places.T), shape).astype(np.int32)
    whole = movement.broadcast_to(s, movement.reshape(s, default, ()), shape)
    table = movement.reshape(s, whole, (math.prod(shape), 1))
    update = movement.broadcast_to(s, movement.reshape(s, values, (values.size, 1)), (len(rows), 1))
    made = combined_rows(s, table, constant(rows), update, "set")
    return movement.reshape(s, made, shape)


RULES: Final[dict[str, Rule]] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "BROADCAST_ARGS": _common_shape,
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "EXPAND_DIMS": _expand_dims,
    "FILL": _fill,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "MATRIX_DIAG": _diagonal,
    "MATRIX_SET_DIAG": _diagonal,
    "MIRROR_PAD": _mirror_pad,
    "ONE_HOT": _one_hot,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RANGE": _range,
    "RANK": _rank,
    "RESHAPE": _reshape,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "REVERSE_V2": _reverse,
    "SCATTER_ND": _scatter_nd,
    "SHAPE": _shape,
    "SLICE": _slice,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "SPLIT": _split,
    "SPLIT_V": _split_by_sizes,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
    "DENSIFY": lambda n: n.array(0),
}
