"""`report`: a program as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.errors import printable

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Scopes
    from tosa_convert.views.pictures.report import ReportFormat


@click.command(
    "report",
    cls=Verb,
    epilog="The layout needs fast-sugiyama (the extra `report`); DOT and node data do not.",
)
@click.argument("model", default="-", type=ReadPath())
@option("--output", more="The extensions .svg, .dot and .gv choose that form.")
@add_options("--svg --dot --model-explorer --errors --scopes --func")
def report(
    model: str,
    output: str | None,
    to: ReportFormat | None,
    errors: str | None,
    scopes: Scopes,
    func: str | None,
) -> int:
    """Draw MODEL as one HTML file, to zoom into and search offline."""
    from tosa_convert.cli.convert_file import load_graph
    from tosa_convert.cli.messages import copy_standard_input
    from tosa_convert.io.files import STANDARD, refuse_same_file
    from tosa_convert.io.options import ReadOptions
    from tosa_convert.views.pictures.report import report as draw

    graph = load_graph(model, ReadOptions(func=func))
    title = "" if model == STANDARD else printable(os.path.basename(model))
    if errors is not None:
        errors = copy_standard_input(errors)
    if output is None or output == STANDARD:
        text = draw(graph, to=to, errors=errors, scopes=scopes, title=title)
        click.echo(text, nl=False)
    else:
        refuse_same_file(model, output)
        draw(graph, output, to=to, errors=errors, scopes=scopes, title=title)
    return 0
