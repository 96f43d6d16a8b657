"""`data`: the arrays in .npy and .npz files and in folders of weights."""

from __future__ import annotations

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import Option, ReadPath, complete_from
from tosa_convert.cli.shared_options import option
from tosa_convert.errors import refuse_unknown


def _element_types() -> list[str]:
    """Return the names of TOSA's element types."""
    from tosa_convert.graph.dtypes import DTYPES

    return [row.name for row in DTYPES]


def _element_type(ctx: click.Context, param: Option, value: str | None) -> str | None:
    """Return an element type's name as TOSA writes it."""
    if value is not None and value.upper() not in _element_types():
        refuse_unknown(param.flag, value, tuple(_element_types()))
    return value and value.upper()


@click.command(
    cls=Verb,
    epilog="Of a folder, all .npy and .npz files in it are shown; those of a folder of weights have the "
    "element types of its manifest. Exit code: 0 if all arrays can be read.",
)
@click.argument("paths", nargs=-1, required=True, type=ReadPath(), metavar="PATHS...")
@option(
    "--as",
    "element_type",
    metavar="TYPE",
    callback=_element_type,
    shell_complete=complete_from(_element_types),
    help="The element type of arrays that hold bits, such as BF16: opaque bytes, or unsigned integers "
    "of its width.",
)
@option("--json", more="docs/show.md describes it.")
def data(paths: tuple[str, ...], element_type: str | None, as_json: bool) -> int:
    """Show arrays: type, shape, range, mean, zeros, NaN, histogram."""
    from tosa_convert.cli.show_arrays import show_arrays

    return show_arrays(paths, element_type, as_json=as_json)
