"""`run`: a program's outputs from the TOSA reference model."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb, complete_file_name, option
from tosa_convert.cli.input_shapes import input_shape_option
from tosa_convert.cli.shared_options import func_option, narrow_option


def input_options(command: Any) -> Any:
    """Add the options of the verbs that run programs: what is run, and on which inputs."""
    # The last decorator comes first in the help.
    for add in reversed(_INPUT_OPTIONS):
        command = add(command)
    return command


_INPUT_OPTIONS = (
    option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="[NAME=]FILE",
        shell_complete=complete_file_name,
        help="An .npz file with an array for each name, or NAME=FILE.npy; may be repeated.",
    ),
    option(
        "--random",
        type=click.IntRange(0),
        metavar="SEED",
        help="Random values for the other inputs, in a range for each element type.",
    ),
    option(
        "--range",
        "ranges",
        multiple=True,
        metavar="NAME=LOW:HIGH",
        distinct=lambda text: text.rpartition("=")[0],
        help="Another range for the random values of the inputs whose name matches NAME.",
    ),
    input_shape_option,
    func_option,
    narrow_option,
    option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="Limit for one run of the reference model or of another program.",
    ),
)


@click.command("run", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="NPZ",
    help="Write the outputs by name; a single one also as .npy.",
)
@option(
    "--variables", metavar="NPZ", type=click.Path(), help="Initial states of variables, by name."
)
@option(
    "--save-variables", metavar="NPZ", type=click.Path(), help="Write the states after the run."
)
@option("--save-inputs", metavar="NPZ", type=click.Path(), help="Write the inputs that were used.")
@option("--precise", is_flag=True, help="Compute floating point in FP64.")
@option(
    "--bounds", metavar="NPZ", type=click.Path(), help="Write accuracy bounds (implies --precise)."
)
@option(
    "--intermediates",
    metavar="DIR|NPZ",
    type=click.Path(),
    help="Write every computed tensor, with its operator and location.",
)
@option(
    "--pattern",
    multiple=True,
    needs=("--intermediates",),
    metavar="GLOB",
    help="Only intermediates whose name matches.",
)
@option(
    "--inside",
    needs=("--intermediates",),
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Also write the tensors of the branch that COND_IF takes, and of the first N iterations of "
    "WHILE_LOOP.",
)
@option(
    "--batch-mib",
    needs=("--intermediates",),
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of intermediates that one run computes.",
)
@option(
    "--level",
    type=click.Choice(["none", "8k"]),
    default="none",
    show_default=True,
    help="Limits on sizes that the reference model checks.",
)
@option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def run(model: str, **options: Any) -> int:
    """Run MODEL (MLIR, .tosa or JSON) on the TOSA reference model.

    Inputs come from .npy and .npz files or --random; without -o only a summary is printed.
    """
    from tosa_convert.cli.run_model import run_command

    return run_command(model, options)
