"""Operators that reduce axes, order their elements, or sum them up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.lowering import movement, reductions, sorting
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.normalization import mean
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32, is_float, neutral
from tosa_convert.frontends.tflite.node import Node, Rule, place
from tosa_convert.frontends.tflite.rescale import ONE, rescaled
from tosa_convert.frontends.tflite.rules.elementwise import zeros
from tosa_convert.frontends.tflite.scales import rescale_of, single

#: Most elements that are compared with each segment.
_MOST_PAIRS: Final = 1 << 22


def _axes(n: Node, a: Array) -> list[int]:
    return sorted({place(axis, a.rank) for axis in n.ints(1)})


def _sum(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    axes, keep = _axes(n, a), n.flag(0)
    if not n.is_quantised:
        return _summed(s, a, axes, keep)
    scale = rescale_of(single(n.scale(0) / n.result_scale))
    return _rescaled_sum(n, axes, scale, is_once=True)


def _summed(s: Scope, a: Array, axes: list[int], keep: bool) -> Array:
    if not axes:
        return a
    if a.dtype == INT32:
        return by_operator(s, a, axes, "reduce_sum", keep)
    return reductions.summed(s, a, axes, keep)


def _rescaled_sum(n: Node, axes: list[int], scale: tuple[int, int], is_once: bool = False) -> Array:
    s, a, keep = n.scope, n.array(0), n.flag(0)
    if not axes:
        return rescaled(s, a, scale, a.dtype, given=n.zero(0), zero=n.result_zero)
    wide = rescaled(s, a, ONE, INT32, given=n.zero(0))
    total = by_operator(s, wide, axes, "reduce_sum", keep)
    return rescaled(s, total, scale, a.dtype, zero=n.result_zero, is_once=is_once)


def _mean(n: Node) -> Array:
    s, a = n.scope, n.array(0)
    axes, keep = _axes(n, a), n.flag(0)
    count = math.prod(a.shape[axis] for axis in axes)
    if n.is_quantised:
        return _rescaled_sum(n, axes, _share_of(single(n.scale(0) / n.result_scale), count))
    if is_float(a.dtype):
        return mean(s, a, axes, keep)
    total = reductions.summed(s, converted(s, a, INT32), axes, keep)
    return converted(s, s.elementwise("intdiv", total, count), a.dtype)


def _share_of(scale: float, count: int) -> tuple[int, int]:
    """Divide a scale by a count, as TFLite's kernel does: the multiplier keeps 31 bits."""
    multiplier, exponent = fixed_point(scale)
    left = min(count.bit_length() - 1, 31 + exponent)
    return (multiplier << left) // count, 31 - exponent + left


def _product(n: Node) -> Array:
    a = n.array(0)
    if n.is_quantised:
        raise NotLowered("TOSA does not multiply quantised elements along an axis")
    return reductions.multiplied(n.scope, a, _axes(n, a), n.flag(0))


def _reduced(function: Callable[[Scope, Array, list[int], str, bool], Array], word: str) -> Rule:
    def rule(n: Node) -> Array:
        a = n.array(0)
        return function(n.scope, a, _axes(n, a), word, n.flag(0))

    return rule


def _position(word: str) -> Rule:
    def rule(n: Node) -> Array:
        s, a = n.scope, n.array(0)
        axis = place(n.ints(1)[0], a.rank)
        if word == "min" and a.dtype == np.int8:
            a, found = s.elementwise("bitwise_not", a), "max"
        else:
            found = word
        return reductions.position(s, a, (axis,), np.dtype(n.result.dtype), found)

    return rule


def _cumulative_sum(n: Node) -> Array:
    """Sum over twice as many elements in each step: infinities stay where they are."""
    s, x = n.scope, n.array(0)
    axis = place(n.ints(1)[0], x.rank)
    exclusive, reverse = n.flag(0), n.flag(1)
    if n.is_quantised:
        raise NotLowered("TFLite has no kernel of quantised elements")
    if exclusive and x.shape[axis] == 1:
        return zeros(n)
    if exclusive:
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = (-1, 1) if reverse else (1, -1)
        x = movement.pad(s, x, low, high, 0)
    return reductions.cumulative(s, x, axis, reverse, "add", s.add)


def _largest(n: Node) -> tuple[Array, Array]:
    a, count = n.array(0), n.ints(1)[0]
    if not 0 <= count <= a.shape[-1]:
        raise ValueError("count")
    values, places = sorting.top_k(n.scope, a, -1, count)
    return values, n.scope.cast(places, np.dtype(n.results[1].dtype))


def _segments(n: Node, word: str, count: int) -> Array:
    """Reduce, for each segment, all rows; those of other segments are as nothing."""
    s, x, places = n.scope, n.array(0), n.array(1)
    rows, columns = places.size, x.size // places.size
    if x.size * count > _MOST_PAIRS:
        raise NotLowered(f"{x.size} elements and {count} segments are too many to compare")
    each = movement.reshape(s, x, (rows, 1, columns))
    numbers = constant(np.arange(count, dtype=places.dtype).reshape(1, count, 1))
    is_own = s.equal(movement.reshape(s, places, (rows, 1, 1)), numbers)
    none = neutral(word, x.dtype)
    if is_float(x.dtype) and word in ("max", "min"):
        none = math.copysign(float(np.finfo(np.float32).max), none)
    chosen = s.select(is_own, each, none)
    if word == "add":
        made = _summed(s, chosen, [0], False)
    elif word == "mul":
        made = reductions.multiplied(s, chosen, (0,))
    else:
        made = reductions.extreme(s, chosen, (0,), word)
    return movement.reshape(s, made, (count, *x.shape[places.rank :]))


def _unsorted(word: str) -> Rule:
    return lambda n: _segments(n, word, n.ints(2)[0])


def _sorted_segments(n: Node) -> Array:
    """Sum the rows of each segment, whose numbers are known: there are as many as the last one says."""
    return _segments(n, "add", n.ints(1)[-1] + 1)


RULES: Final[dict[str, Rule]] = {
    "ARG_MAX": _position("max"),
    "ARG_MIN": _position("min"),
    "CUMSUM": _cumulative_sum,
    "MEAN": _mean,
    "REDUCE_ALL": _reduced(reductions.bits, "and"),
    "REDUCE_ANY": _reduced(reductions.bits, "or"),
    "REDUCE_MAX": _reduced(reductions.extreme, "max"),
    "REDUCE_MIN": _reduced(reductions.extreme, "min"),
    "REDUCE_PROD": _product,
    "SEGMENT_SUM": _sorted_segments,
    "SUM": _sum,
    "TOPK_V2": _largest,
    **{
        f"UNSORTED_SEGMENT_{name}": _unsorted(word)
        for name, word in (("SUM", "add"), ("PROD", "mul"), ("MAX", "max"), ("MIN", "min"))
    },
}
