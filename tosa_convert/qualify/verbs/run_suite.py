"""Do the work of `suite`: processes, progress, reports."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import click

from tosa_convert.cli.ending import may_fork
from tosa_convert.cli.messages import ProgressDisplay, copy_standard_input, note, say, write_file
from tosa_convert.cli.run_model import named_engine
from tosa_convert.cli.text_columns import aligned, one_line
from tosa_convert.errors import CODES, fail, printable
from tosa_convert.golden.backends.process import of_files
from tosa_convert.graph.model import counted
from tosa_convert.io.files import file_error, open_regular
from tosa_convert.io.options import narrow_types
from tosa_convert.process.child import temporary_folder
from tosa_convert.qualify.suite.answers import (
    FACTOR,
    SKIPPED,
    Answer,
    Changes,
    Slowdown,
    Verdict,
    changes,
    junit,
    read_baseline,
    read_expected,
    slowdowns,
    summary,
    verdict,
)
from tosa_convert.qualify.suite.engine import (
    CaseRunner,
    Plan,
    backend_plan,
    conversion_plan,
    on_executor,
    on_local_processes,
    run_plan,
)
from tosa_convert.qualify.suite.html_table import Table, html_report
from tosa_convert.qualify.suite.run_cases import Qualification
from tosa_convert.rules.profiles import parse
from tosa_convert.version import STAMP

#: Cases that did not pass and are printed; the reports have all of them.
PRINTED_CASES = 20
#: What ends the message of an error.
_CODE: Final = re.compile(r"\[(?:" + "|".join(CODES) + r")(?:: \S+)?\]$")
_BOTH: Final = ("seed", "edges")
_ALWAYS: Final = (
    ", {outputs} outputs compared, {seconds} s, {cases_per_second} cases/s; "
    "{run_now} run now, {from_earlier} from an earlier run"
)
_EXPECTED: Final = ", {expected_failures} failures were expected"


def run_suite(given: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Run the cases of folders; returns the exit code."""
    if options["edges"] and options["against"] is None:
        raise click.UsageError("--edges needs --against BACKEND")
    if options["no_edges"] and not options["seeds"]:
        raise click.UsageError("--no-edges needs --seeds N: without it there are no edge inputs")
    # Of the files that say what is expected, each is read before the first case is run.
    xfail, baseline = options["xfail"], options["baseline"]
    expected = read_expected(Path(copy_standard_input(xfail))) if xfail else []
    before = read_baseline(Path(copy_standard_input(baseline))) if baseline else None
    for path in options["depends"]:
        open_regular(path).close()
    plan = _plan(given, options).sampled(options["limit"])
    plan = replace(plan, decides={**plan.decides, "depends": of_files(options["depends"])})
    start = time.monotonic()
    run_cases, _ = case_runner(options["scheduler"], options["jobs"] or os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        folder = _folder(options["work"], stack)
        progress = stack.enter_context(ProgressDisplay("cases", len(plan.names), has_lines=True))
        answers, earlier = run_plan(
            plan, folder, run_cases, resume=options["resume"], progress=progress
        )
    seconds = time.monotonic() - start
    skipped = {None: plan.skipped, "skip": SKIPPED, "fail": frozenset[str]()}[options["refused"]]
    run = verdict(answers, expected, skipped)
    changed = None if before is None else changes(answers, before.statuses)
    slower = [] if before is None else slowdowns(answers, before, options["slowdown"] or FACTOR)
    report = {**summary(run, seconds, earlier), "engine": named_engine(options)}
    page = None if plan.page is None else plan.page(run)
    if options["json_file"]:
        write_file(options["json_file"], [_as_json(report, run, changed, slower)])
    if options["junit"]:
        write_file(options["junit"], junit(run, seconds))
    if page is not None and options["html"]:
        write_file(options["html"], html_report(run, page, Path(options["html"])))
    _print_slowdowns(slower)
    _print(report, run, changed, () if page is None else page.tables)
    text = plan.counts + (_EXPECTED if run.expected else "") + _ALWAYS
    say(text.format(**report))
    if all(map(run.is_skipped, answers)):
        note("no case ran: each was skipped, or left out")
    if options["against"] and not os.path.isdir(options["against"]):
        _note_next_steps(run, Path(plan.header["folder"]), options)
    is_slower = any(one.cases for one in slower)
    return 0 if run.ok and not (is_slower and options["fail_slowdown"]) else 1


def _note_next_steps(run: Verdict, root: Path, options: Mapping[str, Any]) -> None:
    """Say what names the operator that is wrong, and that the cases had no edge inputs."""
    wrong = [row.case for row in run.failures if row.status == "wrong"]
    if wrong:
        folder = Path(options["keep"] or "DIR") / min(wrong)
        words = ["tosa-flatbuffer", "bisect", f"{folder / 'model.tosa'}"]
        words += ["-i", f"{folder / 'inputs.npz'}", "--against", options["against"]]
        before = "" if options["keep"] else "with --keep DIR, "
        note(f"{before}{printable(shlex.join(words))} names the operator that is wrong")
    has_edges = options["edges"] or (options["seeds"] and not options["no_edges"])
    # Official cases have inputs that were made for them; those of other cases may be random.
    if not has_edges and any(not (root / row.case / "desc.json").exists() for row in run.answers):
        note("without edge inputs, which show many rounding bugs: --seeds 1 adds them")


def _plan(given: tuple[str, ...], options: Mapping[str, Any]) -> Plan:
    timeout = options["timeout"]
    if options["frontends"] is not None:
        return _models(given, options)
    for text in given:
        if not os.path.isdir(text):
            said = "is not a folder" if os.path.exists(text) else "no such folder"
            raise fail("file-error", text, said)
    folders = [Path(text).resolve() for text in given]
    if options["against"] is None:
        return conversion_plan(folders, options["via"] or "tosa", timeout, options["engine"])
    keep, profile = options["keep"], options["profile"]
    # Names that mean the same in every folder.
    against, *custom = (
        os.path.abspath(one) if os.path.exists(one) else one
        for one in (options["against"], *options["custom"])
    )
    settings = Qualification(
        against=against,
        python=options["python"],
        claims=None if profile is None else parse(profile),
        level=options["level"] or "8k",
        timeout=timeout,
        engine=options["engine"],
        custom=tuple(custom),
        keep=Path(keep).resolve() if keep else None,
        reduce=options["reduce"],
        seeds=options["seeds"] or int(options["edges"]),
        strict=options["strict"],
        kinds=("edges",) if options["edges"] else ("seed",) if options["no_edges"] else _BOTH,
    )
    return backend_plan(folders, settings)


def _models(given: tuple[str, ...], options: Mapping[str, Any]) -> Plan:
    from tosa_convert.qualify.suite.model_cases import find_cases
    from tosa_convert.qualify.suite.run_model_case import Settings, model_plan

    settings = Settings(
        frontends=tuple(filter(None, options["frontends"].split(","))),
        python=options["python"],
        narrow=narrow_types(options["narrow"]),
        timeout=options["timeout"],
    )
    if not settings.frontends:
        raise click.UsageError("--frontends LIST: expected names, such as torch,onnx")
    cases = find_cases(given, settings.frontends)
    plan = model_plan(cases, settings)
    if cases.left_out:
        listed = ", ".join(f"{count} for {name}" for name, count in sorted(cases.left_out.items()))
        note(f"left out: {listed}")
    return plan


def _as_json(
    report: Mapping[str, Any], run: Verdict, changed: Changes | None, slower: Sequence[Slowdown]
) -> bytes:
    rows = [
        {
            "case": a.case,
            "status": a.status,
            "message": a.message,
            "low_precision": a.low_precision,
            "operator": a.operator,
            "type": a.types,
            "seconds": a.seconds,
            "backend_seconds": a.backend_seconds,
            "backend_processor_seconds": a.backend_processor_seconds,
            "backend_memory": a.backend_memory,
            **a.further(),
        }
        for a in run.answers
    ]
    content = {**STAMP, **report, "answers": rows}
    if changed is not None:
        content["changes"] = asdict(changed)
        content["slowdowns"] = {one.what: asdict(one) for one in slower}
    return (json.dumps(content, indent=1) + "\n").encode()


def _folder(out: str | None, stack: contextlib.ExitStack) -> Path:
    """Return the folder of the answers, made if necessary; a temporary one unless --work names one."""
    try:
        if not out:
            return Path(stack.enter_context(temporary_folder("tosa-suite-")))
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    except OSError as error:
        raise file_error(out or tempfile.gettempdir(), error, "made") from None


def _print(
    report: Mapping[str, Any], run: Verdict, changed: Changes | None, tables: Iterable[Table]
) -> None:
    _print_failures(sorted(run.failures, key=lambda answer: answer.case))
    _note_refused(row for row in run.answers if row.status == "refused" and run.is_skipped(row))
    for row in run.unexpected_passes[:PRINTED_CASES]:
        say(f"UNEXPECTED PASS {printable(row.case)}: {run.expected[row.case]}")
    imprecise = [row for row in run.answers if row.low_precision and row.status == "pass"]
    for row in imprecise[:PRINTED_CASES]:
        say(f"LOW PRECISION {printable(row.case)}: {one_line(row.low_precision, 1000)}")
    if len(imprecise) > PRINTED_CASES:
        say(f"... and {len(imprecise) - PRINTED_CASES} more of low precision")
    for pattern in run.unused:
        say(f"note: no case matches the expected failure {pattern}", err=True)
    if changed is not None:
        _print_changes(changed)
    lines: list[str] = []
    for table in filter(lambda table: table.rows, tables):
        rows = [(one_line(row[0], table.characters), *row[1:]) for row in table.rows]
        lines += ["", *aligned([table.head, *rows], table.numbers)]
    if lines:
        say("\n".join([*lines, ""]))


def _print_failures(failures: Iterable[Answer]) -> None:
    """Print the first lines of what did not pass; crashes with one message are one line."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for row in failures:
        # Results differ from case to case, and so does what is wrong with them.
        key = "" if row.status == "crashed" else row.case
        groups.setdefault((key, _headline(row.message)), []).append(row)
    shown = list(groups.items())
    for (_, headline), (first, *others) in shown[:PRINTED_CASES]:
        say(f"{first.status.upper()} {printable(first.case)}: {headline}")
        if others:
            names = ", ".join(printable(row.case) for row in others[:PRINTED_CASES])
            more = ", ..." if len(others) > PRINTED_CASES else ""
            say(f"    {counted(len(others), 'more case')}: {names}{more}")
    hidden = sum(len(rows) for _, rows in shown[PRINTED_CASES:])
    if hidden:
        say(f"... and {hidden} more")


def _note_refused(rows: Iterable[Answer]) -> None:
    """Say why the backend refused cases, the most common reason first."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        said = _headline(row.message).partition(": error: ")[2].removesuffix(" [backend-refused]")
        reasons.setdefault(said or row.message, []).append(row.case)
    listed = sorted(reasons.items(), key=lambda item: -len(item[1]))
    for said, cases in listed[:PRINTED_CASES]:
        note(f"refused: {counted(len(cases), 'case')}, such as {printable(min(cases))}: {said}")
    if len(listed) > PRINTED_CASES:
        note(f"... and {counted(len(listed) - PRINTED_CASES, 'more reason')}")


def _headline(message: str) -> str:
    r"""Return the first line of a message, and of what a backend said the last one.

    Example:
        >>> _headline("sim.py: error: the end of its stderr:\n  a[x]\n  KeyError: 1 [backend-failed]")
        'sim.py: error: the end of its stderr: KeyError: 1 [backend-failed]'
    """
    first, *others = message.splitlines() or [""]
    # A line of Python may end with a bracket, too.
    said = [line.strip() for line in others if _CODE.search(line)]
    return f"{first} {said[0]}" if first.endswith(":") and said else first


def _print_slowdowns(slower: Iterable[Slowdown]) -> None:
    """Print how the time and memory of the backend changed since the baseline."""
    for one in slower:
        is_time = one.what == "time"
        size, unit, label = (1, "s", "SLOWER") if is_time else (1 << 20, "MiB", "LARGER")
        say(
            f"backend's {one.what}: {one.median:.2f} times the baseline's in the median; "
            f"{counted(len(one.cases), 'case')} much more"
        )
        for case, (before, after) in list(one.cases.items())[:PRINTED_CASES]:
            text = f"{before / size:.3g} {unit} before, {after / size:.3g} {unit} now"
            say(f"{label} {printable(case)}: {text}")


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


def case_runner(
    scheduler: str | None, processes: int, *, fork: bool | None = None
) -> tuple[CaseRunner, int]:
    """Return what runs the cases, local processes or a Dask cluster, and how many at once."""
    if scheduler is None:
        fork = may_fork() if fork is None else fork
        return on_local_processes(processes, fork=fork), processes
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise fail(
            "missing-backend", "--scheduler", "Dask is not installed", "pip install distributed"
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=20)
        client.wait_for_workers(1, timeout=20)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler with a worker answers: {error}"
        raise fail("file-error", scheduler, message) from None
    # If a worker dies, Dask itself gives its case to another worker.
    workers = max(1, len(client.scheduler_info()["workers"]))

    def run_cases(
        function: Callable[[str], Answer], names: list[str]
    ) -> Generator[Answer, None, None]:
        # An executor ends with the cases that it was made for.
        if names:
            yield from on_executor(client.get_executor(pure=False), 16 * workers)(function, names)

    return run_cases, workers
