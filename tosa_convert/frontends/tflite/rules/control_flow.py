"""Branches, loops, and variables, which are TOSA's; VAR_HANDLE and CALL_ONCE become no operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import control_flow
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import BOOL, carrier
from tosa_convert.frontends.tflite.node import Node, Rule, Stop, as_held, element_of
from tosa_convert.frontends.tflite.read import Tensor, TfliteFile, operator_name

#: Types that variables hold.
_HELD: Final = (*("float32", "float16", "bool", "uint8", "uint16", "int8", "int16", "int32"),)
_ELSEWHERE: Final = "give it a constant as its initial value, in a subgraph that does nothing else"


# -- branches and loops ----------------------------------------------------------------------------


def _part(n: Node, position: int) -> TfliteFile:
    return n.part.read_subgraph(n.option(position))


def _given(s: Scope, part: TfliteFile, arrays: Sequence[Array]) -> list[Array]:
    """Return the inputs of a subgraph as it holds them."""
    return [
        as_held(s, a, part.tensors[number]) for a, number in zip(arrays, part.inputs, strict=True)
    ]


def _results(n: Node, s: Scope, part: TfliteFile, arrays: Sequence[Array]) -> list[Array]:
    """Return the results of a subgraph as the operator's tensors hold them."""
    made = n.walk.graph(s, part, _given(s, part, arrays))
    for one, tensor in zip(made, n.results, strict=True):
        if not one.is_lowered:
            raise Stop
        if one.dtype != element_of(tensor) and one.dtype != np.dtype(tensor.dtype):
            raise ValueError("types")
    return [as_held(s, one, tensor) for one, tensor in zip(made, n.results, strict=True)]


def _if(n: Node) -> Sequence[Array]:
    condition, *operands = n.arrays
    parts = [_part(n, 1), _part(n, 0)]

    def branch(part: TfliteFile) -> control_flow.Branch:
        return lambda s, arrays: _results(n, s, part, arrays)

    if condition.dtype != BOOL or condition.size != 1:
        raise ValueError("condition")
    flag = Array(BOOL, (), condition.data, condition.value)
    if condition.shape:
        flag = n.scope.reshaped(condition, ())
    return control_flow.cond(n.scope, flag, [branch(one) for one in parts], operands)


def _call(n: Node) -> Sequence[Array]:
    return _results(n, n.scope, _part(n, 0), n.arrays)


def _while(n: Node) -> Sequence[Array]:
    condition, body = _part(n, 0), _part(n, 1)

    def goes_on(s: Scope, state: Sequence[Array], _: Sequence[Array]) -> list[Array]:
        (made,) = n.walk.graph(s, condition, _given(s, condition, state))
        if not made.is_lowered:
            raise Stop
        if made.dtype != BOOL or made.size != 1:
            raise ValueError("condition")
        return [s.reshaped(made, ()) if made.shape else made]

    def step(s: Scope, state: Sequence[Array], _: Sequence[Array]) -> list[Array]:
        made = _results(n, s, body, state)
        for before, after in zip(state, made, strict=True):
            if before.shape != after.shape:
                raise NotLowered("a value has another shape after a round than before")
        return made

    state = [as_held(n.scope, a, tensor) for a, tensor in zip(n.arrays, n.results, strict=True)]
    return control_flow.while_loop(n.scope, state, [], goes_on, step, {})


# -- variables -------------------------------------------------------------------------------------


def _name_of(part: TfliteFile, handle: int) -> str:
    """Return the name of the variable of a handle; "" if the handle is not made here."""
    for operator in part.operators:
        if handle in operator.outputs and operator_name(operator.code) == "VAR_HANDLE":
            words = operator.options.text(0), operator.options.text(1)
            return "/".join(filter(None, words)) or f"variable_{operator.index}"
    return ""


def _initial_values(part: TfliteFile) -> Iterator[tuple[str, Tensor]]:
    """Find what subgraphs that run once assign: the names of variables, and tensors."""
    for operator in part.operators:
        if operator_name(operator.code) == "CALL_ONCE":
            yield from _assigned(part.read_subgraph(operator.option(0)))


def _assigned(part: TfliteFile) -> Iterator[tuple[str, Tensor]]:
    for one in part.operators:
        if operator_name(one.code) == "ASSIGN_VARIABLE":
            yield _name_of(part, one.inputs[0]), part.tensors[one.inputs[1]]


def _call_once(n: Node) -> None:
    """Accept a subgraph that assigns constants and does nothing else."""
    first = _part(n, 0)
    names = {operator_name(one.code) for one in first.operators}
    if others := sorted(names - {"VAR_HANDLE", "ASSIGN_VARIABLE"}):
        raise NotLowered(f"the subgraph that it calls has {others[0]}", _ELSEWHERE)
    if any(not tensor.data for _, tensor in _assigned(first)):
        raise NotLowered("the subgraph that it calls assigns no constant", _ELSEWHERE)


def _variable(n: Node, value: Tensor) -> Any:
    """Declare the variable of a handle, which is the same one for all that have its name."""
    name = _name_of(n.part, n.operator.inputs[0])
    if not name:
        raise NotLowered("its variable has no handle in the main program")
    if value.dtype not in _HELD:
        raise NotLowered(f"its variable holds {value.dtype}, which TOSA does not have")
    if name in n.walk.variables:
        return n.walk.variables[name]
    kind = carrier(value.dtype)
    initial: tuple[Any, ...] = ()
    for other, given in _initial_values(n.part):
        if other == name and given.data:
            if (given.dtype, given.shape) != (value.dtype, value.shape):
                held = f"{value.dtype} {list(value.shape)}"
                raise NotLowered(f"its variable holds {held}, and at first others")
            initial = (np.frombuffer(given.data, kind).reshape(value.shape),)
    made = n.scope.builder.variable(name, kind, value.shape, *initial)
    n.walk.variables[name] = made
    return made


def _read(n: Node) -> Array:
    s, dtype = n.scope, np.dtype(n.result.dtype)
    return s.array(s.builder.read(_variable(n, n.result)), dtype)


def _assign(n: Node) -> None:
    value = n.plain(1)
    n.scope.builder.write(_variable(n, n.tensor(1)), n.scope.whole(value))


RULES: Final[dict[str, Rule]] = {
    "CALL": _call,
    "IF": _if,
    "WHILE": _while,
    "VAR_HANDLE": lambda n: None,
    "CALL_ONCE": _call_once,
    "READ_VARIABLE": _read,
    "ASSIGN_VARIABLE": _assign,
}
