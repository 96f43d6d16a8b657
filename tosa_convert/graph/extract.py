"""Extract a sub-graph: chosen values become its outputs and inputs, and operators between them remain.

Names, locations, the order of operators and the version stay the same. Constants are part of the
sub-graph. A write to a variable is part of it if a later read in the sub-graph can see it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from tosa_convert.errors import Findings, fail, suggest
from tosa_convert.graph.locations import name_in_location
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    counted,
    quoted,
    require_graphs,
)
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.records import replace

#: Outputs that the message about an unknown name lists.
_NAMED = 4


def extract(graph: Graph, outputs: Sequence[str], inputs: Iterable[str] = ()) -> Graph:
    """Return the part of the main block that computes `outputs`.

    The result shares operators, tensors and constants with the graph; change neither of them.

    Args:
        graph: A graph that `verify` finds sound.
        outputs: Names of values of the main block.
        inputs: Names of tensors that become inputs: the operators that compute them are left out.
            Inputs of the graph that are still needed precede them.

    Returns:
        A graph with the operators that the outputs depend on, and the regions that these run.

    Raises:
        TosaConvertError: "undefined-name" for a name that the main block does not have;
            "option-conflict" for an input that is not a tensor or that no output depends on.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> print(extract(graph, ["layer_15"], ["layer_14"]).main)
        block "main": (layer_14: FP32 [1, 16, 16, 16]) -> (layer_15: FP32 [1, 8, 8, 16])
          layer_15 = MAX_POOL2D(layer_14) {...} : FP32 [1, 8, 8, 16]
    """
    require_graphs(graph)
    block = graph.main
    cuts = list(dict.fromkeys(inputs))
    _check_names(block, [*outputs, *cuts])
    if not outputs:
        raise fail("option-conflict", "outputs", "a sub-graph needs an output")
    needed = needed_operators(graph, outputs, cuts)
    operators = [op for index, op in enumerate(block.operators) if index in needed]
    used = set(outputs)
    for op in operators:
        used.update(op.inputs, op.outputs)
    _check_cuts(block, cuts, used)
    original_inputs = [name for name in block.inputs if name in used and name not in cuts]
    producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
    cuts.sort(key=lambda name: producers.get(name, -1))
    produced = {name for op in operators for name in op.outputs}
    operators, renamed = _without_results(block, operators, cuts)
    has_regions = any(op.spec.regions for op in operators)
    tensors = {
        name: tensor
        for name, tensor in block.tensors.items()
        # Reads of variables in regions are not analysed: all variables stay.
        if name in used or (tensor.variable and name not in produced and has_regions)
    }
    shapes = {name: shape for name, shape in block.shapes.items() if name in used}
    result = Block(
        block.name, original_inputs + cuts, list(outputs), operators, tensors | renamed, shapes
    )
    regions = [Region(graph.regions[0].name, [result]), *reachable(graph, operators)]
    return Graph(graph.version, regions, graph.producer, graph.target)


def _check_cuts(block: Block, cuts: Iterable[str], used: Container[str]) -> None:
    findings = Findings()
    for name in cuts:
        if name in block.shapes:
            problem = f'"{name}" is a shape; only tensors can be inputs'
        elif block.tensors[name].variable:
            problem = f'"{name}" is a variable, whose value is not an input'
        elif name not in used:
            problem = f'no output depends on "{name}"'
        else:
            continue
        findings.add("option-conflict", "inputs", problem)
    findings.raise_if_any()


def _without_results(
    block: Block, operators: list[Operator], cuts: Sequence[str]
) -> tuple[list[Operator], dict[str, Tensor]]:
    """Rename results that became inputs, of operators that remain for another result."""
    renamed: dict[str, Tensor] = {}
    result = []
    for op in operators:
        names = {}
        for name in op.outputs:
            if name in cuts:
                names[name] = unused_name(name, block.tensors.keys() | renamed.keys())
                renamed[names[name]] = replace(block.tensors[name], name=names[name])
        outputs = tuple(names.get(name, name) for name in op.outputs)
        result.append(replace(op, outputs=outputs) if names else op)
    return result, renamed


def extract_from(graph: Graph, outputs: Sequence[str], available: Iterable[str]) -> Graph:
    """`extract` whose inputs are those available tensors that the outputs depend on."""
    tensors = [name for name in available if name in graph.main.tensors]
    needed = needed_operators(graph, outputs, tensors)
    used = {*outputs, *(n for index in needed for n in graph.main.operators[index].inputs)}
    return extract(graph, outputs, [name for name in tensors if name in used])


def extract_region(graph: Graph, name: str) -> Graph:
    """Return a region as a separate graph, with the regions that its operators run.

    The region and its block get the names of the graph's main ones, which some readers expect.
    """
    for region in graph.regions:
        if region.name == name:
            inner = reachable(graph, _operators(region))
            first, *rest = region.blocks
            first = replace(first, name=graph.main.name)
            renamed = Region(graph.regions[0].name, [first, *rest])
            return Graph(graph.version, [renamed, *inner], graph.producer, graph.target)
    raise fail("undefined-name", f'region "{name}"', "the graph does not have this region")


def needed_operators(graph: Graph, outputs: Iterable[str], inputs: Iterable[str] = ()) -> set[int]:
    """Return indices of the main block's operators that `outputs` need beside `inputs`."""
    block = graph.main
    producers = {name: i for i, op in enumerate(block.operators) for name in op.outputs}
    states = _states(graph, block)
    stop = set(inputs)
    needed: set[int] = set()
    pending = [
        producers[name]
        for name in outputs
        if name in producers and name not in stop and not _is_variable(block, name)
    ]
    while pending:
        index = pending.pop()
        if index in needed:
            continue
        needed.add(index)
        for name in block.operators[index].inputs:
            if name in producers and name not in stop and not _is_variable(block, name):
                pending.append(producers[name])
        pending += states.get(index, ())
    return needed


