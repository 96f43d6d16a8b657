"""Run the official suite, and programs of other folders, on every consumer that is installed.

    python tests/oracle/scoreboard.py STATE DIRS... [--against NAME ...] [--max-cases N] [--publish]

DIRS have official cases (`official_suite.py`) and programs, such as lowered networks of the zoo. The
consumers are those that `--against` knows by name. STATE keeps the answers, so that the same command
continues, and gets a page for each consumer: STATE/NAME.html has each operator by its types, with the
failing cases. What was found of all of them is written to findings/scoreboard.json with `--publish`,
from which docs/scoreboard.md is made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.backends.runners import ADAPTERS
from tosa_convert.qualify.campaign.run import installed

RESULTS: Final = Path(__file__).parents[2] / "findings" / "scoreboard.json"
#: Consumers by the name that `--against` takes: those with an adapter, IREE, and our own definitions.
CONSUMERS: Final = (*ADAPTERS, "iree", "numpy")
#: Statuses of a cell that is shown with its first case.
FAULTS: Final = ("wrong", "crashed")

Board = dict[str, Any]


def summary(answers: Iterable[Mapping[str, Any]]) -> Board:
    """Return how many answers have each status, in all and by operator and type.

    Only cells with a fault are there, each with the first case that has it.

    Example:
        >>> row = {"case": "abs/abs_1", "operator": "ABS", "type": "FP32", "status": "wrong"}
        >>> summary([row])["cells"]
        {'ABS FP32': {'wrong': 1, 'case': 'abs/abs_1'}}
    """
    total: Counter[str] = Counter()
    cells: dict[str, Board] = {}
    for row in answers:
        status = row["status"]
        total[status] += 1
        cell = cells.setdefault(f"{row['operator']} {row['type']}".strip(), {})
        cell[status] = cell.get(status, 0) + 1
        if status in FAULTS:
            cell.setdefault("case", row["case"])
    faulty = {name: cell for name, cell in sorted(cells.items()) if "case" in cell}
    return {"total": dict(total), "cells": faulty}


def judge(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the answers of one consumer to the cases; those of an earlier run count.

    Raises TosaConvertError("backend-failed") if there are none, as where it is not installed.
    """
    stem = options.state / name.replace(":", "-")
    report = stem.with_name(f"{stem.name}.json")
    words = ["suite", *map(str, options.folders), "--against", name, "--work", str(stem)]
    words += ["--resume", "--json-report", str(report), "--html", f"{stem}.html"]
    words += ["--timeout", "60", "--jobs", str(options.jobs)]
    if options.max_cases:
        words += ["--max-cases", str(options.max_cases)]
    command = [sys.executable, "-m", "tosa_convert", *words]
    report.unlink(missing_ok=True)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not report.exists():
        raise fail("backend-failed", f"--against {name}", ended.stderr.strip())
    found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["answers"]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the consumers, print a line for each, and maybe publish what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--against", action="append", choices=CONSUMERS)
    parser.add_argument("--max-cases", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args(arguments)
    options.state.mkdir(parents=True, exist_ok=True)
    board: Board = {"software": installed(), "consumers": {}}
    if options.publish and RESULTS.exists():
        board["consumers"] = json.loads(RESULTS.read_text(encoding="utf-8"))["consumers"]
    for name in options.against or CONSUMERS:
        try:
            found = summary(judge(name, options))
        except TosaConvertError as error:
            print(f"{name}: left out: {error}", flush=True)
            continue
        board["consumers"][name] = found
        counts = ", ".join(f"{count} {status}" for status, count in found["total"].items())
        print(f"{name}: {counts}", flush=True)
        if options.publish:
            RESULTS.write_text(json.dumps(board, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
