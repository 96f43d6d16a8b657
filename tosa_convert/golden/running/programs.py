"""Read programs as users give them, with the arrays that they take and give, random ones too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tosa_convert import api
from tosa_convert.custom import give_meaning
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.read import open_input, read_module, weights_beside
from tosa_convert.formats.read import read as read_graph
from tosa_convert.golden.arrays import (
    Array,
    Arrays,
    Slot,
    coerce,
    match,
    slots,
)
from tosa_convert.golden.running.random_inputs import Ranges, random_inputs
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.derived import reachable, unused_name, with_main
from tosa_convert.graph.model import (
    DYNAMIC,
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    require_graphs,
)
from tosa_convert.graph.opset import VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.graph.static_shapes import has_open_sizes
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io.keywords import refuse_unexpected
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import ReadOptions, given_options
from tosa_convert.rules.infer import settled


def inputs_of(block: Block, names: Iterable[str]) -> list[str]:
    """Return the inputs of a block that values are computed from, in its order."""
    producers = {output: op for op in block.operators for output in op.outputs}
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += producers[name].inputs if name in producers else ()
    return [name for name in dict.fromkeys(block.inputs) if name in found]


# -- the states of a program's variables: set before a run, and known after it ---------------------

#: Before the name of a variable: the key of its state after a run among a backend's results.
STATE_PREFIX: Final = "variable:"


def variables_of(graph: Graph) -> dict[str, Tensor]:
    """Return the variables of the main block by name: the symbol if there is one, else the tensor's."""
    return {_name(tensor): tensor for tensor in graph.main.tensors.values() if tensor.variable}


def _name(tensor: Tensor) -> str:
    return tensor.variable_name or tensor.name


def state_slots(graph: Graph) -> dict[str, Slot]:
    result: dict[str, Slot] = {}
    for name, tensor in variables_of(graph).items():
        own = slots(graph.main, tensor.name)[0]
        result[STATE_PREFIX + name] = replace(own, key=STATE_PREFIX + name)
    return result


def with_variables(graph: Graph, states: Mapping[str, Any]) -> Graph:
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
    """Return the graph without the variables that its main block declares and does not use."""
    unused = unused_variables(graph)
    if not unused:
        return graph
    tensors = {name: tensor for name, tensor in graph.main.tensors.items() if name not in unused}
    return with_main(graph, replace(graph.main, tensors=tensors))


def needs_another_name(graph: Graph) -> bool:
    """Return whether the reference model crashes because of the main block's name."""
    return graph.main.name != "main" and bool(variables_of(graph))


def with_name_of_main_block(graph: Graph) -> Graph:
    """Return the graph with a main block that the reference model runs."""
    return (
        with_main(graph, replace(graph.main, name="main")) if needs_another_name(graph) else graph
    )


def unused_variables(graph: Graph) -> set[str]:
    """Return the variables that the main block declares and does not use."""
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
    added, operators, states = dict(tensors), list(graph.main.operators), {}
    for name, variable in variables_of(graph).items():
        if variable.data is not None:
            states[name] = unused_name(f"{name}/final", added)
            added[states[name]] = Tensor(states[name], variable.dtype, variable.shape)
            operators.append(Operator(VARIABLE_READ, (variable.name,), (states[name],)))
    return with_main(graph, replace(graph.main, operators=operators, tensors=added)), states


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
    graph: Graph, tensors: Mapping[str, str], values: Arrays, initial: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the states after a run, by variable.

    tensors: as `with_final_states` returns them. values: their arrays. initial: the states that the run
        was given.
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


AS_IT_IS = ReadOptions()


@dataclass(frozen=True, slots=True)
class Program:
    """Hold a graph, and a flatbuffer that the reference model can be given as it is, if there is one."""

    graph: Graph
    flatbuffer: Path | None = None


