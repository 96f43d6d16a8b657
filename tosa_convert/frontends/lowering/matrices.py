"""Factors, determinants and inverses of small matrices, and solutions of linear systems.

A matrix is the last two dimensions of an array; those before are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import divided, mul, sign
from tosa_convert.frontends.lowering.reductions import multiplied, position, summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32

#: The most rows of a matrix: the program has several operators for each.
_MOST_ROWS: Final = 64
#: Rows of which each is eliminated by some twenty operators.
_MOST_ELIMINATED: Final = 16
#: Rows above which minors are too many, and too inaccurate.
_MOST_MINORS: Final = 4


def _refuse(a: Array, most: int) -> None:
    rows = a.shape[-1]
    if rows > most:
        reason = f"a matrix of {rows} rows is solved row by row, and {most} are the most"
        raise NotLowered(reason, "compute it outside and pass the result as an argument")


def _block(s: Scope, a: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """Return the rows and columns from a first one up to another."""
    batch = a.shape[:-2]
    first = (*(0 for _ in batch), rows[0], columns[0])
    return movement.cut(s, a, first, (*batch, rows[1], columns[1]))


def _column(s: Scope, a: Array, number: int) -> Array:
    return movement.part(s, a, a.rank - 1, number, number + 1)


def transposed(s: Scope, a: Array) -> Array:
    order = (*range(a.rank - 2), a.rank - 1, a.rank - 2)
    return movement.transpose(s, a, order)


def identity(size: int, like: Array) -> Array:
    """Return the identity matrix, in the rank and the element type of another array."""
    return constant(np.eye(size, dtype=like.dtype).reshape((1,) * (like.rank - 2) + (size, size)))


# -- triangles -----------------------------------------------------------------------------------


def cholesky(s: Scope, a: Array) -> Array:
    """Return the lower factor of symmetric matrices; an indefinite one gives NaN."""
    _refuse(a, _MOST_ROWS)
    columns, rest, size, tests = [], a, a.shape[-1], []
    for row in range(size):
        pivot = _block(s, rest, (0, 1), (0, 1))
        tests.append(s.greater(pivot, 0))
        column = s.mul(_column(s, rest, 0), s.elementwise("rsqrt", pivot))
        above = [row if axis == a.rank - 2 else 0 for axis in range(a.rank)]
        columns.append(movement.pad(s, column, above, [0] * a.rank, 0))
        left = size - row
        if left > 1:
            below = movement.part(s, column, a.rank - 2, 1, left)
            rest = _block(s, rest, (1, left), (1, left))
            rest = s.sub(rest, s.mul(below, transposed(s, below)))
    return s.select(reduce(s.both, tests), movement.concatenate(s, columns, a.rank - 1), np.nan)


def triangular_solve(
    s: Scope,
    a: Array,
    b: Array,
    left_side: bool = True,
    lower: bool = True,
    is_transposed: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve a x = b, or x a = b, for a triangular matrix of which the other half is not read."""
    _refuse(a, _MOST_ROWS)
    if is_transposed == left_side:
        # x a = b is the transposed of a' x' = b'.
        a, lower = transposed(s, a), not lower
    rest = b if left_side else transposed(s, b)
    size = a.shape[-1]
    rows = []
    for at in range(size) if lower else reversed(range(size)):
        left = rest.shape[-2]
        first = (0, 1) if lower else (left - 1, left)
        row = movement.part(s, rest, b.rank - 2, *first)
        if not unit_diagonal:
            row = divided(s, row, _block(s, a, (at, at + 1), (at, at + 1)))
        rows.append(row)
        if left > 1:
            others = (at + 1, size) if lower else (0, at)
            column = _block(s, a, others, (at, at + 1))
            kept = (1, left) if lower else (0, left - 1)
            rest = s.sub(movement.part(s, rest, b.rank - 2, *kept), s.mul(column, row))
    made = movement.concatenate(s, rows if lower else rows[::-1], b.rank - 2)
    return made if left_side else transposed(s, made)


# -- any matrix ----------------------------------------------------------------------------------


def triangles(s: Scope, a: Array) -> tuple[Array, Array, Array]:
    """Factor matrices into triangles, LU, with pivots as in LAPACK.

    Return both triangles in one array, the row that each step exchanges, and the order of the rows.
    """
    _refuse(a, _MOST_ELIMINATED)
    *batch, rows, columns = a.shape
    ones = (1,) * len(batch)
    line = np.arange(rows, dtype=np.int32).reshape((*ones, rows, 1))
    across = np.arange(columns).reshape((*ones, 1, columns))
    order = movement.broadcast_to(s, constant(line), (*batch, rows, 1))
    pivots = []
    for number in range(min(rows, columns)):
        column = _column(s, a, number)
        magnitude = s.select(constant(line >= number), s.elementwise("abs", column), -1)
        chosen = position(s, magnitude, (a.rank - 2,), INT32, "max")
        pivots.append(movement.reshape(s, chosen, (*batch, 1)))
        is_chosen = s.equal(constant(line), movement.reshape(s, chosen, (*batch, 1, 1)))
        a, order = (_exchanged(s, item, number, line == number, is_chosen) for item in (a, order))
        own = movement.part(s, a, a.rank - 2, number, number + 1)
        column, pivot = _column(s, a, number), _column(s, own, number)
        quotient = s.select(s.equal(pivot, 0), column, divided(s, column, pivot))
        rest = s.select(constant(across > number), s.sub(a, s.mul(quotient, own)), a)
        below = s.select(constant(across == number), quotient, rest)
        a = s.select(constant(line > number), below, a)
    made = movement.concatenate(s, pivots, len(batch))
    return a, made, movement.reshape(s, order, (*batch, rows))


