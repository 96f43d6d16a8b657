"""The suite of models of frameworks: each lowered, and compared with its framework; what it reports."""

from __future__ import annotations

import functools
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tosa_convert.golden.backends.process import of_software
from tosa_convert.qualify.models.find_cases import Cases, files_of_model, source_of
from tosa_convert.qualify.models.run_case import ModelAnswer, Settings, run_model_case
from tosa_convert.qualify.suite.engine import Plan
from tosa_convert.qualify.suite.html_table import Page, Table
from tosa_convert.qualify.suite.journal import Answer, nearby
from tosa_convert.qualify.suite.report import Verdict

_COUNTS: Final = (
    "{passed} of {cases} cases are equal ({wrong} differ, {refused} do not lower, {crashed} crash "
    "the converter, {not_run} not run, {errors} not judged)"
)


def model_plan(cases: Cases, settings: Settings) -> Plan:
    """Return the plan that lowers models and compares them with their frameworks.

    Raises TosaConvertError("frontend-missing") if a frontend's packages are not installed.
    """
    settings.require_packages()
    return Plan(
        names=cases.names,
        header={
            "folder": str(cases.root),
            "python": settings.python,
            "narrow": list(settings.narrow),
        },
        decides={"timeout": settings.timeout, "software": of_software(settings.python)},
        files=functools.partial(files_of_model, str(cases.root)),
        run_case=functools.partial(run_model_case, str(cases.root), settings=settings),
        counts=_COUNTS,
        skipped=frozenset(),
        kind=ModelAnswer,
        page=functools.partial(_page, cases.root, settings),
    )


def _page(root: Path, settings: Settings, run: Verdict) -> Page:
    def place(answer: Answer) -> Path:
        _, source = source_of(root, answer.case)
        path, colon, _ = source.rpartition(":")
        return Path(path if colon and path.endswith(".py") else source)

    return Page(
        title="Models of frameworks in TOSA",
        about=f"frontends: {', '.join(settings.frontends)}",
        rows="case or operator",
        columns="a frontend",
        links=lambda answer: [("case", place(answer))],
        command=lambda answer: _command(root, settings, answer),
        tables=tables([one for one in run.answers if isinstance(one, ModelAnswer)]),
        folders=(root,),
    )


def _command(root: Path, settings: Settings, answer: Answer) -> str:
    """Return the command that runs one case again."""
    kind, source = source_of(root, answer.case)
    words = ["tosa-flatbuffer", "suite", nearby(source.replace("/", os.sep)), "--frontends", kind]
    if settings.narrow:
        words += ["--narrow", ",".join(settings.narrow)]
    if settings.python:
        words += ["--python", settings.python]
    return shlex.join(words)


def tables(answers: Sequence[ModelAnswer]) -> tuple[Table, ...]:
    """Return the tables of a report."""
    return (
        Table(
            title="How far each came",
            head=(
                *("case or operator", "frontend", "cases", "lowered", "exported", "equal"),
                *("largest error", "seconds"),
            ),
            rows=tuple(table_rows(answers)),
            numbers=range(2, 8),
        ),
        Table(
            title="What does not lower",
            head=("does not lower", "cases", "times", "frontends"),
            rows=tuple(unlowered_rows(answers)),
            numbers=(1, 2),
            characters=60,
        ),
        Table(
            title="Not judged",
            head=("not judged", "why"),
            rows=tuple(not_judged_rows(answers)),
        ),
    )


def table_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the rows of cases or operators by frontend. Cases that were not run count nowhere."""
    groups: dict[tuple[str, str], list[ModelAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.status != "not-run":
            groups[answer.operator, answer.types].append(answer)
    for (group, kind), rows in sorted(groups.items()):
        errors = [row.largest_error for row in rows if row.largest_error is not None]
        yield (
            group,
            kind,
            str(len(rows)),
            str(sum(row.lowered for row in rows)),
            str(sum(row.exported for row in rows)),
            str(sum(row.equal for row in rows)),
            f"{max(errors):.2g}" if errors else "",
            f"{sum(row.seconds for row in rows):.1f}",
        )


def unlowered_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the operators that do not lower, those of most cases first.

    In how many cases, how often in all of them, and in which frontends.
    """
    cases: Counter[str] = Counter()
    times: Counter[str] = Counter()
    frontends: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for operator, count in answer.not_lowered.items():
            cases[operator] += 1
            times[operator] += count
            frontends[operator].add(answer.types)
    for name in sorted(cases, key=lambda name: (-cases[name], -times[name], name)):
        yield name, str(cases[name]), str(times[name]), ", ".join(sorted(frontends[name]))


def not_judged_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, str]]:
    """Iterate over the cases that were not judged, and why.

    The reason is the last line of a traceback, or the first of a message.
    """
    for answer in answers:
        if answer.status == "error":
            lines = answer.message.strip().splitlines() or [""]
            yield answer.case, lines[-1 if lines[0].startswith("Traceback") else 0]
