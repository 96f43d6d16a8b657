"""`run`: a program's outputs from the TOSA reference model, or from numpy."""

from __future__ import annotations

from typing import Any, Final

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, add_options, option

#: Options of the verbs that run programs: what is run, and on which inputs.
RUN_OPTIONS: Final = (
    "--input --random --range --edges --input-shape --func --narrow --custom --engine --timeout"
)


@click.command("run", cls=Verb)
@click.argument("model", type=ReadPath())
@add_options(RUN_OPTIONS)
@option("--output", more="An .npz file has the outputs by name; an .npy file has the only one.")
@add_options("--variables --json --save-variables --save-inputs --precise --bounds")
@add_options("--intermediates")
@option("--pattern", needs=("--intermediates",))
@add_options("--inside")
@option("--batch-mib", needs=("--intermediates",))
@add_options("--until --print")
@option("--level", default="none", more="By default none.")
def run(model: str, **options: Any) -> int:
    """Run MODEL on the TOSA reference model, or on numpy.

    Inputs come from .npy and .npz files or --random; without -o only a summary is printed.
    """
    from tosa_convert.cli.convert_file import naming
    from tosa_convert.cli.run_model import run_command

    with naming(model):
        return run_command(model, options)
