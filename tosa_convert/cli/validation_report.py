"""The report of `validate`: text, JSON, and SARIF 2.1.0. docs/validation.md describes the last two."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

from tosa_convert.errors import CODES, Finding, grouped, printable
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.rules.families.core import dashed
from tosa_convert.rules.public import Needs
from tosa_convert.version import __version__

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
#: The end of a finding's place: its region and block, and perhaps an operator.
_PLACE: Final = r'(?s)(region ".*" block ".*?")( operator #\d+ \w+)?'


class Status(Enum):
    """What was found of a file: TOSA allows it or not, or it cannot be read."""

    VALID = "valid"
    INVALID = "invalid"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found of one file.

    findings: what TOSA forbids, or why the file cannot be read. needs: the least target, of a
    program that TOSA allows and if asked for. trace: the traceback if a defect of ours is the reason.
    """

    name: str
    status: Status
    findings: tuple[Finding, ...] = ()
    needs: Needs | None = None
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
    document = {"tool": f"tosa-convert {__version__}", "files": files, "summary": _counts(reports)}
    return json.dumps(document, indent=1) + "\n"


# -- SARIF -----------------------------------------------------------------------------------------


def as_sarif(reports: Sequence[FileReport]) -> str:
    """Return a SARIF log with one run."""
    import json

    rules: dict[str, dict[str, Any]] = {}
    results = []
    for report in reports:
        for finding in report.findings:
            rule = finding.rule or finding.code
            rules.setdefault(rule, _sarif_rule(finding))
            results.append(
                {
                    "ruleId": rule,
                    "ruleIndex": list(rules).index(rule),
                    "level": "error",
                    "message": {"text": _message(finding)},
                    "locations": [_sarif_location(report.name, finding)],
                }
            )
    failed = [report for report in reports if report.trace]
    invocation: dict[str, Any] = {"executionSuccessful": not failed}
    if failed:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "error",
                "message": {"text": f"internal error in tosa-convert: {report.name}"},
                "exception": {"message": report.trace},
            }
            for report in failed
        ]
    driver = {"name": "tosa-convert", "version": __version__, "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    document = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1) + "\n"


def _message(finding: Finding) -> str:
    place = f"{finding.where}: " if finding.where else ""
    return f"{place}{finding.message}" + (f"\n{finding.hint}" if finding.hint else "")


def _sarif_rule(finding: Finding) -> dict[str, Any]:
    meaning = CODES[finding.code][1]
    title = rule_title(finding.rule) if finding.rule else meaning
    return {
        "id": finding.rule or finding.code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": meaning},
        "properties": {"code": finding.code},
    }


@cache
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


def _sarif_location(file: str, finding: Finding) -> dict[str, Any]:
    from pathlib import PurePath
    from urllib.parse import quote

    # Services that show SARIF, such as GitHub, need a line even if the file has none.
    region = {"startLine": 1}
    position = re.search(re.escape(PurePath(file).name) + r'"?:(\d{1,9}):(\d{1,9})', finding.where)
    if position is not None and int(position[1]) and int(position[2]):
        region = {"startLine": int(position[1]), "startColumn": int(position[2])}
    uri = quote(os.fsencode(PurePath(file).as_posix()))
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}
    }
    logical = list(_logical_locations(finding.where))
    if logical:
        location["logicalLocations"] = logical
    return location


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
