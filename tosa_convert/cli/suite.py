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
    help="Format that each file is converted into before it becomes a flatbuffer again.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Local processes; by default one per processor."
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler.")
@click.option("--limit", type=click.IntRange(1), help="Run so many cases, spread over the folder.")
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that one run of the reference model may take. A case needs two runs; one that takes "
    "longer is an error.",
)
@click.option(
    "--out",
    type=click.Path(),
    metavar="DIR",
    help="Keep answers there; continue from them.",
)
@click.option("--junit", type=click.Path(), metavar="FILE", help="Write the answers as JUnit XML.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write them as JSON.")
def suite(folder: str, **options: Any) -> int:
    """Convert, run and check every case below FOLDER.

    For a converted file the reference model must give the outputs that it gives for the original, bit
    for bit. The exit code is 1 if a case does not pass.
    """
    from tosa_convert.cli.run_suite import run_suite

    return run_suite(folder, options)
