"""Branches and loops on data: COND_IF and WHILE_LOOP; short scans are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import control_flow, movement
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import BOOL
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _cond(n: Node, test: Any, yes: Any, no: Any, operands: Sequence[Array] = ()) -> list[Array]:
    if not isinstance(test, Array):
        return n.run(n.scope, yes if test else no, operands)
    scalar = movement.reshape(n.scope, n.convert(test, BOOL), ())
    branches = [lambda scope, given, graph=graph: n.run(scope, graph, given) for graph in (no, yes)]
    return list(control_flow.cond(n.scope, scalar, branches, list(operands)))


def _arrays(values: Sequence[Any]) -> list[Array]:
    return [one if isinstance(one, Array) else constant(np.asarray(one)) for one in values]


def _while_loop(
    n: Node, test: Any, body: Any, state: Sequence[Any], captured: Sequence[Any] = ()
) -> list[Array]:
    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        (made,) = n.run(scope, test, [*inner, *given])
        return [movement.reshape(scope, made, ())]

    def step(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return n.run(scope, body, [*inner, *given])

    carried, held = _arrays(state), _arrays(captured)
    return control_flow.while_loop(n.scope, carried, held, condition, step, {})


def _scan(
    n: Node, body: Any, state: Sequence[Any], columns: Sequence[Array], captured: Sequence[Any] = ()
) -> list[Array]:
    s, carry, held = n.scope, _arrays(state), _arrays(captured)
    count = columns[0].shape[0] if columns else 0
    if count == 0:
        raise NotLowered("it scans nothing", "")
    nodes = sum(node.op == "call_function" for node in body.graph.nodes)

    def turn(
        scope: Scope, now: Sequence[Array], rows: Sequence[Array], given: Sequence[Array]
    ) -> list[Array]:
        return n.run(scope, body, [*now, *rows, *given])

    types = list(zip(n.dtypes, n.shapes, strict=True))[len(carry) :]
    is_unrolled = count * nodes <= control_flow.UNROLLED
    return control_flow.scan_rows(
        s, count, carry, columns, types, held, turn, is_unrolled=is_unrolled
    )


RULES: Final[dict[str, Rule]] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
