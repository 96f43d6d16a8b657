"""Factors, determinants, inverses and solutions against numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, known, results

from tosa_convert.frontends.lowering import matrices
from tosa_convert.frontends.lowering.scope import NotLowered

RNG = np.random.default_rng(2)
SMALL, THREE, FIVE = (
    RNG.normal(size=shape).astype(F32) for shape in ((2, 2), (4, 3, 3), (2, 5, 5))
)
#: The first pivot is 0.
SWAPPED = np.array([[0, 2, 1, 0, 1], [1, 0, 0, 2, 0], *RNG.normal(size=(3, 5))], F32)
POSITIVE = FIVE @ FIVE.transpose(0, 2, 1) + np.eye(5, dtype=F32)
RIGHT = RNG.normal(size=(2, 5, 3)).astype(F32)
LOWER = np.tril(FIVE) + 3 * np.eye(5, dtype=F32)

ROWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "determinant of two": (matrices.determinant, (SMALL,), np.linalg.det(SMALL)),
    "determinant of three": (matrices.determinant, (THREE,), np.linalg.det(THREE)),
    "determinant of five": (matrices.determinant, (FIVE,), np.linalg.det(FIVE)),
    "determinant with a swap": (matrices.determinant, (SWAPPED,), np.linalg.det(SWAPPED)),
    "inverse of two": (matrices.inverse, (SMALL,), np.linalg.inv(SMALL)),
    "inverse of three": (matrices.inverse, (THREE,), np.linalg.inv(THREE)),
    "inverse of five": (matrices.inverse, (POSITIVE,), np.linalg.inv(POSITIVE)),
    "sign": (
        lambda s, a: matrices.sign_and_logarithm(s, a)[0],
        (FIVE,),
        np.linalg.slogdet(FIVE)[0],
    ),
    "logarithm": (
        lambda s, a: matrices.sign_and_logarithm(s, a)[1],
        (FIVE,),
        np.linalg.slogdet(FIVE)[1],
    ),
    "solution": (matrices.solve, (POSITIVE, RIGHT), np.linalg.solve(POSITIVE, RIGHT)),
    "one matrix for a batch": (
        matrices.solve,
        (POSITIVE[:1], RIGHT),
        np.linalg.solve(POSITIVE[:1], RIGHT),
    ),
    "factor": (matrices.cholesky, (POSITIVE,), np.linalg.cholesky(POSITIVE)),
    "indefinite": (matrices.cholesky, (-POSITIVE,), np.full_like(POSITIVE, np.nan)),
    "lower": (matrices.triangular_solve, (LOWER, RIGHT), np.linalg.solve(LOWER, RIGHT)),
    "upper, on the right": (
        partial(matrices.triangular_solve, left_side=False, lower=False),
        (LOWER.transpose(0, 2, 1), RIGHT.transpose(0, 2, 1)),
        np.linalg.solve(LOWER, RIGHT).transpose(0, 2, 1),
    ),
    "transposed": (
        partial(matrices.triangular_solve, is_transposed=True),
        (LOWER, RIGHT),
        np.linalg.solve(LOWER.transpose(0, 2, 1), RIGHT),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_matrices_have_what_numpy_computes(name: str) -> None:
    function, data, want = ROWS[name]
    np.testing.assert_allclose(results(function, *data)[0], want, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(known(function, *data), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("a", [FIVE, SWAPPED, FIVE[:, :3], FIVE[:, :, :2]])
def test_the_product_of_triangles_has_the_rows_in_their_order(a: Any) -> None:
    both, pivots, order = results(matrices.triangles, a)
    count = min(a.shape[-2:])
    lower = np.tril(both[..., :count], -1) + np.eye(a.shape[-2], count, dtype=F32)
    upper = np.triu(both[..., :count, :])
    wanted = np.take_along_axis(a, order[..., None], -2)
    np.testing.assert_allclose(lower @ upper, wanted, rtol=1e-4, atol=1e-5)
    assert abs(lower).max() <= 1
    assert pivots.shape == (*a.shape[:-2], count)


@pytest.mark.parametrize(("function", "rows"), [(matrices.cholesky, 65), (matrices.inverse, 17)])
def test_large_matrices_are_refused(function: Any, rows: int) -> None:
    with pytest.raises(NotLowered, match=f"a matrix of {rows} rows"):
        results(function, np.eye(rows, dtype=F32))
