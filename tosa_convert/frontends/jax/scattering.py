"""Writing at computed indices: SCATTER, whose indices must all differ, or a comparison with each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arithmetic import combination
from tosa_convert.frontends.jax.arrays import (
    Array,
    NotLowered,
    carrier,
    constant,
    is_small,
    neutral,
)
from tosa_convert.frontends.jax.indexing import (
    Indexed,
    as_rows,
    as_table,
    from_rows,
    from_table,
    indexed,
    known_starts,
    partial_and_whole,
    rows_at,
    slice_positions,
)
from tosa_convert.frontends.jax.reductions import by_halves, extreme, summed
from tosa_convert.frontends.jax.scope import Scope, Step

#: Most elements of a comparison of all rows with all indices.
_MOST_COMPARED: Final = 1 << 24
_UNIQUE: Final = "pass unique_indices=True if no two indices are equal"


def write_rows(s: Scope, table: Array, index: Array, rows: Array) -> Array:
    """Write rows [W, C] into a table [K, C] at W different positions."""
    count, columns = table.shape
    values = [
        layout.reshape(s, table, (1, count, columns)),
        layout.reshape(s, index, (1, index.size)),
        layout.reshape(s, rows, (1, index.size, columns)),
    ]
    made = s.apply("scatter", values, table.dtype)
    return layout.reshape(s, made, (count, columns))


def dynamic_update_slice(step: Step) -> Array:
    s, (a, update, *starts) = step.scope, step.inputs
    sizes = update.shape
    first = known_starts(starts, sizes, a.shape)
    if first is not None:
        return _replaced(s, a, update, first)
    partial, whole = partial_and_whole(sizes, a.shape)
    table = as_table(s, as_rows(s, a), partial, whole)
    index = slice_positions(s, starts, sizes, a.shape)
    made = write_rows(s, table, index, as_table(s, as_rows(s, update), partial, whole))
    return from_rows(s, from_table(s, made, a.shape, (*partial, *whole)), a.dtype)


def _replaced(s: Scope, a: Array, update: Array, first: Sequence[int]) -> Array:
    """Replace a part of an array at a known place: join what is around it, and the new part."""
    made, last = update, [n + size for n, size in zip(first, update.shape, strict=True)]
    for axis in reversed(range(a.rank)):
        parts = [made]
        # Dimensions after `axis` are whole by now.
        zeros, after = [0] * (a.rank - axis - 1), a.shape[axis + 1 :]
        if first[axis] > 0:
            starts, stops = [*first[:axis], 0, *zeros], [*last[:axis], first[axis], *after]
            parts.insert(0, layout.cut(s, a, starts, stops))
        if last[axis] < a.shape[axis]:
            starts, stops = [*first[:axis], last[axis], *zeros], [*last[:axis], *a.shape[axis:]]
            parts.append(layout.cut(s, a, starts, stops))
        held = [s.viewed(part, carrier(part.dtype)) for part in parts]
        made = s.viewed(layout.concatenate(s, held, axis), a.dtype)
    return made


# -- scatter -------------------------------------------------------------------------------------


def scatter(step: Step, word: str) -> Array:
    """Set elements ("set"), or combine with them: "add", "sub", "mul", "min", "max"."""
    s, (a, indices, updates), params = step.scope, step.inputs, step.params
    numbers = params["dimension_numbers"]
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
    index = layout.reshape(s, found.index, (found.index.size,))
    if "CLIP" not in str(params["mode"]).upper():
        # Windows that are not inside are not written: their rows are after the table.
        index = _outside_is_dropped(s, found, index, table.shape[0])
    is_unique = params["unique_indices"] or index.size == 1
    return from_table(s, _written(s, table, index, rows, word, is_unique), a.shape, order)


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
    moved = layout.transpose(s, updates, order)
    return layout.reshape(s, moved, (found.index.size, columns))


def _outside_is_dropped(s: Scope, found: Indexed, index: Array, tall: int) -> Array:
    """Replace indices of windows outside the array by different ones after the table."""
    valid = found.valid
    shape = (*valid.shape, *(1,) * (found.index.rank - valid.rank))
    spread = layout.reshape(s, valid, shape)
    spread = layout.broadcast(s, spread, found.index.shape, range(found.index.rank))
    flat = layout.reshape(s, spread, index.shape)
    after = constant(np.arange(tall, tall + index.size, dtype=np.int32))
    if flat.data is not None and flat.data.all():
        return index
    return s.select(flat, index, after)


def _written(
    s: Scope, table: Array, index: Array, rows: Array, word: str, is_unique: bool
) -> Array:
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
    if tall * index.size * (1 if word == "set" else columns) > _MOST_COMPARED:
        reason = f"{index.size} indices into {tall} rows that may be equal are too many to compare"
        raise NotLowered(reason, _UNIQUE)
    return (
        _latest(s, table, index, rows) if word == "set" else _by_rows(s, table, index, rows, word)
    )


def _unique(s: Scope, table: Array, index: Array, rows: Array, word: str) -> Array:
    """Scatter to indices that all differ: read the rows, combine them and write them."""
    tall, columns = table.shape
    extra = 0 if index.data is not None else index.size
    longer = layout.pad(s, as_rows(s, table), (0, 0), (extra, 0), 0)
    if word != "set":
        old = from_rows(s, rows_at(s, longer, index), table.dtype)
        rows = combination(s, word)(old, rows)
    made = write_rows(s, longer, index, as_rows(s, rows))
    return from_rows(s, layout.cut(s, made, (0, 0), (tall, columns)), table.dtype)


def _matches(s: Scope, tall: int, index: Array) -> Array:
    """Return which index is which row, [K, W]."""
    every = constant(np.arange(tall, dtype=np.int32).reshape(tall, 1))
    return s.equal(every, layout.reshape(s, index, (1, index.size)))


def _latest(s: Scope, table: Array, index: Array, rows: Array) -> Array:
    """Replace each row of the table by the last one that is written to it."""
    tall = table.shape[0]
    number = constant(np.arange(index.size, dtype=np.int32).reshape(1, -1))
    last = s.select(_matches(s, tall, index), number, -1)
    last = extreme(s, last, (1,), "max")
    found = rows_at(s, as_rows(s, rows), s.maximum(last, 0))
    is_written = layout.reshape(s, s.greater_equal(last, 0), (tall, 1))
    return from_rows(s, s.select(is_written, found, as_rows(s, table)), table.dtype)


def _by_rows(s: Scope, table: Array, index: Array, rows: Array, word: str) -> Array:
    """Combine each row of the table with all that is written to it."""
    tall, columns = table.shape
    kind = table.dtype
    wide = s.widened(rows) if is_small(kind) else rows
    matches = layout.reshape(s, _matches(s, tall, index), (tall, index.size, 1))
    spread = layout.reshape(s, wide, (1, index.size, columns))
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