def _is_variable(block: Block, name: str) -> bool:
    tensor = block.tensors.get(name)
    return tensor is not None and tensor.variable


def _states(graph: Graph, block: Block) -> dict[int, list[int]]:
    """Index of an operator -> indices of earlier ones whose writes to variables it can see."""
    if not any(tensor.variable for tensor in block.tensors.values()):
        return {}
    states: dict[int, list[int]] = {}
    last: dict[str, int] = {}
    any_variable: list[int] = []
    for index, op in enumerate(block.operators):
        if op.spec is VARIABLE_READ:
            name = op.inputs[0]
            states[index] = [last[name]] if name in last else []
            states[index] += any_variable
        elif op.spec is VARIABLE_WRITE:
            last[op.outputs[0]] = index
        elif op.spec.regions and touches_variables(graph, op):
            # The variables of a region are not analysed: it depends on all earlier writes.
            states[index] = [*last.values(), *any_variable]
            any_variable.append(index)
    return states


def touches_variables(graph: Graph, operator: Operator) -> bool:
    """Return whether the operator runs a region that reads or writes a variable, directly or not."""
    return any(
        op.spec is VARIABLE_READ or op.spec is VARIABLE_WRITE
        for region in reachable(graph, [operator])
        for op in _operators(region)
    )


def reachable(graph: Graph, operators: Iterable[Operator]) -> list[Region]:
    """Return the regions that the operators run, directly or not, in the order of the graph."""
    by_name = {region.name: region for region in graph.regions}
    seen: set[str] = set()
    pending = list(operators)
    while pending:
        op = pending.pop()
        for row in op.spec.regions:
            name = str(op.attributes.get(row.name))
            if name not in seen and name in by_name:
                seen.add(name)
                pending += _operators(by_name[name])
    return [region for region in graph.regions[1:] if region.name in seen]


def unrun_regions(graph: Graph) -> list[Region]:
    """Return the regions that no operator runs, or only operators of such regions, in order."""
    main = graph.regions[:1]
    run = {region.name for region in main}
    run.update(row.name for row in reachable(graph, [op for row in main for op in _operators(row)]))
    return [region for region in graph.regions if region.name not in run]


def _operators(region: Region) -> list[Operator]:
    return [operator for block in region.blocks for operator in block.operators]


def last_uses(block: Block) -> dict[str, int]:
    """Value -> index of the last operator that uses it, directly or through shapes computed from it."""
    last = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    for index in range(len(block.operators) - 1, -1, -1):
        op = block.operators[index]
        after = max((last.get(name, -1) for name in op.outputs if name in block.shapes), default=-1)
        for name in op.inputs:
            last[name] = max(last[name], after)
    return last


def _check_names(block: Block, names: Iterable[str]) -> None:
    defined = {*block.inputs, *(name for op in block.operators for name in op.outputs)}
    findings = Findings()
    for name in names:
        if name not in defined:
            some = ", ".join(map(quoted, block.outputs[:_NAMED]))
            others = f"its outputs are {some}" + ", ..." * (len(block.outputs) > _NAMED)
            near = suggest(quoted(name), map(quoted, defined), others if some else "")
            hint = _at_location(block, name) or near
            findings.add("undefined-name", quoted(name), "the main block has no such value", hint)
    findings.raise_if_any()


def _at_location(block: Block, name: str) -> str:
    """Return the hint for a name of the framework, which locations keep; "" if none has it."""
    made = [op.outputs for op in block.operators if name_in_location(op.location) == name]
    found = [one for results in made for one in results]
    if not found:
        return ""
    count = counted(len(found), "value")
    return f"{count} of the location {quoted(name)}, the last is {quoted(found[-1])}"


def computed_tensors(graph: Graph) -> list[tuple[int, str]]:
    """List the tensors that operators of the main block compute, but no constants and variables.

    Each is the operator's index and the name, in order.
    """
    block = graph.main
    return [
        (index, name)
        for index, op in enumerate(block.operators)
        if op.spec is not CONST and op.spec is not CONST_SHAPE
        for name in op.outputs
        if name in block.tensors and not block.tensors[name].variable
    ]
