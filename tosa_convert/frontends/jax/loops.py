"""Control flow: short loops are unrolled, others become WHILE_LOOP; branches become COND_IF."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.indexing import as_rows, from_rows, rows_at, write_rows
from tosa_convert.frontends.jax.limits import Limits, known_limits
from tosa_convert.frontends.jax.scope import BOOL, INT32, Array, Scope, Step, constant
from tosa_convert.records import dataclass

#: A loop is unrolled if its iterations together have at most this many equations.
UNROLLED_EQUATIONS: Final = 1024


# -- regions -------------------------------------------------------------------------------------


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
    """Return the arguments of a region as arrays."""
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
    """Arrays with all elements stored, as values of the program."""
    return [
        Array(item.dtype, item.shape, None, s.whole(item), limits=item.limits) for item in arrays
    ]


# -- while ---------------------------------------------------------------------------------------

#: Makes a region's results of its state and what it captures.
Region = Callable[[Scope, Sequence[Array], Sequence[Array]], Sequence[Array]]


def _while_loop(
    s: Scope,
    state: Sequence[Array],
    captured: Sequence[Array],
    condition: Region,
    body: Region,
    limits: Mapping[int, Limits],
) -> list[Array]:
    """WHILE_LOOP. What the regions capture passes through as further state.

    limits: of elements of the state while the body runs, by position.
    """
    held = _Captured(captured)
    first = [Array(item.dtype, item.shape, None, s.whole(item)) for item in state]
    carried = [*first, *_whole(s, held.operands)]
    count = len(state)

    def region(function: Region, is_body: bool) -> Callable[..., list[Value]]:
        def built(builder: Builder, *values: Value) -> list[Value]:
            scope = Scope(builder)
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


def while_(step: Step) -> list[Array]:
    params = step.params
    condition_count, body_count = params["cond_nconsts"], params["body_nconsts"]
    of_condition = step.inputs[:condition_count]
    of_body = step.inputs[condition_count:][:body_count]
    state = step.inputs[condition_count + body_count :]

    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return step.run(scope, params["cond_jaxpr"], [*given[:condition_count], *inner])

    def body(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return step.run(scope, params["body_jaxpr"], [*given[condition_count:], *inner])

    # A number below another one is not the greatest of its type.
    limits = {}
    inner = params["cond_jaxpr"].jaxpr
    tests = [
        one for one in inner.eqns if inner.outvars[0] in one.outvars and one.primitive.name == "lt"
    ]
    for place, variable in enumerate(inner.invars[condition_count:]):
        if tests and tests[0].invars[0] is variable and variable.aval.dtype == INT32:
            low, high = known_limits(Array(INT32, ()))
            if (_increment(params["body_jaxpr"].jaxpr, body_count, place) or 0) > 0:
                low = known_limits(state[place])[0]
            limits[place] = low, high - 1
    return _while_loop(step.scope, state, [*of_condition, *of_body], condition, body, limits)


def _increment(jaxpr: Any, constants: int, place: int) -> int | None:
    """Return the number that the body of a loop adds to an INT32 of its state; None for others."""
    argument, result = jaxpr.invars[constants + place], jaxpr.outvars[place]
    made = next((one for one in jaxpr.eqns if result in one.outvars), None)
    if made is None or made.primitive.name != "add" or made.invars[0] is not argument:
        return None
    number = getattr(made.invars[1], "val", None)
    return None if number is None or argument.aval.dtype != INT32 else int(number)


# -- scan ----------------------------------------------------------------------------------------


def scan(step: Step) -> list[Array]:
    params = step.params
    equations = _equations(params["jaxpr"].jaxpr)
    length, unroll = params["length"], params["unroll"]
    if unroll >= length or length * equations <= UNROLLED_EQUATIONS:
        return _unrolled(step)
    return _scan_loop(step)


def _equations(jaxpr: Any) -> int:
    """Count the equations of a jaxpr, with those of the jaxprs that it calls."""
    count = 0
    for equation in jaxpr.eqns:
        inner = [
            getattr(value, "jaxpr", value)
            for param in equation.params.values()
            for value in (param if isinstance(param, (tuple, list)) else (param,))
            if hasattr(getattr(value, "jaxpr", value), "eqns")
        ]
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        count += repeats * sum(map(_equations, inner)) + (not inner)
    return count


def _parts(step: Step) -> tuple[Sequence[Array], list[Array], Sequence[Array]]:
    """Return the constants of a scan, its first state, and what it goes through."""
    count, carried = step.params["num_consts"], step.params["num_carry"]
    inputs = step.inputs
    return inputs[:count], list(inputs[count : count + carried]), inputs[count + carried :]


def _unrolled(step: Step) -> list[Array]:
    s, params = step.scope, step.params
    consts, carry, columns = _parts(step)
    rows: list[list[Array]] = []
    order = range(params["length"])
    for index in reversed(order) if params["reverse"] else order:
        given = [
            layout.reshape(s, layout.part(s, column, 0, index, index + 1), column.shape[1:])
            for column in columns
        ]
        made = step.run(s, params["jaxpr"], [*consts, *carry, *given])
        carry = made[: len(carry)]
        rows.append(made[len(carry) :])
    if params["reverse"]:
        rows.reverse()
    return [*carry, *(layout.stack(s, column) for column in zip(*rows, strict=True))]


def _scan_loop(step: Step) -> list[Array]:
    """Make a loop whose state is the index, the state of the scan, and the rows made so far."""
    params = step.params
    consts, carry, columns = _parts(step)
    length, is_reverse = params["length"], params["reverse"]
    first = constant(np.full((1,), length - 1 if is_reverse else 0, np.int32))
    made = [
        Array(dtype, shape, np.zeros((1,) * len(shape), dtype))
        for dtype, shape in zip(step.dtypes[len(carry) :], step.shapes[len(carry) :], strict=True)
    ]

    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        index = layout.reshape(scope, inner[0], ())
        inside = scope.greater_equal(index, 0) if is_reverse else scope.greater(length, index)
        return [inside]

    def body(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        index, state, tables = inner[0], inner[1 : 1 + len(carry)], inner[1 + len(carry) :]
        rows = [_row_at(scope, column, index) for column in given[len(consts) :]]
        results = step.run(scope, params["jaxpr"], [*given[: len(consts)], *state, *rows])
        written = [
            _with_row(scope, table, index, row)
            for table, row in zip(tables, results[len(carry) :], strict=True)
        ]
        following = scope.add(index, -1 if is_reverse else 1)
        return [following, *results[: len(carry)], *written]

    limits = {0: (0, length - 1)}
    for place, item in enumerate(carry):
        added = _increment(params["jaxpr"].jaxpr, len(consts), place)
        if added is not None and item.is_constant:
            low, high = known_limits(item)
            limits[1 + place] = (
                low + min(0, added * (length - 1)),
                high + max(0, added * (length - 1)),
            )
    state = [first, *carry, *made]
    found = _while_loop(step.scope, state, [*consts, *columns], condition, body, limits)
    return found[1:]


def _row_at(s: Scope, a: Array, index: Array) -> Array:
    """Row `index`, an INT32 [1], of an array."""
    table = layout.reshape(s, as_rows(s, a), (a.shape[0], math.prod(a.shape[1:])))
    return from_rows(s, layout.reshape(s, rows_at(s, table, index), a.shape[1:]), a.dtype)


def _with_row(s: Scope, a: Array, index: Array, row: Array) -> Array:
    """Return an array with row `index` replaced."""
    columns = math.prod(a.shape[1:])
    table = layout.reshape(s, as_rows(s, a), (a.shape[0], columns))
    made = write_rows(s, table, index, layout.reshape(s, as_rows(s, row), (1, columns)))
    return from_rows(s, layout.reshape(s, made, a.shape), a.dtype)


# -- cond and switch -----------------------------------------------------------------------------


def cond(step: Step) -> list[Array]:
    s, (index, *operands) = step.scope, step.inputs
    branches = step.params["branches"]
    if index.is_constant:
        chosen = min(max(int(index.number()), 0), len(branches) - 1)
        return step.run(s, branches[chosen], operands)
    number = s.widened(index) if index.dtype == BOOL else index
    return _branched(step, s, number, operands, 0)


def _branched(
    step: Step, s: Scope, index: Array, operands: Sequence[Array], first: int
) -> list[Array]:
    """COND_IF of branch `first` and, nested, of those after it."""
    branches = step.params["branches"]
    if first == len(branches) - 1:
        return step.run(s, branches[first], operands)
    held = _Captured([index, *operands])
    given = _whole(s, held.operands)

    def region(is_first: bool) -> Callable[..., list[Value]]:
        def built(builder: Builder, *values: Value) -> list[Value]:
            scope = Scope(builder)
            inner, *rest = held.inside(_arguments(values, given))
            if is_first:
                return _results(scope, step.run(scope, branches[first], rest))
            return _results(scope, _branched(step, scope, inner, rest, first + 1))

        return built

    is_after = s.greater(index, first)
    values = s.builder.cond_if(
        s.whole(is_after), [s.value(item) for item in given], region(False), region(True)
    )
    return [
        Array(np.dtype(dtype), shape, None, value)
        for dtype, shape, value in zip(step.dtypes, step.shapes, values, strict=True)
    ]
