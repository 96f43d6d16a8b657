"""`rewrite`: repairs and clean-up of a program, with a report of every change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import note, say
from tosa_convert.cli.option import ReadPath, add_options, names_from, option
from tosa_convert.errors import printable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph


def _names() -> Iterable[str]:
    from tosa_convert.rewrites.table import GROUPS, REWRITES

    return (*(row.name for row in REWRITES), *GROUPS)


@click.command("rewrite", cls=Verb)
@click.argument("model", type=ReadPath(), required=False)
@add_options("--output")
@option(
    "--only",
    more="They are rewrites, the groups repair, clean-up, rounding and reader, or extension:NAME for a "
    "rewrite of another package.",
    **names_from(_names, absent="", with_extensions=True),
)
@add_options("--list --to --func --narrow --pass-captured --no-validate")
def rewrite(model: str | None, only: str, list_only: bool, **given: Any) -> int:
    """Repair what TOSA forbids in MODEL, clean it up, and report every change."""
    from tosa_convert import rewrites

    names = tuple(filter(None, only.split(",")))
    if list_only:
        _print_list(names)
        return 0
    if model is None or given["output"] is None:
        raise click.UsageError("name a program and -o OUTPUT, or pass --list")
    from tosa_convert.cli.convert_file import edit_file
    from tosa_convert.graph.model import counted
    from tosa_convert.graph.verify import refuse_unsound

    counts = []

    def rewritten(graph: Graph) -> Graph:
        refuse_unsound(graph)
        result, report = rewrites.apply(graph, *names)
        for change in report.changes:
            note(str(change))
        counts.append(counted(sum(change.count for change in report.changes), "change"))
        counts.append(counted(_operators(graph), "operator"))
        return result

    result = edit_file(model, rewritten, given)
    changes, operators = counts
    note(f"{printable(given['output'])}: {changes}; {operators} became {_operators(result)}")
    return 0


def _operators(graph: Graph) -> int:
    """Return how many operators there are, without constants."""
    return sum(bool(op.inputs) for _, block in graph.blocks() for op in block.operators)


def _print_list(names: tuple[str, ...]) -> None:
    """Print the table of rewrites, in the order in which they run."""
    from tosa_convert.rewrites.public import rows_of
    from tosa_convert.rewrites.table import REWRITES

    rows = rows_of(names) if names else REWRITES
    width = max(len(row.name) for row in rows)
    for row in rows:
        say(f"{row.name:{width}}  {row.group:8}  {row.reason}")
