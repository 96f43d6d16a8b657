"""`suite`: cases that are converted, given to a backend, or lowered from frameworks, and checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tosa_convert.cli.command import Verb, complete_file_name, option
from tosa_convert.cli.shared_options import names_option, profiles
from tosa_convert.io.options import NARROW


def _frontends() -> Iterable[str]:
    """Return the names of all frontends."""
    from tosa_convert.frontends.table import FRONTENDS

    return FRONTENDS


@click.command("suite", cls=Verb)
@click.argument("cases", nargs=-1, required=True, type=click.Path(), metavar="CASES...")
@names_option(
    "--frontends",
    metavar="LIST",
    choices=_frontends,
    help="Lower models of frameworks instead, and compare each with its framework: names of "
    "`tosa-flatbuffer frontends`, such as torch,onnx,tflite.",
)
@names_option(
    "--narrow",
    metavar="TYPES",
    choices=lambda: NARROW,
    absent="",
    help="For models: element types to convert, i64 to i32 and f64 to f32, such as i64,f64.",
)
@option(
    "--via",
    type=click.Choice(["tosa", "mlir", "mlirbc", "json"]),
    help="Format that each file is converted into before it becomes a flatbuffer again; tosa by "
    "default.",
)
@option(
    "--against",
    metavar="BACKEND",
    shell_complete=complete_file_name,
    help="Run the cases on a backend instead, each with its own inputs and, if it is an official one, "
    "its own rule: "
    "iree, a .py file with a function run, a command with {model} {inputs} {outputs}, or a folder with "
    "a folder of results for each case.",
)
@option(
    "--python",
    default="",
    metavar="PROGRAM",
    shell_complete=complete_file_name,
    help="The Python that has the packages of the backend or of the frameworks; by default this one.",
)
@names_option(
    "--profile",
    metavar="NAMES",
    choices=profiles,
    help="The profiles that the backend has, such as PRO-INT; cases that need another one or an "
    "extension that is not listed are not run. By default all are.",
)
@names_option(
    "--extensions",
    metavar="NAMES",
    choices=profiles,
    help="The extensions that the backend has, such as EXT-INT16,EXT-BF16.",
)
@option(
    "--level",
    type=click.Choice(["8k", "none"], case_sensitive=False),
    help="The level that the backend has, 8k by default; what exceeds it is not run.",
)
@option(
    "--keep",
    type=click.Path(),
    metavar="DIR",
    help="Keep the program, inputs, results and messages of each case that does not pass.",
)
@option(
    "--reduce",
    is_flag=True,
    help="Keep the smallest inputs on which a result is still wrong; needs up to 60 further runs of "
    "such a case.",
)
@option(
    "--xfail",
    type=click.Path(),
    metavar="FILE",
    help="Expected failures: a pattern of case names and a reason in each line. A case that passes "
    "although it is listed fails the run.",
)
@option(
    "--refused",
    type=click.Choice(["skip", "fail"]),
    help="What a case means that the backend refuses: skip counts it as not run, fail as a failure. By "
    "default skip, and fail with --frontends.",
)
@option(
    "--baseline",
    type=click.Path(),
    metavar="FILE",
    help="An earlier result of --json: print what changed since.",
)
@option("--jobs", type=click.IntRange(1), help="Local processes; by default one per processor.")
@option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler.")
@option(
    "--max-cases",
    "limit",
    old=("--limit",),
    metavar="N",
    type=click.IntRange(1),
    help="Run so many cases, spread over the folder.",
)
@option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that one run of the reference model, of the backend, or of a converter or framework may "
    "take. A case needs two or three runs.",
)
@option(
    "--out",
    type=click.Path(),
    metavar="DIR",
    help="Keep answers there, and continue an interrupted run. An answer counts only while the case, "
    "the backend, the options and the installed packages stay the same.",
)
@option(
    "--resume",
    is_flag=True,
    help="With --out: keep the answers of a complete run, too, which by default begins anew.",
)
@option("--junit", type=click.Path(), metavar="FILE", help="Write the answers as JUnit XML.")
@option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write the answers as JSON.")
@option(
    "--html",
    type=click.Path(),
    metavar="FILE",
    help="Write a table of the answers as one HTML file; needs --against or --frontends.",
)
def suite(cases: tuple[str, ...], **options: Any) -> int:
    """Convert, run and check every case below CASES.

    For a converted file the reference model must give the outputs that it gives for the original, bit
    for bit. With --against, the outputs of a backend are judged: of a case of the official test suite by
    the rules in its descriptor, of any other case as by check.

    With --frontends, CASES are folders and files with models, ONNX node tests, and Python files whose
    functions make_* each make a model. Each is lowered, written, and compared as by convert --check.

    The exit code is 1 if a case fails that was not expected to, or passes although it was.
    """
    from tosa_convert.cli.run_suite import run_suite

    return run_suite(cases, options)
