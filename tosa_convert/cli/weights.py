"""`weights export|import|strip`: a program's constants in files of their own, edited or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tosa_convert.cli.command import VerbGroup
from tosa_convert.cli.messages import note
from tosa_convert.cli.option import Folder, ReadPath, add_options, option
from tosa_convert.errors import printable
from tosa_convert.io.options import WEIGHT_FORMS, WeightForm

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph


@click.group(cls=VerbGroup)
def weights() -> None:
    """Take a program's weights out, put edited ones in, or strip them."""


@weights.command("export")
@click.argument("source", type=ReadPath(), metavar="IN")
@option("--output", more="By default named as IN, with the extension .weights for a folder.")
@option(
    "--to",
    "form",
    type=click.Choice(WEIGHT_FORMS),
    help="Format of the output: npy, a folder of .npy files, or one file. By default what its extension "
    "says, else npy.",
    more="",
)
@add_options("--larger-than")
def export_weights(
    source: str, output: str | None, form: WeightForm | None, larger_than: int
) -> None:
    """Write the constants as a .npy each and a manifest, or as one file."""
    from tosa_convert import api
    from tosa_convert.cli.convert_file import load_graph
    from tosa_convert.io.files import STANDARD

    if output == STANDARD or (output is None and source == STANDARD):
        raise click.UsageError(
            "weights are written into a folder or file: name it with -o DIR or -o FILE"
        )
    folder = output or api.weights_folder(source, form or "npy")
    count = api.export_weights(load_graph(source), folder, to=form, larger_than=larger_than)
    note(f"{count} constants in {printable(str(folder))}")


@weights.command("import")
@click.argument("source", type=ReadPath(), metavar="IN")
@click.argument("folder", type=Folder(), metavar="WEIGHTS")
@option("--output", required=True)
@add_options("--to --accept-changed-weights --no-validate")
def import_weights(source: str, folder: str, accept_changed_weights: bool, **given: Any) -> None:
    """Put the constants of a folder or file into a program of the same shapes and types.

    WEIGHTS is what `weights export` wrote, or a safetensors, .irpa or GGUF file of another program whose
    arrays have the names of the tensors.
    """
    from tosa_convert import api
    from tosa_convert.cli.convert_file import edit_file

    def imported(graph: Graph) -> Graph:
        return api.import_weights(graph, folder, accept_changed_weights=accept_changed_weights)

    edit_file(source, imported, given)


@weights.command("strip")
@click.argument("source", type=ReadPath(), metavar="IN")
@option("--output", required=True)
@add_options("--to --parameters")
def strip_weights(source: str, parameters: bool, **given: Any) -> None:
    """Replace the weights by zeros, for a bug report on a confidential model.

    Shapes and element types stay as they are, and so do zero points, shifts, multipliers and padding
    values. Names and locations stay, too: check that they tell nothing confidential.
    """
    from tosa_convert import api
    from tosa_convert.cli.convert_file import edit_file

    def stripped(graph: Graph) -> Graph:
        return api.strip_weights(graph, keep_parameters=not parameters)

    edit_file(source, stripped, {**given, "validate": False})
