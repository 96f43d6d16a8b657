"""What the suite says of one network of the zoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tosa_convert.cli.main import run, verb


def answer(folder: Path, source: Path | str, frontend: str, *words: str) -> dict[str, Any]:
    """Return the row of a network in the suite's report, which is written into the folder."""
    report = folder / "report.json"
    given = [str(source), "--frontends", frontend, "--jobs", "1", *words]
    run(verb("suite"), [*given, "--json-report", str(report)])
    (row,) = json.loads(report.read_text(encoding="utf-8"))["answers"]
    found: dict[str, Any] = row
    return found
