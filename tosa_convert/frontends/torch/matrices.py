"""Determinants and inverses of small matrices, by minors; products of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

#: Rows above which minors are too many, and too inaccurate.
_MOST_ROWS: Final = 4


def determinant(x: Any) -> Any:
    """Expand along the rows; torch also returns its factors, which only its derivative uses."""
    size = x.shape[-1]
    if not 0 < size <= _MOST_ROWS:
        return NotImplemented
    found = _minor(x, range(size), range(size))
    return found, x.clone(), torch.zeros(x.shape[:-1], dtype=torch.int32, device=x.device)


def inverse(x: Any, *, check_errors: bool = False) -> Any:
    """Divide the matrix of minors by the determinant; also return an error code of 0."""
    size = x.shape[-1]
    if not 1 < size <= _MOST_ROWS:
        return NotImplemented
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
    done = torch.zeros(x.shape[:-2], dtype=torch.int32, device=x.device)
    return adjugate / total.unsqueeze(-1).unsqueeze(-1), done


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
