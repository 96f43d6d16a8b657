"""Factor matrices and solve small linear systems with functions of JAX, a row at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.lowering.scope import Array, NotLowered

#: The most rows of a matrix: the program has several operators for each.
_MOST_ROWS: Final = 64


def cholesky(step: Step) -> list[Array]:
    """Return the lower factor of matrices; an indefinite one gives NaN, as in JAX."""
    return _traced(step, _lower_factor)


def triangular_solve(step: Step) -> list[Array]:
    """Solve a system whose matrix is triangular."""
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    return _traced(step, partial(_solution, **{name: step.params[name] for name in names}))


def _traced(step: Step, function: Callable[..., Any]) -> list[Array]:
    rows = step.inputs[0].shape[-1]
    if rows > _MOST_ROWS:
        reason = f"a matrix of {rows} rows is solved row by row, and {_MOST_ROWS} are the most"
        raise NotLowered(reason, "compute it outside and pass the result as an argument")
    kinds = [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in step.inputs]
    return step.run(step.scope, jax.make_jaxpr(function)(*kinds), step.inputs)


def _lower_factor(a: Any) -> Any:
    columns, is_definite, rest = [], jnp.asarray(True), a
    for row in range(a.shape[-1]):
        pivot = rest[..., :1, :1]
        is_definite = is_definite & (pivot > 0)
        column = rest[..., :, :1] * lax.rsqrt(pivot)
        border = [(0, 0)] * (a.ndim - 2) + [(row, 0), (0, 0)]
        columns.append(jnp.pad(column, border))
        below = column[..., 1:, :]
        rest = rest[..., 1:, 1:] - below * jnp.swapaxes(below, -1, -2)
    return jnp.where(is_definite, jnp.concatenate(columns, -1), jnp.nan)


def _solution(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    if transpose_a == left_side:
        # x a = b is the transposed of a' x' = b'.
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    rest = b if left_side else jnp.swapaxes(b, -1, -2)
    size = a.shape[-1]
    rows = []
    for at in range(size) if lower else reversed(range(size)):
        row = rest[..., :1, :] if lower else rest[..., -1:, :]
        if not unit_diagonal:
            row = row / a[..., at : at + 1, at : at + 1]
        rows.append(row)
        column = a[..., :, at : at + 1]
        if lower:
            rest = rest[..., 1:, :] - column[..., at + 1 :, :] * row
        else:
            rest = rest[..., :-1, :] - column[..., :at, :] * row
    made = jnp.concatenate(rows if lower else rows[::-1], -2)
    return made if left_side else jnp.swapaxes(made, -1, -2)
