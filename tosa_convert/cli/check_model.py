"""`convert --check`: a model in its framework, and its program on the reference model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tosa_convert import log
from tosa_convert.cli.run_model import arrays_from_files
from tosa_convert.errors import fail
from tosa_convert.frontends.run_converter import TIMEOUT
from tosa_convert.frontends.table import frontend
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.tolerances import NO_TOLERANCES
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import match
from tosa_convert.golden.backends.runners import open_backend
from tosa_convert.golden.checking.check import check_outputs
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.reference_model import RunOptions
from tosa_convert.graph.model import DYNAMIC, Graph
from tosa_convert.reading import with_shapes

if TYPE_CHECKING:
    from tosa_convert.cli.convert_file import ConvertOptions


def check_model(graph: Graph, name: str, model: str, options: ConvertOptions) -> Comparison:
    """Compare a model's outputs in its framework with those of its program on the reference model.

    Args:
        graph: the program.
        name: the model's frontend.
        model: the file that the framework runs.
        options: `arrays` and `random` are the inputs; `python` has the framework.

    Returns:
        The comparison, as `check` makes it.

    Raises:
        TosaConvertError: "option-conflict" if the framework has no runtime here; what `check` raises.
    """
    runtime = frontend(name).runtime
    if not runtime:
        message = f"models for {name} cannot be run here"
        raise fail("option-conflict", "--check", message, "leave it out, and use the verb check")
    given = arrays_from_files(options.arrays, graph.main.inputs)
    static = _static(graph, given)
    slots = input_slots(static)
    matched = match([slot for slot in slots if slot.key in given], given)
    others = [slot for slot in slots if slot.key not in matched]
    inputs = {**matched, **random_inputs(static, others, options.random or 0)}
    timeout = TIMEOUT if options.timeout is None else options.timeout
    backend = open_backend(
        runtime, static, inputs, original=model, python=options.python, timeout=timeout
    )
    return check_outputs(static, inputs, backend, NO_TOLERANCES, RunOptions(timeout=timeout))


def _static(graph: Graph, given: Mapping[str, Array]) -> Graph:
    """The graph with the sizes of the given arrays, and 1 for dynamic sizes of other inputs."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name in graph.main.inputs:
        shape = graph.main.tensors[name].shape
        if shape is None or DYNAMIC not in shape:
            continue
        if name in given:
            shapes[name] = given[name].shape
        else:
            shapes[name] = tuple(1 if size == DYNAMIC else size for size in shape)
            log.warning("checked with the shape %s of %s", list(shapes[name]), name)
    return with_shapes(graph, shapes) if shapes else graph
