"""The suite of models of frameworks: each lowered, and compared with its framework."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path
from typing import Final

from tosa_convert.golden.backends.fingerprint import of_software
from tosa_convert.golden.models import report
from tosa_convert.golden.models.find_cases import Cases, files_of_model, source_of
from tosa_convert.golden.models.run_case import ModelAnswer, Settings, run_model_case
from tosa_convert.golden.suite.engine import Plan
from tosa_convert.golden.suite.html_table import Page
from tosa_convert.golden.suite.journal import Answer
from tosa_convert.golden.suite.report import Verdict

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
        columns="frontend",
        links=lambda answer: [("case", place(answer))],
        command=lambda answer: _command(root, settings, answer),
        tables=report.tables([one for one in run.answers if isinstance(one, ModelAnswer)]),
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
