"""Goes through a jaxpr, equation by equation, and lowers each by its row of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Literal

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.jax.complex_numbers import lower_complex
from tosa_convert.frontends.jax.source import Place, place_of_equation
from tosa_convert.frontends.jax.step import Step
from tosa_convert.frontends.jax.table import CALLBACKS, CALLS, REFUSED, ROWS
from tosa_convert.frontends.lowering.complex_numbers import is_complex, parts_of
from tosa_convert.frontends.lowering.functions import has_minus
from tosa_convert.frontends.lowering.limits import limits_of_result
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, whole_data
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.unlowered import unlowered

#: The largest constant in bytes that is computed, unless its operands are as large.
_MOST_FOLDED: Final = 1 << 20
_OF_SIGNBIT: Final = ["bitcast_convert_type", "shift_right_arithmetic", "convert_element_type"]
_NO_RULE: Final = "write it with other functions of jax.numpy, or report it with the function"


class Walk:
    """Lowers jaxprs. What does not lower is collected, and its results are stood in for."""

    def __init__(self, has_full_paths: bool = False) -> None:
        self.has_full_paths = has_full_paths
        self.problems: list[Unlowered] = []
        self.place = Place()

    def place_of(self, equation: Any, outer: Place) -> Place:
        """Return where an equation comes from. outer: that of the call whose jaxpr it is in."""
        return place_of_equation(equation, outer)

    def run(self, scope: Scope, closed: Any, args: Sequence[Array]) -> list[Array]:
        jaxpr = getattr(closed, "jaxpr", closed)
        consts = [_constant(value) for value in getattr(closed, "consts", ())]
        return self.jaxpr(scope, jaxpr, consts, args)

    def jaxpr(
        self, scope: Scope, jaxpr: Any, consts: Sequence[Array], args: Sequence[Array]
    ) -> list[Array]:
        values: dict[Any, Array] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))

        def read(variable: Any) -> Array:
            if isinstance(variable, Literal):
                return _constant(variable.val, variable.aval)
            return values[variable]

        outer = self.place
        for equation in _needed(jaxpr):
            self.place = self.place_of(equation, outer)
            scope.builder.location = self.place.location(
                equation.primitive.name, self.has_full_paths
            )
            results = self.equation(scope, equation, [read(item) for item in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
        self.place = outer
        return [read(item) for item in jaxpr.outvars]

    def equation(self, scope: Scope, equation: Any, inputs: list[Array]) -> list[Array]:
        name = equation.primitive.name
        results = [item.aval for item in equation.outvars]
        if name in CALLS:
            names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
            inner = next(equation.params[key] for key in names if key in equation.params)
            if _is_signbit(equation, inner) and inputs[0].is_lowered:
                return [has_minus(scope, inputs[0])]
            return self.run(scope, inner, inputs)
        if not all(item.is_lowered for item in inputs):
            if name in REFUSED:
                self.report(equation, *REFUSED[name])
            if self.problems:
                return [_placeholder(scope, aval) for aval in results]
            return [Array(aval.dtype, tuple(aval.shape)) for aval in results]
        if results and all(0 in getattr(aval, "shape", ()) for aval in results):
            # An array without elements is a constant, whatever it is made of.
            return [
                Array(aval.dtype, aval.shape, np.zeros(aval.shape, aval.dtype)) for aval in results
            ]
        try:
            if any(item.parts for item in inputs) or any(
                is_complex(aval.dtype) for aval in results
            ):
                row = ROWS.get(name)
                step = self.step(scope, equation, inputs)
                return lower_complex(name, step, None if row is None else row.rule)
            folded = _folded(equation, inputs) if _is_folded(equation, inputs) else None
            return folded or self.lowered(scope, equation, inputs)
        except NotLowered as problem:
            self.report(equation, problem.reason, problem.advice)
        except TosaConvertError as error:
            found = error.findings[0]
            self.report(equation, found.message, found.hint)
        return [_placeholder(scope, aval) for aval in results]

    def lowered(self, scope: Scope, equation: Any, inputs: list[Array]) -> list[Array]:
        """Return the results of an equation by the row of its primitive."""
        name, avals = equation.primitive.name, [item.aval for item in equation.outvars]
        row = ROWS.get(name)
        if row is None:
            reason, advice = REFUSED.get(name, ("the primitive has no lowering to TOSA", _NO_RULE))
            raise NotLowered(reason, advice)
        for aval in avals:
            carrier(aval.dtype)
        made = row.rule(self.step(scope, equation, inputs))
        results = [made] if isinstance(made, Array) else list(made)
        for result, aval in zip(results, avals, strict=True):
            assert (result.shape, result.dtype) == (tuple(aval.shape), aval.dtype), (name, result)
            result.limits = limits_of_result(name, equation.params, inputs, aval) or result.limits
        return results

    def step(self, scope: Scope, equation: Any, inputs: Sequence[Array]) -> Step:
        avals = [item.aval for item in equation.outvars]
        return Step(
            scope,
            inputs,
            equation.params,
            [tuple(aval.shape) for aval in avals],
            [np.dtype(aval.dtype) for aval in avals],
            self.run,
        )

    def refuse(self, what: str, problem: NotLowered) -> None:
        self.problems.append(unlowered(what, "", problem.reason, problem.advice))

    def report(self, equation: Any, reason: str, advice: str) -> None:
        row = unlowered(equation.primitive.name, str(self.place), reason, advice)
        self.problems.append(row)


def _constant(value: Any, aval: Any = None) -> Array:
    """Return a constant of a jaxpr. A numpy array is copied, as its owner may change it."""
    if is_key(value):
        return Array(value.dtype, tuple(value.shape), value)
    data = np.asarray(value, None if aval is None else aval.dtype)
    if data.flags.writeable or not isinstance(value, jax.Array):
        data = data.copy()
    if is_complex(data.dtype):
        return Array(data.dtype, tuple(data.shape), parts=parts_of(data))
    return Array(data.dtype, tuple(data.shape), data)


def _is_signbit(equation: Any, inner: Any) -> bool:
    """Return whether a call is that of `jax.numpy.signbit` of floats, which shifts their bits."""
    names = [item.primitive.name for item in getattr(inner, "jaxpr", inner).eqns]
    return equation.params.get("name") == "signbit" and names == _OF_SIGNBIT


def is_key(value: Any) -> bool:
    """Return whether an array holds random number generator keys, which numpy does not have."""
    return str(getattr(value, "dtype", "")).startswith("key<")


def _placeholder(scope: Scope, aval: Any) -> Array:
    """Return a stand-in for a result that was not lowered. What follows is examined, too."""
    shape, dtype = tuple(getattr(aval, "shape", ())), getattr(aval, "dtype", None)
    try:
        kind = carrier(dtype)
    except NotLowered:
        return Array(dtype, shape)
    if 0 in shape:
        return Array(dtype, shape)
    return Array(dtype, shape, None, scope.builder.const(np.zeros((1,) * len(shape), kind)))


def _needed(jaxpr: Any) -> list[Any]:
    """Return the equations that results depend on, and those that have effects."""
    used = {item for item in jaxpr.outvars if not isinstance(item, Literal)}
    found = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not used.isdisjoint(equation.outvars):
            found.append(equation)
            used.update(item for item in equation.invars if not isinstance(item, Literal))
    return found[::-1]


# -- constant folding ----------------------------------------------------------------------------


def _is_folded(equation: Any, inputs: Sequence[Array]) -> bool:
    """Return whether an equation is computed now: of constants, with results not much larger."""
    if equation.effects or not all(item.is_constant for item in inputs):
        return False
    if equation.primitive.name in CALLBACKS:
        return False  # Python of the user's may raise, as a check in a branch that is never taken does.
    row = ROWS.get(equation.primitive.name)
    if any(map(is_key, (item.data for item in inputs))):
        return True
    if row is not None and (row.moves_elements or row.is_elementwise):
        return not row.moves_elements
    stored = sum(math.prod(item.stored) * item.dtype.itemsize for item in inputs)
    made = sum(_bytes(item.aval) for item in equation.outvars)
    return bool(made <= max(_MOST_FOLDED, 2 * stored))


def _bytes(aval: Any) -> int:
    dtype = getattr(aval, "dtype", np.dtype(np.int8))
    return math.prod(getattr(aval, "shape", ())) * int(getattr(dtype, "itemsize", 8))


def _folded(equation: Any, inputs: Sequence[Array]) -> list[Array]:
    """Return the results of an equation of constants, which JAX computes."""
    row = ROWS.get(equation.primitive.name)
    if row is not None and row.is_elementwise:
        # Elements that are stored once are computed once.
        held: list[Any] = [item.data for item in inputs]
        data: list[Any] = list(np.broadcast_arrays(*held))
    else:
        data = [item.data if is_key(item.data) else whole_data(item) for item in inputs]
    made = equation.primitive.bind(*data, **equation.params)
    made = made if equation.primitive.multiple_results else [made]
    results = []
    for value, item in zip(made, equation.outvars, strict=True):
        stored = value if is_key(value) else np.asarray(value)
        results.append(Array(stored.dtype, tuple(item.aval.shape), stored))
    return results
