"""Determinants, inverses and factors of small matrices; products of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

#: Rows above which minors are too many, and too inaccurate.
_MOST_MINORS: Final = 4
#: Rows of which each is eliminated by some twenty operators.
_MOST_ROWS: Final = 16


def determinant(x: Any) -> Any:
    """Expand along the rows, or multiply pivots; torch also returns factors for its derivative."""
    size = x.shape[-1]
    if not 0 < size <= _MOST_ROWS:
        return NotImplemented
    if size <= _MOST_MINORS:
        found = _minor(x, range(size), range(size))
    else:
        found = _eliminated(x, x[..., :0])[1].prod(-1)
    return found, x.clone(), _no_codes(x, x.shape[:-1])


def sign_and_logarithm(x: Any) -> Any:
    """`slogdet`: of the determinant."""
    size = x.shape[-1]
    if not 0 < size <= _MOST_ROWS:
        return NotImplemented
    pivots = _eliminated(x, x[..., :0])[1]
    logarithm = torch.log(pivots.abs()).sum(-1)
    return torch.sign(pivots).prod(-1), logarithm


def solve(x: Any, y: Any, *, left: bool = True) -> Any:
    """Eliminate the columns one after the other; a vector is a matrix of one column."""
    size = x.shape[-1]
    if not 0 < size <= _MOST_ROWS:
        return NotImplemented
    if not left:
        made = solve(x.mT, y.mT)
        return made if made is NotImplemented else made.mT
    is_vector = y.dim() == 1 or (y.dim() == x.dim() - 1 and y.shape == x.shape[:-1])
    right = y.unsqueeze(-1) if is_vector else y
    groups = torch.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    made, _ = _eliminated(x.expand(*groups, size, size), right.expand(*groups, *right.shape[-2:]))
    return made.squeeze(-1) if is_vector else made


def solve_and_report(x: Any, y: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """`linalg_solve_ex`: also return an error code of 0."""
    made = solve(x, y, left=left)
    return made if made is NotImplemented else (made, _no_codes(x, x.shape[:-2]))


def solve_triangular(
    x: Any, y: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Solve with the half that counts."""
    half = torch.triu(x, int(unitriangular)) if upper else torch.tril(x, -int(unitriangular))
    if unitriangular:
        half = half + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return solve(half, y, left=left)


def solve_by_factor(y: Any, factor: Any, upper: bool = False) -> Any:
    """`cholesky_solve`: solve with the product of the factor and its transpose."""
    return solve(factor.mT @ factor if upper else factor @ factor.mT, y)


def cholesky(x: Any, *, upper: bool = False) -> Any:
    """Compute the factor column by column."""
    size = x.shape[-1]
    if not 0 < size <= _MOST_ROWS:
        return NotImplemented
    columns: list[Any] = []
    for number in range(size):
        rest = x.select(-1, number)
        for column in columns:
            rest = rest - column * column.select(-1, number).unsqueeze(-1)
        below = (torch.arange(size) >= number).to(x.dtype)
        pivot = torch.sqrt(rest.select(-1, number)).unsqueeze(-1)
        columns.append(rest / pivot * below)
    made = torch.stack(columns, -1)
    return made.mT if upper else made


def cholesky_and_report(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`linalg_cholesky_ex`: also return an error code of 0."""
    made = cholesky(x, upper=upper)
    return made if made is NotImplemented else (made, _no_codes(x, x.shape[:-2]))


def _eliminated(x: Any, right: Any) -> tuple[Any, Any]:
    """Return the solution of each column of the right side, and the pivots with the signs of swaps.

    The pivot is the largest number of its column, as in LAPACK.
    """
    size = x.shape[-1]
    rows = torch.cat([x, right], -1)
    line = torch.arange(size)
    pivots = []
    for number in range(size):
        column = rows.select(-1, number)
        size_of = torch.where(line >= number, column.abs(), -torch.ones_like(column))
        chosen = torch.argmax(size_of, -1, keepdim=True)
        is_chosen = (line == chosen).unsqueeze(-1)
        taken = torch.where(is_chosen, rows, torch.zeros_like(rows)).sum(-2, keepdim=True)
        own = rows.narrow(-2, number, 1)
        pivot = taken.narrow(-1, number, 1)
        signed = pivot.squeeze(-1)
        pivots.append(torch.where(chosen == number, signed, -signed))
        # The row of the pivot, divided by it, comes here, and that which was here to its place.
        divided = taken / pivot
        rows = torch.where(is_chosen, own.expand_as(rows), rows)
        factors = rows.narrow(-1, number, 1)
        here = (line == number).unsqueeze(-1)
        rows = torch.where(here, divided.expand_as(rows), rows - factors * divided)
    return rows[..., size:], torch.cat(pivots, -1)


def _no_codes(x: Any, shape: Sequence[int]) -> Any:
    return torch.zeros(shape, dtype=torch.int32, device=x.device)


def inverse(x: Any, *, check_errors: bool = False) -> Any:
    """Divide the matrix of minors by the determinant, or eliminate; also return an error code of 0."""
    size = x.shape[-1]
    if not 1 < size <= _MOST_ROWS:
        return NotImplemented
    if size > _MOST_MINORS:
        return solve_and_report(x, torch.eye(size, dtype=x.dtype, device=x.device))
    rows = []
    for column in range(size):
        others = [index for index in range(size) if index != column]
        minors = [
            _minor(x, [index for index in range(size) if index != row], others)
            for row in range(size)
        ]
        signed = [-one if (row + column) % 2 else one for row, one in enumerate(minors)]
        rows.append(torch.stack(signed, -1))
    adjugate = torch.stack(rows, -2)
    total = (x.select(-2, 0) * adjugate.select(-1, 0)).sum(-1)
    return adjugate / total.unsqueeze(-1).unsqueeze(-1), _no_codes(x, x.shape[:-2])


def inverse_alone(x: Any) -> Any:
    """Invert without a report of errors: a singular matrix gives infinite elements or NaN."""
    made = inverse(x)
    return made if made is NotImplemented else made[0]


def product_of_groups(
    x: Any, weights: Any, offsets: Any = None, bias: Any = None, dtype: Any = None
) -> Any:
    """Multiply all rows by each matrix, and take each row from the product of its group.

    Group number g has the rows from offset g - 1 to offset g; rows after the last group are 0.
    """
    if x.dim() != 2 or weights.dim() != 3 or offsets is None or bias is not None:
        return NotImplemented
    row = torch.arange(x.shape[0], dtype=offsets.dtype, device=x.device)
    before = torch.cat([torch.zeros_like(offsets[:1]), offsets[:-1]])
    inside = torch.logical_and(row >= before.unsqueeze(1), row < offsets.unsqueeze(1))
    made = x.unsqueeze(0).expand(weights.shape[0], *x.shape) @ weights
    chosen = torch.where(inside.unsqueeze(-1), made, torch.zeros_like(made)).sum(0)
    return chosen.to(dtype or x.dtype)


def _minor(x: Any, rows: Sequence[int], columns: Sequence[int]) -> Any:
    """Return the determinant of some rows and columns of each matrix."""
    first, *others = rows
    if not others:
        return x.select(-2, first).select(-1, columns[0])
    row, total = x.select(-2, first), 0.0
    for number, column in enumerate(columns):
        rest = [one for one in columns if one != column]
        product = row.select(-1, column) * _minor(x, others, rest)
        total = total - product if number % 2 else total + product
    return total
