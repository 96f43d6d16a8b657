"""`bisect`: the operators at which a backend goes wrong, and how."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb, say
from tosa_convert.cli.option import Folder, ReadPath
from tosa_convert.cli.run import RUN_OPTIONS
from tosa_convert.cli.shared_options import add_options, option


@click.command("bisect", cls=Verb)
@click.argument("model", type=ReadPath())
@option("--against", required=True)
@add_options(RUN_OPTIONS)
@add_options("--original --python --keep --atol --rtol --official --variables --batch-mib --json")
@option(
    "--case",
    type=Folder(),
    metavar="DIR",
    help="Write the operator, its inputs and both results into a folder.",
)
@option("--all", more="It names every operator that is wrong by itself.")
def bisect(model: str, **options: Any) -> int:
    """Name the operators at which a BACKEND goes wrong on MODEL, and how.

    MODEL runs as it is first, as for check; then each operator is judged by itself. Exit code 1 if
    something is wrong.
    """
    import json

    from tosa_convert import golden
    from tosa_convert.cli.progress import RunProgress
    from tosa_convert.cli.run_model import (
        backend_of,
        program_and_inputs,
        tolerances_of,
        variables_of,
    )

    tolerances = tolerances_of(options)
    program, arrays = program_and_inputs(model, options)
    backend = backend_of(program.graph, arrays, options)
    with RunProgress("bisect") as progress:
        result = golden.bisect(
            program,
            backend,
            arrays,
            variables=variables_of(program.graph, options),
            tolerances=tolerances,
            find_all=options["everything"],
            timeout=options["timeout"],
            engine=options["engine"],
            batch_bytes=options["batch_mib"] << 20,
            progress=progress.report,
        )
    # The answer comes first: saving the case may fail.
    if options["as_json"]:
        click.echo(json.dumps({**result.to_dict(), "case": options["case"]}, indent=1))
    else:
        say(str(result))
    if options["case"] and result.first is not None:
        for command in golden.save_case(result.first, options["case"], backend):
            if not options["as_json"]:
                say(f"in {options['case']}: {command}")
    return 0 if result.ok else 1
