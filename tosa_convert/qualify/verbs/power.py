"""Define `power`: how small a wrong number `check` and `bisect` report."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import say
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.cli.run import RUN_OPTIONS


@click.command("power", cls=Verb)
@click.argument("model", type=ReadPath())
@add_options(RUN_OPTIONS)
@add_options("--atol --rtol --official --variables --calibration --pattern --json")
@option("--seeds", more="The first is that of --random, 0 by default.")
@add_options("--max-tensors")
def power(model: str, **options: Any) -> int:
    """Measure how small a wrong number check and bisect report in each tensor of MODEL.

    One element, one channel and all elements of a tensor are changed, and the program runs on from
    there. Beside the smallest change that is reported is the smallest one that is larger than the
    errors of correct implementations.
    """
    import json

    from tosa_convert.cli.messages import RunProgress
    from tosa_convert.cli.run_check import named_inputs
    from tosa_convert.cli.run_model import named_engine, tolerances_of, variables_of
    from tosa_convert.golden.running.programs import with_variables
    from tosa_convert.golden.running.run_options import RunOptions
    from tosa_convert.qualify.detection.power import power_of_runs

    graph, sets = named_inputs(model, options)
    graph = with_variables(graph, variables_of(graph, options))
    with RunProgress("power") as progress:
        result = power_of_runs(
            graph,
            sets,
            patterns=options["pattern"] or ("*",),
            max_tensors=options["max_tensors"],
            tolerances=tolerances_of(options),
            options=RunOptions(timeout=options["timeout"], engine=options["engine"]),
            progress=progress.report,
        )
    engine = named_engine(options, graph)
    if options["as_json"]:
        click.echo(json.dumps({"engine": engine, **result.to_dict()}, indent=1, allow_nan=False))
    else:
        say(str(result))
    return 0
