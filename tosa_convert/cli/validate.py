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
def validate(files: tuple[str, ...], jobs: int, output: str | None, **given: Any) -> int:
    """Report everything that TOSA forbids in programs."""
    from tosa_convert.cli.validate_files import (
        Checks,
        as_json,
        as_sarif,
        as_text,
        validate_files,
        validate_standard_input,
    )
    from tosa_convert.io.files import STANDARD
    from tosa_convert.io.options import ReadOptions
    from tosa_convert.rules.profiles import parse

    checks = Checks(
        read=ReadOptions.of(given),
        profile=None if given["profile"] is None else parse(given["profile"]),
        level=given["level"],
        spec_version=given["spec_version"],
        readers=given["readers"],
        least=given["least"] or given["as_json"],
    )
    form = as_json if given["as_json"] else as_sarif if given["as_sarif"] else as_text
    paths = list(files) or [STANDARD]
    if paths == [STANDARD]:
        return validate_standard_input(checks, form, output)
    return validate_files(paths, checks, form, output, jobs)
