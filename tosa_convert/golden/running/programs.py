"""Programs as users give them: read once, with the arrays that they take and give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tosa_convert import api
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.read import open_input, weights_beside
from tosa_convert.formats.read import read as read_graph
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot, match, slots
from tosa_convert.golden.running.random_inputs import Ranges, random_inputs
from tosa_convert.golden.running.variable_states import state_slots
from tosa_convert.graph.model import DYNAMIC, Block, Graph, require_graphs
from tosa_convert.graph.static_shapes import has_open_sizes
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io.options import (
    ReadOptions,
    given_options,
    refuse_inapplicable,
    refuse_unexpected,
)
from tosa_convert.records import dataclass
from tosa_convert.rules.infer import settled

#: Read with no options.
AS_IT_IS = ReadOptions()


@dataclass(frozen=True, slots=True)
class Program:
    """A graph, and the flatbuffer that holds it if it was read from one.

    flatbuffer: a file that the reference model can be given as it is; None for anything else.
    """

    graph: Graph
    flatbuffer: Path | None = None


def load_program(source: Any, read: ReadOptions = AS_IT_IS, *, is_sound: bool = True) -> Program:
    """Load a program from anything that can be read."""
    if isinstance(source, Program):
        return source
    if isinstance(source, Graph):
        return Program(source)
    try:
        opened = open_input(source, read)
    except TypeError:  # neither a path nor bytes
        graph = api.from_module(
            source,
            func=read.func,
            names=read.names,
            full_paths=read.full_paths,
            pass_captured=read.pass_captured,
            narrow=read.narrow,
            input_shapes=read.input_shapes,
        )
        return Program(graph)
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
    """Return the slots of the arrays that the main block takes, in order.

    Raises TosaConvertError("unsupported-shape") with a finding for each shape that is not static.
    """
    require_graphs(graph)
    return _slots_of(graph.main, graph.main.inputs, "input")


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
    """Return the slots of the main block's outputs, in order; a repeated output has one slot.

    Raises TosaConvertError("unsupported-shape") with a finding for each shape that is not static.
    """
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
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    random: int | None = None,
    ranges: Ranges = (),
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
