"""Define `reduce`: the smallest part of a model on which a command still fails."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import say
from tosa_convert.cli.option import ReadPath, add_options, option
from tosa_convert.cli.run import RUN_OPTIONS
from tosa_convert.errors import printable


@click.command("reduce", cls=Verb)
@click.argument("model", type=ReadPath())
@add_options(RUN_OPTIONS)
@option("--command", required=True)
@option("--work", required=True, more="It gets the candidates, too.")
@add_options("--resume --to --expect-exit --expect-text --max-runs")
@option("--output", more="It gets the reduced model, too.")
def reduce(model: str, command: str, work: str, output: str | None, **options: Any) -> int:
    """Shrink MODEL while CMD keeps failing on it; DIR/reduced.tosa is the result.

    Operators are left out first; then sizes, attributes, constants and inputs become simple. After
    Ctrl-C the folder has the smallest program so far.
    """
    import sys
    from pathlib import Path

    from tosa_convert import golden
    from tosa_convert.cli.convert_file import save_graph
    from tosa_convert.cli.run_model import named_engine, program_and_inputs, program_of
    from tosa_convert.formats.write import stamp
    from tosa_convert.graph.model import counted
    from tosa_convert.io.files import STANDARD, refuse_same_file
    from tosa_convert.io.formats import of_path
    from tosa_convert.io.options import WriteOptions

    if output is not None:
        refuse_same_file(model, output)
        if output != STANDARD and options["to"] is None:
            of_path(output)  # refuses an unknown format before the work
    arrays = None
    if options["arrays"] or options["ranges"] or options["random"] is not None:
        program, arrays = program_and_inputs(model, options)
    elif "{inputs}" in command:
        raise click.UsageError("{inputs} needs -i or --random")
    else:
        program = program_of(model, options)
    is_terminal = sys.stderr.isatty()
    result = golden.reduce(
        program,
        command,
        work,
        arrays,
        timeout=options["timeout"],
        engine=options["engine"],
        runs=options["max_runs"],
        expect=golden.Failure(options["expect_exit"], options["expect_text"]),
        progress=lambda text: say(text, err=True) if is_terminal else None,
        resume=options["resume"],
    )
    if output is not None:
        save_graph(stamp(result.graph), output, options["to"], options=WriteOptions(validate=False))
    target = printable(str(output or Path(work) / "reduced.tosa"))
    say(
        f"{counted(result.operators, 'operator')} in {target}; "
        f"{counted(result.tried, 'candidate')} tried now, "
        f"{counted(result.reused, 'answer')} from an earlier run"
    )
    if arrays is not None:
        named_engine(options, program.graph)
    if not result.complete:
        say("note: it may become smaller: --max-runs was reached; the same command continues")
    return 0
