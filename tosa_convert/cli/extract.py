"""`extract`: a part of a program as a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tosa_convert.cli.command import Verb, note
from tosa_convert.cli.completion import complete_tensors, tensors_of
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import add_options, option
from tosa_convert.errors import TosaConvertError, printable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph
    from tosa_convert.io.formats import Format


@click.command("extract", cls=Verb)
@click.argument("model", type=ReadPath())
@option(
    "--outputs",
    multiple=True,
    required=True,
    metavar="NAMES",
    shell_complete=complete_tensors(tensors_of),
    help="Tensors that become outputs, separated by commas.",
)
@option(
    "--inputs",
    multiple=True,
    metavar="NAMES",
    shell_complete=complete_tensors(tensors_of),
    help="Tensors that become inputs.",
)
@option("--output", required=True)
@add_options("--to --func --no-validate")
def extract(
    model: str,
    outputs: tuple[str, ...],
    inputs: tuple[str, ...],
    output: str,
    to: Format | None,
    func: str | None,
    no_validate: bool,
) -> int:
    """Write the part of MODEL that computes the tensors of --outputs.

    It begins at the tensors of --inputs, and at inputs of MODEL where it needs them.
    """
    from dataclasses import replace

    from tosa_convert import api
    from tosa_convert.cli.load_graph import load_input, save_graph
    from tosa_convert.graph.extract import extract as cut
    from tosa_convert.io.options import ReadOptions, WriteOptions

    graph, opened = load_input(model, ReadOptions(func=func))
    api.refuse_same_file(model, output)
    try:
        result = cut(graph, split_names(graph, outputs), split_names(graph, inputs))
    except TosaConvertError as error:
        raise TosaConvertError(
            replace(row, where=f"{opened.where}: {row.where}") for row in error.findings
        ) from None
    options = WriteOptions(validate=not no_validate)
    save_graph(result, output, to, like=opened.format, options=options)
    computed = sum(bool(op.inputs) for op in result.main.operators)
    note(
        f"{printable(output)}: {computed} operators, "
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
