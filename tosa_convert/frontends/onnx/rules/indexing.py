"""Operators that read and write at indices, sort, and find places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, reductions, sorting
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.indexing import (
    as_rows,
    combined_rows,
    from_front,
    from_rows,
    index32,
    offsets,
    positions,
    rows_at,
    write_rows,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, INT32, INT64, carrier, is_float
from tosa_convert.frontends.onnx.node import Node, Rule, place

_WORDS: Final = ("add", "mul", "max", "min")


def taken(s: Scope, a: Array, axis: int, places: Any) -> Array:
    """Return elements at known places along an axis, with few operators."""
    numbers = [int(n) for n in np.asarray(places).reshape(-1)]
    if not numbers:
        sizes = [*a.shape[:axis], 0, *a.shape[axis + 1 :]]
        return constant(np.zeros(sizes, a.dtype))
    if a.data is not None:
        return constant(whole_data(a).take(numbers, axis))
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if step != 0 and numbers == list(range(numbers[0], numbers[0] + step * len(numbers), step)):
        if numbers == list(range(a.shape[axis])):
            return a
        if step > 0:
            return movement.part(s, a, axis, numbers[0], numbers[-1] + 1, step)
        line = movement.part(s, a, axis, numbers[-1], numbers[0] + 1)
        line = movement.reverse(s, line, (axis,))
        return movement.part(s, line, axis, 0, line.shape[axis], -step) if step < -1 else line
    return gathered(s, a, constant(np.array(numbers, np.int32)), axis)


def gathered(s: Scope, a: Array, index: Array, axis: int) -> Array:
    """Return elements at indices, which are INT32 and inside, along an axis."""
    before, size, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1 :]
    count, columns = math.prod(before), math.prod(after)
    rows = movement.reshape(s, as_rows(s, a), (count, size, columns))
    flat = movement.reshape(s, index, (1, index.size))
    if count > 1:
        flat = movement.broadcast(s, flat, (count, index.size), (0, 1))
    made = s.apply("gather", [rows, flat], rows.dtype)
    return from_rows(s, movement.reshape(s, made, (*before, *index.shape, *after)), a.dtype)


def _gather(n: Node) -> Array:
    s, (a, index) = n.scope, n.arrays
    axis = n.axis(a.rank)
    size = a.shape[axis]
    if index.data is not None:
        known = whole_data(index).astype(np.int64)
        known = np.where(known < 0, known + size, known)
        if known.size and (known.min() < 0 or known.max() >= size):
            raise NotLowered("an index is outside of the array")
        if a.data is not None:
            data = whole_data(a)
            # A view of weights where it can be one.
            made = data[(slice(None),) * axis + (int(known),)] if known.ndim == 0 else None
            return constant(data.take(known, axis) if made is None else np.asarray(made))
        made_of = taken(s, a, axis, known)
        return movement.reshape(s, made_of, (*a.shape[:axis], *index.shape, *a.shape[axis + 1 :]))
    return gathered(s, a, from_front(s, index, size), axis)


def _flat_places(s: Scope, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return the places in a flat array of a shape, of indices along one axis, of its rank."""
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    made = from_front(s, index, shape[axis])
    made = s.mul(made, strides[axis]) if strides[axis] != 1 else made
    others = np.zeros((1,) * len(shape), np.int32)
    for k, stride in enumerate(strides):
        if k != axis:
            line = np.arange(index.shape[k], dtype=np.int32) * stride
            others = others + line.reshape([-1 if at == k else 1 for at in range(len(shape))])
    return s.add(made, constant(others.astype(np.int32))) if others.any() else made


