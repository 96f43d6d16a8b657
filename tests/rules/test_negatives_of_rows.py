"""Programs that break one rule of an operator, as the official generator makes them, for every row.

Each begins with a random program that TOSA allows, and changes one thing in one of its operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.graph import Graph, Operator, dtype, operator
from tosa_convert.qualify.random_graphs.generate import RULES
from tosa_convert.rules.types import rows

#: Makes the change; None if the operator has nothing that could be changed so.
Change = Callable[[Graph, Operator], Graph | None]


def with_tensor(graph: Graph, name: str, **changes: object) -> Graph:
    block = graph.main
    tensors = {**block.tensors, name: replace(block.tensors[name], **changes)}  # type: ignore[arg-type]
    return with_main(graph, tensors=tensors)


def with_main(graph: Graph, **changes: object) -> Graph:
    first = graph.regions[0]
    block = replace(graph.main, **changes)  # type: ignore[arg-type]
    return replace(graph, regions=[replace(first, blocks=[block]), *graph.regions[1:]])


def result_of(graph: Graph, op: Operator) -> str | None:
    found = [name for name in op.outputs if name in graph.main.tensors]
    return found[0] if found and graph.main.tensors[found[0]].scale is None else None


def wrong_output_shape(graph: Graph, op: Operator) -> Graph | None:
    name = result_of(graph, op)
    if name is None or not graph.main.tensors[name].shape:
        return None
    first, *others = graph.main.tensors[name].shape or ()
    return with_tensor(graph, name, shape=(first + 1, *others))


def wrong_output_rank(graph: Graph, op: Operator) -> Graph | None:
    name = result_of(graph, op)
    return name and with_tensor(graph, name, shape=(*(graph.main.tensors[name].shape or ()), 1))  # type: ignore[return-value]


def wrong_type(graph: Graph, name: str | None, known: set[object]) -> Graph | None:
    others = [row for row in map(dtype, ("INT48", "FP8UE8M0", "BOOL")) if row not in known]
    return None if name is None or not others else with_tensor(graph, name, dtype=others[0])


def wrong_output_type(graph: Graph, op: Operator) -> Graph | None:
    return wrong_type(graph, result_of(graph, op), {row.results[0] for row in rows(op.spec)})


def wrong_input_type(graph: Graph, op: Operator) -> Graph | None:
    inputs = [name for name in op.inputs[:1] if name in graph.main.inputs]
    return wrong_type(graph, next(iter(inputs), None), {row.operands[0] for row in rows(op.spec)})


def with_axis(graph: Graph, op: Operator, axis: int) -> Graph | None:
    if "axis" not in op.attributes:
        return None
    changed = replace(op, attributes={**op.attributes, "axis": axis})
    operators = [changed if one is op else one for one in graph.main.operators]
    return with_main(graph, operators=operators)


def wrong_input_list(graph: Graph, op: Operator) -> Graph | None:
    if not op.spec.takes(len(op.inputs), len(op.outputs)) or op.spec.operand_range()[1] is None:
        return None
    operators = [
        replace(op, inputs=(*op.inputs, op.inputs[0])) if one is op else one
        for one in graph.main.operators
    ]
    return with_main(graph, operators=operators)


CHANGES: Final[dict[str, Change]] = {
    "wrong output shape": wrong_output_shape,
    "wrong output rank": wrong_output_rank,
    "wrong output type": wrong_output_type,
    "wrong input type": wrong_input_type,
    "axis below zero": lambda graph, op: with_axis(graph, op, -1),
    "axis beyond the rank": lambda graph, op: with_axis(graph, op, 9),
    "wrong input list": wrong_input_list,
}
#: Operators that give tensors, whose shapes TOSA says.
KINDS: Final = sorted(
    name
    for name in RULES
    if operator(name).family not in ("shape", "control") and not operator(name).results[0].is_shape
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_at_the_operator(change: str) -> None:
    refused = set()
    for name in KINDS:
        graph = golden.generate(2, 1, kinds=[name])
        assert tc.validate(graph) == []
        (op,) = [op for op in graph.main.operators if op.spec.name == name]
        made = CHANGES[change](graph, op)
        if made is None:
            continue
        found = tc.validate(made)
        assert found, f"{name}: {change} is not refused"
        assert any(name in str(finding) for finding in found), f"{name}: {found[0]}"
        refused.add(name)
    positions = {name for name in KINDS if operator(name).traits.response == "position"}
    assert positions <= refused
