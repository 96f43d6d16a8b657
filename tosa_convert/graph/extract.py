"""Cut a sub-graph out: some values become outputs, some become inputs, the rest follows.

The cut keeps names, locations, the order of operators and the version. Constants are always inside.
Writes to a variable stay where a later read or an output needs them.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.model import Block, Graph, Operator, Region
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE


def extract(graph: Graph, outputs: Sequence[str], inputs: Iterable[str] = ()) -> Graph:
    """The part of the main block that computes `outputs`, from `inputs` and the graph's own inputs.

    inputs: names of tensors that become inputs of the result: nothing that computes them is kept.
        Those of the graph's own inputs that are still needed stay, in their order, before them.
    The result shares operators, tensors and constants with the graph; neither must be changed.

    Raises TosaConvertError("undefined-name") for names the main block does not have, and
    ("option-conflict") for an input that is no tensor or that no output depends on.
    """
    block = graph.main
    cuts = list(dict.fromkeys(inputs))
    _check_names(block, [*outputs, *cuts])
    if not outputs:
        raise fail("option-conflict", "outputs", "a sub-graph needs an output")
    kept = needed_operators(graph, outputs, cuts)
    operators = [op for index, op in enumerate(block.operators) if index in kept]
    used = set(outputs)
    for op in operators:
        used.update(op.inputs, op.outputs)
    findings = []
    for name in cuts:
        if name in block.shapes:
            message = f'"{name}" is a shape; only tensors can be inputs'
        elif block.tensors[name].variable:
            message = f'"{name}" is a variable; it is an input already'
        elif name not in used:
            message = f'no output depends on "{name}"'
        else:
            continue
        findings.append(Finding("option-conflict", "inputs", message))
    if findings:
        raise TosaConvertError(findings)
    own = [name for name in block.inputs if name in used and name not in cuts]
    order = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
    cuts.sort(key=lambda name: order.get(name, -1))
    made = {name for op in operators for name in op.outputs}
    tensors = dict(block.tensors)
    # An operator with several results may be kept for one while another became an input.
    for position, op in enumerate(operators):
        if not made.isdisjoint(cuts) and any(name in cuts for name in op.outputs):
            renamed = {name: _another(name, tensors) for name in op.outputs if name in cuts}
            outputs_now = tuple(renamed.get(name, name) for name in op.outputs)
            operators[position] = replace(op, outputs=outputs_now)
            for name, other in renamed.items():
                tensors[other] = replace(tensors[name], name=other)
            used.update(renamed.values())
    result = Block(
        block.name,
        own + cuts,
        list(outputs),
        operators,
        {
            name: tensor
            for name, tensor in tensors.items()
            if name in used or (tensor.variable and name not in made and _has_regions(operators))
        },
        {name: shape for name, shape in block.shapes.items() if name in used},
    )
    regions = [Region(graph.regions[0].name, [result]), *reachable(graph, operators)]
    return Graph(graph.version, regions, graph.producer)


def _another(name: str, taken: Container[str]) -> str:
    """A name like this one that is free."""
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def extract_from(graph: Graph, outputs: Sequence[str], available: Iterable[str]) -> Graph:
    """`extract` with those of the available tensors as inputs that the outputs need."""
    known = [name for name in available if name in graph.main.tensors]
    kept = needed_operators(graph, outputs, known)
    used = {*outputs, *(n for index in kept for n in graph.main.operators[index].inputs)}
    return extract(graph, outputs, [name for name in known if name in used])


def extract_region(graph: Graph, name: str) -> Graph:
    """A region as a graph of its own, with the regions that it runs.

    It and its first block are called as the graph's main ones: readers look for that name.
    Raises TosaConvertError("undefined-name").
    """
    for region in graph.regions:
        if region.name == name:
            inner = reachable(graph, [op for block in region.blocks for op in block.operators])
            first, *rest = region.blocks
            first = replace(first, name=graph.main.name)
            renamed = Region(graph.regions[0].name, [first, *rest])
            return Graph(graph.version, [renamed, *inner], graph.producer)
    raise fail("undefined-name", f'region "{name}"', "there is no such region")


def needed_operators(graph: Graph, outputs: Iterable[str], inputs: Iterable[str] = ()) -> set[int]:
    """Indices of the main block's operators that `outputs` depend on, not looking behind `inputs`."""
    block = graph.main
    producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
    states = _states(graph, block)
    stop = set(inputs)
    kept: set[int] = set()
    pending = [
        producers[name]
        for name in outputs
        if name in producers and name not in stop and not _is_variable(block, name)
    ]
    while pending:
        index = pending.pop()
        if index in kept:
            continue
        kept.add(index)
        for name in block.operators[index].inputs:
            if name in producers and name not in stop and not _is_variable(block, name):
                pending.append(producers[name])
        pending += states.get(index, ())
    return kept


