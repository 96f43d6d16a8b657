"""`bisect`: the first operator that is wrong by itself."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.check import against_options
from tosa_convert.cli.command import Verb
from tosa_convert.cli.run import input_options


@click.command("bisect", cls=Verb)
@click.argument("model", type=click.Path())
@input_options
@against_options
@click.option(
    "--case", type=click.Path(), metavar="DIR", help="Write the operator as a case of its own."
)
@click.option(
    "--batch-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of tensors that one run computes; here they lie in files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bisect(model: str, **options: Any) -> int:
    """Name the first operator of MODEL that a BACKEND computes otherwise, by itself.

    Exit code 1 if there is a difference.
    """
    import json
    from pathlib import Path

    from tosa_convert.cli.run_model import backend_of, model_and_inputs, tolerances_of
    from tosa_convert.golden.bisect import bisect as find
    from tosa_convert.golden.bisect import save_case

    graph, arrays = model_and_inputs(model, options)
    limits = tolerances_of(options)
    backend = backend_of(graph, arrays, options)
    result = find(
        graph,
        backend,
        arrays,
        tolerances=limits,
        timeout=options["timeout"],
        batch_bytes=options["batch_mib"] << 20,
    )
    commands: list[str] = []
    if options["case"] and result.first is not None:
        commands = save_case(result.first, Path(options["case"]), backend)
    if options["as_json"]:
        click.echo(json.dumps({**result.to_dict(), "case": options["case"]}, indent=1))
    else:
        click.echo(str(result))
        for command in commands:
            click.echo(f"in {options['case']}: {command}")
    return 0 if result.ok else 1
