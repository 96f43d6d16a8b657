"""Reading and writing at computed indices.

The dimensions that are indexed, or of which a part is taken, become the rows of a table; those that are
taken whole become its columns. GATHER reads rows. SCATTER writes them, at indices that must all differ;
where they may be equal, each row is compared with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import combination
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.reductions import by_halves, extreme, summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import (
    BOOL,
    INT32,
    carrier,
    is_float,
    is_small,
    is_unsigned,
    neutral,
)

#: GATHER and SCATTER move these by INT32 indices in TOSA 1.0.
_INT8: Final = np.dtype(np.int8)
_MOST_INDEX: Final = 2**31 - 1


def as_table(s: Scope, a: Array, rows: Sequence[int], columns: Sequence[int]) -> Array:
    """Make a table of an array: dimensions that are its rows, and dimensions that are its columns."""
    moved = movement.transpose(s, a, (*rows, *columns), merges=True)
    sizes = [math.prod(a.shape[k] for k in part) for part in (rows, columns)]
    return movement.reshape(s, moved, sizes)


def from_table(s: Scope, table: Array, shape: Sequence[int], order: Sequence[int]) -> Array:
    """Undo `as_table` for an array of a shape. order: the dimensions of rows and columns."""
    made = movement.reshape(s, table, [shape[k] for k in order])
    return movement.transpose(s, made, np.argsort(order).tolist(), merges=True)


def as_rows(s: Scope, a: Array) -> Array:
    """Convert an array to a type that GATHER and SCATTER move: truth values to INT8."""
    return s.cast(a, _INT8) if a.dtype == BOOL else s.viewed(a, carrier(a.dtype))


def from_rows(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert what `as_rows` made back to its own type."""
    return s.cast(a, BOOL) if dtype == BOOL else s.viewed(a, dtype)


def index32(s: Scope, a: Array) -> Array:
    """Convert indices to INT32. Those beyond its range are beyond every array, too."""
    if a.dtype.itemsize < INT32.itemsize:
        return converted(s, a, INT32)
    bits = s.viewed(a, carrier(a.dtype))
    if is_unsigned(a.dtype):
        bits = s.select(s.greater(0, bits), _MOST_INDEX, bits)
    if bits.dtype.itemsize > INT32.itemsize:
        bits = s.minimum(s.maximum(bits, -_MOST_INDEX - 1), _MOST_INDEX)
    return s.cast(bits, INT32)


def from_front(s: Scope, index: Array, size: int) -> Array:
    """Return indices as INT32; those below 0 count from the end of an axis, and all are within it."""
    low = known_limits(index)[0]
    if index.data is not None:
        data = index.data.astype(np.int64)
        return Array(INT32, index.shape, np.where(data < 0, data + size, data).astype(np.int32))
    made = s.cast(index, INT32) if index.dtype == np.int64 else index32(s, index)
    made.limits = index.limits
    return made if low >= 0 else s.select(s.greater(0, made), s.add(made, size), made)


def clamped(s: Scope, a: Array, highest: Any) -> Array:
    """Clamp indices to 0 up to `highest`, a number or an array."""
    return s.minimum(s.maximum(a, 0), highest)


