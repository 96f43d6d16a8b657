"""`suite`: a folder of cases, converted, run and checked."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb


@click.command("suite", cls=Verb)
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--via",
    type=click.Choice(["tosa", "mlir", "mlirbc", "json"]),
    default="tosa",
    show_default=True,
    help="What each file becomes before it becomes a flatbuffer again.",
)
@click.option("--jobs", type=click.IntRange(1), help="Local processes; by default one a processor.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster there instead.")
@click.option("--limit", type=click.IntRange(1), help="Only so many cases, spread over the folder.")
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For each run.",
)
@click.option(
    "--out", type=click.Path(), metavar="DIR", help="Keep answers there and go on from them."
)
@click.option("--junit", type=click.Path(), metavar="FILE", help="Write the answers as JUnit XML.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write them as JSON.")
def suite(folder: str, **options: Any) -> int:
    """Convert, run and check every case below FOLDER.

    The reference model must give for what a file was converted to what it gives for the file itself,
    bit for bit. Exit code 1 if one does not pass.
    """
    from tosa_convert.cli.run_suite import run_suite

    return run_suite(folder, options)
