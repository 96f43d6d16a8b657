"""`suite`: cases that are converted, given to a backend, or lowered from frameworks, and checked."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.frontends import frontend_names
from tosa_convert.cli.option import NamesFile, ReadPath, WritePath
from tosa_convert.cli.shared_options import add_options, names_from, option


@click.command("suite", cls=Verb)
@click.argument("cases", nargs=-1, required=True, type=NamesFile(), metavar="CASES...")
@option(
    "--frontends",
    metavar="NAMES",
    help="Lower models of frameworks instead, and compare each with its framework: names of "
    "`tosa-flatbuffer frontends`, such as torch,onnx,tflite.",
    **names_from(frontend_names),
)
@option("--narrow", needs=("--frontends",))
@option(
    "--through",
    "via",
    type=click.Choice(["tosa", "mlir", "mlirbc", "json"]),
    old=("--via",),
    excludes=("--against", "--frontends"),
    help="Format that each file is converted into before it becomes a flatbuffer again; tosa by "
    "default.",
)
@option(
    "--against",
    excludes=("--frontends",),
    more="A folder of results has a folder for each case. Cases run with their own inputs, and official "
    "ones are judged by their own rule.",
)
@option("--python", needs=("--against", "--frontends"))
@option(
    "--profile",
    old=("--extensions",),
    needs=("--against",),
    more="Cases that need another one are not run. By default it has all.",
)
@option("--level", needs=("--against",), more="What exceeds it is not run. By default 8k.")
@option("--custom", needs=("--against",))
@option("--keep", needs=("--against",))
@option(
    "--reduce",
    is_flag=True,
    needs=("--keep",),
    help="Keep the smallest inputs on which a result is still wrong; needs up to 60 further runs of "
    "such a case.",
)
@option(
    "--seeds",
    needs=("--against",),
    more="Each program that passes runs on them, too, and on edge inputs of each seed, judged as "
    "by check. Without it, cases run on their own inputs alone.",
)
@option("--edges", more="Without --seeds, those of one seed.")
@option("--no-edges", more="Without --seeds there are none.")
@option(
    "--strict",
    needs=("--against",),
    more="Official cases are judged by their own rule.",
)
@option(
    "--xfail",
    type=ReadPath(),
    metavar="FILE",
    help="Expected failures: a pattern of case names and a reason in each line. A case that passes "
    "although it is listed fails the run.",
)
@option("--refused", more="It is fail with --frontends.")
@option(
    "--baseline",
    type=ReadPath(),
    metavar="FILE",
    help="An earlier result of --json-report: print what changed since, also in the time and memory of "
    "the backend.",
)
@option(
    "--slowdown",
    type=click.FloatRange(min=1, min_open=True),
    metavar="TIMES",
    needs=("--baseline",),
    help="Report a case whose backend takes more than TIMES the time or memory of the baseline; 2 by "
    "default. Differences below 0.1 s or 16 MiB do not count.",
)
@option(
    "--fail-slowdown",
    is_flag=True,
    needs=("--baseline",),
    help="Let such a case fail the run. By default it is only reported.",
)
@option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler.")
@option(
    "--max-cases",
    old=("--limit",),
    more="They are spread over all; what --profile and --level leave out does not count.",
)
@option("--engine", excludes=("--frontends",))
@option("--timeout", default=60.0, more="60 by default; a case needs two or three runs.")
@option(
    "--work",
    old=("--out",),
    more="An answer counts only while the case, the backend, the options and the installed packages "
    "stay the same.",
)
@option(
    "--depends",
    type=NamesFile(),
    metavar="FILE",
    multiple=True,
    needs=("--work",),
    help="A file that a backend runs or reads and no option names, such as the program in a shell "
    "script: kept answers count only while it stays the same. May be repeated.",
)
@option("--json-report", old=("--json",))
@option(
    "--junit",
    type=WritePath(),
    metavar="FILE",
    help="Also write the result as JUnit XML; - is standard output.",
)
@option(
    "--html",
    type=WritePath(),
    metavar="FILE",
    needs=("--against", "--frontends"),
    help="Also write the result as a table in one HTML file; - is standard output.",
)
@add_options("--jobs --resume")
def suite(cases: tuple[str, ...], **options: Any) -> int:
    """Convert, run and check every case below CASES.

    For a converted file the reference model must give the outputs that it gives for the original, bit
    for bit. With --against, the outputs of a backend are judged: of a case of the official test suite by
    the rules in its descriptor, of any other case as by check.

    Names of cases begin at the folder that is given, or at the one that all of CASES have in common.

    With --frontends, CASES are folders and files with models, ONNX node tests, and Python files whose
    functions make_* each make a model. Each is lowered, written, and compared as by convert --check.

    The exit code is 1 if a case fails that was not expected to, or passes although it was, and if no
    case ran. A case that the backend refuses (exit code 77, or NotImplementedError in Python) is
    skipped, as if it had not run, unless --refused fail is given.
    """
    from tosa_convert.qualify.verbs.run_suite import run_suite

    return run_suite(cases, options)
