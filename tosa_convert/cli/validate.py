"""`validate`: what TOSA forbids in programs, as text, JSON or SARIF."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import add_options, option


@click.command(
    cls=Verb,
    epilog="Files of any format are recognised by their content; of a directory all .tosa, .json, "
    ".mlir, .mlirbc and .bc files below it are read. Without FILES, or with -, the input is standard "
    "input. Exit code: 0 if TOSA allows all programs, 1 if there are findings, and another one for a "
    "file that cannot be read.",
)
@click.argument("files", nargs=-1, type=ReadPath(), metavar="[FILES]...")
@option("--profile", more="What needs another one is a finding.")
@option("--level", more="A limit that an operator exceeds is a finding.")
@option(
    "--spec-version",
    type=click.Choice(["1.0", "1.1"]),
    help="The TOSA version of the target; operators, types and unknown sizes that it does not have are "
    "findings.",
)
@option(
    "--for", "readers", multiple=True, more="What it does not read is a finding. May be repeated."
)
@option(
    "--least",
    is_flag=True,
    help="Also print the least TOSA version, profiles, extensions and level that each program needs. "
    "JSON always has them.",
)
@option("--json")
@option(
    "--sarif",
    "as_sarif",
    is_flag=True,
    excludes=("--json", "--least"),
    help="Report as SARIF 2.1.0, for code scanning.",
)
@option("--output", more="By default the report goes there.")
@add_options("--func --jobs --limit")
def validate(**given: Any) -> int:
    """Report everything that TOSA forbids in programs."""
    from tosa_convert.cli import validate_files

    return validate_files.validate_programs(**given)
