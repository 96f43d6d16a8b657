"""The work of `validate`: read files, report what TOSA forbids, as text, JSON or SARIF 2.1.0."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from tosa_convert.cli.convert_file import open_path
from tosa_convert.cli.files_in_directories import (
    FileFailure,
    attempt,
    findings_of,
    inputs_below,
    outcomes,
    read_one_of_many,
    refuse_no_inputs,
)
from tosa_convert.cli.messages import (
    STDIN,
    ProgressDisplay,
    note,
    refuse_terminal_input,
    report_bug,
    write_file,
)
from tosa_convert.consumers.validate import validate
from tosa_convert.errors import CODES, Finding, TosaConvertError, grouped, printable
from tosa_convert.exit_codes import EXIT_BUG, EXIT_FINDINGS
from tosa_convert.formats.read import quoted, read
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.graph.static_shapes import open_inputs
from tosa_convert.graph.versions import DRAFTS, draft_findings
from tosa_convert.io.files import STANDARD
from tosa_convert.io.options import ReadOptions
from tosa_convert.rules.families.checks import dashed
from tosa_convert.rules.public import TARGET_CODES, Needs, needs
from tosa_convert.version import STAMP, __version__

if TYPE_CHECKING:
    from pathlib import Path

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
#: The end of a finding's place: its region and block, and perhaps an operator.
_PLACE: Final = r'(?s)(region ".*" block ".*?")( operator #\d+ \w+)?'


#: A line and column of a file in the location of a finding, in which a program is not.
_POSITION: Final = r'(?:^|")((?:[A-Za-z]:)?[^":\n]{1,4096})"?:([1-9]\d{0,8}):(\d{1,9})'
#: The name of the root in a SARIF log.
_ROOT: Final = "%SRCROOT%"
#: Most places of one result in it.
_MOST_PLACES: Final = 20


class Status(Enum):
    """What was found of a file: TOSA allows it or not, or it cannot be read."""

    VALID = "valid"
    INVALID = "invalid"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found of one file.

    findings: what TOSA forbids, or why the file cannot be read. needs: the least target, of a
    program that TOSA allows and if asked for. open_inputs: the inputs of unknown sizes of a valid
    program, such as "image ?x3x32x32". replaced: operators that left the newest draft.
    trace: the traceback if a defect of ours is the reason.
    """

    name: str
    status: Status
    findings: tuple[Finding, ...] = ()
    needs: Needs | None = None
    open_inputs: tuple[str, ...] = ()
    replaced: tuple[Finding, ...] = ()
    trace: str = ""


def summary(reports: Sequence[FileReport]) -> str:
    """Return one line on all files.

    Example:
        >>> summary([FileReport("a.tosa", Status.VALID), FileReport("b.tosa", Status.UNREADABLE)])
        '1 of 2 files valid, 0 invalid, 1 unreadable'
    """
    count = _counts(reports)
    return "{valid} of {files} files valid, {invalid} invalid, {unreadable} unreadable".format(
        **count
    )


def _counts(reports: Sequence[FileReport]) -> dict[str, int]:
    statuses = [report.status for report in reports]
    return {
        "files": len(reports),
        **{status.value: statuses.count(status) for status in Status},
        "findings": sum(len(report.findings) for report in reports),
    }


# -- text ------------------------------------------------------------------------------------------


def as_text(reports: Sequence[FileReport]) -> str:
    """Return the findings as errors are printed, each with its file."""
    return "".join(f"{line}\n" for report in reports for line in _text_lines(report))


def _text_lines(report: FileReport) -> Iterator[str]:
    if report.needs is not None:
        needs = report.needs
        level = f"level {needs.level}" if needs.level else "no level"
        names = ", ".join((*needs.profiles, *needs.extensions, level))
        yield f"{printable(report.name)}: needs TOSA {needs.version}, {names}"
    for line in grouped(report.findings):
        # Further lines of a finding are indented.
        name = printable(report.name)
        prefix = "" if line.startswith(("    ", name)) else f"{name}: "
        yield prefix + line


# -- JSON ------------------------------------------------------------------------------------------


def as_json(reports: Sequence[FileReport]) -> str:
    """Return one object with a list of the files."""
    import json

    files = [
        {
            "file": report.name,
            "status": report.status.value,
            "findings": [
                {
                    "code": finding.code,
                    "rule": finding.rule,
                    "where": finding.where,
                    "message": finding.message,
                    "hint": finding.hint,
                }
                for finding in report.findings
            ],
            "needs": None if report.needs is None else report.needs._asdict(),
        }
        for report in reports
    ]
    document = {**STAMP, "files": files, "summary": _counts(reports)}
    return json.dumps(document, indent=1) + "\n"


# -- SARIF -----------------------------------------------------------------------------------------


