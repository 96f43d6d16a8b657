"""`data`: the arrays in .npy and .npz files and in folders of weights."""

from __future__ import annotations

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, add_options, option


@click.command(
    cls=Verb,
    epilog="Of a folder, all .npy and .npz files in it are shown; those of a folder of weights have the "
    "element types of its manifest. Exit code: 0 if all arrays can be read.",
)
@click.argument("paths", nargs=-1, required=True, type=ReadPath(), metavar="PATHS...")
@add_options("--as")
@option("--json", more="docs/show.md describes it.")
def data(paths: tuple[str, ...], element_type: str | None, as_json: bool) -> int:
    """Show arrays: type, shape, range, mean, zeros, NaN, histogram."""
    from tosa_convert.cli.data_arrays import show_arrays

    return show_arrays(paths, element_type, as_json=as_json)
