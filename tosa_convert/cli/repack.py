"""`repack`: the same program with its weights stored elsewhere."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import add_options, option


@click.command(cls=Verb)
@click.argument("source", type=ReadPath(), metavar="IN")
@option("--output", required=True, more="A .tosa or .json file.")
@option("--for", "consumer", more="The output gets a form that it opens; the rest is refused.")
@add_options("--to --weights --accept-changed-weights --verify --no-validate")
def repack(**given: Any) -> None:
    """Move a program's weights: into the file, after it, or into .npy files."""
    from tosa_convert.cli import convert_work

    convert_work.repack(**given)
