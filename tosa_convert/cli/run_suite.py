"""The work of `suite`: processes, progress, reports."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import click

from tosa_convert.cli.command import say
from tosa_convert.cli.own_process import may_fork
from tosa_convert.cli.progress import ProgressDisplay
from tosa_convert.cli.standard_streams import copy_standard_input, write_file
from tosa_convert.cli.suite_plan import SuitePlan
from tosa_convert.errors import fail, printable
from tosa_convert.golden.backends.fingerprint import digest, of_backend, of_files, of_software
from tosa_convert.golden.suite import run_cases as converted_cases
from tosa_convert.golden.suite.journal import Answer, Journal
from tosa_convert.golden.suite.qualification import (
    Qualification,
    files_qualified,
    qualify_with,
)
from tosa_convert.golden.suite.report import (
    SKIPPED,
    Changes,
    Verdict,
    changes,
    junit,
    read_baseline,
    read_expected,
    summary,
    verdict,
)
from tosa_convert.golden.suite.run_cases import (
    CaseRunner,
    Via,
    files_of_case,
    find_cases,
    on_executor,
    on_local_processes,
    run_all,
)
from tosa_convert.golden.suite.table import backend_page, html_report
from tosa_convert.io.files import file_error
from tosa_convert.process.child import temporary_folder
from tosa_convert.rules.profiles import parse

#: Cases that did not pass and are printed; the reports have all of them.
PRINTED_CASES = 20
#: The last line for programs that are converted, and for those that a backend runs.
_CONVERTED: Final = "{passed} of {cases} cases pass ({failed} fail, {errors} errors)"
_COMPUTED: Final = (
    "{passed} of {cases} cases pass ({wrong} wrong, {refused} refused, {crashed} crashed, "
    "{not_run} not run, {errors} errors)"
)
_ALWAYS: Final = (
    ", {outputs} outputs compared, {seconds} s, {cases_per_second} cases/s; "
    "{run_now} run now, {from_earlier} from an earlier run"
)
_EXPECTED: Final = ", {expected_failures} failures were expected"


def run_suite(given: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Run the cases of a folder, or of several with --frontends; returns the exit code."""
    # Of the files that say what is expected, each is read before the first case is run.
    xfail, earlier = options["xfail"], options["baseline"]
    expected = read_expected(Path(copy_standard_input(xfail))) if xfail else []
    baseline = read_baseline(Path(copy_standard_input(earlier))) if earlier else None
    plan = plan_of(given, options)
    plan = replace(plan, names=_spread(plan.names, options["limit"]))
    start = time.monotonic()
    answers, earlier = _answers(plan, options)
    seconds = time.monotonic() - start
    skipped = {None: plan.skipped, "skip": SKIPPED, "fail": frozenset[str]()}[options["refused"]]
    run = verdict(answers, expected, skipped)
    changed = None if baseline is None else changes(answers, baseline)
    report = summary(run, seconds, earlier)
    if options["json_file"]:
        write_file(options["json_file"], [_as_json(report, run, changed, plan)])
    if options["junit"]:
        write_file(options["junit"], junit(run, seconds))
    if plan.html is not None and options["html"]:
        write_file(options["html"], plan.html(run, Path(options["html"])))
    _print(report, run, changed, plan)
    return 0 if run.ok else 1


def plan_of(given: tuple[str, ...], options: Mapping[str, Any]) -> SuitePlan:
    """Return what the options ask for.

    Raises click.UsageError for options that exclude or need one another.
    """
    if options["frontends"] is not None:
        from tosa_convert.cli.run_models import model_plan

        return model_plan(given, options)
    if len(given) > 1 or not os.path.isdir(given[0]):
        raise click.UsageError("without --frontends, CASES is one folder that exists")
    settings = settings_of(options)
    root = Path(given[0]).resolve()
    names = find_cases(root)
    if names == ["."]:
        root, names = root.parent, [root.name]
        if settings is not None and os.path.basename(settings.against) == names[0]:
            settings = replace(settings, against=os.path.dirname(settings.against))
    timeout = options["timeout"]
    if settings is None:
        via: Via = options["via"] or "tosa"
        return SuitePlan(
            root=root,
            names=names,
            header={"folder": str(root), "via": via},
            decides={"timeout": timeout, "software": of_software()},
            files=functools.partial(files_of_case, str(root)),
            run_case=functools.partial(
                converted_cases.run_case, str(root), via=via, timeout=timeout
            ),
            html=None,
            counts=_CONVERTED,
        )
    settings.require_backend()
    page = backend_page(root, settings)
    return SuitePlan(
        root=root,
        names=names,
        header={"folder": str(root), **header_of(settings)},
        decides={
            "options": [timeout, settings.keep is not None, settings.reduce, settings.python],
            "backend": of_backend(settings.against),
            "software": of_software(settings.python),
        },
        files=functools.partial(files_qualified, str(root), settings=settings),
        run_case=qualify_with(root, settings),
        html=lambda run, target: html_report(run, page, target),
        counts=_COMPUTED,
    )


