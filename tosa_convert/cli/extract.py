"""`extract`: a part of a program as a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import note
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.errors import TosaConvertError, printable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph


@click.command("extract", cls=Verb)
@click.argument("model", type=ReadPath())
@option("--outputs", required=True)
@add_options("--inputs")
@option("--output", required=True)
@add_options("--to --func --no-validate")
def extract(model: str, outputs: tuple[str, ...], inputs: tuple[str, ...], **given: Any) -> int:
    """Write the part of MODEL that computes the tensors of --outputs.

    It begins at the tensors of --inputs, and at inputs of MODEL where it needs them.
    """
    from dataclasses import replace

    from tosa_convert.cli.convert_file import edit_file
    from tosa_convert.cli.messages import STDIN
    from tosa_convert.graph.derived import extract as cut
    from tosa_convert.io.files import STANDARD

    def part(graph: Graph) -> Graph:
        try:
            return cut(graph, split_names(graph, outputs), split_names(graph, inputs))
        except TosaConvertError as error:
            where = STDIN if model == STANDARD else model
            raise TosaConvertError(
                replace(row, where=f"{where}: {row.where}") for row in error.findings
            ) from None

    result = edit_file(model, part, given)
    computed = sum(bool(op.inputs) for op in result.main.operators)
    note(
        f"{printable(given['output'])}: {computed} operators, "
        f"inputs {', '.join(map(printable, result.main.inputs)) or 'none'}, "
        f"outputs {', '.join(map(printable, result.main.outputs))}"
    )
    return 0


def split_names(graph: Graph, texts: tuple[str, ...]) -> list[str]:
    """Split names separated by commas; a name that has a comma itself is taken whole."""
    names: list[str] = []
    for text in texts:
        whole = text in graph.main.tensors or text in graph.main.shapes
        names += [text] if whole else [part for part in text.split(",") if part]
    return names
