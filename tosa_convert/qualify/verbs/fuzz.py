"""Define `fuzz`: random valid programs on a consumer, until time is over; what fails is reduced."""

from __future__ import annotations

from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.messages import note, say
from tosa_convert.cli.option import add_options, option
from tosa_convert.errors import printable
from tosa_convert.qualify.verbs.generate import program_options, source_of

#: Seconds that reductions have together, however short the time for new programs is.
_LEAST_REDUCING = 120.0


@click.command(
    "fuzz",
    cls=Verb,
    epilog="Exit code: 1 if there are new findings, else 0. The same command again goes on.",
)
@option("--against", required=True)
@option("--work", required=True, old=("--state",), more="It gets a folder for each finding, too.")
@add_options("--seconds")
@option("--seed", default=0, more="0 by default.")
@option("--max-cases", more="They are new ones.")
@add_options("--like --known")
@option("--refused", more="A failure is a finding.")
@option("--scheduler", more="What fails is reduced here.")
@program_options()
@add_options("--engine --timeout --jobs")
def fuzz(against: str, work: str, **options: Any) -> int:
    """Try random valid programs on a backend, or on a command that writes a program.

    A failure is a crash, no end in time, a wrong result or, with --refused fail, a refusal. Failures of
    one cause are one finding: a folder in DIR with the reduced program, its inputs, what is expected,
    and report.md for the tracker.
    """
    import os
    import sys
    from pathlib import Path

    from tosa_convert.graph.model import counted
    from tosa_convert.qualify.campaign.observe import Consumer
    from tosa_convert.qualify.campaign.run import Campaign, run_campaign
    from tosa_convert.qualify.verbs.run_suite import case_runner

    source = source_of(options)
    # No forks: a process that has threads, as those of numpy, is not forked safely for hours.
    run_trials, jobs = case_runner(
        options["scheduler"], options["jobs"] or os.cpu_count() or 1, fork=False
    )
    campaign = Campaign(
        source,
        Consumer(against, options["timeout"], options["engine"]),
        Path(work),
        options["seconds"],
        options["limit"],
        jobs,
        run_trials,
        tuple(map(Path, options["known"])),
        options["refused"] == "fail",
        max(options["seconds"], _LEAST_REDUCING),
    )
    is_terminal = sys.stderr.isatty()
    found = run_campaign(
        campaign, progress=lambda text: say(text, err=True) if is_terminal else None, note=note
    )
    for folder, finding in found.folders.items():
        say(
            f"{printable(folder)}: {counted(finding.operators, 'operator')}: {printable(finding.cause)}"
        )
    for folder, cause in found.own.items():
        say(f"{printable(folder)}: a defect of tosa-convert: {printable(cause)}")
    for group in found.lost:
        say(f"note: did not fail again: {printable(group)}")
    for group in found.waiting:
        say(f"note: not reduced yet, which the same command does: {printable(group)}")
    tried = ", ".join(f"{count} {status}" for status, count in found.tried.most_common())
    say(
        f"{counted(len(found.folders) + len(found.own), 'new finding')}, {found.known} known; "
        f"{counted(sum(found.tried.values()), 'program')}: {tried or 'none'}"
    )
    return 1 if found.folders or found.own or found.waiting else 0
