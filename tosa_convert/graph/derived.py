"""Graphs made from another graph: a part of it, other names, other data."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from tosa_convert.errors import Findings, fail, suggest
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    counted,
    in_usual_order,
    name_in_location,
    quoted,
    require_graphs,
)
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE

# -- names that are not taken ----------------------------------------------------------------------


def unused_name(
    wanted: str,
    taken: Container[str],
    *,
    separator: str = "_",
    first: int = 1,
    fold: Callable[[str], str] = str,
    numbers: dict[str, int] | None = None,
) -> str:
    """Return `wanted`, or the first of wanted_1, wanted_2, ... that is not taken."""
    candidate = wanted
    key = fold(wanted)
    number = first if numbers is None else numbers.get(key, first - 1) + 1
    while fold(candidate) in taken:
        candidate = f"{wanted}{separator}{number}"
        if numbers is not None:
            numbers[key] = number
        number += 1
    return candidate


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
    """Extract; inputs are those available tensors that the outputs depend on."""
    tensors = [name for name in available if name in graph.main.tensors]
    needed = needed_operators(graph, outputs, tensors)
    used = {*outputs, *(n for index in needed for n in graph.main.operators[index].inputs)}
    return extract(graph, outputs, [name for name in tensors if name in used])


def extract_region(graph: Graph, name: str) -> Graph:
    """Return a region, under the main one's names, as a separate graph with the regions that it runs."""
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
    """Map the index of an operator to those of earlier ones whose writes to variables it can see."""
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
    """Map a value to the last operator that uses it, directly or through shapes computed from it."""
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
    """List index and name of tensors that the main block computes, constants and variables left out."""
    block = graph.main
    return [
        (index, name)
        for index, op in enumerate(block.operators)
        if op.spec is not CONST and op.spec is not CONST_SHAPE
        for name in op.outputs
        if name in block.tensors and not block.tensors[name].variable
    ]


# -- other names for a program's arguments and results ---------------------------------------------

Value = TypeVar("Value", Tensor, ShapeValue)


def rename(
    graph: Graph,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Graph:
    """Return the graph with new names for all its arguments, all its results, or both.

    Args:
        graph: the program, which is not changed. Everything but the names is shared with the result.
        input_names: a name for each argument of the main block, in order; None keeps them.
        output_names: a name for each result of the main block, in order; None keeps them.

    Returns:
        The renamed program.

    Raises:
        TosaConvertError: "option-conflict" if there are too many or too few names, if two values would
            get one name, or if one value would get two.

    Example:
        >>> from tosa_convert.graph import Block, Graph, Region, Tensor, Version, dtype
        >>> block = Block("main", ["x"], ["x"], tensors={"x": Tensor("x", dtype("FP32"), (2,))})
        >>> graph = Graph(Version(1, 0), [Region("main", [block])])
        >>> rename(graph, input_names=["image"]).main.outputs
        ['image']
    """
    require_graphs(graph)
    main = graph.main
    renamed: dict[str, str] = {}
    findings = Findings()
    for option, what, new, old in (
        ("input_names", "arguments", input_names, main.inputs),
        ("output_names", "results", output_names, main.outputs),
    ):
        if new is not None:
            for problem in _pair(what, new, old, renamed):
                findings.add("option-conflict", option, *problem)
    findings.raise_if_any()
    for clash in _clashes(main, renamed):
        findings.add("option-conflict", "names", clash, "choose another name")
    findings.raise_if_any()
    if not renamed:
        return graph
    return with_main(graph, _renamed_block(main, renamed))


def rename_in_order(graph: Graph, input_names: Sequence[str], output_names: Sequence[str]) -> Graph:
    """Rename as `rename` does, to names of frameworks: a number tells equal ones apart."""
    main = graph.main
    renamed: dict[str, str] = {}
    taken: set[str] = set()
    wanted = zip((*main.inputs, *main.outputs), (*input_names, *output_names), strict=True)
    for before, after in wanted:
        if before not in renamed:
            renamed[before] = unused_name(after or before, taken)
            taken.add(renamed[before])
    taken.update((*main.tensors, *main.shapes))
    for inner in [name for name in (*main.tensors, *main.shapes) if name not in renamed]:
        if inner in renamed.values():
            renamed[inner] = unused_name(inner, taken)
            taken.add(renamed[inner])
    return with_main(graph, _renamed_block(main, renamed))


def with_main(graph: Graph, main: Block) -> Graph:
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[main, *first.blocks[1:]]), *others])


def _pair(
    what: str, new: Sequence[str], old: Sequence[str], renamed: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Add old name -> new name for each value; iterate over what is wrong, and what to do."""
    if isinstance(new, str):
        yield f"found the text {new!r}, expected a list of names", ""
    elif len(new) != len(old):
        message = f"found {len(new)} names for {len(old)} {what}: {', '.join(map(quoted, old))}"
        yield message, "give a name for each"
    else:
        for before, after in zip(old, new, strict=True):
            if not isinstance(after, str) or not after:
                yield f"found {after!r}, expected a name", ""
            elif renamed.setdefault(before, after) != after:
                found = f"{renamed[before]!r} and {after!r}"
                hint = "one value is returned twice, or an argument is returned; give it one name"
                yield f"{quoted(before)} would get two names: {found}", hint


def _clashes(main: Block, renamed: dict[str, str]) -> Iterator[str]:
    taken = {name: name for name in (*main.tensors, *main.shapes) if name not in renamed}
    for before, after in renamed.items():
        if after in taken:
            yield f"{quoted(taken[after])} and {quoted(before)} would both be called {after!r}"
        taken[after] = before


def _renamed_block(block: Block, renamed: dict[str, str]) -> Block:
    def new(names: Sequence[str]) -> list[str]:
        return [renamed.get(name, name) for name in names]

    def with_names(op: Operator) -> Operator:
        if renamed.keys().isdisjoint((*op.inputs, *op.outputs)):
            return op
        return replace(op, inputs=tuple(new(op.inputs)), outputs=tuple(new(op.outputs)))

    return replace(
        block,
        inputs=new(block.inputs),
        outputs=new(block.outputs),
        operators=list(map(with_names, block.operators)),
        tensors=in_usual_order(_renamed_values(block.tensors, renamed)),
        shapes=dict(sorted(_renamed_values(block.shapes, renamed).items())),
    )


def _renamed_values(values: Mapping[str, Value], renamed: Mapping[str, str]) -> dict[str, Value]:
    rows = [
        replace(row, name=renamed[row.name]) if row.name in renamed else row
        for row in values.values()
    ]
    return {row.name: row for row in rows}


# -- graphs that share everything with another graph but the data of some tensors ------------------

#: The elements of a tensor, or the scales of a block-scaled one.
Part = Literal["data", "scale_data"]


def replace_data(graph: Graph, rows: Iterable[tuple[Block, str, Part, Constant | None]]) -> Graph:
    """Return the graph with other data of some tensors."""
    changed: dict[int, dict[str, Tensor]] = {}
    for block, name, part, data in rows:
        tensors = changed.setdefault(id(block), {})
        tensor = tensors.get(name, block.tensors[name])
        if part == "data":
            tensors[name] = replace(tensor, data=data)
        else:
            assert tensor.scale is not None
            tensors[name] = replace(tensor, scale=replace(tensor.scale, data=data))

    def changed_block(block: Block) -> Block:
        tensors = changed.get(id(block))
        return block if tensors is None else replace(block, tensors=block.tensors | tensors)

    regions = [replace(row, blocks=list(map(changed_block, row.blocks))) for row in graph.regions]
    return replace(graph, regions=regions)
