"""`check`: a model on the reference model and on a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tosa_convert.cli.command import Verb, complete_file_name, option
from tosa_convert.cli.run import input_options


def against_options(command: Any) -> Any:
    """Add the options of check and bisect about the comparison to a command."""
    # The last decorator comes first in the help.
    for add in reversed(_AGAINST_OPTIONS):
        command = add(command)
    return command


def against_option(*, multiple: bool) -> Callable[[Any], Any]:
    """Return the decorator of --against."""
    return option(
        "--against",
        required=True,
        multiple=multiple,
        distinct=str if multiple else None,
        metavar="BACKEND",
        shell_complete=complete_file_name,
        help="iree, tflite:MODEL, torch:MODEL, onnxruntime:MODEL, a .py file with a function run, a "
        "folder of .npy files, an .npz file, another model with the same tensor names, or a command "
        "with {model} {inputs} {outputs}." + (" May be repeated." if multiple else ""),
    )


_AGAINST_OPTIONS = (
    option(
        "--original",
        default="",
        metavar="FILE",
        shell_complete=complete_file_name,
        help="The original model, where BACKEND does not name it: a .tflite or .onnx file, or for torch "
        "FILE.py:NAME or an exported program.",
    ),
    option(
        "--python",
        default="",
        metavar="PROGRAM",
        shell_complete=complete_file_name,
        help="The Python that has the backend's packages; by default this one.",
    ),
    option(
        "--keep",
        metavar="DIR",
        type=click.Path(),
        help="Keep the models and inputs on which the backend fails in folders of DIR.",
    ),
    option(
        "--atol",
        multiple=True,
        distinct=lambda text: text.rpartition(":")[0],
        metavar="[NAME:]VALUE",
        help="Absolute tolerance, for all floating point or the tensors whose name matches NAME.",
    ),
    option(
        "--rtol",
        multiple=True,
        distinct=lambda text: text.rpartition(":")[0],
        metavar="[NAME:]VALUE",
        help="Relative tolerance, for all floating point or the tensors whose name matches NAME.",
    ),
    option(
        "--variables",
        metavar="NPZ",
        type=click.Path(),
        help="Initial states of variables, by name, for both sides.",
    ),
)


@click.command("check", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@against_option(multiple=True)
@against_options
@option(
    "--reference",
    metavar="BACKEND",
    shell_complete=complete_file_name,
    help="Compare with another backend instead of the reference model, within the tolerances.",
)
@option(
    "--seeds",
    type=click.IntRange(1),
    metavar="N",
    help="Check random inputs of N seeds, from that of --random (0 by default) on.",
)
@option(
    "--calibration",
    excludes=("--seeds", "--random", "--range"),
    type=click.Path(),
    metavar="NPZ",
    help="Check each sample of a file: arrays by input with a further first dimension.",
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
    type=click.Path(),
    metavar="DIR",
    help="Save the model and, of each run, the inputs, both results and the comparison.",
)
@option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def check(model: str, **options: Any) -> int:
    """Run MODEL on the reference model and compare its outputs with a BACKEND's.

    Exit code 1 if they differ. Integers are compared bit for bit; floating point by TOSA's accuracy
    rules where they apply, else by the error that the reference model itself makes.
    """
    from tosa_convert.cli.run_check import run_check

    return run_check(model, options)
