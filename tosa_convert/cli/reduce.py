"""`reduce`: the smallest part of a model on which a command still fails."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.input_shapes import parsed
from tosa_convert.cli.run import input_options


@click.command("reduce", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@click.option(
    "--check",
    "command",
    required=True,
    metavar="CMD",
    help="The command; {model} and {inputs} stand for the candidate's files. It fails by any exit "
    "code but 0.",
)
@click.option(
    "--work",
    type=click.Path(),
    required=True,
    metavar="DIR",
    help="Candidates and answers; the same command again goes on from there.",
)
@click.option("-o", "--output", type=click.Path(), help="Where the reduced model goes as well.")
def reduce(model: str, command: str, work: str, output: str | None, **options: Any) -> int:
    """Shrink MODEL while CMD keeps failing on it; DIR/reduced.tosa is the result."""
    import sys
    from pathlib import Path

    from tosa_convert import api
    from tosa_convert.cli.run_model import model_and_inputs
    from tosa_convert.golden.reduce import Reducer
    from tosa_convert.golden.runner import as_graph

    arrays = None
    if options["inputs"] or options["random"] is not None:
        graph, arrays = model_and_inputs(model, options)
    else:
        graph = as_graph(model, func=options["func"], input_shapes=parsed(options["input_shapes"]))
        if "{inputs}" in command:
            raise click.UsageError("{inputs} needs -i or --random")
    if output is not None:
        api.refuse_same_file(model, output)
    talk = sys.stderr.isatty()
    reducer = Reducer(
        graph,
        command,
        Path(work),
        arrays,
        timeout=options["timeout"],
        progress=lambda text: click.echo(text, err=True) if talk else None,
    )
    result = reducer.run()
    if output is not None:
        api.save(api.stamp(result.graph), output)
    click.echo(
        f"{result.operators} operators in {output or Path(work) / 'reduced.tosa'}; "
        f"{result.tried} candidates tried, {result.known} known from before"
    )
    return 0