def _exchanged(s: Scope, a: Array, number: int, is_here: Any, is_chosen: Array) -> Array:
    """Exchange a row with the chosen one."""
    taken = summed(s, s.select(is_chosen, a, 0), (a.rank - 2,), keep=True)
    own = movement.part(s, a, a.rank - 2, number, number + 1)
    return s.select(constant(is_here), taken, s.select(is_chosen, own, a))


def solve(s: Scope, a: Array, b: Array) -> Array:
    """Solve a x = b by elimination, for arrays of one rank whose batches broadcast."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    given = [movement.broadcast_to(s, item, (*batch, *item.shape[-2:])) for item in (a, b)]
    return _eliminated(s, *given)[0]


def inverse(s: Scope, a: Array) -> Array:
    """Divide the matrix of minors by the determinant, or eliminate."""
    size = a.shape[-1]
    if size == 1:
        return s.elementwise("reciprocal", a)
    if size > _MOST_MINORS:
        return solve(s, a, identity(size, a))
    known: _Minors = {}
    numbers = range(size)
    rows = []
    for column in numbers:
        minors = []
        for row in numbers:
            kept = [tuple(k for k in numbers if k != other) for other in (row, column)]
            minor = _minor(s, a, kept[0], kept[1], known)
            minors.append(s.elementwise("negate", minor) if (row + column) % 2 else minor)
        rows.append(movement.concatenate(s, minors, a.rank - 1))
    adjugate = movement.concatenate(s, rows, a.rank - 2)
    total = _minor(s, a, tuple(numbers), tuple(numbers), known)
    return divided(s, adjugate, total)


def determinant(s: Scope, a: Array) -> Array:
    """Expand along the rows, or multiply pivots."""
    size = a.shape[-1]
    if size <= _MOST_MINORS:
        made = _minor(s, a, tuple(range(size)), tuple(range(size)), {})
        return movement.reshape(s, made, a.shape[:-2])
    return multiplied(s, _pivots(s, a), (a.rank - 2,))


def sign_and_logarithm(s: Scope, a: Array) -> tuple[Array, Array]:
    """Return the sign of the determinant, and the logarithm of its magnitude."""
    pivots = _pivots(s, a)
    logarithms = s.elementwise("log", s.elementwise("abs", pivots))
    axes = (a.rank - 2,)
    return multiplied(s, sign(s, pivots), axes), summed(s, logarithms, axes)


def _pivots(s: Scope, a: Array) -> Array:
    """Return the pivots of an elimination, [..., size]."""
    nothing = movement.part(s, a, a.rank - 1, 0, 1)
    return movement.reshape(s, _eliminated(s, a, nothing)[1], a.shape[:-1])


def _eliminated(s: Scope, a: Array, b: Array) -> tuple[Array, Array]:
    """Return the solution of each column of b, and the pivots with the signs of swaps, [..., size, 1].

    The pivot is the largest number of its column, as in LAPACK.
    """
    _refuse(a, _MOST_ELIMINATED)
    size, rank = a.shape[-1], a.rank
    rows = movement.concatenate(s, [a, b], rank - 1)
    shape = (1,) * (rank - 2) + (size, 1)
    line = constant(np.arange(size, dtype=np.int32).reshape(shape))
    pivots = []
    for number in range(size):
        column = _column(s, rows, number)
        is_left = constant(np.arange(size).reshape(shape) >= number)
        magnitude = s.select(is_left, s.elementwise("abs", column), -1)
        chosen = position(s, magnitude, (rank - 2,), INT32, "max")
        chosen = movement.reshape(s, chosen, (*a.shape[:-2], 1, 1))
        is_chosen = s.equal(line, chosen)
        taken = summed(s, s.select(is_chosen, rows, 0), (rank - 2,), keep=True)
        own = movement.part(s, rows, rank - 2, number, number + 1)
        pivot = _column(s, taken, number)
        stays = s.equal(chosen, number)
        pivots.append(s.select(stays, pivot, s.elementwise("negate", pivot)))
        # The row of the pivot, divided by it, comes here, and that which was here to its place.
        quotient = divided(s, taken, pivot)
        rows = s.select(is_chosen, own, rows)
        rest = s.sub(rows, s.mul(_column(s, rows, number), quotient))
        is_here = constant(np.arange(size).reshape(shape) == number)
        rows = s.select(is_here, quotient, rest)
    made = movement.part(s, rows, rank - 1, size, size + b.shape[-1])
    return made, movement.concatenate(s, pivots, rank - 2)


_Minors = dict[tuple[tuple[int, ...], tuple[int, ...]], Array]


def _minor(
    s: Scope, a: Array, rows: Sequence[int], columns: Sequence[int], known: _Minors
) -> Array:
    """Return the determinant of some rows and columns of each matrix, [..., 1, 1]."""
    key = (tuple(rows), tuple(columns))
    if key not in known and len(rows) == 1:
        known[key] = _block(s, a, (rows[0], rows[0] + 1), (columns[0], columns[0] + 1))
    if key not in known:
        first, *others = rows
        parts = []
        for column in columns:
            rest = [k for k in columns if k != column]
            one = _minor(s, a, [first], [column], known)
            parts.append(mul(s, one, _minor(s, a, others, rest, known)))
        known[key] = parts[0]
        for number, part in enumerate(parts[1:]):
            known[key] = (s.add if number % 2 else s.sub)(known[key], part)
    return known[key]
