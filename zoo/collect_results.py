"""Puts what `tosa-flatbuffer suite` says of the networks into results.json, which docs/zoo.md shows.

python zoo/collect_results.py REPORT.json PACKAGE[,PACKAGE...] [REPORT.json PACKAGE[,PACKAGE...] ...]

REPORT.json is what `suite --json-report` wrote. The rows of cases that it lacks stay as they are, and
results.json is a `--baseline` for the suite. The releases of the packages are those of this Python.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.json"
#: What is kept of a row.
KEYS = ("case", "status", "operator", "operators", "largest_error", "seconds", "message")
#: Lines of a message that are kept.
_LINES = 12


def collected(found: dict[str, Any], report: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    """Return the results with the rows of a report instead of the older rows of its cases."""
    rows = {row["case"]: row for row in found["answers"]}
    for row in report["answers"]:
        kept = {key: row[key] for key in KEYS if row.get(key) not in ("", None)}
        if "message" in kept:
            kept["message"] = "\n".join(kept["message"].splitlines()[:_LINES])
        rows[row["case"]] = kept
    releases = {package: metadata.version(package) for package in packages}
    return {
        "releases": dict(sorted({**found["releases"], **releases}.items())),
        "answers": [rows[case] for case in sorted(rows)],
    }


def main() -> None:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for path, packages in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        found = collected(found, report, packages.split(","))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
