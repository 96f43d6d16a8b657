"""Operators that move elements without computing any: shapes, slices, joins, padding, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.indexing import (
    dynamic_slice,
    dynamic_update_slice,
    from_front,
    replaced,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.frontends.torch.rules.indexing import index_select
from tosa_convert.frontends.torch.rules.node import Node, Rule


def expand(n: Node, a: Array, *_: Any, **__: Any) -> Array:
    return movement.broadcast_to(n.scope, a, n.shape)


def permute(n: Node, a: Array, dims: Sequence[int]) -> Array:
    order = [axis % a.rank for axis in dims]
    return a if order == list(range(a.rank)) else movement.transpose(n.scope, a, order)


def swapped(n: Node, a: Array, first: int, second: int) -> Array:
    if a.rank == 0:
        return a
    order = list(range(a.rank))
    x, y = first % a.rank, second % a.rank
    order[x], order[y] = y, x
    return permute(n, a, order)


def sliced(
    n: Node, a: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    axis = dim % a.rank
    if isinstance(start, Array) or isinstance(end, Array):
        return dynamic_slice(n.scope, a, _starts(n, a, axis, start, step), n.shape)
    first, last, _ = slice(start, end, step).indices(a.shape[axis])
    if (first, last, step) == (0, a.shape[axis], 1):
        return a
    return movement.part(n.scope, a, axis, first, max(first, last), step)


def _starts(n: Node, a: Array, axis: int, start: Any, step: int = 1) -> list[Array]:
    """Return where a part begins that a computed number places along one axis."""
    if step != 1:
        raise NotLowered("it takes steps from a computed place", "take neighbours")
    place = start if isinstance(start, Array) else constant(np.int32(start or 0))
    first = from_front(n.scope, place, a.shape[axis])
    return [first if k == axis else constant(np.int32(0)) for k in range(a.rank)]


def select(n: Node, a: Array, dim: int, index: Any) -> Array:
    axis = dim % a.rank
    if isinstance(index, Array):
        at = from_front(n.scope, movement.reshape(n.scope, index, (1,)), a.shape[axis])
        return movement.reshape(n.scope, index_select(n, a, axis, at), n.shape)
    return movement.row(n.scope, a, index % a.shape[axis], axis)


def _split(n: Node, a: Array, *_: Any) -> list[Array]:
    """Split into the parts whose shapes torch found."""
    axes = [k for k in range(a.rank) if a.shape[k] != n.shape[k]] or [0]
    return movement.split(n.scope, a, [shape[axes[0]] for shape in n.shapes], axes[0])


def joined(n: Node, arrays: Sequence[Array], dim: int = 0) -> Array:
    """Join arrays along an axis, in the type of the result; empty ones add nothing."""
    full = [n.convert(one, n.dtype) for one in arrays if one.size]
    if not full:
        return Array(n.dtype, n.shape, np.zeros(n.shape, n.dtype))
    held = [n.scope.viewed(one, carrier(n.dtype)) for one in full]
    made = movement.concatenate(n.scope, held, dim % full[0].rank)
    return n.scope.viewed(made, n.dtype)


def _stack(n: Node, arrays: Sequence[Array], dim: int = 0) -> Array:
    axis = dim % n.rank
    shapes = [(*one.shape[:axis], 1, *one.shape[axis:]) for one in arrays]
    rows = [movement.reshape(n.scope, one, to) for one, to in zip(arrays, shapes, strict=True)]
    return joined(n, rows, axis)


def _block_diagonal(n: Node, arrays: Sequence[Array]) -> Array:
    shapes = [(1,) * (2 - one.rank) + one.shape for one in arrays]
    rows, left = [], 0
    for one, shape in zip(arrays, shapes, strict=True):
        matrix = movement.reshape(n.scope, one, shape)
        right = n.shape[1] - left - shape[1]
        rows.append(movement.pad(n.scope, matrix, (0, left), (0, right), 0))
        left += shape[1]
    return joined(n, rows)


def constant_pad(n: Node, a: Array, pad: Sequence[int], value: Any = 0) -> Array:
    """Add elements at both ends of the last axes, or take them away where a number is negative."""
    rest = [0] * (a.rank - len(pad) // 2)
    low, high = [*rest, *pad[-2::-2]], [*rest, *pad[-1::-2]]
    held = n.scope.viewed(a, carrier(a.dtype))
    fill = constant(np.asarray(value).astype(a.dtype).view(held.dtype).reshape(()))
    return n.scope.viewed(movement.pad(n.scope, held, low, high, fill), a.dtype)


def _slice_scatter(
    n: Node,
    a: Array,
    source: Array,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Array:
    axis = dim % a.rank
    if isinstance(start, Array) or isinstance(end, Array):
        made = n.convert(source, a.dtype)
        return dynamic_update_slice(n.scope, a, made, _starts(n, a, axis, start, step))
    size = a.shape[axis]
    first, last, _ = slice(start, end, step).indices(size)
    if first >= last:
        return a
    if step != 1:
        return _put_by_steps(n, a, source, axis, range(first, last, step))
    starts = [first if k == axis else 0 for k in range(a.rank)]
    return replaced(n.scope, a, n.convert(source, a.dtype), starts)


def _put_by_steps(n: Node, a: Array, source: Array, axis: int, places: range) -> Array:
    """Put single elements along an axis between those that stay."""
    s, parts, last = n.scope, [], 0
    for number, place in enumerate(places):
        if place > last:
            parts.append(movement.part(s, a, axis, last, place))
        parts.append(movement.part(s, source, axis, number, number + 1))
        last = place + 1
    if last < a.shape[axis]:
        parts.append(movement.part(s, a, axis, last, a.shape[axis]))
    held = [s.viewed(n.convert(one, a.dtype), carrier(a.dtype)) for one in parts]
    return s.viewed(movement.concatenate(s, held, axis), a.dtype)


def _select_scatter(n: Node, a: Array, source: Array, dim: int, index: Any) -> Array:
    axis = dim % a.rank
    first: Any = index if isinstance(index, Array) else index % a.shape[axis]
    shape = [1 if k == axis else size for k, size in enumerate(a.shape)]
    end = None if isinstance(index, Array) else first + 1
    return _slice_scatter(n, a, movement.reshape(n.scope, source, shape), axis, first, end)


def _diagonal(n: Node, a: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Return a diagonal as the last axis: every so many elements of the flattened axes."""
    s, first, second = n.scope, dim1 % a.rank, dim2 % a.rank
    others = [k for k in range(a.rank) if k not in (first, second)]
    rows, columns = a.shape[first], a.shape[second]
    moved = permute(n, a, [*others, first, second])
    flat = movement.reshape(s, moved, (*moved.shape[:-2], rows * columns))
    start = offset if offset >= 0 else -offset * columns
    stop = start + (n.shape[-1] - 1) * (columns + 1) + 1
    return movement.part(s, flat, flat.rank - 1, start, stop, columns + 1)


