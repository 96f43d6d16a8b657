"""The work of `validate`: read each file, collect what TOSA forbids, and report it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.cli.command import EXIT_BUG, note, report_bug
from tosa_convert.cli.files_in_directories import (
    FileFailure,
    attempt,
    crash,
    findings_of,
    inputs_below,
    outcomes,
    read_one_of_many,
    refuse_no_inputs,
)
from tosa_convert.cli.load_graph import open_path
from tosa_convert.cli.progress import ProgressDisplay
from tosa_convert.cli.standard_streams import STDIN, refuse_terminal_input, write_file
from tosa_convert.cli.validation_report import FileReport, Status, as_text, summary
from tosa_convert.consumers.validate import validate
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.read import Input, quoted, read
from tosa_convert.io.files import STANDARD
from tosa_convert.io.options import ReadOptions
from tosa_convert.rules.public import TARGET_CODES, needs

EXIT_FINDINGS: Final = 1

#: Makes the text of a report.
Form = Callable[[Sequence[FileReport]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """How files are read, and what is checked.

    profile, level, spec_version, readers: see `validate`. least: also find the least target of each
    valid program.
    """

    read: ReadOptions
    profile: frozenset[str] | None = None
    level: str | None = None
    spec_version: str | None = None
    readers: tuple[str, ...] = ()
    least: bool = False


def validate_standard_input(checks: Checks, form: Form, output: str | None) -> int:
    """Report on the program in standard input; returns the exit code."""
    refuse_terminal_input()
    return _finish([_report(STANDARD, checks)], form, output)


def validate_files(
    paths: list[str], checks: Checks, form: Form, output: str | None, processes: int
) -> int:
    """Report on all files; one that cannot be read does not stop the others. Returns the exit code."""
    files = [source for given in paths for source, _ in inputs_below(given)]
    refuse_no_inputs(paths, files)
    work = functools.partial(_validate_file, checks=checks)
    at_once = form is as_text and output is None
    reports: list[FileReport] = []
    with (
        contextlib.closing(outcomes(work, files, files, processes, _crashed)) as results,
        ProgressDisplay("files", len(files)) as progress,
    ):
        for report in results:
            reports.append(report)
            if at_once:
                _write(as_text([report]), None)
            progress(len(reports))
    return _finish(reports, None if at_once else form, output)


def _validate_file(path: Path, checks: Checks) -> FileReport:
    return _report(str(path), checks)


def _report(path: str, checks: Checks) -> FileReport:
    """Return the report on a file or, if it cannot be read, why; "-" is standard input."""
    name = STDIN if path == STANDARD else path
    found = attempt(lambda: _checked(name, open_path(path, checks.read), checks))
    return found if isinstance(found, FileReport) else _unreadable(name, found)


def _unreadable(name: str, failure: FileFailure) -> FileReport:
    findings, trace = findings_of(failure)
    return FileReport(name, Status.UNREADABLE, findings, trace=trace)


def _checked(name: str, opened: Input, checks: Checks) -> FileReport:
    graph = read_one_of_many(opened, checks.read, read)
    found = validate(
        graph,
        profile=checks.profile,
        level=checks.level,
        spec_version=checks.spec_version,
        for_reader=checks.readers,
    )
    findings = quoted(found, opened)
    allowed = all(finding.code in TARGET_CODES for finding in findings)
    return FileReport(
        name,
        Status.INVALID if findings else Status.VALID,
        findings,
        needs(graph) if checks.least and allowed else None,
    )


def _crashed(path: Path, code: int) -> FileReport:
    """Return the report of a file whose process died."""
    return _unreadable(str(path), crash(path, code))


def _finish(reports: Sequence[FileReport], form: Form | None, output: str | None) -> int:
    """Write the report, unless it is printed already, and a summary of several files."""
    if form is not None:
        _write(form(reports), output)
    for report in reports:
        if report.trace:
            report_bug(report.trace, report.name)
    if len(reports) > 1:
        note(summary(reports))
    return max(map(_exit_code, reports))


def _exit_code(report: FileReport) -> int:
    if report.trace:
        return EXIT_BUG
    if report.status is Status.UNREADABLE:
        return TosaConvertError(report.findings).exit_code
    return EXIT_FINDINGS if report.findings else 0


def _write(text: str, output: str | None) -> None:
    if output or text:
        write_file(output or STANDARD, [text.encode("utf-8", "backslashreplace")])
