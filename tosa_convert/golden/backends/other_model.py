"""Backends that run programs on an engine of our own: another version of the model, and numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import match
from tosa_convert.golden.running.programs import Program, as_graph, input_slots
from tosa_convert.golden.running.run_graph import run_in_folder, run_program
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.golden.running.variable_states import STATE_PREFIX, variables_of
from tosa_convert.graph.derived import extract_from, extract_region
from tosa_convert.graph.model import Graph

#: The backend that runs programs by the definitions of `tosa_convert.reference`.
NUMPY: Final = "numpy"
#: The backend that runs programs on the reference model.
REFERENCE_MODEL: Final = "reference-model"


def part_of(graph: Graph, names: Sequence[str], cuts: Sequence[str]) -> Graph:
    """Return the part of a graph that a backend computes: the graph itself if that is all of it.

    The whole has operators that no output depends on, too, such as writes to variables.
    """
    if not cuts and set(names) == set(graph.main.outputs):
        return graph
    return extract_from(graph, names, cuts)


def refuse_same_engine(backend: object, options: RunOptions) -> None:
    """Refuse to compare an engine with itself.

    Raises TosaConvertError("option-conflict").
    """
    reference = NUMPY if options.uses_numpy else REFERENCE_MODEL
    if isinstance(backend, OtherModel) and backend.text == reference:
        hints = {
            NUMPY: "install the reference model, or name another backend",
            REFERENCE_MODEL: "--engine numpy computes the reference by numpy",
        }
        raise fail(
            "option-conflict",
            f"--against {reference}",
            f"the reference is {reference} as well, so that nothing would be compared",
            hints[reference],
        )


class OtherModel:
    """Another version of the model, with the same names, on the reference model or another engine.

    graph: the model, if it is not to be read from `path`.
    """

    def __init__(
        self, path: str, timeout: float, graph: Graph | None = None, engine: Engine = "auto"
    ) -> None:
        self.name = self.text = path
        self.options = RunOptions(timeout=timeout, engine=engine)
        self.graph = as_graph(path) if graph is None else graph

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """Compute tensors; see `runners.Runner`."""
        part = part_of(self.graph, names, cuts)
        if part is not self.graph or not variables_of(part):
            return run_in_folder(folder, part, inputs, self.options)
        given = match(input_slots(part), inputs, strict=False)
        result = run_program(Program(part), given, self.options)
        states = {STATE_PREFIX + name: array for name, array in result.variables.items()}
        return {**result.outputs, **states}

    def of_graph(self, graph: Graph) -> OtherModel:
        """Return the same backend for another program."""
        return OtherModel(self.name, self.options.timeout, graph, self.options.engine)

    def inside(self, output: str, attribute: str) -> OtherModel:
        """Return the backend for a region; see `runners.Runner`.

        Raises TosaConvertError("undefined-name") if it has no such region.
        """
        for op in self.graph.main.operators:
            if output in op.outputs and attribute in op.attributes:
                inner = extract_region(self.graph, str(op.attributes[attribute]))
                return self.of_graph(inner)
        raise fail("undefined-name", self.name, f'the operator of "{output}" has no {attribute}')
