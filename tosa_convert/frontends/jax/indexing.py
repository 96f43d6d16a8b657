"""Reading by computed indices: GATHER with the positions of rows.

The dimensions that are indexed, or of which a part is taken, become the rows of a table; those that are
taken whole become its columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arithmetic import ordered
from tosa_convert.frontends.jax.arrays import (
    BOOL,
    INT32,
    Array,
    carrier,
    constant,
    is_float,
    is_unsigned,
)
from tosa_convert.frontends.jax.conversion import converted
from tosa_convert.frontends.jax.scope import Scope, Step

#: GATHER and SCATTER move these by INT32 indices in TOSA 1.0.
_INT8: Final = np.dtype(np.int8)


def as_table(s: Scope, a: Array, rows: Sequence[int], columns: Sequence[int]) -> Array:
    """Make a table of an array: dimensions that are its rows, and dimensions that are its columns."""
    moved = layout.transpose(s, a, (*rows, *columns))
    sizes = [math.prod(a.shape[k] for k in part) for part in (rows, columns)]
    return layout.reshape(s, moved, sizes)


def from_table(s: Scope, table: Array, shape: Sequence[int], order: Sequence[int]) -> Array:
    """Undo `as_table` for an array of a shape. order: the dimensions of rows and columns."""
    made = layout.reshape(s, table, [shape[k] for k in order])
    return layout.transpose(s, made, np.argsort(order).tolist())


def as_rows(s: Scope, a: Array) -> Array:
    """Convert an array to a type that GATHER and SCATTER move: truth values to INT8."""
    return s.cast(a, _INT8) if a.dtype == BOOL else s.viewed(a, carrier(a.dtype))


def from_rows(s: Scope, a: Array, dtype: Any) -> Array:
    """Convert what `as_rows` made back to its own type."""
    return s.cast(a, BOOL) if dtype == BOOL else s.viewed(a, dtype)


def index32(s: Scope, a: Array) -> Array:
    """Convert indices to INT32. Unsigned ones beyond its range are beyond every array, too."""
    if a.dtype == np.uint32:
        largest = constant(np.int32(2**31 - 1))
        bits = s.viewed(a, INT32)
        return s.select(s.greater(0, bits), largest, bits)
    return converted(s, ordered(s, a), INT32)


def clamped(s: Scope, a: Array, highest: Any) -> Array:
    """Clamp indices to 0 up to `highest`, a number or an array."""
    return s.minimum(s.maximum(a, 0), highest)


def positions(s: Scope, parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Positions in a table of dimensions `sizes` from the index along each, of one rank."""
    made: Array | None = None
    for index, (part, _) in enumerate(zip(parts, sizes, strict=True)):
        scaled = s.mul(part, math.prod(sizes[index + 1 :])) if index + 1 < len(sizes) else part
        made = scaled if made is None else s.add(made, scaled)
    return constant(np.int32(0)) if made is None else made


def offsets(size: int, rank: int, axis: int) -> Array:
    """0, 1, 2, ... along one axis of `rank`."""
    shape = [1] * rank
    shape[axis] = size
    return constant(np.arange(size, dtype=np.int32).reshape(shape))


def rows_at(s: Scope, table: Array, index: Array) -> Array:
    """Rows [W, C] of a table [K, C]."""
    rows, columns = table.shape
    count = index.size
    flat = layout.reshape(s, index, (1, count))
    whole = s.array(s.whole(layout.reshape(s, table, (1, rows, columns))), table.dtype)
    made = s.apply("gather", [whole, flat], table.dtype)
    return layout.reshape(s, made, (count, columns))


# -- dynamic_slice -------------------------------------------------------------------------------


def dynamic_slice(step: Step) -> Array:
    s, (a, *starts) = step.scope, step.inputs
    sizes = tuple(int(n) for n in step.params["slice_sizes"])
    first = known_starts(starts, sizes, a.shape)
    if first is not None:
        return layout.cut(s, a, first, np.add(first, sizes).tolist())
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
    """Return the positions of windows.

    Args:
        s: The block.
        indices: Where windows start; its last dimension is the vector of an index.
        shape: The shape of the array that is indexed.
        window: The size of a window along each of its dimensions.
        index_map: The dimension of each element of the vector.
        batching: Dimensions of the array, and of the indices, that are batches of both.
    """
    of_array, of_indices = batching
    partial = tuple(
        k for k in range(len(shape)) if k in index_map or k in of_array or window[k] != shape[k]
    )
    batch = indices.shape[:-1]
    # The start of each window along a dimension, and whether it is inside.
    starts: dict[int, Array] = {}
    valid = constant(np.ones((1,) * len(batch), np.bool_))
    for at, axis in enumerate(index_map):
        start = layout.part(s, indices, indices.rank - 1, at, at + 1)
        start = layout.reshape(s, start, batch)
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
            start = layout.reshape(s, start, (*start.shape, *(1,) * len(partial)))
            part = s.add(start, part)
        parts.append(part)
    made = positions(s, parts, [shape[axis] for axis in partial])
    full = (*batch, *(window[axis] for axis in partial))
    made = layout.broadcast(s, made, full, range(made.rank))
    valid = layout.broadcast(s, valid, batch, range(valid.rank))
    return Indexed(made, valid, partial, tuple(k for k in range(len(shape)) if k not in partial))


def gather(step: Step) -> Array:
    s, (a, indices), params = step.scope, step.inputs, step.params
    numbers, window = params["dimension_numbers"], tuple(params["slice_sizes"])
    batching = (numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    found = indexed(s, indices, a.shape, window, numbers.start_index_map, batching)
    made = rows_at(s, as_table(s, as_rows(s, a), found.partial, found.whole), found.index)
    # Dimensions: the batch, the window along the rows, the columns.
    batch = indices.shape[:-1]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    taken = [k for k in (*found.partial, *found.whole) if k not in gone]
    made = layout.reshape(s, made, (*batch, *(window[k] for k in taken)))
    if "FILL" in str(params["mode"]).upper():
        valid = layout.reshape(s, found.valid, (*batch, *(1,) * len(taken)))
        made = s.select(valid, made, _filling(params["fill_value"], a.dtype))
    made = from_rows(s, made, a.dtype)
    # The batch is spread around the dimensions of the window, in their order.
    order, left = [0] * len(step.shape), iter(range(len(batch)))
    for position in range(len(step.shape)):
        if position in numbers.offset_dims:
            axis = [k for k in range(a.rank) if k not in gone][numbers.offset_dims.index(position)]
            order[position] = len(batch) + taken.index(axis)
        else:
            order[position] = next(left)
    return layout.transpose(s, made, order)


def _filling(value: Any, dtype: Any) -> Any:
    """Return what rows out of range are, in the type that GATHER moves."""
    if value is None:
        if is_float(dtype):
            return np.nan
        if dtype == BOOL:
            return 1
        value = np.iinfo(dtype).max if is_unsigned(dtype) else np.iinfo(dtype).min
    number = np.asarray(value).astype(dtype)
    return number.astype(_INT8) if dtype == BOOL else number.view(carrier(dtype))
