"""Sums, means, extremes and their positions, products, truth values, sorting and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, normalization, reductions, resize, sorting
from tosa_convert.frontends.lowering.arithmetic import ordered
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import BOOL, FLOAT32, INT32, INT64, is_float, is_small
from tosa_convert.frontends.torch.rules.elementwise import combined
from tosa_convert.frontends.torch.rules.node import Node, Rule, axes_of


def summed(s: Scope, a: Array, axes: Sequence[int], keep: bool = True) -> Array:
    """Sum along axes. Integers of 32 bits have to fit."""
    if is_float(a.dtype) or is_small(a.dtype):
        return reductions.summed(s, a, axes, keep)
    return reductions.by_operator(s, a, axes, "reduce_sum", keep)


def _result(n: Node, a: Array) -> Array:
    """Give a result the shape that torch found, with the reduced axes or without, and its type."""
    return n.convert(movement.reshape(n.scope, a, n.shape), n.dtype)


def _wide(n: Node, a: Array) -> Any:
    """Return the type in which elements are summed or multiplied."""
    return FLOAT32 if is_float(a.dtype) else n.dtype


def _over_axes(
    function: Callable[..., Array], kind: Callable[[Node, Array], Any] = lambda _, a: a.dtype
) -> Rule:
    """Return the rule that reduces axes in an element type."""

    def rule(n: Node, a: Array, dim: Any = None, *_: Any, **__: Any) -> Array:
        axes = axes_of(dim, a.rank)
        return _result(n, function(n.scope, n.convert(a, kind(n, a)), axes, keep=True))

    return rule


def _place(n: Node, a: Array, dim: Any = None, *_: Any, word: str) -> Array:
    return _result(n, place(n, a, dim, word))


def place(n: Node, a: Array, dim: Any, word: str) -> Array:
    """Return the first position of an extreme along an axis, or in all elements, as INT64."""
    s = n.scope
    if dim is None or a.rank == 0:
        a, dim = movement.reshape(s, a, (a.size,)), 0
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
    best = movement.reshape(s, reductions.extreme(s, a, axes, word, keep=True), n.shapes[0])
    if not n.is_used(1):
        return [best, n.unused(1)]
    return [best, movement.reshape(s, place(n, a, dim, word), n.shapes[1])]


def _multiplied(s: Scope, a: Array, axes: Sequence[int], keep: bool) -> Array:
    if is_float(a.dtype):
        return reductions.multiplied(s, a, axes, keep)
    return reductions.by_halves(s, a, axes, partial(combined, s, "mul"), keep)


def _running(n: Node, a: Array, dim: int, *, word: str, **_: Any) -> Array:
    wide = n.convert(a, _wide(n, a))
    if a.rank:
        wide = reductions.cumulative(n.scope, wide, dim % a.rank, False, word)
    return n.convert(wide, n.dtype)


def _running_extreme(n: Node, a: Array, dim: int, *, word: str) -> list[Array]:
    """Find the greatest or least element so far, and where it is: of equal ones the last."""
    s = n.scope
    if a.rank == 0:
        return [a, n.unused(1)]
    axis, fill = dim % a.rank, n.neutral(word, a.dtype)
    index = movement.iota(INT32, a.shape, axis)

    def best(now: Sequence[Array], before: Sequence[Array]) -> Sequence[Array]:
        pair = [ordered(s, one) for one in (before[0], now[0])]
        is_better = s.greater(*(pair if word == "max" else pair[::-1]))
        if is_float(a.dtype):  # After NaN there is nothing else.
            is_number = s.equal(now[0], now[0])
            is_better = s.either(is_better, s.both(s.is_nan(before[0]), is_number))
        return [s.select(is_better, old, new) for old, new in zip(before, now, strict=True)]

    values, places = reductions.all_cumulative(s, [a, index], axis, best, (fill, 0))
    return [values, s.cast(places, INT64)]


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
    n: Node, a: Array, dim: int = -1, count: int | None = None, descending: bool = False, **_: Any
) -> list[Array]:
    if a.rank == 0:
        return [a, Array(INT64, (), np.zeros((), INT64))]
    size = a.shape[dim] if count is None else count
    values, places = sorting.top_k(n.scope, a, dim, size, descending)
    return [values, n.scope.cast(places, INT64)]


def _number_k(n: Node, a: Array, k: int, dim: int = -1, keepdim: bool = False) -> list[Array]:
    """Return the element that would be number k if they were sorted, and its place."""
    if a.rank == 0:
        return [a, n.unused(1)]
    found = _first_sorted(n, a, dim, k, False)
    last = [movement.row(n.scope, one, k - 1, dim % a.rank) for one in found]
    return [movement.reshape(n.scope, one, n.shape) for one in last]


def _median(n: Node, a: Array, dim: int, keepdim: bool = False) -> list[Array]:
    """Return the element in the middle, the smaller of two."""
    if a.rank == 0:
        return _number_k(n, a, 1, dim)
    axis, is_nan = dim % a.rank, is_float(a.dtype)
    value, place = _number_k(n, a, (a.shape[axis] + 1) // 2, axis)
    if is_nan:  # NaN is the median of all that have one, and the first NaN is its place.
        s, nans = n.scope, n.scope.cast(n.scope.is_nan(a), FLOAT32)
        first = reductions.position(s, nans, (axis,), INT64, "max")
        has_one = s.greater(reductions.extreme(s, nans, (axis,), "max"), 0)
        shaped = [movement.reshape(s, one, n.shape) for one in (has_one, first)]
        value = s.select(shaped[0], np.nan, value)
        place = s.select(shaped[0], shaped[1], place)
    return [value, place]


def _median_of_all(n: Node, a: Array) -> Array:
    flat = movement.reshape(n.scope, a, (a.size,))
    values, _ = _first_sorted(n, flat, 0, (a.size + 1) // 2, False)
    s, made = n.scope, movement.row(n.scope, values, values.size - 1)
    if not is_float(a.dtype):
        return made
    nans = reductions.extreme(s, s.cast(s.is_nan(flat), FLOAT32), (0,), "max")
    return s.select(s.greater(nans, 0), np.nan, made)


def _variance_and_mean(
    n: Node, a: Array, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> list[Array]:
    by, axes = 1 if correction is None else correction, axes_of(dim, a.rank)
    mean, variance = normalization.mean_and_variance(n.scope, a, axes, by, keepdim)
    return [variance, mean]


def _histogram(n: Node, a: Array, bins: int = 100, low: float = 0, high: float = 0) -> Array:
    """Compare the bin of each element with every bin."""
    if low == high:
        raise NotLowered("its bounds are those of the data", "give it bounds")
    s, x = n.scope, n.convert(a, FLOAT32)
    x = movement.reshape(s, x, (1, a.size))
    is_inside = s.both(s.greater_equal(x, low), s.greater_equal(high, x))
    place = s.elementwise("floor", s.mul(s.sub(x, low), bins / (high - low)))
    place = s.minimum(place, bins - 1)
    hit = s.equal(place, constant(np.arange(bins, dtype=np.float32).reshape(bins, 1)))
    counts = reductions.summed(s, converted(s, s.both(hit, is_inside), FLOAT32), (1,))
    return n.convert(counts, n.dtype)


# -- distances -----------------------------------------------------------------------------------


def _distances(n: Node, a: Array, b: Array, p: float, *_: Any) -> Array:
    """Return the distance of every row to every row of another matrix."""
    s = n.scope
    x = movement.reshape(s, a, (*a.shape[:-1], 1, a.shape[-1]))
    y = movement.reshape(s, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return normalization.lp_norm(s, s.sub(*n.arrays(x, y)), p, [-1])


def _distances_of_pairs(n: Node, a: Array, p: float = 2) -> Array:
    """Return the distance of every row to each row after it."""
    pairs = np.triu_indices(a.shape[0], 1)
    x, y = (resize.selected(n.scope, a, {0: index}) for index in pairs)
    return normalization.lp_norm(n.scope, n.scope.sub(x, y), p, [-1])


RULES: Final[dict[str, Rule]] = {
    "sum": _over_axes(summed, _wide),
    "mean": _over_axes(normalization.mean, lambda *_: FLOAT32),
    **dict.fromkeys(("amax", "max"), _over_axes(partial(reductions.extreme, word="max"))),
    **dict.fromkeys(("amin", "min"), _over_axes(partial(reductions.extreme, word="min"))),
    "max.dim": partial(_extreme_and_place, word="max"),
    "min.dim": partial(_extreme_and_place, word="min"),
    "argmax": partial(_place, word="max"),
    "argmin": partial(_place, word="min"),
    **{
        name: _over_axes(partial(reductions.by_operator, name=f"reduce_{name}"), lambda *_: BOOL)
        for name in ("any", "all")
    },
    **dict.fromkeys(("prod", "prims.prod"), _over_axes(_multiplied, _wide)),
    "var.correction": lambda n, *given, **named: _variance_and_mean(n, *given, **named)[0],
    "var_mean.correction": _variance_and_mean,
    "cumsum": partial(_running, word="add"),
    "cumprod": partial(_running, word="mul"),
    "cummax": partial(_running_extreme, word="max"),
    "cummin": partial(_running_extreme, word="min"),
    "logcumsumexp": partial(_running, word="logsumexp"),
    "sort": lambda n, a, dim=-1, descending=False: _first_sorted(n, a, dim, None, descending),
    "sort.stable": _first_sorted,
    "topk": _top,
    "kthvalue": _number_k,
    "median": _median_of_all,
    "median.dim": _median,
    "histc": _histogram,
    "_cdist_forward": _distances,
    "_pdist_forward": _distances_of_pairs,
}
