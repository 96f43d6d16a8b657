"""Reductions by functions of the user's, which JAX keeps as jaxprs of two numbers for each array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.reductions import all_by_halves
from tosa_convert.frontends.jax.scope import Array, Step
from tosa_convert.frontends.jax.windows import all_by_slices

Arrays = Sequence[Array]


def _combine(step: Step) -> Callable[[Arrays, Arrays], list[Array]]:
    """Return the function of the step, for arrays."""
    closed = step.params["jaxpr"]
    if not isinstance(closed, ClosedJaxpr):
        closed = ClosedJaxpr(closed, step.params["consts"])
    mapped = jax.vmap(lambda *numbers: jaxpr_as_fun(closed)(*numbers))

    def combine(xs: Arrays, ys: Arrays) -> list[Array]:
        held = [*xs, *ys]
        flat = [layout.reshape(step.scope, item, (item.size,)) for item in held]
        kinds = [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in flat]
        made = step.run(step.scope, jax.make_jaxpr(mapped)(*kinds), flat)
        return [layout.reshape(step.scope, item, xs[0].shape) for item in made]

    return combine


def reduce_function(step: Step) -> list[Array]:
    """Reduce by a function, which must be associative, as JAX demands."""
    s, count = step.scope, len(step.inputs) // 2
    arrays, initial = step.inputs[:count], step.inputs[count:]
    combine = _combine(step)
    made = all_by_halves(s, arrays, step.params["dimensions"], combine)
    starts = [layout.broadcast(s, item, made[0].shape, ()) for item in initial]
    return combine(starts, made)


def reduce_window_function(step: Step) -> list[Array]:
    """Reduce windows with any initial value."""
    s, params, count = step.scope, step.params, len(step.inputs) // 2
    arrays, initial = step.inputs[:count], step.inputs[count:]
    combine = _combine(step)
    low, high = zip(*params["padding"], strict=True)
    gaps = [n - 1 for n in params["base_dilation"]]
    padded = [
        layout.pad(s, layout.spread(s, a, gaps, border), low, high, border)
        for a, border in zip(arrays, initial, strict=True)
    ]
    window: Any = (params["window_dimensions"], params["window_strides"], params["window_dilation"])
    made = all_by_slices(s, padded, combine, *window)
    starts = [layout.broadcast(s, item, made[0].shape, ()) for item in initial]
    return combine(starts, made)
