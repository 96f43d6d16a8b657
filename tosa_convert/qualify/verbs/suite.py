"""Define `suite`: cases that are converted, given to a backend, or lowered, and checked."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import NamesFile, add_options, option


@click.command("suite", cls=Verb)
@click.argument("cases", nargs=-1, required=True, type=NamesFile(), metavar="CASES...")
@add_options("--frontends")
@option("--narrow", needs=("--frontends",))
@add_options("--through")
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
@add_options("--reduce")
@option(
    "--seeds",
    needs=("--against",),
    more="Each program that passes runs on them, too, and on edge inputs of each seed, judged as "
    "by check. Without it, cases run on their own inputs alone.",
)
@option("--edges", more="Without --seeds, those of one seed.")
@option("--no-edges", more="Without --seeds there are none.")
@option("--strict", needs=("--against",), more="Official cases are judged by their own rule.")
@add_options("--xfail")
@option("--refused", more="It is fail with --frontends.")
@add_options("--baseline --slowdown --fail-slowdown --scheduler")
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
@add_options("--depends")
@option("--json-report", old=("--json",))
@add_options("--junit --html --jobs --resume")
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
