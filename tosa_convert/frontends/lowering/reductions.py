"""Reductions along dimensions, positions of extremes, and cumulative functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import combination, ordered, unordered
from tosa_convert.frontends.lowering.functions import logsumexp2
from tosa_convert.frontends.lowering.limits import limits_of_result
from tosa_convert.frontends.lowering.scope import Array, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import BOOL, INT32, carrier, is_float, is_small, neutral

#: The dimensions of a batch of images.
_MOST_OF_IMAGE: Final = 4
_FOLDED: Final[dict[str, Callable[..., Any]]] = {
    "reduce_all": np.all,
    "reduce_any": np.any,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_product": np.prod,
    "reduce_sum": np.sum,
}


def _merged(a: Array, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the sizes of an array after merging neighbours that are all reduced, or all kept."""
    sizes: list[int] = []
    kinds: list[bool] = []
    for axis, size in enumerate(a.shape):
        if size == 1:
            continue
        if kinds and kinds[-1] is (axis in axes):
            sizes[-1] *= size
        else:
            sizes.append(size)
            kinds.append(axis in axes)
    return sizes, [index for index, reduced in enumerate(kinds) if reduced]


def reduced_shape(a: Array, axes: Sequence[int], keep: bool) -> tuple[int, ...]:
    """Return the shape without the reduced dimensions; keep: with 1 as their sizes."""
    return tuple(
        1 if axis in axes else size for axis, size in enumerate(a.shape) if keep or axis not in axes
    )


def by_operator(s: Scope, a: Array, axes: Sequence[int], name: str, keep: bool = False) -> Array:
    """Reduce by an operator of TOSA, such as "reduce_sum". keep: dimensions stay, of size 1."""
    result = reduced_shape(a, axes, keep)
    if a.data is not None:
        data = whole_data(a).astype(np.float64) if is_float(a.dtype) else whole_data(a)
        with np.errstate(all="ignore"):
            made = np.asarray(_FOLDED[name](data, axis=tuple(axes))).astype(a.dtype)
        return Array(a.dtype, result, made.reshape(result))
    sizes, reduced = _merged(a, axes)
    longer = [axis for axis in axes if a.shape[axis] != 1]
    own = list(a.shape), longer
    # A dimension at a time needs no RESHAPE, which may hide the layout of an image.
    is_image = a.rank <= _MOST_OF_IMAGE and result
    ways = [own, (sizes, reduced)] if is_image else [(sizes, reduced), own]
    if a.rank <= movement.MOST_DIMENSIONS:
        sizes, reduced = min(ways, key=lambda way: _count(a, way[0], way[1], result))
    value = s.whole(movement.reshape(s, a, sizes))
    for axis in reduced:
        value = getattr(s.builder, name)(value, axis=axis)
    return movement.reshape(s, s.array(value, a.dtype), result)


def _count(a: Array, sizes: Sequence[int], reduced: Sequence[int], result: tuple[int, ...]) -> int:
    """Return how many operators reduce these dimensions after a reshape to `sizes`."""
    made = tuple(1 if axis in reduced else size for axis, size in enumerate(sizes))
    return (tuple(sizes) != a.shape) + len(reduced) + (made != result)


def by_halves(
    s: Scope,
    a: Array,
    axes: Sequence[int],
    combine: Callable[[Array, Array], Array],
    keep: bool = False,
) -> Array:
    """Reduce by a function of two arrays: combine halves until one element is left."""
    (made,) = all_by_halves(s, [a], axes, lambda xs, ys: [combine(xs[0], ys[0])], keep)
    return made


