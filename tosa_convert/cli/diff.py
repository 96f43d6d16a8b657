"""`diff`: how two programs differ, aligned by what they compute."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath
from tosa_convert.cli.shared_options import option

_COLOURS = {"removed": "red", "added": "green", "changed": "yellow", "place": "cyan"}


@click.command(
    "diff",
    cls=Verb,
    epilog="Files of any formats can be compared with one another; - is standard input. Exit code: 0 if "
    "the programs are equal, 1 if they differ, and another one if a file cannot be read.",
)
@click.argument("left", type=ReadPath())
@click.argument("right", type=ReadPath())
@option(
    "--compare-names",
    is_flag=True,
    old=("--names",),
    help="Also compare the names of regions, blocks and values.",
)
@option(
    "--compare-locations",
    is_flag=True,
    old=("--locations",),
    help="Also compare the locations of operators.",
)
@option(
    "--ignore-order",
    is_flag=True,
    help="Do not report operators that are the same at another place. Reads and writes of a variable "
    "keep their order.",
)
@option(
    "--context",
    "-U",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    help="How many operators to print around one that differs; 1 by default.",
)
@option("--all", more="Otherwise types that differ because those of operands do are left out.")
@option(
    "--stat",
    is_flag=True,
    excludes=("--json", "--all", "--color"),
    help="Print only how many operators of each name differ.",
)
@option("--json", excludes=("--all", "--color"))
@option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    help="When to print in colour; by default (auto) on a terminal, unless $NO_COLOR is set.",
)
@option("--func")
def diff(left: str, right: str, **given: Any) -> int:
    """Report how program RIGHT differs from LEFT, whatever values are called."""
    from tosa_convert.cli.load_graph import load_input
    from tosa_convert.io.options import ReadOptions
    from tosa_convert.views.structural_diff.public import diff as compute
    from tosa_convert.views.structural_diff.text import TextForm

    loaded = [load_input(path, ReadOptions.of(given)) for path in (left, right)]
    graphs = [graph for graph, _ in loaded]
    found = compute(
        *graphs,
        names=given["compare_names"],
        locations=given["compare_locations"],
        order=not given["ignore_order"],
        # A module without a target says nothing about the version.
        version=all(graph.target or not opened.is_mlir for graph, opened in loaded),
    )
    form = TextForm((left, right), given["context"], given["everything"], _paint(given["color"]))
    click.echo(_report(found, graphs[0], form, given), nl=False, color=True)
    return 1 if found else 0


def _paint(when: str | None) -> Any:
    """Return what colours lines, if colours are wanted."""
    import os
    import sys

    from tosa_convert.views.structural_diff.text import plain

    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if when == "never" or (when != "always" and not terminal):
        return plain

    def paint(role: str, text: str) -> str:
        if role == "file":
            return click.style(text, bold=True)
        return click.style(text, fg=_COLOURS[role])

    return paint


def _report(found: Any, left: Any, form: Any, given: dict[str, Any]) -> str:
    from tosa_convert.views.structural_diff.text import as_statistics, as_text

    if given["as_json"]:
        import json

        document = found.as_dict()
        for side, name in zip(("left", "right"), form.names, strict=True):
            document[side] = {"file": name, **document[side]}
        return json.dumps(document, indent=1) + "\n"
    lines = as_statistics(found, form) if given["stat"] else as_text(found, left, form)
    return "".join(f"{line}\n" for line in lines)
