"""Define `bisect`: the operators at which a backend goes wrong, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import say
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.cli.run import RUN_OPTIONS


@click.command("bisect", cls=Verb)
@click.argument("model", type=ReadPath())
@option("--against", required=True)
@add_options(RUN_OPTIONS)
@add_options("--no-edges --original --python --keep --atol --rtol --official --variables")
@add_options("--batch-mib --json --case")
@option("--all", more="It names every operator that is wrong by itself.")
def bisect(model: str, **options: Any) -> int:
    """Name the operators at which a BACKEND goes wrong on MODEL, and how.

    MODEL runs as it is first, as for check; then each operator is judged by itself. If random inputs
    show nothing wrong, edge inputs follow. Exit code 1 if something is wrong.
    """
    import json

    from tosa_convert import golden
    from tosa_convert.cli.messages import RunProgress
    from tosa_convert.cli.run_check import edge_inputs_of, has_edge_run
    from tosa_convert.cli.run_model import (
        backend_of,
        named_engine,
        program_and_inputs,
        tolerances_of,
        variables_of,
    )
    from tosa_convert.golden.edges.edge_inputs import seeds_of_sets

    tolerances = tolerances_of(options)
    program, arrays = program_and_inputs(model, options)
    name = "given" if options["random"] is None else f"seed-{options['random']}"
    name = name.replace("seed", "edges") if options["edges"] else name
    has_edges = has_edge_run(program.graph, options, options["against"])

    def search(inputs: Mapping[str, Any]) -> tuple[golden.Bisection, golden.Backend]:
        backend = backend_of(program.graph, inputs, options)
        with RunProgress("bisect") as progress:
            found = golden.bisect(
                program,
                backend,
                inputs,
                variables=variables_of(program.graph, options),
                tolerances=tolerances,
                find_all=options["everything"],
                timeout=options["timeout"],
                engine=options["engine"],
                batch_bytes=options["batch_mib"] << 20,
                progress=progress.report,
            )
        return found, backend

    result, backend = search(arrays)
    for seed in seeds_of_sets(program.graph, options["random"]) if has_edges else ():
        if not result.ok:
            break
        edges = edge_inputs_of(program.graph, options, seed)
        if edges is not None:
            name = f"edges-{seed}"
            result, backend = search(edges.arrays)
    engine = named_engine(options, program.graph)
    # The answer comes first: saving the case may fail.
    if options["as_json"]:
        row = {"run": name, "engine": engine, **result.to_dict(), "case": options["case"]}
        click.echo(json.dumps(row, indent=1))
    else:
        if name.startswith("edges") and has_edges:
            say(f"{name}, since random inputs show nothing wrong:")
        say(str(result))
    if options["case"] and result.first is not None:
        for command in golden.save_case(result.first, options["case"], backend):
            if not options["as_json"]:
                say(f"in {options['case']}: {command}")
    return 0 if result.ok else 1