def as_sarif(reports: Sequence[FileReport]) -> str:
    """Return a SARIF log with one run, in which equal findings of one file are one result."""
    import json

    root = _source_root()
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for report in reports:
        equal: dict[tuple[str, str, str], list[Finding]] = {}
        for finding in report.findings:
            rule = finding.rule or finding.code
            equal.setdefault((rule, finding.message, finding.hint), []).append(finding)
        for (rule, _, _), findings in equal.items():
            rules.setdefault(rule, _sarif_rule(findings[0]))
            places = _sarif_places(report.name, findings, root)
            result = {
                "ruleId": rule,
                "ruleIndex": list(rules).index(rule),
                "level": "error",
                "message": {"text": _message(findings)},
                "locations": places[:1],
            }
            if places[1:]:
                result["relatedLocations"] = places[1:]
            results.append(result)
    invocation: dict[str, Any] = {
        "executionSuccessful": all(row.status is not Status.UNREADABLE for row in reports)
    }
    notifications = list(_notifications(reports))
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    driver = {"name": "tosa-convert", "version": __version__, "rules": list(rules.values())}
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": {_ROOT: {"uri": f"{root.as_uri()}/"}},
        "results": results,
    }
    document = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1) + "\n"


def _notifications(reports: Sequence[FileReport]) -> Iterator[dict[str, Any]]:
    """Yield why files were not checked."""
    for report in reports:
        if report.trace:
            yield {
                "level": "error",
                "message": {"text": f"internal error in tosa-convert: {report.name}"},
                "exception": {"message": report.trace},
            }
        elif report.status is Status.UNREADABLE:
            yield {"level": "error", "message": {"text": f"not checked: {report.name}"}}


def _message(equal: Sequence[Finding]) -> str:
    finding = equal[0]
    place = f"{finding.where}: " if finding.where else ""
    more = f"\nat {len(equal)} places" if len(equal) > 1 else ""
    return f"{place}{finding.message}{more}" + (f"\n{finding.hint}" if finding.hint else "")


def _sarif_rule(finding: Finding) -> dict[str, Any]:
    meaning = CODES[finding.code][1]
    title = rule_title(finding.rule) if finding.rule else meaning
    return {
        "id": finding.rule or finding.code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": meaning},
        "help": {"text": f"tosa-flatbuffer explain {finding.rule or finding.code}"},
        "properties": {"code": finding.code},
    }


@functools.cache
def _operators() -> list[tuple[str, str]]:
    """Return the name in rules and that of the operator, the longest names first."""
    return sorted(((dashed(spec.name), spec.name) for spec in OPERATORS), reverse=True)


def rule_title(rule: str) -> str:
    """Return a rule's name as words.

    Example:
        >>> rule_title("max-pool2d-output-height")
        'MAX_POOL2D: output height'
    """
    for prefix, operator in _operators():
        if rule.startswith(f"{prefix}-"):
            return f"{operator}: {rule[len(prefix) + 1 :].replace('-', ' ')}"
    return rule.replace("-", " ")


def _source_root() -> Path:
    """Return the root of the git repository that this folder is in, else this folder."""
    from pathlib import Path

    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _sarif_places(file: str, equal: Sequence[Finding], root: Path) -> list[dict[str, Any]]:
    """Return the places of findings: first one of this repository's sources, then the program's."""
    from pathlib import PurePath

    named = re.escape(PurePath(file).name)
    sources: dict[tuple[str, int, int], None] = {}
    lines: dict[tuple[int, int], None] = {}
    for finding in equal:
        position = re.search(named + r'"?:(\d{1,9}):(\d{1,9})', finding.where)
        if position is not None and int(position[1]) and int(position[2]):
            lines[int(position[1]), int(position[2])] = None
        elif (source := _own_source(finding.where, root)) is not None:
            sources[source] = None
    # Services that show SARIF, such as GitHub, need a line even if the file has none.
    own = [(file, *at) for at in lines or {(1, 0): None}]
    places = [*list(sources)[:1], *own, *list(sources)[1:]]
    found: list[dict[str, Any]] = []
    for number, (name, line, column) in enumerate(places[:_MOST_PLACES]):
        region = {"startLine": line, **({"startColumn": column} if column else {})}
        location: dict[str, Any] = {
            "physicalLocation": {"artifactLocation": _artifact(name, root), "region": region}
        }
        if number:
            location |= {"id": number, "message": {"text": name}}
        elif logical := list(_logical_locations(equal[0].where)):
            location["logicalLocations"] = logical
        found.append(location)
    return found


def _own_source(where: str, root: Path) -> tuple[str, int, int] | None:
    """Return the innermost line of a location that is in a file of this repository, with its column."""
    from pathlib import Path

    for name, line, column in re.findall(_POSITION, where):
        for folder in (Path.cwd(), root):
            path = Path(os.path.abspath(folder / name))
            if path.is_file() and path.is_relative_to(root):
                return str(path), int(line), int(column)
    return None


