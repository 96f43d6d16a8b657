"""Sums, means, extremes and their positions, products, truth values, sorting and running sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout, normalization, reductions, sorting
from tosa_convert.frontends.lowering.scope import BOOL, FLOAT32, Array, is_float, is_small
from tosa_convert.frontends.torch.rules.elementwise import combined
from tosa_convert.frontends.torch.rules.node import INT64, Node, Rule, axes_of


def summed(n: Node, a: Array, axes: Sequence[int]) -> Array:
    """Sum along axes, which keep the size 1. Integers of 32 bits have to fit."""
    s, kind = n.scope, a.dtype
    if is_float(kind) or is_small(kind):
        return reductions.summed(s, a, axes, keep=True)
    return reductions.by_operator(s, a, axes, "reduce_sum", keep=True)


def extreme(n: Node, a: Array, axes: Sequence[int], word: str) -> Array:
    """Return the greatest or the least elements along axes, which keep the size 1."""
    return reductions.extreme(n.scope, a, axes, word, keep=True)


def _shaped(n: Node, a: Array) -> Array:
    """Reshape to the shape that torch found: with the reduced axes or without."""
    return layout.reshape(n.scope, a, n.shape)


def _sum(n: Node, a: Array, dim: Any = None, *_: Any, **__: Any) -> Array:
    wide = n.convert(a, FLOAT32) if is_float(a.dtype) else n.convert(a, n.dtype)
    return n.convert(_shaped(n, summed(n, wide, axes_of(dim, a.rank))), n.dtype)


def _mean(n: Node, a: Array, dim: Any = None, *_: Any, **__: Any) -> Array:
    wide = n.convert(a, FLOAT32)
    return n.convert(
        _shaped(n, normalization.mean(n.scope, wide, axes_of(dim, a.rank), keep=True)), n.dtype
    )


def _extreme(n: Node, a: Array, dim: Any = None, *_: Any, word: str) -> Array:
    return _shaped(n, extreme(n, a, axes_of(dim, a.rank), word))


def _place(n: Node, a: Array, dim: Any = None, *_: Any, word: str) -> Array:
    return _shaped(n, place(n, a, dim, word))


def place(n: Node, a: Array, dim: Any, word: str) -> Array:
    """Return the first position of an extreme along an axis, or in all elements, as INT64."""
    s = n.scope
    if dim is None or a.rank == 0:
        a, dim = layout.reshape(s, a, (a.size,)), 0
    axis = dim % a.rank
    if a.shape[axis] == 1:
        shape = tuple(size for k, size in enumerate(a.shape) if k != axis)
        return Array(INT64, shape, np.zeros((1,) * len(shape), INT64))
    made = reductions.position(s, a, (axis,), INT64, word)
    made.limits = 0, a.shape[axis] - 1
    return made


def _extreme_and_place(
    n: Node, a: Array, dim: int, keepdim: bool = False, *, word: str
) -> list[Array]:
    axes = axes_of(dim, a.rank)
    s = n.scope
    best = layout.reshape(s, extreme(n, a, axes, word), n.shapes[0])
    if not n.is_used(1):
        return [best, Array(INT64, n.shapes[1], np.zeros((1,) * len(n.shapes[1]), INT64))]
    return [best, layout.reshape(s, place(n, a, dim, word), n.shapes[1])]


def _truth(n: Node, a: Array, dim: Any = None, *_: Any, name: str) -> Array:
    test = n.convert(a, BOOL)
    return n.convert(
        _shaped(n, reductions.by_operator(n.scope, test, axes_of(dim, a.rank), name, keep=True)),
        n.dtype,
    )


def _product(n: Node, a: Array, dim: Any = None, *_: Any, **__: Any) -> Array:
    s, axes = n.scope, axes_of(dim, a.rank)
    wide = n.convert(a, FLOAT32 if is_float(a.dtype) else n.dtype)
    if is_float(wide.dtype):
        return n.convert(
            _shaped(n, reductions.by_operator(s, wide, axes, "reduce_product", keep=True)), n.dtype
        )
    made = reductions.by_halves(s, wide, axes, lambda x, y: combined(s, "mul", x, y))
    return _shaped(n, made)


def _running_sum(n: Node, a: Array, dim: int, **_: Any) -> Array:
    wide = n.convert(a, FLOAT32 if is_float(a.dtype) else n.dtype)
    if a.rank == 0:
        return n.convert(wide, n.dtype)
    made = reductions.cumulative(n.scope, wide, dim % a.rank, False, "add")
    return n.convert(made, n.dtype)


def _running_logarithm(n: Node, a: Array, dim: int) -> Array:
    if a.rank == 0:
        return a
    wide = n.convert(a, FLOAT32)
    made = reductions.cumulative(n.scope, wide, dim % a.rank, False, "logsumexp")
    return n.convert(made, n.dtype)


def _sorted(n: Node, a: Array, dim: int = -1, descending: bool = False, **_: Any) -> list[Array]:
    return _first_sorted(n, a, dim, None, descending)


def _top(
    n: Node,
    a: Array,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> list[Array]:
    if k == 1 and a.rank:
        word = "max" if largest else "min"
        return _extreme_and_place(n, a, dim, word=word)
    return _first_sorted(n, a, dim, k, largest)


def _first_sorted(
    n: Node, a: Array, dim: int, count: int | None, is_descending: bool
) -> list[Array]:
    s = n.scope
    if a.rank == 0:
        return [a, Array(INT64, (), np.zeros((), INT64))]
    size = a.shape[dim]
    values, places = sorting.top_k(s, a, dim, size if count is None else count, is_descending)
    return [values, s.cast(places, INT64)]


RULES: Final[dict[str, Rule]] = {
    "sum": _sum,
    "mean": _mean,
    "amax": partial(_extreme, word="max"),
    "amin": partial(_extreme, word="min"),
    "max": partial(_extreme, word="max"),
    "min": partial(_extreme, word="min"),
    "max.dim": partial(_extreme_and_place, word="max"),
    "min.dim": partial(_extreme_and_place, word="min"),
    "argmax": partial(_place, word="max"),
    "argmin": partial(_place, word="min"),
    "any": partial(_truth, name="reduce_any"),
    "all": partial(_truth, name="reduce_all"),
    "prod": _product,
    "cumsum": _running_sum,
    "logcumsumexp": _running_logarithm,
    "sort": _sorted,
    "sort.stable": lambda n, a, *, stable=None, dim=-1, descending=False: _sorted(
        n, a, dim, descending
    ),
    "topk": _top,
}
