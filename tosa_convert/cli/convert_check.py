"""`convert --check`: a model in its framework, and its program on the reference model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tosa_convert.cli.run_model import arrays_from_files
from tosa_convert.frontends.process.run import TIMEOUT
from tosa_convert.frontends.quantisation_parameters import scales_of
from tosa_convert.golden.backends.process import KeptWorkers, Machine
from tosa_convert.golden.models.compare_model import compare_model, require_for_check
from tosa_convert.golden.running.programs import shapes_of_inputs

if TYPE_CHECKING:
    from tosa_convert.cli.convert_file import ConvertOptions
    from tosa_convert.frontends.lower_model import Lowered
    from tosa_convert.golden.accuracy.comparison import Comparison
    from tosa_convert.graph.model import Graph


def begin_check(name: str, software: str, options: ConvertOptions) -> Machine:
    """Refuse what cannot be checked; else have the framework imported while the model is converted."""
    require_for_check(name, options.python)
    timeout = TIMEOUT if options.timeout is None else options.timeout
    kept = KeptWorkers()
    machine = Machine(options.python or sys.executable, timeout, kept)
    if process := kept.of(machine.python, software, "", timeout):
        process.begin()
    return machine


def check_model(
    graph: Graph, name: str, found: Lowered, options: ConvertOptions, machine: Machine
) -> Comparison:
    by_old_name = dict(zip(found.graph.main.inputs, graph.main.inputs, strict=True))
    inputs, outputs = graph.main.inputs, graph.main.outputs
    return compare_model(
        graph,
        name,
        found.model,
        given=arrays_from_files(options.arrays, inputs, shapes_of_inputs(graph)),
        examples={by_old_name[key]: array for key, array in found.examples.items()},
        seed=options.random,
        machine=machine,
        scales={
            **scales_of(found.interface.inputs, inputs),
            **scales_of(found.interface.outputs, outputs),
        },
        engine=options.engine,
    )
