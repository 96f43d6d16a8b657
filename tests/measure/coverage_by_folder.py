"""Sum what coverage.py measured by folder of the package, and hold it against the aims.

    coverage combine && python tests/measure/coverage_by_folder.py

Reads the data of $COVERAGE_FILE, prints a row for each folder, and exits with 1 below an aim.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Folder of the package -> the percentage of its lines and branches that tests have to run.
AIMS: Final = {"graph": 100.0, "formats/wire": 100.0, "rules": 100.0, "": 97.0}


@dataclass
class Sum:
    """What was run of a folder: statements and branches, and how many there are."""

    run: int = 0
    all: int = 0

    @property
    def percent(self) -> float:
        """Return the percentage, rounded down to a tenth: only what is complete is 100."""
        return self.run * 1000 // self.all / 10 if self.all else 100.0


def folder_of(path: str) -> str:
    """Return the folder of a file by which it is counted: two levels in `formats` and `golden`."""
    parts = path.replace("\\", "/").removeprefix("tosa_convert/").split("/")[:-1]
    return "/".join(parts[: 2 if parts[:1] in (["formats"], ["golden"], ["frontends"]) else 1])


def sums(files: Mapping[str, Any]) -> dict[str, Sum]:
    """Return what was run by folder, and of the whole package as ""."""
    found: dict[str, Sum] = {"": Sum()}
    for path, row in sorted(files.items()):
        summary = row["summary"]
        for folder in dict.fromkeys(("", folder_of(path))):
            total = found.setdefault(folder, Sum())
            total.run += summary["covered_lines"] + summary["covered_branches"]
            total.all += summary["num_statements"] + summary["num_branches"]
    return found


def below(found: Mapping[str, Sum]) -> Iterable[str]:
    """Yield what is below its aim."""
    for folder, aim in AIMS.items():
        if folder not in found:
            yield f"{folder}: nothing was measured"
        elif found[folder].percent < aim:
            what = f"{found[folder].percent} % of lines and branches"
            yield f"{folder or 'the package'}: {what}, aim {aim}"


def main() -> int:
    """Print the table; the exit code."""
    import coverage

    measured = coverage.Coverage()
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(report))
        found = sums(json.loads(report.read_text(encoding="utf-8"))["files"])
    for name, total in sorted(found.items()):
        print(f"{name or 'the package':28}{total.run:8} of {total.all:6}{total.percent:8} %")
    problems = list(below(found))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
