"""`diff`: how two programs differ, aligned by what they compute."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import option


@click.command(
    "diff",
    cls=Verb,
    epilog="Files of any formats can be compared with one another; - is standard input. Exit code: 0 if "
    "the programs are equal, 1 if they differ, and another one if a file cannot be read.",
)
@click.argument("left", type=ReadPath())
@click.argument("right", type=ReadPath())
@option(
    "--compare-names",
    is_flag=True,
    old=("--names",),
    help="Also compare the names of regions, blocks and values.",
)
@option(
    "--compare-locations",
    is_flag=True,
    old=("--locations",),
    help="Also compare the locations of operators.",
)
@option(
    "--ignore-order",
    is_flag=True,
    help="Do not report operators that are the same at another place. Reads and writes of a variable "
    "keep their order.",
)
@option(
    "--context",
    "-U",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    help="How many operators to print around one that differs; 1 by default.",
)
@option("--all", more="Otherwise types that differ because those of operands do are left out.")
@option(
    "--stat",
    is_flag=True,
    excludes=("--json", "--all", "--color"),
    help="Print only how many operators of each name differ.",
)
@option("--json", excludes=("--all", "--color"))
@option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    help="When to print in colour; by default (auto) on a terminal, unless $NO_COLOR is set.",
)
@option("--func")
def diff(**given: Any) -> int:
    """Report how program RIGHT differs from LEFT, whatever values are called."""
    from tosa_convert.cli import diff_files

    return diff_files.diff(**given)
