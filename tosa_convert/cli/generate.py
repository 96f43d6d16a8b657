"""`generate`: random valid graphs, for regressions."""

from __future__ import annotations

import click

from tosa_convert.cli.command import Verb


@click.command("generate", cls=Verb)
@click.option("--seed", type=int, required=True, help="The same seed gives the same bytes.")
@click.option("--operators", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--count", type=click.IntRange(1), help="That many, with seeds counting up, into -o DIR."
)
@click.option("--only", multiple=True, metavar="OP[,OP]", help="Only these operators.")
@click.option(
    "-o", "--output", required=True, type=click.Path(), help="A file, or a folder with --count."
)
def generate(
    seed: int, operators: int, count: int | None, only: tuple[str, ...], output: str
) -> int:
    """Write a random graph that is valid, or a folder of cases for `suite` with --count.

    A case is a folder with `model.tosa` and random `inputs.npz`.
    """
    from pathlib import Path

    from tosa_convert import api
    from tosa_convert.golden.generate import generate as make
    from tosa_convert.golden.npz import save_npz
    from tosa_convert.golden.random_inputs import random_inputs
    from tosa_convert.golden.runner import input_slots

    kinds = [k.upper() for text in only for k in text.split(",") if k] or None
    if count is None:
        api.save(make(seed, operators, kinds=kinds), output)
        return 0
    for number in range(seed, seed + count):
        graph = make(number, operators, kinds=kinds)
        folder = Path(output) / f"seed{number}"
        folder.mkdir(parents=True, exist_ok=True)
        api.save(graph, folder / "model.tosa")
        save_npz(folder / "inputs.npz", random_inputs(graph, input_slots(graph), number))
    click.echo(f"{count} cases in {output}", err=True)
    return 0