def _gather_elements(n: Node) -> Array:
    s, (a, index) = n.scope, n.arrays
    axis = n.axis(a.rank)
    if a.data is not None and index.data is not None:
        known = whole_data(index).astype(np.int64)
        known = np.where(known < 0, known + a.shape[axis], known)
        ends = [None if k == axis else size for k, size in enumerate(index.shape)]
        kept = whole_data(a)[tuple(slice(0, end) for end in ends)]
        return constant(np.take_along_axis(kept, known, axis))
    same = [k for k in range(a.rank) if k != axis and a.shape[k] != index.shape[k]]
    rows = as_rows(s, a)
    if axis == a.rank - 1 and not same:
        held = movement.reshape(s, rows, (math.prod(a.shape[:-1]), a.shape[-1], 1))
        flat = movement.reshape(
            s, from_front(s, index, a.shape[axis]), (held.shape[0], index.shape[-1])
        )
        made = s.apply("gather", [held, flat], rows.dtype)
    else:
        table = movement.reshape(s, rows, (a.size, 1))
        made = rows_at(s, table, _flat_places(s, index, a.shape, axis))
    return from_rows(s, movement.reshape(s, made, index.shape), a.dtype)


def _nd_places(s: Scope, index: Array, sizes: Sequence[int], batch: int = 0) -> Array:
    """Return the rows [N, W] that tuples of indices name in N tables of dimensions `sizes`."""
    width = index.shape[-1]
    count = math.prod(index.shape[:batch])
    flat = movement.reshape(s, index, (count, index.size // (count * width), width))
    parts = [from_front(s, movement.part(s, flat, 2, k, k + 1), sizes[k]) for k in range(width)]
    return movement.reshape(s, positions(s, parts, sizes[:width]), flat.shape[:2])


def _gather_nd(n: Node) -> Array:
    s, (a, index) = n.scope, n.arrays
    batch, width = int(n.get("batch_dims", 0)), index.shape[-1]
    sizes, rest = a.shape[batch : batch + width], a.shape[batch + width :]
    count = math.prod(a.shape[:batch])
    table = movement.reshape(s, as_rows(s, a), (count, math.prod(sizes), math.prod(rest)))
    places = _nd_places(s, index, sizes, batch)
    whole = s.array(s.whole(table), table.dtype)
    made = s.apply("gather", [whole, places], table.dtype)
    return from_rows(s, movement.reshape(s, made, (*index.shape[:-1], *rest)), a.dtype)


# -- writing -------------------------------------------------------------------------------------


def _word(n: Node) -> str:
    word = n.get("reduction", "none")
    if word == "none":
        return "set"
    if word not in _WORDS:
        raise NotLowered(f"the reduction {word} is not known")
    is_bool = n.array(0).dtype == BOOL
    return {"add": "max", "mul": "min"}.get(word, word) if is_bool else str(word)


def _written(s: Scope, a: Array, index: Array, updates: Array, columns: int, word: str) -> Array:
    """Write rows of so many columns at places of a table, which differ if nothing is combined."""
    table = movement.reshape(s, a, (a.size // columns, columns))
    rows = movement.reshape(s, updates, (index.size, columns))
    flat = movement.reshape(s, index, (index.size,))
    if word == "set" and flat.data is None:
        made = write_rows(s, as_rows(s, table), flat, as_rows(s, rows))
        made = from_rows(s, made, a.dtype)
    else:
        made = combined_rows(s, table, flat, rows, word)
    return movement.reshape(s, made, a.shape)


def _scatter_elements(n: Node) -> Array:
    s, (a, index, updates) = n.scope, n.arrays
    places = _flat_places(s, index, a.shape, n.axis(a.rank))
    return _written(s, a, places, updates, 1, _word(n))


def _scatter_nd(n: Node) -> Array:
    s, (a, index, updates) = n.scope, n.arrays
    width = index.shape[-1]
    sizes, rest = a.shape[:width], a.shape[width:]
    return _written(s, a, _nd_places(s, index, sizes), updates, math.prod(rest), _word(n))


def _tensor_scatter(n: Node) -> Array:
    """Write an update into a cache at a position of each element of the batch."""
    s, (a, update) = n.scope, n.arrays[:2]
    axis = place(int(n.get("axis", -2)), a.rank)
    count, size = update.shape[axis], a.shape[axis]
    starts = n.array(2) if n.has(2) else constant(np.zeros(a.shape[0], np.int64))
    lines = math.prod(a.shape[1:axis])
    columns = math.prod(a.shape[axis + 1 :])
    start = movement.reshape(s, index32(s, starts), (a.shape[0], 1, 1))
    index = s.add(start, offsets(count, 3, 2))
    if n.get("mode", "linear") == "circular":
        index = s.select(s.greater_equal(index, size), s.sub(index, size), index)
    tables = np.arange(a.shape[0] * lines, dtype=np.int32).reshape(a.shape[0], lines, 1) * size
    places = movement.broadcast_to(s, s.add(index, constant(tables)), (a.shape[0], lines, count))
    return _written(s, a, places, update, columns, "set")


# -- places --------------------------------------------------------------------------------------


def _one_hot(n: Node) -> Array:
    s, index = n.scope, n.array(0)
    depth, values = n.number(1), n.array(2)
    axis = int(n.get("axis", -1))
    axis = axis + index.rank + 1 if axis < 0 else axis
    held = converted(s, index, np.float32) if is_float(index.dtype) else index32(s, index)
    held = movement.reshape(s, held, (*index.shape[:axis], 1, *index.shape[axis:]))
    shape = [depth if k == axis else 1 for k in range(held.rank)]
    every = np.arange(depth).reshape(shape)
    # Indices below 0 count from the end.
    hit, below = (s.equal(held, constant(k.astype(held.dtype))) for k in (every, every - depth))
    hit = s.either(hit, below)
    bits = s.viewed(values, carrier(values.dtype))
    off, on = (
        movement.reshape(s, movement.part(s, bits, 0, k, k + 1), (1,) * held.rank) for k in (0, 1)
    )
    return s.viewed(s.select(hit, on, off), values.dtype)


def _extreme_place(word: str) -> Rule:
    def rule(n: Node) -> Array:
        s, a = n.scope, n.array(0)
        axis = n.axis(a.rank)
        last = bool(n.get("select_last_index", 0))
        x = movement.reverse(s, a, (axis,)) if last else a
        found = reductions.position(s, x, (axis,), INT32, word)
        if last:
            found = s.sub(a.shape[axis] - 1, found)
        if n.get("keepdims", 1):
            shape = [1 if k == axis else size for k, size in enumerate(a.shape)]
            found = movement.reshape(s, found, shape)
        found.limits = (0, a.shape[axis] - 1)
        made = converted(s, found, INT64)
        made.limits = found.limits
        return made

    return rule


def _top_k(n: Node) -> list[Array]:
    s, a = n.scope, n.array(0)
    axis = n.axis(a.rank, -1)
    count = int(n.get("k")) if n.since < 10 else n.number(1)
    values, index = sorting.top_k(s, a, axis, count, bool(n.get("largest", 1)))
    return [values, converted(s, index, INT64)]


def _compress(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    known = np.flatnonzero(n.known(1))
    if n.get("axis") is None:
        return taken(s, movement.reshape(s, a, (a.size,)), 0, known)
    return taken(s, a, n.axis(a.rank), known)


def _hardmax(n: Node) -> Array:
    """Return 1 at the first greatest element, else 0."""
    s, a = n.scope, n.array(0)
    axis, x = n.axis(a.rank, -1 if n.since >= 13 else 1), a
    if n.since < 13:
        x = movement.reshape(s, a, (math.prod(a.shape[:axis]), math.prod(a.shape[axis:])))
        axis = 1
    found = reductions.position(s, x, (axis,), INT32, "max")
    found = movement.reshape(s, found, [1 if k == axis else size for k, size in enumerate(x.shape)])
    hit = s.equal(found, offsets(x.shape[axis], x.rank, axis))
    return movement.reshape(s, converted(s, hit, a.dtype), a.shape)


RULES: Final[dict[str, Rule]] = {
    "ArgMax": _extreme_place("max"),
    "ArgMin": _extreme_place("min"),
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Hardmax": _hardmax,
    "OneHot": _one_hot,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
}
OWN: Final = frozenset(("Compress", "Gather", "GatherElements", "OneHot"))
