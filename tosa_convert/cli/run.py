"""`run`: a program's outputs from the TOSA reference model, or from numpy."""

from __future__ import annotations

from typing import Any, Final

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, WritePath, complete_tensors, tensors_of
from tosa_convert.cli.shared_options import add_options, option

#: Options of the verbs that run programs: what is run, and on which inputs.
RUN_OPTIONS: Final = (
    "--input --random --range --edges --input-shape --func --narrow --custom --engine --timeout"
)


@click.command("run", cls=Verb)
@click.argument("model", type=ReadPath())
@add_options(RUN_OPTIONS)
@option("--output", more="An .npz file has the outputs by name; an .npy file has the only one.")
@add_options("--variables --json")
@option("--save-variables", metavar="NPZ", type=WritePath(), help="Write the states after the run.")
@option("--save-inputs", metavar="NPZ", type=WritePath(), help="Write the inputs that were used.")
@option("--precise", is_flag=True, help="Compute floating point in FP64.")
@option(
    "--bounds", metavar="NPZ", type=WritePath(), help="Write accuracy bounds (implies --precise)."
)
@option(
    "--intermediates",
    metavar="DIR|NPZ",
    type=WritePath(),
    help="Write every computed tensor, with its operator and location.",
)
@option("--pattern", needs=("--intermediates",))
@option(
    "--inside",
    needs=("--intermediates",),
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also write the tensors of the branch that COND_IF takes, and of the first N iterations of "
    "WHILE_LOOP.",
)
@option("--batch-mib", needs=("--intermediates",))
@option(
    "--until",
    multiple=True,
    metavar="GLOB",
    shell_complete=complete_tensors(tensors_of),
    help="Run only what tensors whose name matches depend on, and give them as the outputs.",
)
@option(
    "--print",
    multiple=True,
    metavar="GLOB",
    shell_complete=complete_tensors(tensors_of),
    help="Print the values of tensors whose name matches, with the operators that compute them. In "
    "regions tensors have names such as y/then/t and y/body[0]/t.",
)
@option("--level", default="none", more="By default none.")
def run(model: str, **options: Any) -> int:
    """Run MODEL on the TOSA reference model, or on numpy.

    Inputs come from .npy and .npz files or --random; without -o only a summary is printed.
    """
    from tosa_convert.cli.convert_file import naming
    from tosa_convert.cli.run_model import run_command

    with naming(model):
        return run_command(model, options)
