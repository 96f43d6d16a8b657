"""`data`: the arrays in .npy and .npz files and in folders of weights."""

from __future__ import annotations

from typing import Final

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import option

#: The names of TOSA's element types; a test compares them with the table.
ELEMENT_TYPES: Final = (
    *("BOOL", "INT4", "INT8", "INT16", "INT32", "INT48"),
    *("FP32", "FP16", "BF16", "FP8E4M3", "FP8E5M2"),
    *("FP6E2M3", "FP6E3M2", "FP4E2M1", "FP8UE8M0", "INT64", "MXINT8"),
)


@click.command(
    cls=Verb,
    epilog="Of a folder, all .npy and .npz files in it are shown; those of a folder of weights have the "
    "element types of its manifest. Exit code: 0 if all arrays can be read.",
)
@click.argument("paths", nargs=-1, required=True, type=ReadPath(), metavar="PATHS...")
@option(
    "--as",
    "element_type",
    type=click.Choice(ELEMENT_TYPES, case_sensitive=False),
    metavar="TYPE",
    help="The element type of arrays that hold bits, such as BF16: opaque bytes, or unsigned integers "
    "of its width.",
)
@option("--json", more="docs/show.md describes it.")
def data(paths: tuple[str, ...], element_type: str | None, as_json: bool) -> int:
    """Show arrays: type, shape, range, mean, zeros, NaN, histogram."""
    from tosa_convert.cli.show_arrays import show_arrays

    return show_arrays(paths, element_type, as_json=as_json)
