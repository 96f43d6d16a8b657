"""Control flow: short loops are unrolled, others become WHILE_LOOP; branches become COND_IF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.lowering import control_flow, layout
from tosa_convert.frontends.lowering.control_flow import UNROLLED, row_at, while_loop, with_row
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.scope import INT32, Array, Scope, constant

# -- while ---------------------------------------------------------------------------------------


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
    return while_loop(step.scope, state, [*of_condition, *of_body], condition, body, limits)


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
    if unroll >= length or length * equations <= UNROLLED:
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
        rows = [row_at(scope, column, index) for column in given[len(consts) :]]
        results = step.run(scope, params["jaxpr"], [*given[: len(consts)], *state, *rows])
        written = [
            with_row(scope, table, index, row)
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
    found = while_loop(step.scope, state, [*consts, *columns], condition, body, limits)
    return found[1:]


# -- cond and switch -----------------------------------------------------------------------------


def cond(step: Step) -> list[Array]:
    s, (index, *operands) = step.scope, step.inputs
    branches = [_branch(step, jaxpr) for jaxpr in step.params["branches"]]
    return list(control_flow.cond(s, index, branches, operands))


def _branch(step: Step, jaxpr: Any) -> control_flow.Branch:
    return lambda scope, operands: step.run(scope, jaxpr, operands)
