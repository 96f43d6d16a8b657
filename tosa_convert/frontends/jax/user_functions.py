"""Reductions and sorts by functions of the user's, which are jaxprs of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun

from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.reductions import all_by_halves
from tosa_convert.frontends.lowering.scope import Array
from tosa_convert.frontends.lowering.sorting import sort_by
from tosa_convert.frontends.lowering.windows import all_by_slices

Arrays = Sequence[Array]

#: Sorts by any function, as StableHLO does; no primitive of JAX has one.
_SORT_BY: Final = Primitive("sort_by")
_SORT_BY.multiple_results = True
_SORT_BY.def_abstract_eval(lambda *arrays, **params: list(arrays))


def _combine(step: Step) -> Callable[[Arrays, Arrays], list[Array]]:
    """Return the function of the step, for arrays."""
    closed = step.params["jaxpr"]
    if not isinstance(closed, ClosedJaxpr):
        closed = ClosedJaxpr(closed, step.params["consts"])
    mapped = jax.vmap(lambda *numbers: jaxpr_as_fun(closed)(*numbers))

    def combine(xs: Arrays, ys: Arrays) -> list[Array]:
        held = [*xs, *ys]
        flat = [movement.reshape(step.scope, item, (item.size,)) for item in held]
        kinds = [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in flat]
        made = step.run(step.scope, jax.make_jaxpr(mapped)(*kinds), flat)
        return [movement.reshape(step.scope, item, xs[0].shape) for item in made]

    return combine


def reduce_function(step: Step) -> list[Array]:
    """Reduce by a function, which must be associative, as JAX demands."""
    s, count = step.scope, len(step.inputs) // 2
    arrays, initial = step.inputs[:count], step.inputs[count:]
    combine = _combine(step)
    made = all_by_halves(s, arrays, step.params["dimensions"], combine)
    starts = [movement.broadcast(s, item, made[0].shape, ()) for item in initial]
    return combine(starts, made)


def reduce_window_function(step: Step) -> list[Array]:
    """Reduce windows with any initial value."""
    s, params, count = step.scope, step.params, len(step.inputs) // 2
    arrays, initial = step.inputs[:count], step.inputs[count:]
    combine = _combine(step)
    low, high = zip(*params["padding"], strict=True)
    gaps = [n - 1 for n in params["base_dilation"]]
    padded = [
        movement.pad(s, movement.spread(s, a, gaps, border), low, high, border)
        for a, border in zip(arrays, initial, strict=True)
    ]
    window: Any = (params["window_dimensions"], params["window_strides"], params["window_dilation"])
    made = all_by_slices(s, padded, combine, *window)
    starts = [movement.broadcast(s, item, made[0].shape, ()) for item in initial]
    return combine(starts, made)


def traced_sort(
    arrays: Sequence[Any], axis: int, comes_before: Callable[..., Any]
) -> Sequence[Any]:
    """Have JAX trace a stable sort of arrays by a function."""
    numbers = [jax.ShapeDtypeStruct((), array.dtype) for array in arrays for _ in range(2)]
    compare = jax.make_jaxpr(comes_before)(*numbers)
    found: Sequence[Any] = _SORT_BY.bind(*arrays, axis=axis, compare=compare)
    return found


def sort_by_function(step: Step) -> list[Array]:
    """Sort stably by a function of pairs."""
    s, compare = step.scope, step.params["compare"]

    def comes_before(one: Arrays, other: Arrays) -> Array:
        held = [item for pair in zip(one, other, strict=True) for item in pair]
        shape = np.broadcast_shapes(*(item.shape for item in held))
        wide = [movement.broadcast(s, item, shape, range(len(shape))) for item in held]
        kinds = [jax.ShapeDtypeStruct(shape, item.dtype) for item in wide]
        mapped = jax.make_jaxpr(_mapped(compare, len(shape)))(*kinds)
        (made,) = step.run(s, mapped, wide)
        return made

    return sort_by(s, step.inputs, step.params["axis"], comes_before)


def _mapped(closed: Any, rank: int) -> Callable[..., Any]:
    """Return a function of numbers as one of arrays of a rank."""

    def function(*numbers: Any) -> Any:
        return jaxpr_as_fun(closed)(*numbers)[0]

    mapped: Callable[..., Any] = function
    for _ in range(rank):
        mapped = jax.vmap(mapped)
    return mapped
