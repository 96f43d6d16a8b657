"""Determinants, inverses, factors and linear systems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout, matrices
from tosa_convert.frontends.lowering.scope import Array, NotLowered
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _determinant(n: Node, a: Array) -> list[Array]:
    """Return the determinant; torch also gives factors, for its derivative."""
    if n.is_used(1) or n.is_used(2):
        raise NotLowered("its factors are used", "use torch.linalg.det alone")
    return [matrices.determinant(n.scope, a), n.unused(1), n.unused(2)]


def _with_codes(n: Node, *given: Any, rule: Rule, **named: Any) -> list[Array]:
    """Return also the codes of errors, which are 0."""
    return [rule(n, *given, **named), n.unused(1)]


def _inverse(n: Node, a: Array, **_: Any) -> Array:
    return matrices.inverse(n.scope, a)


def _cholesky(n: Node, a: Array, *, upper: bool = False, **_: Any) -> Array:
    made = matrices.cholesky(n.scope, a)
    return matrices.transposed(n.scope, made) if upper else made


def _of_one_batch(n: Node, a: Array, b: Array) -> tuple[Array, Array]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    made = [layout.broadcast_to(n.scope, one, (*batch, *one.shape[-2:])) for one in (a, b)]
    return made[0], made[1]


def _solve(n: Node, a: Array, b: Array, *, left: bool = True, **_: Any) -> Array:
    """Solve a x = b, or x a = b. A vector is a matrix of one column."""
    s = n.scope
    if b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1]):
        b = layout.reshape(s, b, (*b.shape, 1))
    if left:
        made = matrices.solve(s, *_of_one_batch(n, a, b))
    else:
        turned = [matrices.transposed(s, one) for one in _of_one_batch(n, a, b)]
        made = matrices.transposed(s, matrices.solve(s, *turned))
    return layout.reshape(s, made, n.shape)


def _solve_triangular(
    n: Node, a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    a, b = _of_one_batch(n, a, b)
    return matrices.triangular_solve(n.scope, a, b, left, not upper, False, unitriangular)


def _solve_by_factor(n: Node, b: Array, factor: Array, upper: bool = False) -> Array:
    """Lower `cholesky_solve`: solve with the factor, and then with its transpose."""
    a, b = _of_one_batch(n, factor, b)
    for is_transposed in (upper, not upper):
        b = matrices.triangular_solve(n.scope, a, b, True, not upper, is_transposed)
    return b


def _coded(rule: Callable[..., Array]) -> Rule:
    return partial(_with_codes, rule=rule)


RULES: Final[dict[str, Rule]] = {
    "_linalg_det": _determinant,
    "linalg_slogdet": lambda n, a: list(matrices.sign_and_logarithm(n.scope, a)),
    "linalg_inv": _inverse,
    "linalg_inv_ex": _coded(_inverse),
    "linalg_cholesky": _cholesky,
    "linalg_cholesky_ex": _coded(_cholesky),
    "linalg_solve": _solve,
    "linalg_solve_ex": _coded(_solve),
    "linalg_solve_triangular": _solve_triangular,
    "cholesky_solve": _solve_by_factor,
}
