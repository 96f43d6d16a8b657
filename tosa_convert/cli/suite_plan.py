"""What `suite` runs: the cases, how each is run, and how the answers are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tosa_convert.golden.suite.journal import Answer
from tosa_convert.golden.suite.report import SKIPPED, Verdict


def no_lines(run: Verdict) -> Iterator[str]:
    """No further lines."""
    yield from ()


def no_row(answer: Answer) -> dict[str, Any]:
    """No further entries."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """A suite to run.

    root: the folder of the cases. names: the cases.
    header: what identifies the run: answers of other settings are not continued.
    decides: what else decides every answer: options, files of a backend, releases.
    files: of a case, those that decide its answer.
    run_case: runs one case; worker processes get it pickled, and `files`.
    skipped: statuses that do not fail the run.
    html: the report in pieces, for the file that is written; None if there is none.
    counts: the last line, with places for the entries of `summary`.
    kind: the class of the answers.
    lines: lines to print before the last one.
    row: an answer's further entries in the JSON.
    """

    root: Path
    names: list[str]
    header: Mapping[str, Any]
    decides: Mapping[str, Any]
    files: Callable[[str], list[str]]
    run_case: Callable[[str], Answer]
    skipped: frozenset[str] = SKIPPED
    html: Callable[[Verdict, Path], Iterator[bytes]] | None
    counts: str
    kind: type[Answer] = Answer
    lines: Callable[[Verdict], Iterator[str]] = field(default=no_lines)
    row: Callable[[Any], dict[str, Any]] = field(default=no_row)
