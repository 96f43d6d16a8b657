"""Reading and writing at computed indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.indexing import (
    as_rows,
    from_rows,
    positions,
    rows_at,
    write_rows,
)
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.scope import BOOL, Array, NotLowered, constant
from tosa_convert.frontends.torch.rules.node import Node, Rule


def rows_of(n: Node, table: Array, index: Array) -> Array:
    """Return rows of a table [K, ...] at indices from 0: [index, ...]."""
    s = n.scope
    if index.data is not None and table.data is not None:
        data = np.broadcast_to(table.data, table.shape)[np.broadcast_to(index.data, index.shape)]
        return Array(table.dtype, tuple(data.shape), data)
    rest = table.shape[1:]
    flat = layout.reshape(s, as_rows(s, table), (table.shape[0], math.prod(rest)))
    made = rows_at(s, flat, n.index(index))
    return from_rows(s, layout.reshape(s, made, (*index.shape, *rest)), table.dtype)


def _embedding(n: Node, weight: Array, index: Array, *_: Any) -> Array:
    return rows_of(n, weight, index)


def _index_select(n: Node, a: Array, dim: int, index: Array) -> Array:
    s = n.scope
    if a.rank == 0:
        return a
    axis = dim % a.rank
    if index.data is not None:
        parts = _runs(np.broadcast_to(index.data, index.shape).reshape(-1))
        if len(parts) == 1:
            return layout.part(s, a, axis, *parts[0])
    moved = layout.moved(s, a, axis, 0)
    made = rows_of(n, moved, layout.reshape(s, index, (index.size,)))
    return layout.moved(s, made, 0, axis)


def _unfold(n: Node, a: Array, dim: int, size: int, step: int) -> Array:
    """Return windows along an axis, whose elements become the last axis."""
    s = n.scope
    if a.rank == 0:
        return layout.reshape(s, a, (1,))
    axis = dim % a.rank
    count = n.shape[axis]
    index = np.arange(count)[:, None] * step + np.arange(size)
    taken = _index_select(n, a, axis, constant(index.reshape(-1)))
    shape = (*a.shape[:axis], count, size, *a.shape[axis + 1 :])
    return layout.moved(s, layout.reshape(s, taken, shape), axis + 1, a.rank)


def _as_strided(
    n: Node, a: Array, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Array:
    """View a dense array by strides: by known positions among all of its elements."""
    s = n.scope
    if not n.raw[0].is_contiguous() or n.raw[0].storage_offset():
        raise NotLowered("it views the memory of a tensor by strides", "use view or permute")
    index = np.asarray(offset or 0)
    for size, stride in zip(sizes, strides, strict=True):
        index = index[..., None] + np.arange(size) * stride
    flat = layout.reshape(s, a, (a.size,))
    made = _index_select(n, flat, 0, constant(index.reshape(-1)))
    return layout.reshape(s, made, n.shape)


def _runs(index: Any) -> list[tuple[int, int]]:
    """Return the first and the end of the runs of neighbours among indices."""
    breaks = np.flatnonzero(np.diff(index) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(index, breaks)]


def from_front(n: Node, index: Array, size: int) -> Array:
    """Return indices as INT32; those below 0 count from the end."""
    s = n.scope
    low, _ = known_limits(index)
    if index.data is not None:
        data = np.where(index.data < 0, index.data + size, index.data)
        return Array(np.dtype(np.int32), index.shape, data.astype(np.int32))
    made = n.index(index)
    if low >= 0:
        return made
    return s.select(s.greater(0, made), s.add(made, size), made)


def _index(n: Node, a: Array, indices: Sequence[Array | None]) -> Array:
    """`a[indices]`: by rows of a table of the dimensions that are indexed."""
    s = n.scope
    if any(one is not None and one.dtype == BOOL for one in indices):
        raise NotLowered("the size of its result depends on the data", "use torch.where")
    axes, places, batch = _places(n, a.shape, indices)
    rest = [k for k in range(a.rank) if k not in axes]
    if len(axes) == 1:
        table = layout.moved(s, a, axes[0], 0)
    else:
        table = layout.transpose(s, a, (*axes, *rest))
        sizes = math.prod(a.shape[k] for k in axes), *(a.shape[k] for k in rest)
        table = layout.reshape(s, table, sizes)
    flat = layout.reshape(s, s.array(s.whole(places), places.dtype), (math.prod(batch),))
    made = rows_of(n, table, flat if places.data is None else _flat(places, batch))
    made = layout.reshape(s, made, (*batch, *(a.shape[k] for k in rest)))
    # Neighbouring indices leave the batch at the place of the first one; others put it in front.
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        count, before = len(batch), axes[0]
        order = [
            *range(count, count + before),
            *range(count),
            *range(count + before, made.rank),
        ]
        made = layout.transpose(s, made, order)
    return made


def _flat(places: Array, batch: Sequence[int]) -> Array:
    assert places.data is not None
    flat = np.broadcast_to(places.data, tuple(batch)).reshape(-1)
    return Array(places.dtype, tuple(flat.shape), flat)


def _places(
    n: Node, shape: Sequence[int], indices: Sequence[Array | None]
) -> tuple[list[int], Array, tuple[int, ...]]:
    """Return the axes that are indexed, positions in the table of these, and the indices' shape."""
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    batch = np.broadcast_shapes(*(one.shape for one in given))
    parts = [
        n.ranked(from_front(n, one, shape[axis]), len(batch))
        for axis, one in zip(axes, given, strict=True)
    ]
    places = positions(n.scope, parts, [shape[axis] for axis in axes])
    return axes, Array(places.dtype, tuple(batch), places.data, places.value), tuple(batch)


