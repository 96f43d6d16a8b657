"""Reading at computed indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.arithmetic import compared, divided
from tosa_convert.frontends.lowering.indexing import (
    MOST_COMPARED,
    as_rows,
    from_front,
    from_rows,
    positions,
    rows_at,
)
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import BOOL, INT32
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


def index_select(n: Node, a: Array, dim: int, index: Array) -> Array:
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
    taken = index_select(n, a, axis, constant(index.reshape(-1)))
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
    made = index_select(n, flat, 0, constant(index.reshape(-1)))
    return layout.reshape(s, made, n.shape)


def _runs(index: Any) -> list[tuple[int, int]]:
    """Return the first and the end of the runs of neighbours among indices."""
    breaks = np.flatnonzero(np.diff(index) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(index, breaks)]


def _index(n: Node, a: Array, indices: Sequence[Array | None]) -> Array:
    """Lower `a[indices]` by rows of a table of the dimensions that are indexed."""
    s = n.scope
    if any(one is not None and one.dtype == BOOL for one in indices):
        raise NotLowered("the size of its result depends on the data", "use torch.where")
    axes, index, batch = places_of(n, a.shape, indices)
    rest = [k for k in range(a.rank) if k not in axes]
    if len(axes) == 1:
        table = layout.moved(s, a, axes[0], 0)
    else:
        table = layout.transpose(s, a, (*axes, *rest))
        sizes = math.prod(a.shape[k] for k in axes), *(a.shape[k] for k in rest)
        table = layout.reshape(s, table, sizes)
    made = layout.reshape(s, rows_of(n, table, index), (*batch, *(a.shape[k] for k in rest)))
    # Neighbouring indices leave the batch at the place of the first one; others put it in front.
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        count, before = len(batch), axes[0]
        order = [*range(count, count + before), *range(count), *range(count + before, made.rank)]
        made = layout.transpose(s, made, order)
    return made


def places_of(
    n: Node, shape: Sequence[int], indices: Sequence[Array | None]
) -> tuple[list[int], Array, tuple[int, ...]]:
    """Return the axes that are indexed, flat positions in the table of these, and the indices' shape."""
    s = n.scope
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    batch = np.broadcast_shapes(*(one.shape for one in given))
    parts = [
        n.ranked(from_front(s, one, shape[axis]), len(batch))
        for axis, one in zip(axes, given, strict=True)
    ]
    found = positions(s, parts, [shape[axis] for axis in axes])
    count = math.prod(batch)
    if found.data is not None:
        data = np.broadcast_to(found.data, tuple(batch)).reshape(count)
        return axes, Array(found.dtype, (count,), data), tuple(batch)
    whole = Array(found.dtype, tuple(batch), None, found.value)
    return axes, layout.reshape(s, s.array(s.whole(whole), found.dtype), (count,)), tuple(batch)


def lines_of(n: Node, a: Array, axis: int) -> Array:
    """Reshape to [others, size, 1], in a type that GATHER moves."""
    s = n.scope
    moved = layout.moved(s, as_rows(s, a), axis, a.rank - 1)
    return layout.reshape(s, moved, (a.size // a.shape[axis], a.shape[axis], 1))


def of_lines(n: Node, a: Array, shape: Sequence[int], axis: int, dtype: Any) -> Array:
    s = n.scope
    others = [size for k, size in enumerate(shape) if k != axis]
    wide = layout.reshape(s, a, (*others, shape[axis]))
    return from_rows(s, layout.moved(s, wide, len(shape) - 1, axis), dtype)


def cut_to(n: Node, a: Array, sizes: Sequence[int], axis: int) -> Array:
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
    lines = lines_of(n, cut_to(n, a, index.shape, axis), axis)
    places = layout.moved(s, n.index(index), axis, a.rank - 1)
    places = layout.reshape(s, places, (lines.shape[0], index.shape[axis]))
    made = s.apply("gather", [lines, places], lines.dtype)
    return of_lines(n, made, index.shape, axis, a.dtype)


def _embedding_bag(
    n: Node,
    weight: Array,
    index: Array,
    starts: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Array]:
    """Multiply a matrix of ones, where a row belongs to a bag, by the rows: sums (0) or means (1)."""
    if mode == 2 or index.rank != 1:
        raise NotLowered("it takes the greatest of each bag", "use embedding and amax")
    s, places = n.scope, n.index(index)
    starts = n.index(starts)
    if include_last_offset:
        starts = layout.part(s, starts, 0, 0, starts.size - 1)
    bags = starts.size
    if index.size * bags > MOST_COMPARED:
        raise NotLowered("it compares too many rows with bags", "split it")
    line = constant(np.arange(index.size, dtype=np.int32).reshape(-1, 1))
    began = s.greater_equal(line, layout.reshape(s, starts, (1, bags)))
    bag = s.sub(summed(s, s.cast(began, INT32), (1,)), 1)
    every = constant(np.arange(bags, dtype=np.int32).reshape(-1, 1))
    member = s.equal(every, layout.reshape(s, bag, (1, index.size)))
    if padding_idx is not None and padding_idx >= 0:
        is_kept = s.negation(s.equal(places, padding_idx))
        member = s.both(member, layout.reshape(s, is_kept, (1, index.size)))
    parts = n.convert(member, n.dtype)
    sizes = summed(s, parts, (1,))
    if factors is not None:
        parts = s.mul(parts, layout.reshape(s, factors, (1, index.size)))
    rows = rows_of(n, weight, index)
    left, right = (layout.reshape(s, one, (1, *one.shape)) for one in (parts, rows))
    made = layout.reshape(s, product(s, left, right, n.dtype), n.shape)
    if mode == 1:
        made = divided(s, made, layout.reshape(s, s.maximum(sizes, 1), (bags, 1)))
    found = [made, bag, sizes, sizes]  # Those that nothing uses may have no elements in torch.
    return [
        n.convert(one, n.dtypes[k]) if k == 0 or n.is_used(k) else n.unused(k)
        for k, one in enumerate(found)
    ]


def _search_sorted(
    n: Node,
    table: Array,
    values: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Array:
    """Count the boundaries below each value."""
    if sorter is not None:
        raise NotLowered("its boundaries are sorted by indices", "sort them before")
    s, kind = n.scope, n.promoted(0, 1)
    if table.rank > 1:
        table = layout.reshape(s, table, (*table.shape[:-1], 1, table.shape[-1]))
    x, limit = n.arrays(layout.reshape(s, values, (*values.shape, 1)), table, dtype=kind)
    name = "greater_equal" if right or side == "right" else "greater"
    is_below = compared(s, x, limit, name)
    return n.convert(summed(s, s.cast(is_below, INT32), (is_below.rank - 1,)), n.dtype)


RULES: Final[dict[str, Rule]] = {
    "embedding": lambda n, weight, index, *_: rows_of(n, weight, index),
    "index_select": index_select,
    "index": _index,
    "_unsafe_index": _index,
    "gather": _gather,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "searchsorted.Tensor": _search_sorted,
    **dict.fromkeys(
        ("embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only"),
        _embedding_bag,
    ),
}
