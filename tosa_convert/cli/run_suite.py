"""What `suite` does once its modules are loaded: executors, progress, reports."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click

from tosa_convert.errors import fail
from tosa_convert.files import replace_file
from tosa_convert.golden.suite import Answer, Journal, find_cases, junit, run_all, summary

#: Without a terminal a line is printed at most this often, seconds.
QUIET = 30.0


def run_suite(folder: str, options: Mapping[str, Any]) -> int:
    """Run the cases of a folder; returns the exit code."""
    root = Path(folder).resolve()
    names = find_cases(root)
    if options["limit"] and options["limit"] < len(names):
        step = len(names) / options["limit"]
        names = [names[int(i * step)] for i in range(options["limit"])]
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        if options["out"]:
            out = Path(options["out"])
            out.mkdir(parents=True, exist_ok=True)
        else:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tosa-suite-")))
        journal = Journal(out / "answers.jsonl", {"folder": str(root), "via": options["via"]})
        stack.callback(journal.close)
        already = len(journal.answers.keys() & set(names))
        if already:
            click.echo(f"{already} of {len(names)} cases have answers from before", err=True)
        jobs = options["jobs"] or os.cpu_count() or 1
        make, window = _executor(options["scheduler"], jobs)
        with _progress(len(names), already) as progress:
            run_all(
                root,
                names,
                make,
                journal,
                via=options["via"],
                timeout=options["timeout"],
                window=window,
                progress=progress,
            )
        answers = [journal.answers[name] for name in names]
    seconds = time.monotonic() - start
    report = summary(answers, seconds)
    if options["json_file"]:
        report_all = {**report, "answers": [_row(a) for a in answers]}
        text = json.dumps(report_all, indent=1) + "\n"
        replace_file(options["json_file"], [text.encode()])
    if options["junit"]:
        replace_file(options["junit"], junit(answers, seconds))
    for row in report["not_passed"][:20]:
        first = row["message"].splitlines()[0] if row["message"] else ""
        click.echo(f"{row['status'].upper()} {row['case']}: {first}")
    if len(report["not_passed"]) > 20:
        click.echo(f"... and {len(report['not_passed']) - 20} more")
    click.echo(
        "{passed} of {cases} cases pass ({failed} fail, {errors} errors), {outputs} outputs compared, "
        "{seconds} s, {cases_per_second} cases/s".format(**report)
    )
    return 0 if answers and report["passed"] == report["cases"] else 1


def _row(answer: Answer) -> dict[str, Any]:
    return {"case": answer.case, "status": answer.status, "message": answer.message}


def _executor(scheduler: str | None, jobs: int) -> tuple[Callable[[], Executor], int]:
    """What makes an executor, and how many cases to give out at a time."""
    if scheduler is None:
        # Spawned, not forked: the parent may hold threads of MLIR or of a progress bar.
        context = multiprocessing.get_context("spawn")
        return lambda: ProcessPoolExecutor(jobs, mp_context=context), 4 * jobs
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

    # Dask gives a case whose worker died to another one by itself.
    return lambda: client.get_executor(pure=False), 16 * max(
        1, len(client.scheduler_info()["workers"])
    )


@contextlib.contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[Answer], None]]:
    """A bar on a terminal, where rich is installed; else a line now and then."""
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("cases", total=total, completed=done)
                yield lambda answer: bar.advance(task)
            return
    state = {"done": done, "bad": 0, "said": time.monotonic()}

    def say(answer: Answer) -> None:
        state["done"] += 1
        state["bad"] += answer.status != "pass"
        if time.monotonic() - state["said"] > QUIET:
            state["said"] = time.monotonic()
            click.echo(f"{state['done']} of {total} cases, {state['bad']} not passed", err=True)

    yield say