def positions(s: Scope, parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return positions in a table of dimensions `sizes` from the index along each, of one rank."""
    strides = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]
    pairs = zip(parts, strides, strict=True)
    terms = [part if stride == 1 else s.mul(part, stride) for part, stride in pairs]
    return reduce(s.add, terms) if terms else constant(np.int32(0))


def offsets(size: int, rank: int, axis: int) -> Array:
    """Return 0, 1, 2, ... along one axis of `rank`."""
    shape = [1] * rank
    shape[axis] = size
    return constant(np.arange(size, dtype=np.int32).reshape(shape))


def rows_of_batches(s: Scope, table: Array, index: Array) -> Array:
    """Return rows [N, W, C] of tables [N, K, C] at indices [N, W]: GATHER."""
    if table.data is not None and index.data is not None:
        places = np.broadcast_to(index.data, index.shape)[:, :, None].astype(np.int64)
        return constant(np.take_along_axis(np.broadcast_to(table.data, table.shape), places, 1))
    held = as_rows(s, table)
    whole = s.array(s.whole(held), held.dtype)
    return from_rows(s, s.apply("gather", [whole, index], held.dtype), table.dtype)


def rows_at(s: Scope, table: Array, index: Array) -> Array:
    """Return rows [W, C] of a table [K, C]."""
    rows, columns = table.shape
    count = index.size
    flat = movement.reshape(s, index, (1, count))
    whole = s.array(s.whole(movement.reshape(s, table, (1, rows, columns))), table.dtype)
    made = s.apply("gather", [whole, flat], table.dtype)
    return movement.reshape(s, made, (count, columns))


# -- dynamic_slice -------------------------------------------------------------------------------


def dynamic_slice(s: Scope, a: Array, starts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return a part of the given sizes; starts beyond the last possible ones are moved back."""
    first = known_starts(starts, sizes, a.shape)
    if first is not None:
        return movement.cut(s, a, first, np.add(first, sizes).tolist())
    partial, whole = partial_and_whole(sizes, a.shape)
    table = as_table(s, as_rows(s, a), partial, whole)
    made = rows_at(s, table, slice_positions(s, starts, sizes, a.shape))
    return from_rows(s, from_table(s, made, sizes, (*partial, *whole)), a.dtype)


def known_starts(
    starts: Sequence[Array], sizes: Sequence[int], shape: Sequence[int]
) -> list[int] | None:
    """Return where a slice begins, inside of the array; None if it is computed."""
    if not all(start.is_constant for start in starts):
        return None
    return [
        int(np.clip(start.number(), 0, full - size))
        for start, size, full in zip(starts, sizes, shape, strict=True)
    ]


def partial_and_whole(sizes: Sequence[int], shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the dimensions of which a slice takes a part, and those that it takes whole."""
    axes = range(len(shape))
    return [k for k in axes if sizes[k] != shape[k]], [k for k in axes if sizes[k] == shape[k]]


def slice_positions(
    s: Scope, starts: Sequence[Array], sizes: Sequence[int], shape: Sequence[int]
) -> Array:
    """Return the rows that a slice takes of a table of the dimensions of which it takes a part."""
    axes, _ = partial_and_whole(sizes, shape)
    parts = []
    for at, axis in enumerate(axes):
        start = clamped(s, index32(s, starts[axis]), shape[axis] - sizes[axis])
        parts.append(s.add(start, offsets(sizes[axis], len(axes), at)))
    return positions(s, parts, [shape[axis] for axis in axes])


# -- gather --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Indexed:
    """The positions that an indexed read or write touches.

    index: their rows in a table of the dimensions `partial`, in the shape of the batch, then the window
        along `partial`.
    valid: where the whole window is inside of the array, in the shape of the batch.
    partial, whole: the dimensions of the array that are rows, and columns.
    """

    index: Array
    valid: Array
    partial: tuple[int, ...]
    whole: tuple[int, ...]


def indexed(
    s: Scope,
    indices: Array,
    shape: Sequence[int],
    window: Sequence[int],
    index_map: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
) -> Indexed:
    of_array, of_indices = batching
    partial = tuple(
        k for k in range(len(shape)) if k in index_map or k in of_array or window[k] != shape[k]
    )
    batch = indices.shape[:-1]
    # The start of each window along a dimension, and whether it is inside.
    starts: dict[int, Array] = {}
    valid = constant(np.ones((1,) * len(batch), np.bool_))
    for at, axis in enumerate(index_map):
        start = movement.part(s, indices, indices.rank - 1, at, at + 1)
        start = movement.reshape(s, start, batch)
        start, last = index32(s, start), shape[axis] - window[axis]
        inside = s.both(s.greater_equal(start, 0), s.greater_equal(last, start))
        valid = s.both(valid, inside)
        starts[axis] = clamped(s, start, last)
    for axis, at in zip(of_array, of_indices, strict=True):
        starts[axis] = offsets(shape[axis], len(batch), at)
    rank = len(batch) + len(partial)
    parts = []
    for at, axis in enumerate(partial):
        part = offsets(window[axis], rank, len(batch) + at)
        if axis in starts:
            start = starts[axis]
            start = movement.reshape(s, start, (*start.shape, *(1,) * len(partial)))
            part = s.add(start, part)
        parts.append(part)
    made = positions(s, parts, [shape[axis] for axis in partial])
    full = (*batch, *(window[axis] for axis in partial))
    made = movement.broadcast(s, made, full, range(made.rank))
    valid = movement.broadcast(s, valid, batch, range(valid.rank))
    return Indexed(made, valid, partial, tuple(k for k in range(len(shape)) if k not in partial))


def gather(
    s: Scope, a: Array, indices: Array, numbers: Any, window: Sequence[int], filling: Any = None
) -> Array:
    """Read windows of an array.

    numbers: the dimensions, with the attributes of XLA's gather. window: the sizes of a window.
    filling: the elements of windows that are not inside; None moves these windows inside.
    """
    batching = (numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    found = indexed(s, indices, a.shape, window, numbers.start_index_map, batching)
    made = rows_at(s, as_table(s, as_rows(s, a), found.partial, found.whole), found.index)
    # Dimensions: the batch, the window along the rows, the columns.
    batch = indices.shape[:-1]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    taken = [k for k in (*found.partial, *found.whole) if k not in gone]
    made = movement.reshape(s, made, (*batch, *(window[k] for k in taken)))
    if filling is not None:
        valid = movement.reshape(s, found.valid, (*batch, *(1,) * len(taken)))
        number = np.asarray(filling).astype(a.dtype)
        number = number.astype(_INT8) if a.dtype == BOOL else number.view(carrier(a.dtype))
        made = s.select(valid, made, constant(number))
    made = from_rows(s, made, a.dtype)
    # The batch is spread around the dimensions of the window, in their order.
    rank = len(batch) + len(taken)
    order, left = [0] * rank, iter(range(len(batch)))
    for position in range(rank):
        if position in numbers.offset_dims:
            axis = [k for k in range(a.rank) if k not in gone][numbers.offset_dims.index(position)]
            order[position] = len(batch) + taken.index(axis)
        else:
            order[position] = next(left)
    return movement.transpose(s, made, order, merges=True)


def default_filling(dtype: Any) -> Any:
    """Return what JAX reads where an index is out of range."""
    if is_float(dtype):
        return np.nan
    if dtype == BOOL:
        return True
    return np.iinfo(dtype).max if is_unsigned(dtype) else np.iinfo(dtype).min


#: Most elements of a comparison of all rows with all indices.
MOST_COMPARED: Final = 1 << 24
_UNIQUE: Final = "pass unique_indices=True if no two indices are equal"


def write_rows(s: Scope, table: Array, index: Array, rows: Array) -> Array:
    """Write rows [W, C] into a table [K, C] at W different positions."""
    count, columns = table.shape
    values = [
        movement.reshape(s, table, (1, count, columns)),
        movement.reshape(s, index, (1, index.size)),
        movement.reshape(s, rows, (1, index.size, columns)),
    ]
    made = s.apply("scatter", values, table.dtype)
    return movement.reshape(s, made, (count, columns))


def dynamic_update_slice(s: Scope, a: Array, update: Array, starts: Sequence[Array]) -> Array:
    """Replace a part of an array; starts beyond the last possible ones are moved back."""
    sizes = update.shape
    first = known_starts(starts, sizes, a.shape)
    if first is not None:
        return replaced(s, a, update, first)
    partial, whole = partial_and_whole(sizes, a.shape)
    table = as_table(s, as_rows(s, a), partial, whole)
    index = slice_positions(s, starts, sizes, a.shape)
    made = write_rows(s, table, index, as_table(s, as_rows(s, update), partial, whole))
    return from_rows(s, from_table(s, made, a.shape, (*partial, *whole)), a.dtype)


def replaced(s: Scope, a: Array, update: Array, first: Sequence[int]) -> Array:
    """Replace a part of an array at a known place: join what is around it, and the new part."""
    made, last = update, [n + size for n, size in zip(first, update.shape, strict=True)]
    for axis in reversed(range(a.rank)):
        parts = [made]
        # Dimensions after `axis` are whole by now.
        zeros, after = [0] * (a.rank - axis - 1), a.shape[axis + 1 :]
        if first[axis] > 0:
            starts, stops = [*first[:axis], 0, *zeros], [*last[:axis], first[axis], *after]
            parts.insert(0, movement.cut(s, a, starts, stops))
        if last[axis] < a.shape[axis]:
            starts, stops = [*first[:axis], last[axis], *zeros], [*last[:axis], *a.shape[axis:]]
            parts.append(movement.cut(s, a, starts, stops))
        held = [s.viewed(part, carrier(part.dtype)) for part in parts]
        made = s.viewed(movement.concatenate(s, held, axis), a.dtype)
    return made


# -- scatter -------------------------------------------------------------------------------------


def scatter(
    s: Scope,
    a: Array,
    indices: Array,
    updates: Array,
    numbers: Any,
    word: str,
    is_unique: bool = False,
    is_clipped: bool = False,
) -> Array:
    """Set elements ("set"), or combine with them: "add", "sub", "mul", "min", "max".

    numbers: the dimensions, with the attributes of XLA's scatter. is_unique: no two indices are equal.
    is_clipped: windows that are not inside are moved there; otherwise they are not written.
    """
    batching = (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [k for k in range(a.rank) if k not in gone]
    window = [1] * a.rank
    for axis, position in zip(kept, numbers.update_window_dims, strict=True):
        window[axis] = updates.shape[position]
    found = indexed(s, indices, a.shape, window, numbers.scatter_dims_to_operand_dims, batching)
    order = (*found.partial, *found.whole)
    table = as_table(s, a, found.partial, found.whole)
    rows = _update_rows(s, updates, numbers.update_window_dims, kept, found, table.shape[1])
    index = movement.reshape(s, found.index, (found.index.size,))
    if not is_clipped:
        # Windows that are not inside are not written: their rows are after the table.
        index = _outside_is_dropped(s, found, index, table.shape[0])
    is_unique = is_unique or index.size == 1
    return from_table(s, combined_rows(s, table, index, rows, word, is_unique), a.shape, order)


def _update_rows(
    s: Scope,
    updates: Array,
    window_dims: Sequence[int],
    kept: Sequence[int],
    found: Indexed,
    columns: int,
) -> Array:
    """Return the updates as rows, in the order of the index: the batch, the window, the columns."""
    batch = [k for k in range(updates.rank) if k not in window_dims]
    at = dict(zip(kept, window_dims, strict=True))
    order = [*batch, *(at[k] for k in (*found.partial, *found.whole) if k in at)]
    moved = movement.transpose(s, updates, order)
    return movement.reshape(s, moved, (found.index.size, columns))


def _outside_is_dropped(s: Scope, found: Indexed, index: Array, tall: int) -> Array:
    """Replace indices of windows outside the array by different ones after the table."""
    valid = found.valid
    shape = (*valid.shape, *(1,) * (found.index.rank - valid.rank))
    spread = movement.reshape(s, valid, shape)
    spread = movement.broadcast(s, spread, found.index.shape, range(found.index.rank))
    flat = movement.reshape(s, spread, index.shape)
    after = constant(np.arange(tall, tall + index.size, dtype=np.int32))
    if flat.data is not None and flat.data.all():
        return index
    return s.select(flat, index, after)


def combined_rows(
    s: Scope, table: Array, index: Array, rows: Array, word: str, is_unique: bool = False
) -> Array:
    """Write rows [W, C] into a table [K, C], or combine them, at indices that may be equal."""
    tall, columns = table.shape
    if index.data is not None:
        known = np.broadcast_to(index.data, index.shape)
        inside = np.flatnonzero(known < tall)
        if inside.size == 0:
            return table
        is_unique = is_unique or len(np.unique(known[inside])) == inside.size
        if word == "set" and not is_unique:
            # The last one of equal indices is the one that stays.
            last = {int(known[at]): int(at) for at in inside}
            inside, is_unique = np.array(sorted(last.values())), True
        if inside.size < index.size:
            rows = rows_at(s, as_rows(s, rows), constant(inside.astype(np.int32)))
            rows = from_rows(s, rows, table.dtype)
            index = constant(known[inside])
    if is_unique:
        return _unique(s, table, index, rows, word)
    if tall * index.size * (1 if word == "set" else columns) > MOST_COMPARED:
        reason = f"{index.size} indices into {tall} rows that may be equal are too many to compare"
        raise NotLowered(reason, _UNIQUE)
    return (
        _latest(s, table, index, rows) if word == "set" else _by_rows(s, table, index, rows, word)
    )


def _unique(s: Scope, table: Array, index: Array, rows: Array, word: str) -> Array:
    """Scatter to indices that all differ: read the rows, combine them and write them."""
    tall, columns = table.shape
    extra = 0 if index.data is not None else index.size
    longer = movement.pad(s, as_rows(s, table), (0, 0), (extra, 0), 0)
    if word != "set":
        old = from_rows(s, rows_at(s, longer, index), table.dtype)
        rows = combination(s, word)(old, rows)
    made = write_rows(s, longer, index, as_rows(s, rows))
    return from_rows(s, movement.cut(s, made, (0, 0), (tall, columns)), table.dtype)


def _matches(s: Scope, tall: int, index: Array) -> Array:
    """Return which index is which row, [K, W]."""
    every = constant(np.arange(tall, dtype=np.int32).reshape(tall, 1))
    return s.equal(every, movement.reshape(s, index, (1, index.size)))


def _latest(s: Scope, table: Array, index: Array, rows: Array) -> Array:
    """Replace each row of the table by the last one that is written to it."""
    tall = table.shape[0]
    number = constant(np.arange(index.size, dtype=np.int32).reshape(1, -1))
    last = s.select(_matches(s, tall, index), number, -1)
    last = extreme(s, last, (1,), "max")
    found = rows_at(s, as_rows(s, rows), s.maximum(last, 0))
    is_written = movement.reshape(s, s.greater_equal(last, 0), (tall, 1))
    return from_rows(s, s.select(is_written, found, as_rows(s, table)), table.dtype)


def _by_rows(s: Scope, table: Array, index: Array, rows: Array, word: str) -> Array:
    """Combine each row of the table with all that is written to it."""
    tall, columns = table.shape
    kind = table.dtype
    wide = s.widened(rows) if is_small(kind) else rows
    matches = movement.reshape(s, _matches(s, tall, index), (tall, index.size, 1))
    spread = movement.reshape(s, wide, (1, index.size, columns))
    combine = combination(s, word)
    chosen = s.select(matches, spread, neutral(word, wide.dtype))
    if word in ("add", "sub"):
        made = summed(s, chosen, (1,))
    elif word == "mul":
        made = by_halves(s, chosen, (1,), combine)
    else:
        made = extreme(s, chosen, (1,), word)
    old = s.widened(table) if is_small(kind) else table
    result = combine(old, made)
    return s.narrowed(result, kind) if is_small(kind) else result