def _is_variable(block: Block, name: str) -> bool:
    tensor = block.tensors.get(name)
    return tensor is not None and tensor.variable


def _has_regions(operators: list[Operator]) -> bool:
    return any(op.spec.regions for op in operators)


def _states(graph: Graph, block: Block) -> dict[int, list[int]]:
    """Operator -> earlier operators whose writes to variables it may see."""
    if not any(tensor.variable for tensor in block.tensors.values()):
        return {}
    states: dict[int, list[int]] = {}
    last: dict[str, int] = {}
    everywhere: list[int] = []
    for index, op in enumerate(block.operators):
        if op.spec is VARIABLE_READ:
            name = op.inputs[0]
            states[index] = [last[name]] if name in last else []
            states[index] += everywhere
        elif op.spec is VARIABLE_WRITE:
            last[op.outputs[0]] = index
        elif op.spec.regions and touches_variables(graph, op):
            # What a region does to variables is not looked at: all before stays before.
            states[index] = [*last.values(), *everywhere]
            everywhere.append(index)
    return states


def touches_variables(graph: Graph, operator: Operator) -> bool:
    """Whether a region that the operator runs, however indirectly, reads or writes a variable."""
    return any(
        op.spec is VARIABLE_READ or op.spec is VARIABLE_WRITE
        for region in reachable(graph, [operator])
        for block in region.blocks
        for op in block.operators
    )


def reachable(graph: Graph, operators: Iterable[Operator]) -> list[Region]:
    """The regions that the operators run, however indirectly, in the graph's order."""
    by_name = {region.name: region for region in graph.regions}
    seen: set[str] = set()
    pending = list(operators)
    while pending:
        op = pending.pop()
        for row in op.spec.regions:
            name = str(op.attributes[row.name])
            if name not in seen and name in by_name:
                seen.add(name)
                pending += [o for block in by_name[name].blocks for o in block.operators]
    return [region for region in graph.regions[1:] if region.name in seen]


def last_uses(block: Block) -> dict[str, int]:
    """Tensor -> the last operator that takes it, directly or through shapes made of it."""
    last = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    for index in range(len(block.operators) - 1, -1, -1):
        op = block.operators[index]
        after = max((last.get(name, -1) for name in op.outputs if name in block.shapes), default=-1)
        for name in op.inputs:
            last[name] = max(last[name], after)
    return last


def _check_names(block: Block, names: Iterable[str]) -> None:
    known = {*block.inputs, *(name for op in block.operators for name in op.outputs)}
    findings = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = "did you mean " + " or ".join(f'"{n}"' for n in near) + "?" if near else ""
            findings.append(
                Finding("undefined-name", f'"{name}"', "the main block has no such value", hint)
            )
    if findings:
        raise TosaConvertError(findings)


def computed_tensors(graph: Graph) -> list[tuple[int, str]]:
    """The main block's tensors that operators compute, with the operators' indices, in order.

    Constants and variables are not among them.
    """
    block = graph.main
    return [
        (index, name)
        for index, op in enumerate(block.operators)
        if op.spec is not CONST and op.spec is not CONST_SHAPE
        for name in op.outputs
        if name in block.tensors and not block.tensors[name].variable
    ]
