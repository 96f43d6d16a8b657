"""Reductions by functions of the user's, which JAX keeps as jaxprs of two numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.reductions import by_halves
from tosa_convert.frontends.jax.scope import Array, NotLowered, Step
from tosa_convert.frontends.jax.windows import by_slices


def _combine(step: Step) -> Callable[[Array, Array], Array]:
    """Return the function of the step, for arrays."""
    closed = step.params["jaxpr"]
    if not isinstance(closed, ClosedJaxpr):
        closed = ClosedJaxpr(closed, step.params["consts"])
    mapped = jax.vmap(lambda *numbers: jaxpr_as_fun(closed)(*numbers)[0])

    def combine(x: Array, y: Array) -> Array:
        shape = jax.ShapeDtypeStruct((x.size,), x.dtype)
        flat = [layout.reshape(step.scope, item, (x.size,)) for item in (x, y)]
        (made,) = step.run(step.scope, jax.make_jaxpr(mapped)(shape, shape), flat)
        return layout.reshape(step.scope, made, x.shape)

    return combine


def reduce_function(step: Step) -> Array:
    """Reduce by a function, which must be associative, as JAX demands."""
    if len(step.inputs) != 2:
        raise NotLowered("a reduction of several arrays together", "reduce them one by one")
    s, (a, initial) = step.scope, step.inputs
    combine = _combine(step)
    made = by_halves(s, a, step.params["dimensions"], combine)
    return combine(layout.broadcast(s, initial, made.shape, ()), made)


def reduce_window_function(step: Step) -> Array:
    """Reduce windows with any initial value."""
    if len(step.inputs) != 2:
        raise NotLowered("windows of several arrays together", "reduce them one by one")
    s, (a, initial), params = step.scope, step.inputs, step.params
    combine = _combine(step)
    a = layout.spread(s, a, [n - 1 for n in params["base_dilation"]], initial)
    low, high = zip(*params["padding"], strict=True)
    a = layout.pad(s, a, low, high, initial)
    window: Any = (params["window_dimensions"], params["window_strides"], params["window_dilation"])
    made = by_slices(s, a, combine, *window)
    return combine(layout.broadcast(s, initial, made.shape, ()), made)
