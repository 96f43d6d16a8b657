"""The states of a program's variables: set before a run, and known after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot, coerce, slots
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.derived import reachable, unused_name
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor
from tosa_convert.graph.opset import VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.records import replace

#: Before the name of a variable: the key of its state after a run among a backend's results.
STATE_PREFIX: Final = "variable:"


def variables_of(graph: Graph) -> dict[str, Tensor]:
    """Return the variables of the main block by name: the symbol if there is one, else the tensor's."""
    return {_name(tensor): tensor for tensor in graph.main.tensors.values() if tensor.variable}


def _name(tensor: Tensor) -> str:
    return tensor.variable_name or tensor.name


def state_slots(graph: Graph) -> dict[str, Slot]:
    """Return the type and shape of each variable's state, by its key among results."""
    result: dict[str, Slot] = {}
    for name, tensor in variables_of(graph).items():
        own = slots(graph.main, tensor.name)[0]
        result[STATE_PREFIX + name] = replace(own, key=STATE_PREFIX + name)
    return result


def with_variables(graph: Graph, states: Mapping[str, Any]) -> Graph:
    """Return the same graph with other initial states.

    Raises TosaConvertError("input-mismatch") for names that are not variables, and for arrays of
    another type or shape.
    """
    if not states:
        return graph
    declared = variables_of(graph)
    names = ", ".join(map(repr, declared))
    message = f"there is no such variable; the variables are: {names or 'none'}"
    findings = [
        Finding("input-mismatch", f'variable "{name}"', message)
        for name in states
        if name not in declared
    ]
    if findings:
        raise TosaConvertError(findings)
    initialised: dict[str, Tensor] = {}
    for name, array in states.items():
        tensor = declared[name]
        slot = slots(graph.main, tensor.name)[0]
        initialised[name] = replace(tensor, data=constant_of(coerce(slot, array), slot.dtype))

    def with_states(block: Block) -> Block:
        tensors = {
            key: initialised.get(_name(tensor), tensor) if tensor.variable else tensor
            for key, tensor in block.tensors.items()
        }
        return replace(block, tensors=tensors)

    regions = [
        Region(region.name, [with_states(block) for block in region.blocks])
        for region in graph.regions
    ]
    return replace(graph, regions=regions)


def without_unused_variables(graph: Graph) -> Graph:
    """Return the graph without the variables that its main block declares and does not use.

    The reference model refuses those. Regions that use them declare them, too.
    """
    unused = unused_variables(graph)
    if not unused:
        return graph
    first, *blocks = graph.regions[0].blocks
    tensors = {name: tensor for name, tensor in first.tensors.items() if name not in unused}
    main = Region(graph.regions[0].name, [replace(first, tensors=tensors), *blocks])
    return replace(graph, regions=[main, *graph.regions[1:]])


def needs_another_name(graph: Graph) -> bool:
    """Return whether the reference model crashes because of the main block's name.

    It does if the block has variables and is not named "main".
    """
    return graph.main.name != "main" and bool(variables_of(graph))


def with_name_of_main_block(graph: Graph) -> Graph:
    """Return the graph with a main block that the reference model runs.

    The block is named "main" if it has variables.
    """
    if not needs_another_name(graph):
        return graph
    first, *blocks = graph.regions[0].blocks
    main = Region(graph.regions[0].name, [replace(first, name="main"), *blocks])
    return replace(graph, regions=[main, *graph.regions[1:]])


def unused_variables(graph: Graph) -> set[str]:
    """Variables that the main block declares and does not use."""
    main = graph.main
    unused = {name for name, tensor in main.tensors.items() if tensor.variable}
    if unused:
        unused.difference_update(main.inputs, main.outputs)
        for op in main.operators:
            unused.difference_update(op.inputs, op.outputs)
    return unused


def with_final_states(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Return a graph with each variable's final state as a tensor, and those tensors by variable.

    It is the tensor that the main block writes last, or else, if regions use variables, that of a read
    at the end of the main block: the reference model runs operators in order. A variable is left out if
    nothing writes it, or if regions use variables and it has no initial value to be read.
    """
    tensors = graph.main.tensors
    if not any(op.spec in (VARIABLE_WRITE, VARIABLE_READ) for op in _nested_operators(graph)):
        return graph, {
            _name(tensors[op.outputs[0]]): op.inputs[0]
            for op in graph.main.operators
            if op.spec is VARIABLE_WRITE
        }
    first, *blocks = graph.regions[0].blocks
    added, operators, states = dict(tensors), list(first.operators), {}
    for name, variable in variables_of(graph).items():
        if variable.data is not None:
            states[name] = unused_name(f"{name}/final", added)
            added[states[name]] = Tensor(states[name], variable.dtype, variable.shape)
            operators.append(Operator(VARIABLE_READ, (variable.name,), (states[name],)))
    main = Region(
        graph.regions[0].name, [replace(first, operators=operators, tensors=added), *blocks]
    )
    return replace(graph, regions=[main, *graph.regions[1:]]), states


def writes_variables(graph: Graph, operator: Operator, names: Iterable[str]) -> bool:
    """Return whether an operator of the main block, or a region of it, writes one of some variables."""
    wanted = set(names)
    inner = [block for region in reachable(graph, [operator]) for block in region.blocks]
    return any(
        op.spec is VARIABLE_WRITE and _name(block.tensors[op.outputs[0]]) in wanted
        for block, operators in ((graph.main, [operator]), *((b, b.operators) for b in inner))
        for op in operators
    )


def _nested_operators(graph: Graph) -> list[Operator]:
    return [op for _, block in list(graph.blocks())[1:] for op in block.operators]


def final_states(
    graph: Graph,
    tensors: Mapping[str, str],
    values: Mapping[str, Array],
    initial: Mapping[str, Any],
) -> dict[str, Array]:
    """Return the states after a run, by variable.

    tensors: as `with_final_states` returns them. values: their arrays. initial: the states that the
    run was given.
    """
    uses_regions = any(op.spec is VARIABLE_WRITE for op in _nested_operators(graph))
    states: dict[str, Array] = {}
    for name, tensor in variables_of(graph).items():
        slot = slots(graph.main, tensor.name)[0]
        if name in tensors:
            states[name] = values[tensors[name]]
        elif uses_regions:
            continue
        elif name in initial:
            states[name] = coerce(slot, initial[name])
        elif tensor.data is not None:
            states[name] = tensor.data.numpy().reshape(slot.shape)
    return states
