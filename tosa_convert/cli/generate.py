"""`generate`: random valid graphs, as models or as cases for `suite`."""

from __future__ import annotations

import click

from tosa_convert.cli.command import Verb, say
from tosa_convert.errors import printable


@click.command("generate", cls=Verb)
@click.option("--seed", type=int, required=True, help="The same seed gives the same bytes.")
@click.option(
    "--operators",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Operators in each graph, constants not counted.",
)
@click.option(
    "--count",
    type=click.IntRange(1),
    help="Write so many cases into the folder -o, for SEED, SEED + 1, ...",
)
@click.option("--only", multiple=True, metavar="OP[,OP]", help="Use only these operators.")
@click.option(
    "-o", "--output", required=True, type=click.Path(), help="A file, or a folder with --count."
)
def generate(
    seed: int, operators: int, count: int | None, only: tuple[str, ...], output: str
) -> int:
    """Write a random valid graph, or with --count a folder of cases for `suite`.

    A case is a folder with `model.tosa` and random `inputs.npz`.
    """
    from pathlib import Path

    from tosa_convert import api, golden
    from tosa_convert.golden.arrays.npz import npz_pieces
    from tosa_convert.golden.arrays.scratch import OutputFolder

    kinds = [name.upper() for text in only for name in text.split(",") if name] or None
    if count is None:
        api.save(golden.generate(seed, operators, kinds=kinds), output)
        return 0
    for number in range(seed, seed + count):
        graph = golden.generate(number, operators, kinds=kinds)
        inputs = golden.input_arrays(graph, None, random=number)
        with OutputFolder(Path(output) / f"seed{number}") as folder:
            folder.write("model.tosa", api.encode(graph))
            folder.write("inputs.npz", npz_pieces(inputs))
    say(f"{count} cases in {printable(output)}", err=True)
    return 0