def all_by_halves(
    s: Scope,
    arrays: Sequence[Array],
    axes: Sequence[int],
    combine: Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]],
    keep: bool = False,
) -> list[Array]:
    """Reduce several arrays of one shape together, as `by_halves` does one."""
    result = reduced_shape(arrays[0], axes, keep)
    sizes, reduced = _merged(arrays[0], axes)
    held: Sequence[Array] = [movement.reshape(s, a, sizes) for a in arrays]
    for axis in reduced:
        while (size := held[0].shape[axis]) > 1:
            ends = (0, size // 2), (size // 2, size // 2 * 2)
            halves = ([movement.part(s, a, axis, *end) for a in held] for end in ends)
            rest = [movement.part(s, a, axis, size - 1, size) for a in held] if size % 2 else []
            held = combine(*halves)
            if rest:
                held = [
                    movement.concatenate(s, pair, axis) for pair in zip(held, rest, strict=True)
                ]
    return [movement.reshape(s, a, result) for a in held]


def summed(s: Scope, a: Array, axes: Sequence[int], keep: bool = False) -> Array:
    """Sum elements of any type. keep: dimensions stay, of size 1."""
    if is_small(a.dtype):
        return s.narrowed(by_operator(s, s.widened(a), axes, "reduce_sum", keep), a.dtype)
    is_plain = is_float(a.dtype) or a.dtype == np.int64
    if is_plain or limits_of_result("reduce_sum", {"axes": axes}, [a], a) is not None:
        return by_operator(s, a, axes, "reduce_sum", keep)
    return by_halves(s, a, axes, combination(s, "add"), keep)


def multiplied(s: Scope, a: Array, axes: Sequence[int], keep: bool = False) -> Array:
    """Multiply elements of any type."""
    if is_float(a.dtype):
        return by_operator(s, a, axes, "reduce_product", keep)
    return by_halves(s, a, axes, combination(s, "mul"), keep)


def extreme(s: Scope, a: Array, axes: Sequence[int], word: str, keep: bool = False) -> Array:
    """Return the greatest or the least of elements of any type. word: "max" or "min"."""
    if a.dtype == BOOL:
        return by_operator(s, a, axes, "reduce_any" if word == "max" else "reduce_all", keep)
    name = f"reduce_{word}"
    if np.dtype(a.dtype).kind == "i":
        return by_operator(s, a, axes, name, keep)
    return unordered(s, by_operator(s, ordered(s, a), axes, name, keep), a.dtype)


def bits(s: Scope, a: Array, axes: Sequence[int], word: str, keep: bool = False) -> Array:
    """Reduce bits or truth values by "and", "or" or "xor"."""
    if a.dtype == BOOL and word != "xor":
        return by_operator(s, a, axes, "reduce_all" if word == "and" else "reduce_any", keep)
    name = f"logical_{word}" if a.dtype == BOOL else f"bitwise_{word}"
    held = s.viewed(a, carrier(a.dtype))
    made = by_halves(s, held, axes, lambda x, y: s.elementwise(name, x, y), keep)
    return s.viewed(made, a.dtype)


# -- positions -----------------------------------------------------------------------------------


def position(s: Scope, a: Array, axes: Sequence[int], dtype: Any, word: str) -> Array:
    """Return the first position of an extreme along an axis. word: "max" or "min"."""
    (axis,) = axes
    if a.data is not None:
        function = np.argmax if word == "max" else np.argmin
        return constant(np.asarray(function(whole_data(a), axis)), dtype)
    if is_float(a.dtype):
        x = s.elementwise("negate", a) if word == "min" else a
        found = s.apply("argmax", [x], INT32, axis=axis, dtype="int32")
    elif a.dtype == np.int8 and word == "max":
        found = s.apply("argmax", [a], INT32, axis=axis, dtype="int32")
    else:
        found = _integer_position(s, ordered(s, a), axis, word)
    if np.dtype(dtype).itemsize == 8:
        return s.viewed(s.cast(found, np.int64), dtype)
    return s.narrowed(found, dtype)


def _integer_position(s: Scope, a: Array, axis: int, word: str) -> Array:
    """Return the least index at which the extreme is: TOSA's ARGMAX takes no INT32."""
    best = extreme(s, a, (axis,), word, keep=True)
    index = movement.iota(INT32, a.shape, axis)
    index = s.select(s.equal(a, best), index, a.shape[axis])
    return extreme(s, index, (axis,), "min")


# -- cumulative functions ------------------------------------------------------------------------


def cumulative(
    s: Scope,
    a: Array,
    axis: int,
    reverse: bool,
    word: str,
    combine: Callable[[Array, Array], Array] | None = None,
) -> Array:
    """Return the cumulative "add", "mul", "max", "min" or "logsumexp".

    Each step combines elements that are twice as far apart, so that there are few steps.
    combine: how it does that, if another way than that of JAX.
    """
    if combine is None:
        combine = partial(logsumexp2, s) if word == "logsumexp" else combination(s, word)
    work = s.widened(a) if is_small(a.dtype) else a
    border = neutral("max" if word == "logsumexp" else word, work.dtype)
    (work,) = all_cumulative(
        s, [work], axis, lambda xs, ys: [combine(xs[0], ys[0])], [border], reverse
    )
    return s.narrowed(work, a.dtype) if is_small(a.dtype) else work


def all_cumulative(
    s: Scope,
    arrays: Sequence[Array],
    axis: int,
    combine: Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]],
    borders: Sequence[float],
    reverse: bool = False,
) -> Sequence[Array]:
    """Combine elements of several arrays with those before them. borders: what is before the first."""
    shape, distance = arrays[0].shape, 1
    while distance < shape[axis]:
        low, high = [0] * len(shape), [0] * len(shape)
        low[axis], high[axis] = (-distance, distance) if reverse else (distance, -distance)
        pairs = zip(arrays, borders, strict=True)
        before = [movement.pad(s, a, low, high, border) for a, border in pairs]
        arrays, distance = combine(arrays, before), 2 * distance
    return arrays
