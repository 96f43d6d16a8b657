"""Lowers a torch program to TOSA: `.pt2` files, and modules with example arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tosa_convert.formats.write import save
from tosa_convert.frontends.lower_model import write_examples
from tosa_convert.frontends.process.request import (
    PROGRAM_FILE,
    Interface,
    Request,
    Value,
    say_stage,
)
from tosa_convert.frontends.torch.direct import lower_directly
from tosa_convert.frontends.torch.export import (
    arrays_of,
    example_tensors,
    load_program,
    placeholder_values,
    value_of_tensor,
    write_runnable,
    write_states,
)
from tosa_convert.frontends.torch.facts import (
    drop_checks,
    float_remarks,
    open_size_remarks,
    remarks_of,
    scatter_remarks,
    training_remarks,
)
from tosa_convert.frontends.torch.refusals import NotLoweredError
from tosa_convert.frontends.torch.table import decompositions
from tosa_convert.frontends.unlowered import grouped


def warm_up() -> None:
    """Import what the first export imports; for a process that many models share."""
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),))
    program.run_decompositions(decompositions())


def lower(request: Request, folder: Path) -> Interface:
    """Lower the program of a `.pt2` file or of a factory; see `Interface`."""
    say_stage(folder, "torch loads it")
    runnable = write_runnable(request, folder)
    program = load_program(request)
    write_examples(request, folder, arrays_of(example_tensors(program)))
    return lower_program(program, request, folder, runnable)


def lower_program(program: Any, request: Request, folder: Path, runnable: str) -> Interface:
    """Lower a program. runnable: what runs the model, as a name in the folder."""
    dropped = drop_checks(program)
    remarks = scatter_remarks(program)
    say_stage(folder, "it is lowered")
    try:
        found = lower_directly(program, request.narrow, partial=request.partial)
    except NotLoweredError as error:
        return Interface(not_lowered=grouped(error.found, "torch"), remarks=remarks_of(program))
    say_stage(folder, "it is written")
    save(found.graph, folder / PROGRAM_FILE, "mlirbc")
    names, tensors = found.names, placeholder_values(program)
    interface = Interface(
        model=runnable,
        inputs=[value_of_tensor(name, tensors[name]) for name in names.inputs],
        outputs=[
            Value(name=name) for name in (*names.outputs, *map(_changed, names.changed_inputs))
        ],
        remarks=[
            *dropped,
            *training_remarks(program),
            *open_size_remarks(program),
            *float_remarks(program),
            *remarks,
            *(f"{number}, which is not a tensor and is left out" for number in names.numbers),
            *(
                f"the program writes to its input {name}: its new value is the output {_changed(name)}"
                for name in names.changed_inputs
            ),
        ],
        states=write_states(names.states, folder),
    )
    if found.walk.cutter is not None:
        found.walk.cutter.add_to(interface)
    return interface


def _changed(name: str) -> str:
    return f"{name}_changed"
