"""`repack`: the same program with its weights elsewhere."""

from __future__ import annotations

import click

from tosa_convert import api
from tosa_convert.cli.command import Verb
from tosa_convert.cli.progress import WriteProgress
from tosa_convert.errors import fail
from tosa_convert.file_consumers import CONSUMERS, weights_for
from tosa_convert.files import map_file
from tosa_convert.formats import FORMATS, MLIR_FORMATS, WEIGHTS, of_path, sniff


@click.command(cls=Verb)
@click.argument("source", type=click.Path(), metavar="IN")
@click.option("-o", "--output", required=True, type=click.Path(), help="A .tosa or .json file.")
@click.option(
    "--weights",
    type=click.Choice(list(WEIGHTS)),
    default="auto",
    show_default=True,
    help="In the file, behind the flatbuffer (offset), or a folder of .npy beside it.",
)
@click.option(
    "--for",
    "consumer",
    type=click.Choice(list(CONSUMERS)),
    help="A program that is to read the file; a form it does not open is refused.",
)
@click.option("--accept-changed-weights", is_flag=True, help="Take .npy weights that were edited.")
@click.option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
def repack(
    source: str,
    output: str,
    weights: str,
    consumer: str | None,
    accept_changed_weights: bool,
    verify: bool,
) -> None:
    """Move a program's weights: embedded, behind the flatbuffer, or in .npy files beside it."""
    kind = sniff(map_file(source), source)
    if kind in MLIR_FORMATS or of_path(output) in MLIR_FORMATS:
        raise fail(
            "option-conflict",
            source,
            f"repack is for flatbuffers and their JSON, found {FORMATS[kind]} to {output}",
            "use convert",
        )
    api.refuse_same_file(source, output)
    graph = api.load(source, accept_changed_weights=accept_changed_weights)
    if consumer is not None:
        weights = weights_for(consumer, weights)
    with WriteProgress(output, sum(data.nbytes for _, data in graph.constants())) as progress:
        api.save(graph, output, weights=weights, verify=verify, progress=progress)  # type: ignore[arg-type]
