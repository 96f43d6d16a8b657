"""Branches and loops on data: COND_IF and WHILE_LOOP; short scans are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import control_flow, layout
from tosa_convert.frontends.lowering.control_flow import UNROLLED, row_at, with_row
from tosa_convert.frontends.lowering.scope import BOOL, Array, NotLowered, Scope, constant
from tosa_convert.frontends.torch.rules.node import Node, Rule


def _cond(n: Node, test: Any, yes: Any, no: Any, operands: Sequence[Array] = ()) -> list[Array]:
    if not isinstance(test, Array):
        return n.run(n.scope, yes if test else no, operands)
    scalar = layout.reshape(n.scope, n.convert(test, BOOL), ())
    branches = [lambda scope, given, graph=graph: n.run(scope, graph, given) for graph in (no, yes)]
    return list(control_flow.cond(n.scope, scalar, branches, list(operands)))


def _arrays(values: Sequence[Any]) -> list[Array]:
    return [one if isinstance(one, Array) else constant(np.asarray(one)) for one in values]


def _while_loop(
    n: Node, test: Any, body: Any, state: Sequence[Any], captured: Sequence[Any] = ()
) -> list[Array]:
    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        (made,) = n.run(scope, test, [*inner, *given])
        return [layout.reshape(scope, made, ())]

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
    if count * nodes <= UNROLLED:
        rows = []
        for index in range(count):
            given = [
                layout.reshape(s, layout.part(s, one, 0, index, index + 1), one.shape[1:])
                for one in columns
            ]
            made = n.run(s, body, [*carry, *given, *held])
            carry = made[: len(carry)]
            rows.append(made[len(carry) :])
        return [*carry, *(layout.stack(s, column) for column in zip(*rows, strict=True))]
    kinds = list(zip(n.shapes, n.dtypes, strict=True))[len(carry) :]
    tables = [Array(kind, shape, np.zeros((1,) * len(shape), kind)) for shape, kind in kinds]
    first = constant(np.zeros((1,), np.int32))

    def condition(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return [scope.greater(count, layout.reshape(scope, inner[0], ()))]

    def step(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        index, now, made = inner[0], inner[1 : 1 + len(carry)], inner[1 + len(carry) :]
        rows = [row_at(scope, column, index) for column in given[: len(columns)]]
        results = n.run(scope, body, [*now, *rows, *given[len(columns) :]])
        written = [
            with_row(scope, table, index, row)
            for table, row in zip(made, results[len(carry) :], strict=True)
        ]
        return [scope.add(index, 1), *results[: len(carry)], *written]

    found = control_flow.while_loop(
        s, [first, *carry, *tables], [*columns, *held], condition, step, {0: (0, count - 1)}
    )
    return found[1:]


RULES: Final[dict[str, Rule]] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
