"""`check`: a model on the reference model and on a backend."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.cli.run import RUN_OPTIONS


@click.command("check", cls=Verb)
@click.argument("model", type=ReadPath())
@option("--against", required=True, multiple=True, distinct="", more="May be repeated.")
@add_options(RUN_OPTIONS)
@add_options("--no-edges --original --python --keep --atol --rtol --official --strict --widen")
@add_options("--variables --json")
@option("--seeds", more="The first is that of --random, 0 by default. Edge inputs of each follow.")
@option("--calibration", excludes=("--seeds", "--random", "--range", "--edges", "--no-edges"))
@add_options("--reference --repeat --save")
def check(model: str, **options: Any) -> int:
    """Compare the outputs of MODEL on a BACKEND with the reference model's.

    Exit code 1 if they differ. Integers are compared bit for bit; floating point by TOSA's accuracy
    rules where they apply, else by the error that the reference model itself makes.
    """
    from tosa_convert.cli.run_check import run_check

    return run_check(model, options)
