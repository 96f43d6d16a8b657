"""Define `chain`: from the float model to the device, where an error comes in."""

from __future__ import annotations

import itertools
from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import say
from tosa_convert.cli.option import add_options, option


@click.command("chain", cls=Verb)
@click.argument("sources", nargs=-1, required=True, metavar="NAME=SOURCE...")
@add_options("--input --random --in-a-row --perplexity --input-shape --func --narrow --custom")
@option("--calibration", excludes=("--random",))
@add_options("--atol --rtol --official --engine --python --timeout --json")
@option("--html", needs=(), more="It is drawn on the last program.")
def chain(sources: tuple[str, ...], **options: Any) -> int:
    """Name the link of a chain, from the float model to the device, at which an error comes in.

    A SOURCE is a framework's model, a program, what --against of check takes, which runs the program
    before it, or an .npz file of tensors. Exit code 1 if an error is larger than its step explains.
    """
    import json
    from pathlib import Path

    from tosa_convert import golden
    from tosa_convert.cli.messages import STANDARD_OUTPUT, copy_standard_input, user_of, write_file
    from tosa_convert.cli.run_model import arrays_from_files, tolerances_of
    from tosa_convert.golden.checking.check import calibration_inputs
    from tosa_convert.golden.running.programs import as_graph
    from tosa_convert.io.formats import EXTENSIONS
    from tosa_convert.io.options import ReadOptions

    named = {name: text for name, _, text in (source.partition("=") for source in sources)}
    if len(named) < len(sources) or not all(itertools.chain(named, named.values())):
        raise click.UsageError("expected sources as NAME=SOURCE, each with a name of its own")
    read = ReadOptions.of(options)
    programs = [text for text in named.values() if text.endswith(tuple(EXTENSIONS))]
    graph = as_graph(programs[0], read) if programs else None
    given = arrays_from_files(options["arrays"], [] if graph is None else graph.main.inputs)
    inputs: Any = given
    taken = user_of(STANDARD_OUTPUT)
    if taken and options["as_json"]:
        raise click.UsageError(f"{taken} and --json cannot both be standard output")
    for name in ("calibration", "html"):
        if options[name] and graph is None:
            raise click.UsageError(f"--{name} needs a program among the sources")
    if options["calibration"] and graph is not None:
        path = Path(copy_standard_input(options["calibration"]))
        inputs = [arrays for _, arrays in calibration_inputs(graph, path, given)]
    result = golden.chain(
        named,
        inputs,
        random=options["random"],
        calls=options["in_a_row"],
        perplexity=options["perplexity"],
        tolerances=tolerances_of(options),
        timeout=options["timeout"],
        engine=options["engine"],
        python=options["python"],
        read=read,
    )
    if options["as_json"]:
        click.echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
    else:
        say(str(result), err=bool(taken))
    if options["html"]:
        from tosa_convert.views.pictures.report import report

        page = report(as_graph(programs[-1], read), to="html", errors=result)
        write_file(options["html"], [page.encode()])
    return 0 if result.ok else 1
