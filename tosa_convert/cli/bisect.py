"""`bisect`: the operators at which a backend goes wrong, and how."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.check import against_option, against_options
from tosa_convert.cli.command import Verb, option, say
from tosa_convert.cli.run import input_options


@click.command("bisect", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@against_option(multiple=False)
@against_options
@option(
    "--case",
    type=click.Path(),
    metavar="DIR",
    help="Write the operator, its inputs and both results into a folder.",
)
@option(
    "--batch-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of tensors that one run computes; they are stored in files.",
)
@option("--all", "find_all", is_flag=True, help="Name every operator that is wrong by itself.")
@option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bisect(model: str, **options: Any) -> int:
    """Name the operators at which a BACKEND goes wrong on MODEL, and how.

    MODEL runs as it is first, as for check; then each operator is judged by itself. Exit code 1 if
    something is wrong.
    """
    import json

    from tosa_convert import golden
    from tosa_convert.cli.run_model import (
        backend_of,
        program_and_inputs,
        tolerances_of,
        variables_of,
    )

    tolerances = tolerances_of(options)
    program, arrays = program_and_inputs(model, options)
    backend = backend_of(program.graph, arrays, options)
    result = golden.bisect(
        program,
        backend,
        arrays,
        variables=variables_of(options),
        tolerances=tolerances,
        find_all=options["find_all"],
        timeout=options["timeout"],
        batch_bytes=options["batch_mib"] << 20,
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
