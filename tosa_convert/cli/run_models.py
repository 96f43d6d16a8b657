"""`suite --frontends`: models of frameworks, lowered and compared with their framework."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from tosa_convert.cli.command import say
from tosa_convert.cli.suite_plan import SuitePlan
from tosa_convert.cli.text_columns import aligned, one_line
from tosa_convert.golden.backends.fingerprint import of_software
from tosa_convert.golden.models import report
from tosa_convert.golden.models.find_cases import files_of_model, find_cases, source_of
from tosa_convert.golden.models.run_case import ModelAnswer, Settings, run_with
from tosa_convert.golden.suite.journal import Answer
from tosa_convert.golden.suite.report import Verdict
from tosa_convert.golden.suite.table import Page, html_report
from tosa_convert.io.options import narrow_types

_COUNTS: Final = (
    "{passed} of {cases} cases are equal ({wrong} differ, {refused} do not lower, {crashed} crash "
    "the converter, {not_run} not run, {errors} not judged)"
)
#: Characters of an operator's name in the table.
_NAME_CHARACTERS: Final = 60


def model_plan(given: tuple[str, ...], options: Mapping[str, Any]) -> SuitePlan:
    """Return what the options ask for.

    Raises:
        TosaConvertError: "frontend-missing" if a frontend's packages are not installed;
            "unrecognised-input" if there is no case; "option-conflict" for an unknown frontend.
    """
    names = [name.strip() for name in options["frontends"].split(",")]
    settings = Settings(
        frontends=tuple(dict.fromkeys(filter(None, names))),
        python=options["python"],
        narrow=narrow_types(options["narrow"]),
        timeout=options["timeout"],
    )
    if not settings.frontends:
        raise click.UsageError("--frontends LIST: expected names, such as torch,onnx")
    cases = find_cases(given, settings.frontends)
    settings.require_packages()
    if cases.left_out:
        listed = ", ".join(f"{count} for {name}" for name, count in sorted(cases.left_out.items()))
        say(f"left out: {listed}", err=True)

    def html(run: Verdict, target: Path) -> Iterator[bytes]:
        return html_report(run, _page(cases.root, settings, run), target)

    return SuitePlan(
        root=cases.root,
        names=cases.names,
        header={
            "folder": str(cases.root),
            "python": settings.python,
            "narrow": list(settings.narrow),
        },
        decides={"timeout": settings.timeout, "software": of_software(settings.python)},
        files=functools.partial(files_of_model, str(cases.root)),
        skipped=frozenset(),
        run_case=run_with(cases.root, settings),
        html=html,
        counts=_COUNTS,
        kind=ModelAnswer,
        lines=_lines,
        row=report.json_row,
    )


def _lines(run: Verdict) -> Iterator[str]:
    answers = _of(run)
    yield ""
    yield from aligned([report.TABLE_HEAD, *report.table_rows(answers)], report.TABLE_NUMBERS)
    yield ""
    if found := report.unlowered(answers):
        rows = [
            (one_line(row[0], _NAME_CHARACTERS), *row[1:]) for row in report.unlowered_rows(found)
        ]
        yield from aligned([report.OPERATORS_HEAD, *rows], report.OPERATORS_NUMBERS)
        yield ""
    if open_rows := list(report.not_judged_rows(answers)):
        yield from aligned([report.NOT_JUDGED_HEAD, *open_rows], ())
        yield ""


def _of(run: Verdict) -> list[ModelAnswer]:
    return [answer for answer in run.answers if isinstance(answer, ModelAnswer)]


def _page(root: Path, settings: Settings, run: Verdict) -> Page:
    answers = _of(run)

    def place(answer: Answer) -> Path:
        path, colon, _ = source_of(root, answer.case)[1].rpartition(":")
        return Path(path if colon and path.endswith(".py") else source_of(root, answer.case)[1])

    return Page(
        title="Models of frameworks in TOSA",
        about=f"frontends: {', '.join(settings.frontends)}",
        rows="case or operator",
        columns="frontend",
        links=lambda answer: [("case", place(answer))],
        command=lambda answer: _command(root, settings, answer),
        tables=(
            report.html_table(
                "How far each came",
                report.TABLE_HEAD,
                report.table_rows(answers),
                report.TABLE_NUMBERS,
            ),
            report.html_table(
                "What does not lower",
                report.OPERATORS_HEAD,
                report.unlowered_rows(report.unlowered(answers)),
                report.OPERATORS_NUMBERS,
            ),
            report.html_table(
                "Not judged", report.NOT_JUDGED_HEAD, report.not_judged_rows(answers), ()
            ),
        ),
    )


def _command(root: Path, settings: Settings, answer: Answer) -> str:
    """Return the command that runs one case again."""
    kind, source = source_of(root, answer.case)
    words = ["tosa-flatbuffer", "suite", source.replace("/", os.sep), "--frontends", kind]
    if settings.narrow:
        words += ["--narrow", ",".join(settings.narrow)]
    if settings.python:
        words += ["--python", settings.python]
    return shlex.join(words)
