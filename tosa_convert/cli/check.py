"""`check`: a model on the reference model and on a backend."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import Folder, NamesFile, ReadPath
from tosa_convert.cli.run import RUN_OPTIONS
from tosa_convert.cli.shared_options import add_options, option


@click.command("check", cls=Verb)
@click.argument("model", type=ReadPath())
@option("--against", required=True, multiple=True, distinct=str, more="May be repeated.")
@add_options(RUN_OPTIONS)
@add_options("--no-edges --original --python --keep --atol --rtol --official --strict --widen")
@add_options("--variables --json")
@option("--seeds", more="The first is that of --random, 0 by default. Edge inputs of each follow.")
@option("--calibration", excludes=("--seeds", "--random", "--range", "--edges", "--no-edges"))
@option(
    "--reference",
    type=NamesFile(),
    metavar="BACKEND",
    help="Compare with another backend instead of the reference model, within the tolerances.",
)
@option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run the backend N times on the same inputs; its results must be equal bit for bit.",
)
@option(
    "--save",
    type=Folder(),
    metavar="DIR",
    help="Save the model and, of each run, the inputs, both results and the comparison.",
)
def check(model: str, **options: Any) -> int:
    """Compare the outputs of MODEL on a BACKEND with the reference model's.

    Exit code 1 if they differ. Integers are compared bit for bit; floating point by TOSA's accuracy
    rules where they apply, else by the error that the reference model itself makes.
    """
    from tosa_convert.cli.run_check import run_check

    return run_check(model, options)
