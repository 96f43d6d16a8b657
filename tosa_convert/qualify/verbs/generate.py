"""Define `generate`: random valid graphs, as models or as cases for `suite`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import note
from tosa_convert.cli.option import NamesFile, add_options, names_from, option
from tosa_convert.errors import printable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph
    from tosa_convert.io.formats import Format
    from tosa_convert.qualify.campaign.observe import Source

#: Operators that are generated as others need them.
_CONSTANTS: Final = ("CONST", "CONST_SHAPE")


def _operators() -> Iterable[str]:
    """Return the names of the operators that can be generated."""
    from tosa_convert.qualify.random_graphs.generate import RULES

    return sorted(RULES)


def _without_constants(joined: Callable[..., str], *arguments: Any) -> str:
    """Return the operators of --only without those of constants, which a backend's list has."""
    given = joined(*arguments)
    found = [name for name in given.split(",") if name not in _CONSTANTS]
    if given and not found:
        raise click.UsageError(f"--only {given}: a program needs other operators, too")
    return ",".join(found)


def program_options(*, old: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Return the decorator that gives a verb the options of random programs."""
    names = names_from(lambda: [*_operators(), *_CONSTANTS], absent="")
    only = option(
        "--only",
        more="They are operators; CONST and CONST_SHAPE, of which each takes as many as it needs, may "
        "be among them.",
        **{**names, "callback": functools.partial(_without_constants, names["callback"])},
    )
    rows = [
        option("--size", old=old),
        only,
        option("--profile", more="Programs need no others. By default all."),
        option("--level", more="Programs keep to 8k, which is the default, also with none."),
        add_options("--types --scaled"),
    ]
    return lambda command: functools.reduce(lambda found, row: row(found), rows, command)


def source_of(options: Mapping[str, Any]) -> Source:
    """Return what the options of random programs say."""
    from pathlib import Path

    from tosa_convert.qualify.campaign.observe import Source

    return Source(
        seed=options["seed"],
        size=options["operators"],
        kinds=tuple(filter(None, options["only"].split(","))) or None,
        profile=options["profile"],
        types=tuple(options["types"].split(",")) if options["types"] else None,
        level=options["level"] or "8k",
        scaled=options["scaled"],
        like=tuple(str(Path(path).resolve()) for path in options["like"]),
    )


@click.command("generate", cls=Verb)
@option("--seed", required=True)
@add_options("--count")
@option("--edges", needs=("--count",), more="They are in the cases.")
@option(
    "--like",
    multiple=True,
    metavar="MODEL",
    type=NamesFile(),
    excludes=("--only", "--profile", "--types", "--level", "--scaled"),
    help="Programs are parts of this model. They are random, with --size operators of it at most, and "
    "with edits that keep what they compute; may be repeated.",
)
@program_options(old=("--operators",))
@option("--output", required=True, more="With --count it is a folder.")
@option("--to", more="Standard output is a flatbuffer.")
def generate(count: int | None, output: str, to: Format | None, edges: bool, **options: Any) -> int:
    """Write a random valid program, or a folder of cases for `suite`.

    A case is a folder with `model.tosa` and random `inputs.npz`, or edge inputs.
    """
    from pathlib import Path

    from tosa_convert import api, golden
    from tosa_convert.cli.convert_file import save_graph
    from tosa_convert.golden.arrays import OutputFolder, npz_pieces
    from tosa_convert.io.files import STANDARD
    from tosa_convert.qualify.campaign.observe import program_like

    source = source_of(options)
    seed, like = source.seed, source.like

    def made(seed: int) -> Graph:
        if like:
            return program_like(like[seed % len(like)], seed, source.size)
        return source.program(seed, source.size, source.kinds)

    if count is None:
        save_graph(made(seed), output, to)
        return 0
    if output == STANDARD:
        raise click.UsageError("--count writes a folder: -o DIR")
    for number in range(seed, seed + count):
        graph = made(number)
        if edges:
            inputs = golden.edge_inputs(graph, number)
        else:
            inputs = golden.input_arrays(graph, None, random=number)
        with OutputFolder(Path(output) / f"seed{number}") as folder:
            folder.write("model.tosa", api.encode(graph))
            folder.write("inputs.npz", npz_pieces(inputs))
    note(f"{count} cases in {printable(output)}")
    return 0
