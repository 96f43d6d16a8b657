"""Reductions, positions of extremes, and cumulative functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tosa_convert.frontends.jax import layout, reduce
from tosa_convert.frontends.jax.arithmetic import computed, extremum, ordered, unordered
from tosa_convert.frontends.jax.arrays import (
    BOOL,
    INT32,
    Array,
    carrier,
    is_float,
    is_small,
)
from tosa_convert.frontends.jax.functions import logsumexp2
from tosa_convert.frontends.jax.scope import Scope
from tosa_convert.frontends.jax.step import Rule, Step


def reduce_sum(step: Step) -> Array:
    (a,) = step.inputs
    return summed(step.scope, a, step.params["axes"])


def summed(s: Scope, a: Array, axes: Any) -> Array:
    """Sum elements of any type."""
    if is_small(a.dtype):
        return s.narrowed(reduce.by_operator(s, "reduce_sum", s.widened(a), axes), a.dtype)
    if np.dtype(a.dtype).kind == "u":
        return reduce.by_halves(s, lambda x, y: computed(s, "add", x, y), a, axes)
    return reduce.by_operator(s, "reduce_sum", a, axes)


def reduce_prod(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    if is_float(a.dtype):
        return reduce.by_operator(s, "reduce_product", a, step.params["axes"])
    return reduce.by_halves(s, lambda x, y: computed(s, "mul", x, y), a, step.params["axes"])


def reduce_max(step: Step) -> Array:
    (a,) = step.inputs
    return extreme(step.scope, "max", a, step.params["axes"])


def reduce_min(step: Step) -> Array:
    (a,) = step.inputs
    return extreme(step.scope, "min", a, step.params["axes"])


def extreme(s: Scope, word: str, a: Array, axes: Any) -> Array:
    """Return the greatest or the least of elements of any type. word: "max" or "min"."""
    if a.dtype == BOOL:
        return reduce.by_operator(s, "reduce_any" if word == "max" else "reduce_all", a, axes)
    name = f"reduce_{word}"
    if np.dtype(a.dtype).kind == "i":
        return reduce.by_operator(s, name, a, axes)
    return unordered(s, reduce.by_operator(s, name, ordered(s, a), axes), a.dtype)


def bits(word: str) -> Rule:
    """Return the rule of a reduction by "and", "or" or "xor"."""

    def rule(step: Step) -> Array:
        s, (a,) = step.scope, step.inputs
        if a.dtype == BOOL and word != "xor":
            name = "reduce_all" if word == "and" else "reduce_any"
            return reduce.by_operator(s, name, a, step.params["axes"])
        name = f"logical_{word}" if a.dtype == BOOL else f"bitwise_{word}"
        held = s.viewed(a, carrier(a.dtype))
        made = reduce.by_halves(
            s, lambda x, y: s.elementwise(name, x, y), held, step.params["axes"]
        )
        return s.viewed(made, a.dtype)

    return rule


# -- positions -----------------------------------------------------------------------------------


def argmax(step: Step) -> Array:
    return _position(step, is_least=False)


def argmin(step: Step) -> Array:
    return _position(step, is_least=True)


def _position(step: Step, is_least: bool) -> Array:
    """Return the first position of an extreme."""
    s, (a,) = step.scope, step.inputs
    (axis,) = step.params["axes"]
    if is_float(a.dtype):
        x = s.unary("negate", a) if is_least else a
        found = s.apply("argmax", [x], INT32, axis=axis, dtype="int32")
    elif a.dtype == np.int8 and not is_least:
        found = s.apply("argmax", [a], INT32, axis=axis, dtype="int32")
    else:
        found = _integer_position(s, ordered(s, a), axis, is_least)
    if step.dtype.itemsize == 8:
        return s.viewed(s.cast(found, np.int64), step.dtype)
    return s.narrowed(found, step.dtype)


def _integer_position(s: Scope, a: Array, axis: int, is_least: bool) -> Array:
    """TOSA's ARGMAX takes no INT32: the least index at which the extreme is."""
    sizes = [1] * a.rank
    sizes[axis] = a.shape[axis]
    best = layout.reshape(
        s,
        extreme(s, "min" if is_least else "max", a, (axis,)),
        [1 if k == axis else size for k, size in enumerate(a.shape)],
    )
    index = Array(INT32, a.shape, np.arange(a.shape[axis], dtype=np.int32).reshape(sizes))
    index = s.select(s.equal(a, best), index, a.shape[axis])
    return extreme(s, "min", index, (axis,))


# -- cumulative functions ------------------------------------------------------------------------


def cumulative(word: str) -> Rule:
    """Return the rule of a cumulative "sum", "prod", "max", "min" or "logsumexp"."""

    def rule(step: Step) -> Array:
        s, (a,) = step.scope, step.inputs

        def combine(x: Array, y: Array) -> Array:
            if word == "logsumexp":
                return logsumexp2(s, x, y)
            if word in ("sum", "prod"):
                return computed(s, "add" if word == "sum" else "mul", x, y)
            return extremum(s, f"{word}imum", x, y)

        wide = s.widened(a) if is_small(a.dtype) else a
        params = step.params
        made = reduce.cumulative(s, combine, wide, params["axis"], params["reverse"])
        return s.narrowed(made, a.dtype) if is_small(a.dtype) else made

    return rule
