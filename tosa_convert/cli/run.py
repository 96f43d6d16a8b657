"""`run`: a program's outputs from the TOSA reference model."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb, complete_file_name
from tosa_convert.cli.input_shapes import input_shape_option


def input_options(command: Any) -> Any:
    """The options of the verbs that run programs: what is run, and on which inputs."""
    # The last decorator comes first in the help.
    for option in reversed(_INPUT_OPTIONS):
        command = option(command)
    return command


_INPUT_OPTIONS = (
    click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="[NAME=]FILE",
        shell_complete=complete_file_name,
        help="An .npz file with an array for each name, or NAME=FILE.npy; may be repeated.",
    ),
    click.option(
        "--random",
        type=click.IntRange(0),
        metavar="SEED",
        help="Random values for the other inputs, in a range for each element type.",
    ),
    click.option(
        "--range",
        "ranges",
        multiple=True,
        metavar="NAME=LOW:HIGH",
        help="Another range for the random values of the inputs whose name matches NAME.",
    ),
    input_shape_option,
    click.option("--func", metavar="NAME", help="The function to run, if there are several."),
    click.option(
        "--narrow",
        metavar="TYPES",
        default="",
        help="Element types to convert, as in convert: i64, f64, quant.",
    ),
    click.option(
        "--timeout",
        type=float,
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="Limit for one run of the reference model or of another program.",
    ),
)


@click.command("run", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@click.option("-o", "--output", type=click.Path(), metavar="NPZ", help="Write the outputs by name.")
@click.option(
    "--variables", metavar="NPZ", type=click.Path(), help="Initial states of variables, by name."
)
@click.option(
    "--save-variables", metavar="NPZ", type=click.Path(), help="Write the states after the run."
)
@click.option(
    "--save-inputs", metavar="NPZ", type=click.Path(), help="Write the inputs that were used."
)
@click.option("--precise", is_flag=True, help="Compute floating point in FP64.")
@click.option(
    "--bounds", metavar="NPZ", type=click.Path(), help="Write accuracy bounds (implies --precise)."
)
@click.option(
    "--intermediates",
    metavar="DIR|NPZ",
    type=click.Path(),
    help="Write every computed tensor, with its operator and location.",
)
@click.option(
    "--pattern", multiple=True, metavar="GLOB", help="Only intermediates whose name matches."
)
@click.option(
    "--inside",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Also write the tensors of the branch that COND_IF takes, and of the first N iterations of "
    "WHILE_LOOP.",
)
@click.option(
    "--batch-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of intermediates that one run computes.",
)
@click.option(
    "--level",
    type=click.Choice(["none", "8k"]),
    default="none",
    show_default=True,
    help="Limits on sizes that the reference model checks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def run(model: str, **options: Any) -> int:
    """Run MODEL (MLIR, .tosa or JSON) on the TOSA reference model.

    Inputs come from .npy and .npz files or --random; without -o only a summary is printed.
    """
    from tosa_convert.cli.run_model import run_command

    return run_command(model, options)