def _diagonal_scatter(
    n: Node, a: Array, source: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    """Select the elements of a diagonal, which are spread along its rows or columns."""
    s, first, second = n.scope, dim1 % a.rank, dim2 % a.rank
    axis, other = (first, second) if offset >= 0 else (second, first)
    axes = [*(k for k in range(a.rank) if k not in (first, second)), axis, other]
    order = [axes.index(k) for k in range(a.rank)]
    line = n.convert(source, a.dtype)
    missing = a.shape[axis] - line.shape[-1]
    line = movement.pad(s, line, [0] * line.rank, [0] * (line.rank - 1) + [missing], 0)
    spread = permute(n, movement.reshape(s, line, (*line.shape, 1)), order)
    is_there = np.eye(a.shape[first], a.shape[second], offset, dtype=np.bool_)
    sizes = [a.shape[k] if k in (first, second) else 1 for k in range(a.rank)]
    mask = constant((is_there if first < second else is_there.T).reshape(sizes))
    held = [s.viewed(one, carrier(a.dtype)) for one in (spread, a)]
    return s.viewed(s.select(mask, *held), a.dtype)


# -- constants -----------------------------------------------------------------------------------


def _filled(n: Node, number: Any) -> Array:
    if isinstance(number, Array):
        return expand(n, n.convert(number, n.dtype))
    return Array(n.dtype, n.shape, np.full((1,) * n.rank, number).astype(n.dtype))


#: Operators whose operands are not computed but moved: torch is not asked to copy constants.
RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(
        (
            *("clone", "alias", "detach", "detach_", "lift_fresh_copy", "contiguous", "lift"),
            *("real", "conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj"),
            *("resolve_neg", "prims.view_of"),
        ),
        lambda n, a, *_, **__: n.convert(a, n.dtype),
    ),
    **dict.fromkeys(
        (
            *("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten"),
            *("prims.squeeze", "prims.collapse", "prims.split_dim", "_reshape_alias"),
        ),
        lambda n, a, *_: movement.reshape(n.scope, a, n.shape),
    ),
    "expand": expand,
    "broadcast_to": expand,
    "permute": permute,
    "transpose": swapped,
    "t": lambda n, a: swapped(n, a, 0, 1) if a.rank == 2 else a,
    "slice": sliced,
    "narrow": lambda n, a, dim, start, length: sliced(n, a, dim, start, start + length),
    "select": select,
    "split": _split,
    "split_with_sizes": lambda n, a, sizes, dim=0: movement.split(n.scope, a, sizes, dim % a.rank),
    "unbind": lambda n, a, dim=0: movement.unstack(n.scope, a, dim % a.rank),
    "cat": joined,
    "stack": _stack,
    "block_diag": _block_diagonal,
    "repeat": lambda n, a, repeats: movement.tile(n.scope, a, repeats),
    "flip": lambda n, a, dims: movement.reverse(n.scope, a, [k % a.rank for k in dims if a.rank]),
    "constant_pad_nd": constant_pad,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "diagonal": _diagonal,
    "diagonal_scatter": _diagonal_scatter,
    "copy": lambda n, a, b, *_: expand(n, n.convert(b, n.dtype)),
    **dict.fromkeys(("full", "full_like", "fill"), lambda n, _, number, **__: _filled(n, number)),
    "scalar_tensor": lambda n, number, **_: _filled(n, number),
    **dict.fromkeys(
        ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "empty_strided"),
        lambda n, *_, **__: _filled(n, 0),
    ),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), lambda n, *_, **__: _filled(n, 1)),
}