def _answers(plan: SuitePlan, options: Mapping[str, Any]) -> tuple[list[Answer], int]:
    """Get the answer of each case, and how many are those of an earlier run."""
    key = functools.partial(_key, decided=digest(plan.decides), files=plan.files)

    def kept(earlier: dict[str, Answer]) -> list[Answer]:
        """Choose the answers that count: that of a case only if nothing that decided it has changed."""
        wanted = set(plan.names)
        again = wanted <= earlier.keys() and not options["resume"]
        return [
            answer
            for name, answer in earlier.items()
            if name not in wanted or (not again and answer.key == key(name))
        ]

    with contextlib.ExitStack() as stack:
        journal_folder = _journal_folder(options["work"], stack)
        journal = Journal(journal_folder / "answers.jsonl", plan.header, plan.kind, kept)
        stack.callback(journal.close)
        already = len(journal.answers.keys() & set(plan.names))
        run_cases = _case_runner(options["scheduler"], options["jobs"] or os.cpu_count() or 1)
        run_case = functools.partial(
            converted_cases.answered, run=plan.run_case, key=key, kind=plan.kind
        )
        finished = itertools.count(1)
        with ProgressDisplay("cases", len(plan.names) - already) as progress:

            def show(_: Answer) -> None:
                progress(next(finished))

            run_all(plan.names, run_cases, journal, run_case, progress=show)
        return [journal.answers[name] for name in plan.names], already


def _key(name: str, *, decided: str, files: Callable[[str], list[str]]) -> str:
    """Return the fingerprint of all that decides a case; a kept answer counts only for the same."""
    return digest([decided, name, of_files(files(name))])


def settings_of(options: Mapping[str, Any]) -> Qualification | None:
    """Return how a backend is qualified, or None without --against."""
    if options["against"] is None:
        return None
    keep = options["keep"]
    return Qualification(
        against=absolute_backend(options["against"]),
        python=options["python"],
        claims=None if options["profile"] is None else parse(options["profile"]),
        level=options["level"] or "8k",
        timeout=options["timeout"],
        keep=Path(keep).resolve() if keep else None,
        reduce=options["reduce"],
    )


def absolute_backend(text: str) -> str:
    """Return the name of a backend that means the same in every folder."""
    return os.path.abspath(text) if os.path.exists(text) else text


def header_of(settings: Qualification) -> dict[str, Any]:
    """Return what identifies a run: answers of other settings are not continued."""
    return {
        "against": settings.against,
        "claims": None if settings.claims is None else sorted(settings.claims),
        "level": settings.level,
    }


def _as_json(
    report: Mapping[str, Any], run: Verdict, changed: Changes | None, plan: SuitePlan
) -> bytes:
    rows = [
        {
            "case": a.case,
            "status": a.status,
            "message": a.message,
            "operator": a.operator,
            "type": a.types,
            "seconds": a.seconds,
            **plan.row(a),
        }
        for a in run.answers
    ]
    content = {**report, "answers": rows}
    if changed is not None:
        content["changes"] = asdict(changed)
    return (json.dumps(content, indent=1) + "\n").encode()


def _spread(names: list[str], limit: int | None) -> list[str]:
    """At most `limit` of the names, spread evenly over all."""
    if not limit or limit >= len(names):
        return names
    step = len(names) / limit
    return [names[int(i * step)] for i in range(limit)]


def _journal_folder(out: str | None, stack: contextlib.ExitStack) -> Path:
    """Return the journal's folder, made if necessary; a temporary one unless the user named one."""
    try:
        if not out:
            return Path(stack.enter_context(temporary_folder("tosa-suite-")))
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    except OSError as error:
        raise file_error(out or tempfile.gettempdir(), error, "made") from None


def _print(
    report: Mapping[str, Any], run: Verdict, changed: Changes | None, plan: SuitePlan
) -> None:
    """Print what did not pass, what changed, and the counts."""
    failures = sorted(run.failures, key=lambda answer: answer.case)
    for row in failures[:PRINTED_CASES]:
        first_line = row.message.splitlines()[0] if row.message else ""
        say(f"{row.status.upper()} {printable(row.case)}: {first_line}")
    if len(failures) > PRINTED_CASES:
        say(f"... and {len(failures) - PRINTED_CASES} more")
    for row in run.unexpected_passes[:PRINTED_CASES]:
        say(f"UNEXPECTED PASS {printable(row.case)}: {run.expected[row.case]}")
    for pattern in run.unused:
        say(f"note: no case matches the expected failure {pattern}", err=True)
    if changed is not None:
        _print_changes(changed)
    for line in plan.lines(run):
        say(line)
    text = plan.counts + (_EXPECTED if run.expected else "") + _ALWAYS
    say(text.format(**report))


def _print_changes(changed: Changes) -> None:
    for label, names in (
        ("newly failing", changed.failing),
        ("newly passing", changed.passing),
        ("otherwise changed", changed.other),
        ("new", changed.new),
        ("gone", changed.gone),
    ):
        if names:
            listed = ", ".join(map(printable, names[:PRINTED_CASES]))
            more = ", ..." if len(names) > PRINTED_CASES else ""
            say(f"{label}: {len(names)}: {listed}{more}")


def _case_runner(scheduler: str | None, processes: int) -> CaseRunner:
    """Return the runner of the cases: local processes, or the Dask cluster of a scheduler."""
    if scheduler is None:
        return on_local_processes(processes, fork=may_fork())
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
