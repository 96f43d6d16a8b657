"""Control flow: short loops are unrolled, others become WHILE_LOOP; branches become COND_IF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.lowering import control_flow
from tosa_convert.frontends.lowering.control_flow import UNROLLED, while_loop
from tosa_convert.frontends.lowering.limits import known_limits
from tosa_convert.frontends.lowering.scope import Array, Scope
from tosa_convert.frontends.lowering.types import INT32

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
    params, length, inputs = step.params, step.params["length"], step.inputs
    count, jaxpr = params["num_consts"], params["jaxpr"]
    of_rows = count + params["num_carry"]
    consts, carry, columns = inputs[:count], inputs[count:of_rows], inputs[of_rows:]

    def turn(
        scope: Scope, state: Sequence[Array], rows: Sequence[Array], held: Sequence[Array]
    ) -> list[Array]:
        return step.run(scope, jaxpr, [*held, *state, *rows])

    limits = {}
    for place, item in enumerate(carry):
        added = _increment(jaxpr.jaxpr, len(consts), place)
        if added is not None and item.is_constant:
            low, high = known_limits(item)
            more = added * (length - 1)
            limits[place] = low + min(0, more), high + max(0, more)
    return control_flow.scan_rows(
        step.scope,
        length,
        carry,
        columns,
        list(zip(step.dtypes, step.shapes, strict=True))[len(carry) :],
        consts,
        turn,
        is_unrolled=params["unroll"] >= length or length * _equations(jaxpr.jaxpr) <= UNROLLED,
        is_reverse=params["reverse"],
        limits=limits,
    )


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


# -- cond and switch -----------------------------------------------------------------------------


def cond(step: Step) -> list[Array]:
    s, (index, *operands) = step.scope, step.inputs
    branches = [
        lambda scope, given, jaxpr=jaxpr: step.run(scope, jaxpr, given)
        for jaxpr in step.params["branches"]
    ]
    return list(control_flow.cond(s, index, branches, operands))