def _lines(n: Node, a: Array, axis: int) -> Array:
    """Reshape to [others, size, 1], in a type that GATHER moves."""
    s = n.scope
    moved = layout.moved(s, as_rows(s, a), axis, a.rank - 1)
    return layout.reshape(s, moved, (a.size // a.shape[axis], a.shape[axis], 1))


def _unlined(n: Node, a: Array, shape: Sequence[int], axis: int, dtype: Any) -> Array:
    s = n.scope
    others = [size for k, size in enumerate(shape) if k != axis]
    wide = layout.reshape(s, a, (*others, shape[axis]))
    return from_rows(s, layout.moved(s, wide, len(shape) - 1, axis), dtype)


def _cut_to(n: Node, a: Array, sizes: Sequence[int], axis: int) -> Array:
    """Take the first elements of all axes but one."""
    stops = [a.shape[k] if k == axis else size for k, size in enumerate(sizes)]
    if tuple(stops) == a.shape:
        return a
    return layout.cut(n.scope, a, [0] * a.rank, stops)


def _gather(n: Node, a: Array, dim: int, index: Array, **_: Any) -> Array:
    s = n.scope
    if a.rank == 0:
        return a
    axis = dim % a.rank
    lines = _lines(n, _cut_to(n, a, index.shape, axis), axis)
    places = layout.moved(s, n.index(index), axis, a.rank - 1)
    places = layout.reshape(s, places, (lines.shape[0], index.shape[axis]))
    made = s.apply("gather", [lines, places], lines.dtype)
    return _unlined(n, made, index.shape, axis, a.dtype)


def _scatter(n: Node, a: Array, dim: int, index: Array, source: Array) -> Array:
    """Put elements at indices along an axis."""
    s = n.scope
    if a.rank == 0:
        return layout.reshape(s, source, ())
    axis = dim % a.rank
    source = layout.cut(s, source, [0] * a.rank, index.shape)
    if a.rank == 2 and axis == 0 and index.stored[1] == 1 and index.shape[1] == a.shape[1]:
        # Whole rows.
        rows = Array(index.dtype, (index.shape[0], 1), index.data, index.value)
        flat = layout.reshape(s, n.index(rows), (index.shape[0],))
        made = write_rows(s, as_rows(s, a), flat, as_rows(s, source))
        return from_rows(s, made, a.dtype)
    part = _cut_to(n, a, index.shape, axis)
    lines, rows = _lines(n, part, axis), _lines(n, source, axis)
    places = layout.moved(s, n.index(index), axis, a.rank - 1)
    places = layout.reshape(s, places, (lines.shape[0], index.shape[axis]))
    made = _unlined(
        n, s.apply("scatter", [lines, places, rows], lines.dtype), part.shape, axis, a.dtype
    )
    for k, size in enumerate(a.shape):
        if made.shape[k] < size:
            stops = [made.shape[j] if j > k else a.shape[j] for j in range(a.rank)]
            beyond = layout.cut(
                s, a, [made.shape[k] if j == k else 0 for j in range(a.rank)], stops
            )
            made = from_rows(
                s, layout.concatenate(s, [as_rows(s, made), as_rows(s, beyond)], k), a.dtype
            )
    return made


def _masked_fill(n: Node, a: Array, mask: Array, value: Any) -> Array:
    from tosa_convert.frontends.torch.rules.elementwise import where

    return where(n, mask, value, a)


RULES: Final[dict[str, Rule]] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "index": _index,
    "_unsafe_index": _index,
    "gather": _gather,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "scatter": _scatter,
    "masked_fill": _masked_fill,
}
