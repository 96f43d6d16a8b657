"""Primitives that move elements: shapes, slices, padding, and parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arrays import Array, carrier
from tosa_convert.frontends.jax.step import Rule, Step


def as_bits(rule: Rule) -> Rule:
    """Return the rule for the bits of an element type: TOSA moves them as its own type."""

    def moved(step: Step) -> Array | Sequence[Array]:
        held = [step.scope.viewed(item, carrier(item.dtype)) for item in step.inputs]
        kinds = [carrier(dtype) for dtype in step.dtypes]
        made = rule(Step(step.scope, step.name, held, step.params, step.shapes, kinds, step.run))
        if isinstance(made, Array):
            return step.scope.viewed(made, step.dtype)
        return [
            step.scope.viewed(item, dtype) for item, dtype in zip(made, step.dtypes, strict=True)
        ]

    return moved


def same(step: Step) -> Sequence[Array]:
    """Return the operands as they are."""
    return list(step.inputs)


def reshape(step: Step) -> Array:
    """Reshape the elements; `dimensions` is a transposition that comes first."""
    (a,) = step.inputs
    order = step.params["dimensions"]
    if order is not None:
        a = layout.transpose(step.scope, a, order)
    return layout.reshape(step.scope, a, step.shape)


def squeeze(step: Step) -> Array:
    """Remove or add dimensions of size 1."""
    (a,) = step.inputs
    return layout.reshape(step.scope, a, step.shape)


def broadcast_in_dim(step: Step) -> Array:
    (a,) = step.inputs
    return layout.broadcast(step.scope, a, step.shape, step.params["broadcast_dimensions"])


def broadcast_to(step: Step) -> Array:
    (a,) = step.inputs
    dimensions = range(len(step.shape) - a.rank, len(step.shape))
    return layout.broadcast(step.scope, a, step.shape, dimensions)


def transpose(step: Step) -> Array:
    (a,) = step.inputs
    return layout.transpose(step.scope, a, step.params["permutation"])


def slice_(step: Step) -> Array:
    (a,) = step.inputs
    params = step.params
    return layout.cut(
        step.scope, a, params["start_indices"], params["limit_indices"], params["strides"]
    )


def concatenate(step: Step) -> Array:
    return layout.concatenate(step.scope, step.inputs, step.params["dimension"])


def stack(step: Step) -> Array:
    return layout.stack(step.scope, step.inputs, step.params["axis"])


def unstack(step: Step) -> list[Array]:
    (a,) = step.inputs
    axis = step.params["axis"]
    rows = _cuts(step, a, axis, [1] * a.shape[axis])
    return [
        layout.reshape(step.scope, row, shape) for row, shape in zip(rows, step.shapes, strict=True)
    ]


def split(step: Step) -> list[Array]:
    (a,) = step.inputs
    return _cuts(step, a, step.params["axis"], step.params["sizes"])


def _cuts(step: Step, a: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    """Parts of an array, one after another."""
    found, at = [], 0
    for size in sizes:
        starts, stops = [0] * a.rank, list(a.shape)
        starts[axis], stops[axis] = at, at + size
        found.append(layout.cut(step.scope, a, starts, stops))
        at += size
    return found


def rev(step: Step) -> Array:
    (a,) = step.inputs
    return layout.reverse(step.scope, a, step.params["dimensions"])


def tile(step: Step) -> Array:
    s, (a,) = step.scope, step.inputs
    repeats = step.params["reps"]
    ones = (1,) * (len(repeats) - a.rank)
    whole = s.array(s.whole(layout.reshape(s, a, (*ones, *a.shape))), a.dtype)
    return s.apply("tile", [whole], a.dtype, multiples=repeats)


def pad(step: Step) -> Array:
    s, (a, value) = step.scope, step.inputs
    low, high, interior = zip(*step.params["padding_config"], strict=True) if a.rank else ((),) * 3
    return layout.pad(s, layout.spread(s, a, interior, value), low, high, value)


def iota(step: Step) -> Array:
    dimension = step.params["dimension"]
    sizes = [1] * len(step.shape)
    sizes[dimension] = step.shape[dimension]
    return Array(
        step.dtype, step.shape, np.arange(step.shape[dimension], dtype=step.dtype).reshape(sizes)
    )
