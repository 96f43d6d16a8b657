"""Programs as users give them: read once, with the arrays that they take and give."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tosa_convert import api
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.files import map_file
from tosa_convert.formats import MLIR_FORMATS, sniff
from tosa_convert.golden.array_io import Slot, match, slots
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.random_inputs import random_inputs
from tosa_convert.graph.model import Block, Graph
from tosa_convert.options import ReadOptions

#: Read with no options.
AS_IT_IS = ReadOptions()


@dataclass(frozen=True, slots=True)
class Program:
    """A graph, and the flatbuffer that holds it if it was read from one.

    flatbuffer: a file that the reference model can be given as it is; None for anything else.
    """

    graph: Graph
    flatbuffer: Path | None = None


def load_program(source: Any, read: ReadOptions = AS_IT_IS) -> Program:
    """A program from anything that can be read.

    Args:
        source: a Graph, a Program, a path, bytes, or a module of any MLIR bindings. MLIR gets the
            lowest TOSA version that expresses it.
        read: how to read files and modules.

    Raises:
        TosaConvertError: what is wrong with the source.
    """
    if isinstance(source, Program):
        return source
    if isinstance(source, Graph):
        return Program(source)
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        data = api.export_tosa_func_to_flatbuffer(
            source, func=read.func, input_shapes=read.input_shapes
        )
        return Program(_load(data, ReadOptions()))
    if isinstance(source, (str, os.PathLike)) and not os.path.isfile(source):
        source = map_file(source)  # a pipe can be read only once
    if isinstance(source, (str, os.PathLike)):
        file_format = sniff(map_file(source), os.fspath(source))
    else:
        file_format = sniff(memoryview(source), "")
    graph = _load(source, read)
    if file_format in MLIR_FORMATS:
        return Program(api.stamp(graph))
    # With shapes given, the file is no longer what runs.
    is_file = isinstance(source, (str, os.PathLike)) and not read.input_shapes
    return Program(graph, Path(source) if is_file and file_format == "tosa" else None)


def _load(source: Any, read: ReadOptions) -> Graph:
    return api.load(
        source,
        func=read.func,
        names=read.names,
        bindings=read.bindings,
        full_paths=read.full_paths,
        narrow=read.narrow,
        input_shapes=read.input_shapes,
        accept_changed_weights=read.accept_changed_weights,
        isolate=read.isolate,
    )


def as_graph(source: Any, read: ReadOptions = AS_IT_IS) -> Graph:
    """The graph of anything that can be read; see `load_program`."""
    return load_program(source, read).graph


def input_slots(graph: Graph) -> list[Slot]:
    """The arrays that the main block takes, in order.

    Raises TosaConvertError("unsupported-shape") with a finding for each shape that is not static.
    """
    return _slots_of(graph.main, graph.main.inputs, "input")


def output_slots(graph: Graph) -> list[Slot]:
    """The arrays that the main block gives, in order; a repeated output has one slot.

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
    graph: Graph, inputs: Mapping[str, Any] | None, random: int | None = None
) -> dict[str, Array]:
    """An array for each input, in its type and shape.

    Args:
        graph: the program.
        inputs: arrays by the inputs' names.
        random: a seed, 0 or more, for the inputs that are not given; None to refuse those.

    Raises:
        TosaConvertError: `input-mismatch` with a finding for each array that is missing, that no
            input takes, or that has another type or shape; `option-conflict` for a negative seed.
    """
    wanted = input_slots(graph)
    given = dict(inputs or {})
    if random is not None:
        given = {**random_inputs(graph, wanted, random), **given}
    return match(wanted, given)
