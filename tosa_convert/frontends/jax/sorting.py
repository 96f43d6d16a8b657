"""Sorting by comparing all pairs: the position of an element is the number of those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Primitive, jaxpr_as_fun

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arithmetic import ordered, sorted_before
from tosa_convert.frontends.jax.indexing import as_rows, from_rows
from tosa_convert.frontends.jax.reductions import summed
from tosa_convert.frontends.jax.scope import INT32, Array, NotLowered, Scope, Step, constant

#: Most pairs that are compared.
_MOST_PAIRS: Final = 1 << 22
#: Sorts by any function, as StableHLO does; no primitive of JAX has one.
_SORT_BY: Final = Primitive("sort_by")
_SORT_BY.multiple_results = True
_SORT_BY.def_abstract_eval(lambda *arrays, **params: list(arrays))


def sort(step: Step) -> list[Array]:
    """Sort stably by the first `num_keys` operands."""
    s = step.scope
    axis, keys = step.params["dimension"], step.params["num_keys"]
    rows = [_lines(s, item, axis) for item in step.inputs]
    ranks = _ranks(s, rows[:keys], is_descending=False)
    made = [_permuted(s, row, ranks) for row in rows]
    return [_unlined(s, row, item.shape, axis) for row, item in zip(made, step.inputs, strict=True)]


def sort_by(arrays: Sequence[Any], axis: int, comes_before: Callable[..., Any]) -> Sequence[Any]:
    """Have JAX trace a stable sort of arrays by a function."""
    numbers = [jax.ShapeDtypeStruct((), array.dtype) for array in arrays for _ in range(2)]
    compare = jax.make_jaxpr(comes_before)(*numbers)
    found: Sequence[Any] = _SORT_BY.bind(*arrays, axis=axis, compare=compare)
    return found


def sort_by_function(step: Step) -> list[Array]:
    """Sort stably by a function of pairs."""
    s, axis = step.scope, step.params["axis"]
    rows = [_lines(s, item, axis) for item in step.inputs]
    compare = step.params["compare"]

    def comes_before(one: Sequence[Array], other: Sequence[Array]) -> Array:
        held = [item for pair in zip(one, other, strict=True) for item in pair]
        shape = np.broadcast_shapes(*(item.shape for item in held))
        wide = [layout.broadcast(s, item, shape, range(len(shape))) for item in held]
        kinds = [jax.ShapeDtypeStruct(shape, item.dtype) for item in wide]
        mapped = jax.make_jaxpr(_mapped(compare, len(shape)))(*kinds)
        (made,) = step.run(s, mapped, wide)
        return made

    lines, size = rows[0].shape
    _refuse_many(lines, size)
    mine = [layout.reshape(s, row, (lines, size, 1)) for row in rows]
    other = [layout.reshape(s, row, (lines, 1, size)) for row in rows]
    earlier = constant(np.tri(size, size, -1, dtype=np.bool_).reshape(1, size, size))
    less, more = comes_before(other, mine), comes_before(mine, other)
    before = s.either(less, s.both(s.negation(more), earlier))
    ranks = summed(s, s.cast(before, INT32), (2,))
    made = [_permuted(s, row, ranks) for row in rows]
    return [_unlined(s, row, item.shape, axis) for row, item in zip(made, step.inputs, strict=True)]


def _mapped(closed: Any, rank: int) -> Callable[..., Any]:
    """Return a function of numbers as one of arrays of a rank."""

    def function(*numbers: Any) -> Any:
        return jaxpr_as_fun(closed)(*numbers)[0]

    mapped: Callable[..., Any] = function
    for _ in range(rank):
        mapped = jax.vmap(mapped)
    return mapped


def top_k(step: Step) -> list[Array]:
    """Return the greatest elements, the greatest first, and their positions.

    Equal ones keep their order.
    """
    s, (a,) = step.scope, step.inputs
    axis, count = step.params.get("axis", a.rank - 1), step.params["k"]
    row = _lines(s, a, axis)
    ranks = _ranks(s, [row], is_descending=True)
    size = row.shape[1]
    index = constant(np.arange(size, dtype=np.int32).reshape(1, size))
    index = layout.broadcast(s, index, row.shape, (0, 1))
    shape = tuple(count if k == axis % a.rank else n for k, n in enumerate(a.shape))
    found = []
    for part in (row, index):
        sorted_part = layout.cut(s, _permuted(s, part, ranks), (0, 0), (row.shape[0], count))
        found.append(_unlined(s, sorted_part, shape, axis % a.rank))
    return found


def _lines(s: Scope, a: Array, axis: int) -> Array:
    """Reshape to two dimensions, with the axis as the last."""
    axis %= a.rank
    size = a.shape[axis]
    moved = layout.moved(s, a, axis, a.rank - 1)
    return layout.reshape(s, moved, (a.size // size, size))


def _unlined(s: Scope, a: Array, shape: Sequence[int], axis: int) -> Array:
    """Undo `_lines`."""
    others = [n for k, n in enumerate(shape) if k != axis]
    return layout.moved(s, layout.reshape(s, a, (*others, shape[axis])), len(shape) - 1, axis)


def _ranks(s: Scope, keys: Sequence[Array], is_descending: bool) -> Array:
    """Return the position that each element gets."""
    lines, size = keys[0].shape
    _refuse_many(lines, size)
    earlier = np.tri(size, size, -1, dtype=np.bool_).reshape(1, size, size)
    # Entry [i, j] says whether element j comes before element i.
    before = constant(earlier)
    for key in reversed(keys):
        held = ordered(s, key)
        mine = layout.reshape(s, held, (lines, size, 1))
        other = layout.reshape(s, held, (lines, 1, size))
        if is_descending:
            mine, other = other, mine
        less, more = sorted_before(s, other, mine), sorted_before(s, mine, other)
        before = s.either(less, s.both(s.negation(more), before))
    return summed(s, s.cast(before, INT32), (2,))


def _refuse_many(lines: int, size: int) -> None:
    if lines * size * size > _MOST_PAIRS:
        reason = f"a sort of {lines} times {size} elements compares too many pairs"
        raise NotLowered(reason, "sort outside, or use argmax for the first few")


def _permuted(s: Scope, a: Array, ranks: Array) -> Array:
    """Return elements at their positions in the lines."""
    lines, size = a.shape
    rows = as_rows(s, a)
    held = layout.reshape(s, rows, (lines, size, 1))
    empty = Array(rows.dtype, (lines, size, 1), np.zeros((1, 1, 1), rows.dtype))
    made = s.apply("scatter", [empty, ranks, held], rows.dtype)
    return from_rows(s, layout.reshape(s, made, (lines, size)), a.dtype)