def load_program(source: Any, read: ReadOptions = AS_IT_IS, *, is_sound: bool = True) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, Graph):
        return Program(give_meaning(source, read.custom) if read.custom else source)
    try:
        opened = open_input(source, read)
    except TypeError:  # neither a path nor bytes
        return Program(api.stamp(read_module(source, read)))
    refuse_inapplicable(given_options(read), opened.where, read_from=opened.format)
    graph = read_graph(opened, read)
    if is_sound or not graph.regions or not graph.regions[0].blocks:
        refuse_unsound(graph)
    if opened.is_mlir:
        return Program(api.stamp(graph))
    if has_open_sizes(graph) and (closed := settled(graph)) is not graph:
        return Program(closed)
    # With shapes given, the program that runs differs from the file, and with weights in a folder beside
    # it, the file is not the whole program.
    is_model = (
        opened.path
        and opened.format == "tosa"
        and not read.input_shapes
        and not weights_beside(opened.path)
    )
    return Program(graph, Path(opened.path) if is_model else None)


def as_graph(
    source: Any, read: ReadOptions = AS_IT_IS, options: Mapping[str, Any] | None = None
) -> Graph:
    """Return the graph of anything that can be read; see `load_program` and `reading`."""
    return load_program(source, reading(read, options or {})).graph


def reading(read: ReadOptions, options: Mapping[str, Any]) -> ReadOptions:
    """Return how to read: as keywords say, those of `tosa_convert.load`, or as a value of them does."""
    if not options:
        return read
    refuse_unexpected(api.load, options)
    if read is not AS_IT_IS:
        message = f"{', '.join(options)} and read= both say how to read"
        raise fail("option-conflict", "read", message, "give all of them as keywords")
    return ReadOptions.of(options)


def input_slots(graph: Graph) -> list[Slot]:
    require_graphs(graph)
    return _slots_of(graph.main, graph.main.inputs, "input")


def result_slots(graph: Graph) -> dict[str, Slot]:
    """Return the slots of the main block's outputs, and of the states of its variables, by key."""
    return {slot.key: slot for slot in output_slots(graph)} | state_slots(graph)


def shapes_of_inputs(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input that has a rank, by name; a size may be DYNAMIC."""
    tensors = graph.main.tensors
    shapes = {name: tensors[name].shape for name in graph.main.inputs if name in tensors}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def shapes_of_results(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the main block's tensors and states, by key, as far as they are static."""
    block = graph.main
    found = {key: slot.shape for key, slot in state_slots(graph).items()}
    named = {name: tensor.shape for name, tensor in block.tensors.items()}
    static = [name for name, sizes in named.items() if sizes is not None and DYNAMIC not in sizes]
    for name in (*static, *block.shapes):
        found |= {slot.key: slot.shape for slot in slots(block, name)}
    return found


def output_slots(graph: Graph) -> list[Slot]:
    """Return the slots of the main block's outputs, in order; a repeated output has one slot."""
    return _slots_of(graph.main, dict.fromkeys(graph.main.outputs), "output")


def _slots_of(block: Block, names: Iterable[str], role: str) -> list[Slot]:
    result: list[Slot] = []
    findings: list[Finding] = []
    for name in names:
        try:
            result += slots(block, name, f'{role} "{name}"')
        except TosaConvertError as error:
            findings += error.findings
    if findings:
        raise TosaConvertError(findings)
    return result


def input_arrays(
    graph: Graph, inputs: Mapping[str, Any] | None, random: int | None = None, ranges: Ranges = ()
) -> dict[str, Array]:
    """Return an array for each input, in its type and shape.

    Args:
        graph: the program.
        inputs: arrays by the inputs' names.
        random: a seed, 0 or more, for the inputs that are not given; None to refuse those.
        ranges: (pattern of names, lowest, highest) for random inputs.

    Returns:
        The arrays by the names of inputs, in the order of the graph.

    Raises:
        TosaConvertError: `input-mismatch` with a finding for each array that is missing, that no
            input takes, or that has another type or shape; `option-conflict` for a negative seed.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> arrays = golden.input_arrays(graph, None, random=1)
        >>> list(arrays) == graph.main.inputs
        True
    """
    wanted = input_slots(graph)
    given = dict(inputs or {})
    if random is not None:
        given = {**random_inputs(graph, wanted, random, ranges), **given}
    return match(wanted, given)
