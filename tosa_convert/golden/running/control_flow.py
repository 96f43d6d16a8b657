"""Control flow taken apart: the branch that is taken and the iterations of a loop, each as a graph.

Nothing in a region sees the block around it except through the operator's operands, so a branch is a
graph whose inputs are known as soon as the operands are. A loop is its condition and its body in turn.
Variables are the exception: what a region reads from them depends on everything that ran before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot, slots
from tosa_convert.golden.running.run_graph import run_graph
from tosa_convert.golden.running.run_options import DEFAULT_RUN, RunOptions
from tosa_convert.graph.derived import (
    computed_tensors,
    extract_region,
    reachable,
    touches_variables,
)
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.records import dataclass

#: Iterations of a loop that are run one by one unless the caller says otherwise.
ITERATIONS: Final = 16


@dataclass(frozen=True, slots=True)
class RegionRun:
    """One run of a region.

    label: `then` or `else`; `cond[k]` or `body[k]` for iteration k of a loop.
    attribute: the operator's attribute that names the region.
    """

    label: str
    attribute: str
    graph: Graph
    inputs: dict[str, Array]


def why_not_runnable(graph: Graph, operator: Operator) -> str:
    """Return the reason why an operator's regions cannot be run separately, or ""."""
    if touches_variables(graph, operator):
        return "its regions use variables, whose state is not known there"
    for region in reachable(graph, [operator]):
        if len(region.blocks) != 1:
            return f'region "{region.name}" has {len(region.blocks)} blocks'
        inner = extract_region(graph, region.name)
        try:
            for name in (*inner.main.inputs, *inner.main.outputs):
                slots(inner.main, name)
        except TosaConvertError as error:
            return f'region "{region.name}": {error.findings[0]}'
    return ""


def tensors_in_regions(graph: Graph, operator: Operator) -> dict[str, list[str]]:
    """Return the tensors that an operator's regions compute, by region."""
    return {
        region.name: [name for _, name in computed_tensors(extract_region(graph, region.name))]
        for region in reachable(graph, [operator])
    }


def region_runs(
    graph: Graph,
    index: int,
    values: Mapping[str, Array],
    iterations: int = ITERATIONS,
    options: RunOptions = DEFAULT_RUN,
) -> Iterator[RegionRun]:
    """Iterate over the runs of regions that make up one run of an operator of the main block.

    There are none if the regions are not runnable.

    values: the arrays of its operands by key. iterations: of a loop, where to stop.
    Raises TosaConvertError if the reference model does not run.
    """
    operator = graph.main.operators[index]
    if why_not_runnable(graph, operator):
        return
    regions = {row.name: str(operator.attributes[row.name]) for row in operator.spec.regions}
    if "then_graph" in regions:
        condition = _values_in_order(graph.main, operator.inputs[:1], values)
        taken = "then" if _is_true(condition[0][0]) else "else"
        state = _values_in_order(graph.main, operator.inputs[1:], values)
        yield _region_run(graph, regions, f"{taken}_graph", taken, state)
        return
    state = _values_in_order(graph.main, operator.inputs, values)
    for count in range(iterations):
        for part in ("cond", "body"):
            region = _region_run(graph, regions, f"{part}_graph", f"{part}[{count}]", state)
            yield region
            outputs = run_graph(region.graph, region.inputs, options)
            results = _values_in_order(region.graph.main, region.graph.main.outputs, outputs)
            if part == "body":
                state = results
            elif not _is_true(results[0][0]):
                return


def _region_run(
    graph: Graph, regions: Mapping[str, str], attribute: str, label: str, state: list[list[Array]]
) -> RegionRun:
    inner = extract_region(graph, regions[attribute])
    inputs: dict[str, Array] = {}
    for name, arrays in zip(inner.main.inputs, state, strict=True):
        for slot, array in zip(slots(inner.main, name), arrays, strict=True):
            inputs[slot.key] = array
    return RegionRun(label, attribute, inner, inputs)


def _values_in_order(
    block: Block, names: tuple[str, ...] | list[str], values: Mapping[str, Array]
) -> list[list[Array]]:
    """Return each tensor's arrays: one, or values and scales; those of constants are their data."""
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
