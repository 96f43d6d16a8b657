"""The work of `suite`: processes, progress, reports."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tosa_convert.cli import supervise
from tosa_convert.cli.progress import ProgressDisplay
from tosa_convert.errors import fail
from tosa_convert.files import file_error, replace_file
from tosa_convert.golden.suite import (
    Answer,
    CaseRunner,
    Journal,
    find_cases,
    junit,
    on_executor,
    on_local_processes,
    run_all,
    summary,
)

#: Cases that did not pass and are printed; the reports have all of them.
PRINTED_CASES = 20


def run_suite(folder: str, options: Mapping[str, Any]) -> int:
    """Run the cases of a folder; returns the exit code."""
    root = Path(folder).resolve()
    names = _spread(find_cases(root), options["limit"])
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        journal_folder = _journal_folder(options["out"], stack)
        header = {"folder": str(root), "via": options["via"]}
        journal = Journal(journal_folder / "answers.jsonl", header)
        stack.callback(journal.close)
        already = len(journal.answers.keys() & set(names))
        if already:
            click.echo(
                f"{already} of {len(names)} cases have answers from an earlier run", err=True
            )
        run_cases = _case_runner(options["scheduler"], options["jobs"] or os.cpu_count() or 1)
        with _CaseProgress(len(names) - already) as progress:
            run_all(
                root,
                names,
                run_cases,
                journal,
                via=options["via"],
                timeout=options["timeout"],
                progress=progress.add,
            )
        answers = [journal.answers[name] for name in names]
    seconds = time.monotonic() - start
    report = summary(answers, seconds)
    if options["json_file"]:
        rows = [{"case": a.case, "status": a.status, "message": a.message} for a in answers]
        text = json.dumps({**report, "answers": rows}, indent=1) + "\n"
        replace_file(options["json_file"], [text.encode()])
    if options["junit"]:
        replace_file(options["junit"], junit(answers, seconds))
    _print(report)
    return 0 if answers and report["passed"] == report["cases"] else 1


def _spread(names: list[str], limit: int | None) -> list[str]:
    """At most `limit` of the names, spread evenly over all."""
    if not limit or limit >= len(names):
        return names
    step = len(names) / limit
    return [names[int(i * step)] for i in range(limit)]


def _journal_folder(out: str | None, stack: contextlib.ExitStack) -> Path:
    """The folder for the journal, made if necessary; a temporary one unless the user named one."""
    try:
        if not out:
            temporary = tempfile.TemporaryDirectory(prefix="tosa-suite-")
            return Path(stack.enter_context(temporary))
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    except OSError as error:
        raise file_error(out or tempfile.gettempdir(), error, "made") from None


def _print(report: Mapping[str, Any]) -> None:
    """Print what did not pass, and the counts."""
    for row in report["not_passed"][:PRINTED_CASES]:
        first_line = row["message"].splitlines()[0] if row["message"] else ""
        click.echo(f"{row['status'].upper()} {row['case']}: {first_line}")
    more = len(report["not_passed"]) - PRINTED_CASES
    if more > 0:
        click.echo(f"... and {more} more")
    click.echo(
        "{passed} of {cases} cases pass ({failed} fail, {errors} errors), {outputs} outputs compared, "
        "{seconds} s, {cases_per_second} cases/s".format(**report)
    )


def _case_runner(scheduler: str | None, processes: int) -> CaseRunner:
    """The runner of the cases: local processes, or the Dask cluster of a scheduler."""
    if scheduler is None:
        return on_local_processes(processes, fork=supervise.may_fork())
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise fail(
            "missing-backend", "--scheduler", "Dask is not installed", "pip install distributed"
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=20)
    except (OSError, TimeoutError, ValueError) as error:
        raise fail("file-error", scheduler, f"no Dask scheduler answers: {error}") from None
    # If a worker dies, Dask itself gives its case to another worker.
    workers = max(1, len(client.scheduler_info()["workers"]))
    return on_executor(client.get_executor(pure=False), window=16 * workers)


class _CaseProgress(ProgressDisplay):
    """The progress of a suite."""

    def __init__(self, total: int) -> None:
        super().__init__("cases", total)
        self.done = 0
        self.not_passed = 0

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        self.done += 1
        self.not_passed += answer.status != "pass"
        self(self.done)

    def line(self, done: int) -> str:
        return f"{done} of {self.total} cases, {self.not_passed} not passed"
