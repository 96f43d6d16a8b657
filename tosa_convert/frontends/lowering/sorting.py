"""Sorting by comparing all pairs: the position of an element is the number of those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import ordered, sorted_before
from tosa_convert.frontends.lowering.indexing import as_rows, from_rows
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32

#: Most pairs that are compared.
_MOST_PAIRS: Final = 1 << 22


def sort(
    s: Scope, arrays: Sequence[Array], axis: int, keys: int = 1, is_descending: bool = False
) -> list[Array]:
    """Sort arrays of one shape stably along an axis, by the first `keys` of them."""
    rows = [_lines(s, item, axis) for item in arrays]
    ranks = _ranks(s, rows[:keys], is_descending)
    made = [_permuted(s, row, ranks) for row in rows]
    return [_unlined(s, row, item.shape, axis) for row, item in zip(made, arrays, strict=True)]


def sort_by(
    s: Scope,
    arrays: Sequence[Array],
    axis: int,
    comes_before: Callable[[Sequence[Array], Sequence[Array]], Array],
) -> list[Array]:
    """Sort arrays of one shape stably along an axis, by a function of pairs."""
    rows = [_lines(s, item, axis) for item in arrays]
    lines, size = rows[0].shape
    _refuse_many(lines, size)
    mine = [movement.reshape(s, row, (lines, size, 1)) for row in rows]
    other = [movement.reshape(s, row, (lines, 1, size)) for row in rows]
    earlier = constant(np.tri(size, size, -1, dtype=np.bool_).reshape(1, size, size))
    less, more = comes_before(other, mine), comes_before(mine, other)
    before = s.either(less, s.both(s.negation(more), earlier))
    ranks = _counted(s, before)
    made = [_permuted(s, row, ranks) for row in rows]
    return [_unlined(s, row, item.shape, axis) for row, item in zip(made, arrays, strict=True)]


def top_k(
    s: Scope, a: Array, axis: int, count: int, is_descending: bool = True
) -> tuple[Array, Array]:
    """Return the greatest elements, greatest first, and their places; equal ones keep their order."""
    row = _lines(s, a, axis)
    ranks = _ranks(s, [row], is_descending)
    size = row.shape[1]
    index = constant(np.arange(size, dtype=np.int32).reshape(1, size))
    index = movement.broadcast(s, index, row.shape, (0, 1))
    shape = tuple(count if k == axis % a.rank else n for k, n in enumerate(a.shape))
    found = []
    for part in (row, index):
        sorted_part = movement.cut(s, _permuted(s, part, ranks), (0, 0), (row.shape[0], count))
        found.append(_unlined(s, sorted_part, shape, axis % a.rank))
    return found[0], found[1]


def _lines(s: Scope, a: Array, axis: int) -> Array:
    """Reshape to two dimensions, with the axis as the last."""
    axis %= a.rank
    size = a.shape[axis]
    moved = movement.moved(s, a, axis, a.rank - 1)
    return movement.reshape(s, moved, (a.size // size, size))


def _unlined(s: Scope, a: Array, shape: Sequence[int], axis: int) -> Array:
    """Undo `_lines`."""
    others = [n for k, n in enumerate(shape) if k != axis]
    return movement.moved(s, movement.reshape(s, a, (*others, shape[axis])), len(shape) - 1, axis)


def _ranks(s: Scope, keys: Sequence[Array], is_descending: bool) -> Array:
    """Return the position that each element gets."""
    lines, size = keys[0].shape
    _refuse_many(lines, size)
    earlier = np.tri(size, size, -1, dtype=np.bool_).reshape(1, size, size)
    # Entry [i, j] says whether element j comes before element i.
    before = constant(earlier)
    for key in reversed(keys):
        held = ordered(s, key)
        mine = movement.reshape(s, held, (lines, size, 1))
        other = movement.reshape(s, held, (lines, 1, size))
        if is_descending:
            mine, other = other, mine
        less, more = sorted_before(s, other, mine), sorted_before(s, mine, other)
        before = s.either(less, s.both(s.negation(more), before))
    return _counted(s, before)


def _counted(s: Scope, before: Array) -> Array:
    """Count the elements that come before each."""
    ones = s.cast(before, INT32)
    ones.limits = 0, 1
    return summed(s, ones, (2,))


def _refuse_many(lines: int, size: int) -> None:
    if lines * size * size > _MOST_PAIRS:
        reason = f"a sort of {lines} times {size} elements compares too many pairs"
        raise NotLowered(reason, "sort outside, or use argmax for the first few")


def _permuted(s: Scope, a: Array, ranks: Array) -> Array:
    """Return elements at their positions in the lines."""
    lines, size = a.shape
    rows = as_rows(s, a)
    held = movement.reshape(s, rows, (lines, size, 1))
    empty = Array(rows.dtype, (lines, size, 1), np.zeros((1, 1, 1), rows.dtype))
    made = s.apply("scatter", [empty, ranks, held], rows.dtype)
    return from_rows(s, movement.reshape(s, made, (lines, size)), a.dtype)
