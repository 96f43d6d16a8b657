"""Reading and writing at computed indices.

SCATTER writes rows at indices that all differ. Where several may be equal, and the result does not
depend on which one of them is taken, every index is compared with every position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import (
    combination,
    compared,
    divided,
    floor_quotient,
)
from tosa_convert.frontends.lowering.indexing import (
    MOST_COMPARED,
    as_rows,
    clamped,
    combined_rows,
    from_front,
    from_rows,
    positions,
    rows_at,
    write_rows,
)
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.reductions import (
    by_operator,
    cumulative,
    extreme,
    multiplied,
    summed,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32, INT64, is_float, is_small
from tosa_convert.frontends.torch.rules.elementwise import combined, where
from tosa_convert.frontends.torch.rules.node import Node, Rule


def rows_of(n: Node, table: Array, index: Array) -> Array:
    """Return rows of a table [K, ...] at indices from 0: [index, ...]."""
    s = n.scope
    if index.data is not None and table.data is not None:
        data = np.broadcast_to(table.data, table.shape)[np.broadcast_to(index.data, index.shape)]
        return Array(table.dtype, tuple(data.shape), data)
    rest = table.shape[1:]
    flat = movement.reshape(s, as_rows(s, table), (table.shape[0], math.prod(rest)))
    made = rows_at(s, flat, n.index(index))
    return from_rows(s, movement.reshape(s, made, (*index.shape, *rest)), table.dtype)


def index_select(n: Node, a: Array, dim: int, index: Array) -> Array:
    s = n.scope
    if a.rank == 0:
        return a
    axis = dim % a.rank
    if index.data is not None:
        parts = _runs(np.broadcast_to(index.data, index.shape).reshape(-1))
        if len(parts) == 1:
            return movement.part(s, a, axis, *parts[0])
    moved = movement.moved(s, a, axis, 0)
    made = rows_of(n, moved, movement.reshape(s, index, (index.size,)))
    return movement.moved(s, made, 0, axis)


def _unfold(n: Node, a: Array, dim: int, size: int, step: int) -> Array:
    """Return windows along an axis, whose elements become the last axis."""
    s = n.scope
    if a.rank == 0:
        return movement.reshape(s, a, (1,))
    axis = dim % a.rank
    count = n.shape[axis]
    index = np.arange(count)[:, None] * step + np.arange(size)
    taken = index_select(n, a, axis, constant(index.reshape(-1)))
    shape = (*a.shape[:axis], count, size, *a.shape[axis + 1 :])
    return movement.moved(s, movement.reshape(s, taken, shape), axis + 1, a.rank)


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
    flat = movement.reshape(s, a, (a.size,))
    made = index_select(n, flat, 0, constant(index.reshape(-1)))
    return movement.reshape(s, made, n.shape)


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
        table = movement.moved(s, a, axes[0], 0)
    else:
        table = movement.transpose(s, a, (*axes, *rest))
        sizes = math.prod(a.shape[k] for k in axes), *(a.shape[k] for k in rest)
        table = movement.reshape(s, table, sizes)
    made = movement.reshape(s, rows_of(n, table, index), (*batch, *(a.shape[k] for k in rest)))
    # Neighbouring indices leave the batch at the place of the first one; others put it in front.
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        count, before = len(batch), axes[0]
        order = [*range(count, count + before), *range(count), *range(count + before, made.rank)]
        made = movement.transpose(s, made, order)
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
    return axes, movement.reshape(s, s.array(s.whole(whole), found.dtype), (count,)), tuple(batch)


def lines_of(n: Node, a: Array, axis: int) -> Array:
    """Reshape to [others, size, 1], in a type that GATHER moves."""
    s = n.scope
    moved = movement.moved(s, as_rows(s, a), axis, a.rank - 1)
    return movement.reshape(s, moved, (a.size // a.shape[axis], a.shape[axis], 1))


def of_lines(n: Node, a: Array, shape: Sequence[int], axis: int, dtype: Any) -> Array:
    s = n.scope
    others = [size for k, size in enumerate(shape) if k != axis]
    wide = movement.reshape(s, a, (*others, shape[axis]))
    return from_rows(s, movement.moved(s, wide, len(shape) - 1, axis), dtype)


def cut_to(n: Node, a: Array, sizes: Sequence[int], axis: int) -> Array:
    """Take the first elements of all axes but one."""
    stops = [a.shape[k] if k == axis else size for k, size in enumerate(sizes)]
    if tuple(stops) == a.shape:
        return a
    return movement.cut(n.scope, a, [0] * a.rank, stops)


def _gather(n: Node, a: Array, dim: int, index: Array, **_: Any) -> Array:
    s = n.scope
    if a.rank == 0:
        return a
    axis = dim % a.rank
    lines = lines_of(n, cut_to(n, a, index.shape, axis), axis)
    places = movement.moved(s, n.index(index), axis, a.rank - 1)
    places = movement.reshape(s, places, (lines.shape[0], index.shape[axis]))
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
    """Add the rows of each bag: sums (0) or means (1)."""
    if mode == 2 or index.rank != 1:
        raise NotLowered("it takes the greatest of each bag", "use embedding and amax")
    s, lines = n.scope, (index.size, 1)
    starts = n.index(starts)
    if include_last_offset:
        starts = movement.part(s, starts, 0, 0, starts.size - 1)
    bags = starts.size
    if index.size * bags > MOST_COMPARED:
        raise NotLowered("it compares too many rows with bags", "split it")
    line = constant(np.arange(index.size, dtype=np.int32).reshape(lines))
    began = s.greater_equal(line, movement.reshape(s, starts, (1, bags)))
    bag = s.sub(summed(s, s.cast(began, INT32), (1,)), 1)
    every = constant(np.arange(bags, dtype=np.int32).reshape(-1, 1))
    member = s.equal(every, movement.reshape(s, bag, (1, index.size)))
    rows = n.convert(rows_of(n, weight, index), FLOAT32)
    if factors is not None:
        rows = s.mul(rows, movement.reshape(s, n.convert(factors, FLOAT32), lines))
    if padding_idx is not None and padding_idx >= 0:
        is_kept = s.negation(s.equal(movement.reshape(s, n.index(index), lines), padding_idx))
        rows = s.select(is_kept, rows, 0)
        member = s.both(member, movement.reshape(s, is_kept, (1, index.size)))
    made = _added(n, Array(FLOAT32, n.shape, np.zeros((1, 1), np.float32)), bag, rows)
    sizes = summed(s, n.convert(member, FLOAT32), (1,))
    if mode == 1:
        made = divided(s, made, movement.reshape(s, s.maximum(sizes, 1), (bags, 1)))
    found = [made, bag, sizes, sizes]  # Those that nothing uses may have no elements in torch.
    return [
        n.convert(one, n.dtypes[k]) if k == 0 or n.is_used(k) else n.unused(k)
        for k, one in enumerate(found)
    ]


def _nonzero(*_: Any, **__: Any) -> Array:
    raise NotLowered("TOSA does not find where elements are", "select with a mask: torch.where")


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
    s, kind = n.scope, n.promoted()
    if table.rank > 1:
        table = movement.reshape(s, table, (*table.shape[:-1], 1, table.shape[-1]))
    x, limit = n.arrays(movement.reshape(s, values, (*values.shape, 1)), table, dtype=kind)
    name = "greater_equal" if right or side == "right" else "greater"
    is_below = compared(s, x, limit, name)
    if is_float(kind):  # NaN is above all.
        is_below = s.either(is_below, s.is_nan(x))
    return n.convert(summed(s, s.cast(is_below, INT32), (is_below.rank - 1,)), n.dtype)


# -- writing elements ----------------------------------------------------------------------------


def _scatter(n: Node, a: Array, dim: int, index: Array, source: Array) -> Array:
    s = n.scope
    if a.rank == 0:
        return movement.reshape(s, source, ())
    axis = dim % a.rank
    source = movement.cut(s, source, [0] * a.rank, index.shape)
    if _is_of_rows(a, axis, index):
        rows = Array(index.dtype, (index.shape[0], 1), index.data, index.value)
        return _written(n, a, movement.reshape(s, n.index(rows), (index.shape[0],)), source)
    part = cut_to(n, a, index.shape, axis)
    table, rows = lines_of(n, part, axis), lines_of(n, source, axis)
    at = movement.moved(s, n.index(index), axis, a.rank - 1)
    at = movement.reshape(s, at, (table.shape[0], index.shape[axis]))
    made = s.apply("scatter", [table, at, rows], table.dtype)
    return _put_back(n, a, of_lines(n, made, part.shape, axis, a.dtype))


def _is_of_rows(a: Array, axis: int, index: Array) -> bool:
    """Return whether an index is the same for all of a row."""
    return a.rank == 2 and axis == 0 and index.stored[1] == 1 and index.shape[1] == a.shape[1]


def _put_back(n: Node, a: Array, made: Array) -> Array:
    """Put an array in place of the first elements of another."""
    s = n.scope
    for k, size in enumerate(a.shape):
        if made.shape[k] < size:
            first = [made.shape[j] if j == k else 0 for j in range(a.rank)]
            stops = [made.shape[j] if j > k else a.shape[j] for j in range(a.rank)]
            beyond = movement.cut(s, a, first, stops)
            parts = [as_rows(s, one) for one in (made, beyond)]
            made = from_rows(s, movement.concatenate(s, parts, k), a.dtype)
    return made


def _hits(n: Node, index: Array, size: int) -> Array:
    """Return which position each index is, [..., size]."""
    if index.size * size > MOST_COMPARED:
        reason = f"{index.size} indices of {size} positions are too many to compare"
        raise NotLowered(reason, "scatter fewer elements at once, or compute it outside")
    every = constant(np.arange(size, dtype=np.int32))
    index = from_front(n.scope, index, size)
    return n.scope.equal(movement.reshape(n.scope, index, (*index.shape, 1)), every)


def _scatter_number(n: Node, a: Array, dim: int, index: Array, number: Any) -> Array:
    """Put a number wherever an index is."""
    if a.rank == 0:
        return n.arrays(number)[0]
    s, axis = n.scope, dim % a.rank
    part = cut_to(n, a, index.shape, axis)
    hit = _hits(n, movement.moved(s, index, axis, a.rank - 1), part.shape[axis])
    found = by_operator(s, hit, (a.rank - 1,), "reduce_any")
    return _put_back(n, a, where(n, movement.moved(s, found, a.rank - 1, axis), number, part))


def _index_fill(n: Node, a: Array, dim: int, index: Array, number: Any) -> Array:
    """Put a number in the rows of an index, of which several may be equal."""
    if a.rank == 0:
        return n.arrays(number)[0]
    size = a.shape[dim]
    found = by_operator(
        n.scope, _hits(n, movement.reshape(n.scope, index, (index.size,)), size), (0,), "reduce_any"
    )
    shape = [size if axis == dim % a.rank else 1 for axis in range(a.rank)]
    return where(n, movement.reshape(n.scope, found, shape), number, a)


#: Reduction of torch -> that of the lowering.
_WORDS: Final = {
    "sum": "add",
    "add": "add",
    "mean": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def _reduce(
    n: Node,
    a: Array,
    dim: int,
    index: Array,
    source: Any,
    reduce: str = "sum",
    *,
    include_self: bool = True,
) -> Array:
    """Reduce at each position the elements with its index, and what it had before."""
    if a.rank == 0:
        raise NotLowered("it reduces one number", "use other operators")
    s, axis, last = n.scope, dim % a.rank, a.rank - 1
    is_narrow = is_small(a.dtype) or a.dtype == BOOL
    kind = FLOAT32 if is_float(a.dtype) else INT32 if is_narrow else a.dtype
    part = cut_to(n, a, index.shape, axis)
    if not isinstance(source, Array):
        source = movement.broadcast_to(s, constant(np.asarray(source, kind)), index.shape)
    source = movement.cut(s, source, [0] * a.rank, index.shape)
    is_sum = _WORDS[reduce] == "add" and reduce != "mean" and include_self
    if is_sum and _is_of_rows(a, axis, index) and index.size * a.shape[0] > MOST_COMPARED:
        rows = Array(index.dtype, (index.shape[0], 1), index.data, index.value)
        return _index_add(n, a, 0, rows, source)
    at, old, new = (movement.moved(s, one, axis, last) for one in (index, part, source))
    old, new = n.convert(old, kind), n.convert(new, kind)
    hit = _hits(n, at, part.shape[axis])
    new = movement.reshape(s, new, (*new.shape, 1))
    made = _reduced(n, s.select(hit, new, n.neutral(_WORDS[reduce], kind)), last, _WORDS[reduce])
    if include_self:
        made = combination(s, _WORDS[reduce])(old, made)
    if reduce == "mean" or not include_self:
        count = by_operator(s, s.cast(hit, INT32), (last,), "reduce_sum")
        is_hit = s.greater(count, 0)
        if reduce == "mean":
            count = s.add(count, 1) if include_self else s.maximum(count, 1)
            if is_narrow:  # Sums and counts wrap around, as in torch.
                made, count = (n.convert(n.convert(k, a.dtype), kind) for k in (made, count))
                count = s.select(s.equal(count, 0), 1, count)
            divide = divided if is_float(kind) else floor_quotient
            made = divide(s, made, n.convert(count, kind))
        made = s.select(is_hit, made, old)
    return _put_back(n, a, n.convert(movement.moved(s, made, last, axis), a.dtype))


def _reduced(n: Node, a: Array, axis: int, word: str) -> Array:
    if word == "add":
        return by_operator(n.scope, a, (axis,), "reduce_sum")
    if word == "mul":
        return multiplied(n.scope, a, (axis,))
    return extreme(n.scope, a, (axis,), word)


# -- writing rows --------------------------------------------------------------------------------


def _written(n: Node, table: Array, index: Array, rows: Array) -> Array:
    """Write rows [W, C] into a table [K, C]: of equal indices that are known, the last one counts."""
    s = n.scope
    if index.data is not None or index.size > table.shape[0]:
        return combined_rows(s, table, index, n.convert(rows, table.dtype), "set")
    made = write_rows(s, as_rows(s, table), index, as_rows(s, n.convert(rows, table.dtype)))
    return from_rows(s, made, table.dtype)


def _added(n: Node, table: Array, index: Array, rows: Array) -> Array:
    """Add rows [W, C] to those of a table [K, C]; many by a product with ones where an index is."""
    s, (count, columns), kind = n.scope, table.shape, table.dtype
    if kind == BOOL or (kind == INT64 and s.narrows):
        made = _added(n, n.convert(table, INT32), index, n.convert(rows, INT32))
        return n.convert(made, kind)
    is_unique = index.data is not None and np.unique(whole_data(index)).size == index.size
    if is_unique or count * index.size * columns <= MOST_COMPARED:
        return combined_rows(s, table, index, rows, "add")
    index = s.array(s.whole(index), index.dtype)  # Not a large constant with few ones.
    if is_float(kind):
        # A product with 0 would be NaN: numbers that are not finite are counted.
        ends = s.greater(np.inf, rows), s.greater(rows, -np.inf)
        parts = [s.select(s.both(*ends), rows, 0), *(s.select(end, 0, 1, kind) for end in ends)]
    else:
        if index.size >> 23:
            raise NotLowered("INT32 may not hold the sum of their bytes", "add fewer rows at once")
        rows = s.widened(rows) if is_small(kind) else rows
        steps = range(8, 8 * kind.itemsize, 8)
        moved = (rows, *(s.elementwise("logical_right_shift", rows, step) for step in steps))
        bits = (n.convert(s.elementwise("bitwise_and", one, 255), INT32) for one in moved)
        parts = [s.narrowed(one, np.uint8) for one in bits]
    hit = n.convert(_hits(n, index, count), kind if is_float(kind) else np.uint8)
    left = movement.reshape(s, movement.transpose(s, hit, (1, 0)), (1, count, index.size))
    wide = len(parts) * columns
    right = movement.reshape(s, movement.concatenate(s, parts, 1), (1, index.size, wide))
    made = product(s, left, right, kind if is_float(kind) else INT32)
    made = movement.reshape(s, made, (count, wide))
    sums = movement.split(s, made, [columns] * len(parts), 1)
    if is_float(kind):
        for place, number in ((1, np.inf), (2, -np.inf)):
            sums[place] = s.select(s.greater(sums[place], 0), number, 0, kind)
    else:
        sums = [n.convert(one, rows.dtype) for one in sums]
        for place, step in enumerate(steps, 1):
            sums[place] = s.elementwise("logical_left_shift", sums[place], step)
        if kind == INT64:  # Unsigned sums wrap around.
            sums = [s.viewed(one, np.uint64) for one in sums]
    total = reduce(combination(s, "add"), sums)
    total = s.viewed(total, kind) if kind == INT64 else n.convert(total, kind)
    return combination(s, "add")(table, total)


def _in_every_row(n: Node, index: Array, dim: int, source: Array) -> Array:
    """Repeat the indices along one axis for every element of the source."""
    held = movement.reshape(n.scope, index, (index.size,))
    return movement.broadcast(n.scope, held, source.shape, (dim % max(source.rank, 1),))


def _index_copy(n: Node, a: Array, dim: int, index: Array, source: Array) -> Array:
    if a.rank == 0:
        return movement.reshape(n.scope, source, ())
    return _scatter(n, a, dim, _in_every_row(n, index, dim, source), source)


def _index_add(
    n: Node, a: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1
) -> Array:
    if a.rank == 0:
        raise NotLowered("it adds to one number", "use add")
    s, axis = n.scope, dim % a.rank
    if alpha != 1:
        source = combined(s, "mul", *n.arrays(source, alpha))
    front, rows = (movement.moved(s, n.convert(one, a.dtype), axis, 0) for one in (a, source))
    width = a.size // a.shape[axis]
    table = movement.reshape(s, front, (a.shape[axis], width))
    at = from_front(s, movement.reshape(s, index, (index.size,)), a.shape[axis])
    made = _added(n, table, at, movement.reshape(s, rows, (index.size, width)))
    return movement.moved(s, movement.reshape(s, made, front.shape), 0, axis)


def _index_put(
    n: Node,
    a: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Array:
    """Lower `a[indices] = values`: the dimensions that are indexed are the rows of a table."""
    if any(one is not None and one.dtype == BOOL for one in indices):
        return _masked_put(n, a, indices, values, accumulate)
    s = n.scope
    axes, index, batch = places_of(n, a.shape, indices)
    rest = [k for k in range(a.rank) if k not in axes]
    order, tail = (*axes, *rest), [a.shape[k] for k in rest]
    rows, width, count = math.prod(a.shape[k] for k in axes), math.prod(tail), math.prod(batch)
    # Neighbouring indices lie where the first of them does; others come first.
    is_one = axes == list(range(axes[0], axes[-1] + 1))
    before = axes[0] if is_one else 0
    values = n.convert(values, a.dtype)
    number = values if values.size == 1 else None
    values = movement.broadcast_to(s, values, (*tail[:before], *batch, *tail[before:]))
    places_of_batch = range(before, before + len(batch))
    moved = [*places_of_batch, *(k for k in range(values.rank) if k not in places_of_batch)]
    table = movement.reshape(s, movement.transpose(s, a, order), (rows, width))
    values = movement.reshape(s, movement.transpose(s, values, moved), (count, width))
    if accumulate:
        made = _added(n, table, index, values)
    elif number is not None and index.data is None and count * rows <= MOST_COMPARED:
        found = by_operator(s, _hits(n, index, rows), (0,), "reduce_any")
        held = movement.reshape(s, number, (1, 1))
        made = where(n, movement.reshape(s, found, (rows, 1)), held, table)
    else:
        made = _written(n, table, index, values)
    made = movement.reshape(s, made, [a.shape[k] for k in order])
    return movement.transpose(s, made, np.argsort(order).tolist())


def _masked_put(
    n: Node, a: Array, indices: Sequence[Array | None], values: Array, accumulate: bool
) -> Array:
    """Lower `a[mask] = values`: one value by a selection, others one after the other."""
    mask = indices[0]
    if mask is None or len(indices) != 1 or (values.size != 1 and accumulate):
        raise NotLowered("the number of its elements depends on the data", "use torch.where")
    if values.size != 1:
        rest = a.shape[mask.rank :]
        return _in_turn(
            n, a, mask, movement.broadcast_to(n.scope, values, (values.shape[0], *rest))
        )
    mask = movement.reshape(n.scope, mask, (*mask.shape, *[1] * (a.rank - mask.rank)))
    x, value = n.arrays(a, movement.reshape(n.scope, values, (1,) * a.rank))
    return where(n, mask, combined(n.scope, "add", x, value) if accumulate else value, x)


def _in_turn(n: Node, a: Array, mask: Array, source: Array) -> Array:
    """Put rows, one after the other, where a mask of the first dimensions is true."""
    s, width = n.scope, math.prod(a.shape[mask.rank :])
    rows = source.size // max(width, 1)
    if not rows or not mask.size:
        raise NotLowered("it has no elements to put", "leave it out")
    flat = movement.reshape(s, n.convert(source, a.dtype), (source.size,))
    table = movement.reshape(s, movement.cut(s, flat, [0], [rows * width]), (rows, width))
    flags = n.convert(movement.reshape(s, mask, (mask.size,)), INT32)
    place = clamped(s, s.add(cumulative(s, flags, 0, False, "add"), -1), rows - 1)
    made = from_rows(s, rows_at(s, as_rows(s, table), place), a.dtype)
    mask = movement.reshape(s, mask, (*mask.shape, *[1] * (a.rank - mask.rank)))
    return where(n, mask, movement.reshape(s, made, a.shape), a)


def _masked_scatter(n: Node, a: Array, mask: Array, source: Array) -> Array:
    """Put elements, one after the other, where a mask is true; by rows that the mask takes whole."""
    s, shape = n.scope, np.broadcast_shapes(a.shape, mask.shape)
    a, mask = (movement.broadcast_to(s, one, shape) for one in (a, mask))
    kept = max((k + 1 for k, size in enumerate(mask.stored) if size > 1), default=0)
    if source.size >= math.prod(shape[kept:]):
        first = (*shape[:kept], *[1] * (len(shape) - kept))
        mask = movement.reshape(s, movement.cut(s, mask, [0] * len(shape), first), shape[:kept])
    return _in_turn(n, a, mask, source)


RULES: Final[dict[str, Rule]] = {
    "embedding": lambda n, weight, index, *_: rows_of(n, weight, index),
    "index_select": index_select,
    "index": _index,
    "_unsafe_index": _index,
    "gather": _gather,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "nonzero_static": _nonzero,
    "searchsorted.Tensor": _search_sorted,
    **dict.fromkeys(
        ("embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only"),
        _embedding_bag,
    ),
    "scatter": _scatter,
    "scatter.value": _scatter_number,
    "scatter.reduce": _reduce,
    "scatter.value_reduce": _reduce,
    "scatter_add": _reduce,
    "scatter_reduce": _reduce,
    "masked_fill": lambda n, a, mask, value: where(n, mask, value, a),
    "masked_scatter": _masked_scatter,
    "index_copy": _index_copy,
    "index_fill": _index_fill,
    "index_reduce": lambda n, a, dim, index, source, *given, **named: _reduce(
        n, a, dim, _in_every_row(n, index, dim, source), source, *given, **named
    ),
    "index_add": _index_add,
    "index_put": _index_put,
    "_index_put_impl": _index_put,
}
