"""Inside of control flow: the branch that is taken and the iterations of a loop, as graphs of their own.

Nothing in a region sees the block around it but through the operator's operands, so a branch is a
graph whose inputs are known as soon as the operands are. A loop is its condition and its body in turn.
Variables are the exception: what a region reads from them depends on all that ran before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.array_io import Array, Slot, slots
from tosa_convert.golden.runner import TIMEOUT, run
from tosa_convert.graph.extract import (
    computed_tensors,
    extract_region,
    reachable,
    touches_variables,
)
from tosa_convert.graph.model import Block, Graph, Operator, Tensor

#: Iterations of a loop that are looked into unless the caller says otherwise.
ITERATIONS: Final = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a region: what it is called, the attribute that names it, and what goes in.

    label: `then` or `else`; `cond[k]` or `body[k]` for iteration k of a loop.
    """

    label: str
    attribute: str
    graph: Graph
    inputs: dict[str, Array]


def hidden(graph: Graph, operator: Operator) -> tuple[str, dict[str, list[str]]]:
    """Why an operator's regions cannot be run by themselves, or ""; and the tensors they compute."""
    tensors: dict[str, list[str]] = {}
    reason = ""
    if touches_variables(graph, operator):
        reason = "its regions use variables, whose state is not known there"
    for region in reachable(graph, [operator]):
        inner = extract_region(graph, region.name)
        tensors[region.name] = [name for _, name in computed_tensors(inner)]
        if len(region.blocks) != 1:
            reason = reason or f'region "{region.name}" has {len(region.blocks)} blocks'
        try:
            for name in (*inner.main.inputs, *inner.main.outputs):
                slots(inner.main, name)
        except TosaConvertError as error:
            reason = reason or f'region "{region.name}": {error.findings[0]}'
    return reason, tensors


def steps(
    graph: Graph,
    index: int,
    values: Mapping[str, Array],
    iterations: int = ITERATIONS,
    timeout: float = TIMEOUT,
) -> Iterator[Step]:
    """The runs of regions that make up one run of an operator of the main block; none if `hidden`.

    values: the arrays of its operands by key. iterations: of a loop, where to stop.
    Raises TosaConvertError if the reference model does not run.
    """
    operator = graph.main.operators[index]
    if hidden(graph, operator)[0]:
        return
    rows = {row.name: str(operator.attributes[row.name]) for row in operator.spec.regions}
    if "then_graph" in rows:
        condition = _positional(graph.main, operator.inputs[:1], values)
        taken = "then" if _is_true(condition[0][0]) else "else"
        state = _positional(graph.main, operator.inputs[1:], values)
        yield _step(graph, rows, f"{taken}_graph", taken, state)
        return
    state = _positional(graph.main, operator.inputs, values)
    for count in range(iterations):
        for part in ("cond", "body"):
            step = _step(graph, rows, f"{part}_graph", f"{part}[{count}]", state)
            yield step
            outputs = run(step.graph, step.inputs, timeout=timeout).outputs
            results = _positional(step.graph.main, step.graph.main.outputs, outputs)
            if part == "body":
                state = results
            elif not _is_true(results[0][0]):
                return


def _step(
    graph: Graph, rows: Mapping[str, str], attribute: str, label: str, state: list[list[Array]]
) -> Step:
    inner = extract_region(graph, rows[attribute])
    inputs: dict[str, Array] = {}
    for name, arrays in zip(inner.main.inputs, state, strict=True):
        for slot, array in zip(slots(inner.main, name), arrays, strict=True):
            inputs[slot.key] = array
    return Step(label, attribute, inner, inputs)


def _positional(
    block: Block, names: tuple[str, ...] | list[str], values: Mapping[str, Array]
) -> list[list[Array]]:
    """Each value's arrays: one, or values and scales; those of constants are their data."""
    return [
        [
            values[slot.key] if slot.key in values else _constant(block, slot)
            for slot in slots(block, name)
        ]
        for name in names
    ]


def _constant(block: Block, slot: Slot) -> Array:
    value = block.tensors.get(slot.tensor) or block.shapes[slot.tensor]
    data = value.data
    if isinstance(value, Tensor) and slot.key != slot.tensor and value.scale is not None:
        data = value.scale.data
    if data is None:
        raise fail("input-mismatch", f'"{slot.key}"', "its value is not known")
    return data.numpy().reshape(slot.shape)


def _is_true(array: Array) -> bool:
    return bool(array.reshape(-1)[0])
