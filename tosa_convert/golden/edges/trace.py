"""Which elements of a program's inputs an element on the way is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.elements import Elements, has_elements, moved_ids, moves
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.reference.block_scaled import plain
from tosa_convert.reference.evaluate import Machine, call_of


def operands_of(graph: Graph, operator: Operator, values: Mapping[str, Array]) -> list[Array]:
    """Return the operands of an operator of the main block, of the values of a run or constants."""
    block, machine = graph.main, Machine(graph)
    return [
        values[name] if name in values else plain(machine.value(block, {}, name))
        for name in operator.inputs
    ]


def undefined_elements(graph: Graph, index: int, values: Mapping[str, Array]) -> Array | None:
    """Return the elements of an operator's result that TOSA does not define; None if not known."""
    operator = graph.main.operators[index]
    if not has_elements(operator):
        return None
    call = call_of(graph.main, operator, operands_of(graph, operator, values), "own")
    found = Elements(call).undefined()
    return found if len(found) else None


def sources(
    graph: Graph, name: str, ids: Array, values: Mapping[str, Array]
) -> dict[str, Array] | None:
    """Return the elements of inputs that elements of a tensor are made of."""
    block = graph.main
    masks: dict[str, Array] = {name: ids}
    for op in reversed(block.operators):
        wanted = [masks.pop(name) for name in op.outputs if name in masks]
        if not wanted or not op.inputs or op.spec.name.startswith("VARIABLE"):
            continue
        for position, own in _operand_elements(graph, op, np.concatenate(wanted), values):
            operand = op.inputs[position]
            if own is None:
                if _depends_on_inputs(block, operand):
                    return None
                continue
            masks[operand] = np.union1d(masks.get(operand, own[:0]), own)
    return {own: masks[own] for own in block.inputs if own in masks}


def _operand_elements(
    graph: Graph, op: Operator, ids: Array, values: Mapping[str, Array]
) -> list[tuple[int, Array | None]]:
    """Return for each operand that results are made of its elements; None if they are mixed."""
    operands = operands_of(graph, op, values)
    if has_elements(op):
        elements = Elements(call_of(graph.main, op, operands, "own"))
        return [(p, elements.operand_ids(p, ids)) for p in range(elements.count)]
    if moves(op):
        position, local = moved_ids(graph.main, op, operands)
        return [
            (p, np.unique(local[ids[position[ids] == p]])) for p in set(position[ids]) if p >= 0
        ]
    return [(p, None) for p in range(len(operands))]


def _depends_on_inputs(block: Block, name: str) -> bool:
    return bool(inputs_of(block, [name]))


def inputs_of(block: Block, names: Sequence[str]) -> list[str]:
    """Return the inputs of a block that values are computed from, in its order."""
    producers: dict[str, Operator] = {output: op for op in block.operators for output in op.outputs}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += producers[name].inputs if name in producers else ()
    return [name for name in dict.fromkeys(block.inputs) if name in found]