def _artifact(file: str, root: Path) -> dict[str, str]:
    from pathlib import Path
    from urllib.parse import quote

    if file == STDIN:
        return {"uri": quote(file)}
    path = Path(os.path.abspath(file))
    if not path.is_relative_to(root):
        return {"uri": path.as_uri()}
    return {"uri": quote(os.fsencode(path.relative_to(root).as_posix())), "uriBaseId": _ROOT}


def _logical_locations(where: str) -> Iterator[dict[str, str]]:
    """Iterate over the operator and the block of a finding, the inner one first."""
    found = re.search(_PLACE, where)
    if found is None:
        return
    block, operator = found.groups()
    if operator:
        name = operator.strip()
        yield {"name": name, "fullyQualifiedName": f"{block} {name}", "kind": "operator"}
    yield {"name": block, "fullyQualifiedName": block, "kind": "block"}


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


def validate_programs(
    *, files: tuple[str, ...], jobs: int, output: str | None, **given: Any
) -> int:
    """Do the work of `validate`; the arguments are its parameters. Returns the exit code."""
    profile = None
    if given["profile"] is not None:
        from tosa_convert.rules.profiles import parse

        profile = parse(given["profile"])
    checks = Checks(
        read=ReadOptions.of(given),
        profile=profile,
        level=given["level"],
        spec_version=given["spec_version"],
        readers=given["readers"],
        least=given["least"] or given["as_json"],
    )
    form = as_json if given["as_json"] else as_sarif if given["as_sarif"] else as_text
    paths = list(files) or [STANDARD]
    if paths == [STANDARD]:
        return validate_standard_input(checks, form, output)
    return validate_files(paths, checks, form, output, jobs)


def validate_standard_input(checks: Checks, form: Form, output: str | None) -> int:
    """Report on the program in standard input; returns the exit code."""
    refuse_terminal_input()
    work = functools.partial(_checked, checks=checks)
    return _finish([_report(STDIN, attempt(work, STANDARD))], form, output)


def validate_files(
    paths: list[str], checks: Checks, form: Form, output: str | None, processes: int
) -> int:
    """Report on all files; one that cannot be read does not stop the others. Returns the exit code."""
    files = [source for given in paths for source, _ in inputs_below(given)]
    refuse_no_inputs(paths, files)
    work = functools.partial(_checked, checks=checks)
    at_once = form is as_text and output is None
    reports: list[FileReport] = []
    with (
        contextlib.closing(outcomes(work, files, files, processes)) as results,
        ProgressDisplay("files", len(files)) as progress,
    ):
        for file, found in zip(files, results, strict=True):
            reports.append(_report(str(file), found))
            if at_once:
                _write(as_text(reports[-1:]), None)
            progress(len(reports))
    return _finish(reports, None if at_once else form, output)


def _report(name: str, found: FileReport | FileFailure) -> FileReport:
    """Return the report on a file or, if it cannot be read, why."""
    if isinstance(found, FileReport):
        return found
    findings, trace = findings_of(found)
    return FileReport(name, Status.UNREADABLE, findings, trace=trace)


def _checked(path: Path | str, checks: Checks) -> FileReport:
    """Check a file; "-" is standard input."""
    name = STDIN if path == STANDARD else str(path)
    opened = open_path(str(path), checks.read)
    graph = read_one_of_many(opened, checks.read, read)
    found = validate(
        graph,
        # The options are checked there.
        profile=cast("Any", checks.profile),
        level=cast("Any", checks.level),
        spec_version=cast("Any", checks.spec_version),
        for_reader=checks.readers,
    )
    findings = quoted(found, opened)
    allowed = all(finding.code in TARGET_CODES for finding in findings)
    return FileReport(
        name,
        Status.INVALID if findings else Status.VALID,
        findings,
        needs(graph) if checks.least and allowed else None,
        () if findings else tuple(map(" ".join, open_inputs(graph))),
        () if checks.spec_version else tuple(draft_findings(graph, DRAFTS[-1])),
    )


def _finish(reports: Sequence[FileReport], form: Form | None, output: str | None) -> int:
    """Write the report, unless it is printed already, and a summary of several files."""
    if form is not None:
        _write(form(reports), output)
    for report in reports:
        if report.open_inputs and form in (None, as_text):
            sizes = ", ".join(report.open_inputs)
            note(
                f"note: {printable(report.name)}: unknown sizes need TOSA 1.1, and have to be set "
                f"before it runs: --input-shape of convert sets {sizes}"
            )
        if report.replaced and form in (None, as_text):
            for row in dict.fromkeys(f"{row.message}: {row.hint}" for row in report.replaced):
                note(f"note: {printable(report.name)}: {row}")
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
