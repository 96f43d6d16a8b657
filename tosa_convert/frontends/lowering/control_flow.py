"""Control flow: WHILE_LOOP and COND_IF, whose regions capture arrays of the blocks around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.indexing import as_rows, from_rows, rows_at, write_rows
from tosa_convert.frontends.lowering.limits import Limits
from tosa_convert.frontends.lowering.scope import Array, Scope, constant
from tosa_convert.frontends.lowering.types import BOOL

#: A loop is unrolled if its iterations together have at most this many operations.
UNROLLED: Final = 1024


@dataclass(frozen=True)
class _Captured:
    """Arrays that a region gets: constants as they are, others as operands."""

    arrays: Sequence[Array]

    @property
    def operands(self) -> list[Array]:
        return [item for item in self.arrays if not item.is_constant]

    def inside(self, values: Sequence[Array]) -> list[Array]:
        """Return the arrays in a region whose arguments are `values`."""
        given = iter(values)
        return [item if item.is_constant else next(given) for item in self.arrays]


def _arguments(values: Sequence[Value], like: Sequence[Array]) -> list[Array]:
    return [
        Array(item.dtype, item.shape, None, value, limits=item.limits)
        for value, item in zip(values, like, strict=True)
    ]


def _results(scope: Scope, arrays: Sequence[Array]) -> list[Value]:
    """Return what a region returns: whole arrays, each a value of its own."""
    found: list[Value] = []
    for item in arrays:
        value = scope.whole(item)
        if any(value is other for other in found):
            value = scope.builder.identity(value)
        found.append(value)
    return found


def _whole(s: Scope, arrays: Sequence[Array]) -> list[Array]:
    """Return arrays whose elements are all stored, as values of the program."""
    return [
        Array(item.dtype, item.shape, None, s.whole(item), limits=item.limits) for item in arrays
    ]


# -- loops ----------------------------------------------------------------------------------------

#: Makes a region's results of its state and what it captures.
Region = Callable[[Scope, Sequence[Array], Sequence[Array]], Sequence[Array]]


def while_loop(
    s: Scope,
    state: Sequence[Array],
    captured: Sequence[Array],
    condition: Region,
    body: Region,
    limits: Mapping[int, Limits],
) -> list[Array]:
    """Return the state after WHILE_LOOP; what the regions capture passes through. limits: by place."""
    held = _Captured(captured)
    first = [Array(item.dtype, item.shape, None, s.whole(item)) for item in state]
    carried = [*first, *_whole(s, held.operands)]
    count = len(state)

    def region(function: Region, is_body: bool) -> Callable[..., list[Value]]:
        def built(builder: Builder, *values: Value) -> list[Value]:
            scope = Scope(builder, s.narrows)
            inner = _arguments(values, carried)
            for position, known in limits.items() if is_body else ():
                inner[position].limits = known
            given = held.inside(inner[count:])
            made = function(scope, inner[:count], given)
            passed = inner[count:] if is_body else []
            return _results(scope, [*made, *passed])

        return built

    values = s.builder.while_loop(
        [s.value(item) for item in carried], region(condition, False), region(body, True)
    )
    return _arguments(values[:count], first)


#: Makes the new state and a row for each result, of the state, the rows and what is captured.
Turn = Callable[[Scope, Sequence[Array], Sequence[Array], Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Columns:
    """Hold what a scan reads or stacks along the first dimension. backwards: from the last row."""

    arrays: Sequence[Array]
    backwards: Sequence[bool]


def tables_of(types: Sequence[tuple[Any, Sequence[int]]]) -> list[Array]:
    """Return zeros for the results of a scan."""
    return [
        Array(np.dtype(dtype), tuple(shape), np.zeros((1,) * len(shape), dtype))
        for dtype, shape in types
    ]


def scan(
    s: Scope,
    length: int,
    carry: Sequence[Array],
    taken: Columns,
    made: Columns,
    captured: Sequence[Array],
    turn: Turn,
    limits: Mapping[int, Limits] = MappingProxyType({}),
) -> list[Array]:
    """Return the last state and the stacked rows of a scan. made: zeros, in the shapes of the stacks."""
    flags = [*taken.backwards, *made.backwards]
    # If all go backwards, the index does.
    is_reverse, count = bool(flags) and all(flags), len(carry)
    first = constant(np.full((1,), length - 1 if is_reverse else 0, np.int32))

    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        index = movement.reshape(scope, inner[0], ())
        return [scope.greater_equal(index, 0) if is_reverse else scope.greater(length, index)]

    def body(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        index, tables = inner[0], inner[1 + count :]
        is_mixed = any(flags) and not is_reverse
        other = scope.sub(length - 1, index) if is_mixed else index
        columns, held = given[: len(taken.arrays)], given[len(taken.arrays) :]
        pairs = zip(columns, taken.backwards, strict=True)
        rows = [row_at(scope, column, other if back else index) for column, back in pairs]
        found = turn(scope, inner[1 : 1 + count], rows, held)
        written = [
            with_row(scope, table, other if back else index, row)
            for table, row, back in zip(tables, found[count:], made.backwards, strict=True)
        ]
        return [scope.add(index, -1 if is_reverse else 1), *found[:count], *written]

    known = {0: (0, length - 1), **{1 + place: limit for place, limit in limits.items()}}
    state = [first, *carry, *made.arrays]
    return while_loop(s, state, [*taken.arrays, *captured], condition, body, known)[1:]


def scan_rows(
    s: Scope,
    length: int,
    carry: Sequence[Array],
    columns: Sequence[Array],
    types: Sequence[tuple[Any, Sequence[int]]],
    captured: Sequence[Array],
    turn: Turn,
    *,
    is_unrolled: bool,
    is_reverse: bool = False,
    limits: Mapping[int, Limits] = MappingProxyType({}),
) -> list[Array]:
    """Scan what all goes one way, as `scan` does or unrolled. types: those of the stacked rows."""
    if not is_unrolled:
        taken, made = (Columns(row, [is_reverse] * len(row)) for row in (columns, tables_of(types)))
        return scan(s, length, carry, taken, made, captured, turn, limits)
    rows: list[Sequence[Array]] = []
    for index in range(length)[:: -1 if is_reverse else 1]:
        found = turn(s, carry, [movement.row(s, column, index) for column in columns], captured)
        carry = found[: len(carry)]
        rows.append(found[len(carry) :])
    stacks = zip(*rows[:: -1 if is_reverse else 1], strict=True)
    return [*carry, *(movement.stack(s, stacked) for stacked in stacks)]


def row_at(s: Scope, a: Array, index: Array) -> Array:
    """Return row `index`, an INT32 [1], of an array."""
    table = movement.reshape(s, as_rows(s, a), (a.shape[0], math.prod(a.shape[1:])))
    return from_rows(s, movement.reshape(s, rows_at(s, table, index), a.shape[1:]), a.dtype)


def with_row(s: Scope, a: Array, index: Array, row: Array) -> Array:
    columns = math.prod(a.shape[1:])
    table = movement.reshape(s, as_rows(s, a), (a.shape[0], columns))
    made = write_rows(s, table, index, movement.reshape(s, as_rows(s, row), (1, columns)))
    return from_rows(s, movement.reshape(s, made, a.shape), a.dtype)


# -- branches ------------------------------------------------------------------------------------

#: Makes the results of a branch of its operands.
Branch = Callable[[Scope, Sequence[Array]], Sequence[Array]]


def cond(
    s: Scope, index: Array, branches: Sequence[Branch], operands: Sequence[Array]
) -> Sequence[Array]:
    """Return the results of the branch at an index, clamped to the ends; True is the second."""
    if index.is_constant:
        return branches[min(max(int(index.number()), 0), len(branches) - 1)](s, operands)
    number = s.widened(index) if index.dtype == BOOL else index
    return _branched(s, number, branches, operands, 0)


def _branched(
    s: Scope, index: Array, branches: Sequence[Branch], operands: Sequence[Array], first: int
) -> Sequence[Array]:
    """Build COND_IF of branch `first` and, nested, of those after it."""
    if first == len(branches) - 1:
        return branches[first](s, operands)
    held = _Captured([index, *operands])
    given = _whole(s, held.operands)
    like: list[Array] = []

    def region(is_first: bool) -> Callable[..., list[Value]]:
        def built(builder: Builder, *values: Value) -> list[Value]:
            scope = Scope(builder, s.narrows)
            inner, *rest = held.inside(_arguments(values, given))
            if is_first:
                made = branches[first](scope, rest)
                like[:] = made
            else:
                made = _branched(scope, inner, branches, rest, first + 1)
            return _results(scope, made)

        return built

    is_after = s.greater(index, first)
    values = s.builder.cond_if(
        s.whole(is_after), [s.value(item) for item in given], region(False), region(True)
    )
    return [
        Array(item.dtype, item.shape, None, value) for item, value in zip(like, values, strict=True)
    ]
