"""`check`: a model on the reference model and on a backend."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.run import input_options


def against_options(command: Any) -> Any:
    """The options of check and bisect: what a model is compared with, and how."""
    # The last decorator comes first in the help.
    for option in reversed(_AGAINST_OPTIONS):
        command = option(command)
    return command


_AGAINST_OPTIONS = (
    click.option(
        "--against",
        required=True,
        metavar="BACKEND",
        help="iree, tflite, torch, a folder of .npy files, an .npz file, another model with the "
        "same tensor names, or a command with {model} {inputs} {outputs}.",
    ),
    click.option(
        "--original",
        default="",
        metavar="FILE",
        help="For tflite the .tflite file, for torch FILE.py:NAME or an exported program.",
    ),
    click.option(
        "--python",
        default="",
        metavar="PROGRAM",
        help="The Python that has the backend's packages; by default this one.",
    ),
    click.option(
        "--keep",
        metavar="DIR",
        type=click.Path(),
        help="Keep the models and inputs on which the backend fails in folders of DIR.",
    ),
    click.option(
        "--atol",
        multiple=True,
        metavar="[NAME:]VALUE",
        help="Absolute tolerance, for all floating point or the tensors whose name matches NAME.",
    ),
    click.option(
        "--rtol",
        multiple=True,
        metavar="[NAME:]VALUE",
        help="Relative tolerance, for all floating point or the tensors whose name matches NAME.",
    ),
    click.option(
        "--variables",
        metavar="NPZ",
        type=click.Path(),
        help="Initial states of variables, by name, for both sides.",
    ),
)


@click.command("check", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@against_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def check(model: str, **options: Any) -> int:
    """Run MODEL on the reference model and compare its outputs with a BACKEND's.

    Exit code 1 if they differ. Integers are compared bit for bit; floating point by TOSA's accuracy
    rules where they apply, else by the error that the reference model itself makes.
    """
    from tosa_convert import golden
    from tosa_convert.cli.run_model import (
        backend_of,
        program_and_inputs,
        tolerances_of,
        variables_of,
    )

    tolerances = tolerances_of(options)
    program, arrays = program_and_inputs(model, options)
    backend = backend_of(program.graph, arrays, options)
    result = golden.check(
        program,
        backend,
        arrays,
        variables=variables_of(options),
        tolerances=tolerances,
        timeout=options["timeout"],
    )
    click.echo(result.to_json() if options["as_json"] else str(result))
    return 0 if result.ok else 1
