"""Compare the verdicts of `suite --against` with those of the official runner, case by case.

    python tests/oracle/compare_verdicts.py DIR [--every N] [--change OPERATOR] [--jobs N]

DIR is a folder of official tests. The backend is the reference model, in `suite` as a command and in
`tosa_verif_run_tests` as a system under test. With --change, one element of the results of a program
that has the operator is changed ("all": of every program), so that there are both verdicts. Prints the
cases on which the two disagree, with both reasons, and the counts; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from oracle.reference_backend import serve

from tosa_convert.qualify.suite.run_cases import find_cases

_TESTS = Path(__file__).resolve().parents[1]
_MODULE = "oracle.changed_model"
#: What the official runner says -> the statuses that say the same.
SAME = {"EXPECTED_PASS": {"pass"}, "UNEXPECTED_FAILURE": {"wrong", "refused", "crashed"}}

#: By case: the verdict, and the reason.
Verdicts = Mapping[str, tuple[str, str]]


def copy_cases(suite: Path, names: Iterable[str], target: Path) -> None:
    """Copy cases, as links if possible: the official runner writes into their folders."""
    for name in names:
        (target / name).mkdir(parents=True)
        for path in (suite / name).iterdir():
            try:
                os.link(path, target / name / path.name)
            except OSError:  # another disk
                shutil.copy(path, target / name / path.name)


def verdicts_of_suite(cases: Path, operator: str, jobs: int) -> Verdicts:
    """Return what `suite --against` says about all cases of a folder."""
    with serve(operator) as backend, tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "tosa_convert", "suite", str(cases), "--against", backend]
        command += ["--jobs", str(jobs), "--json-report", str(report)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(ended.stderr)
        content = json.loads(report.read_text())
    print(f"suite: {content['cases_per_second']} cases/s")
    return {row["case"]: (row["status"], row["message"]) for row in content["answers"]}


def verdicts_of_runner(cases: Path, operator: str, jobs: int) -> Verdicts:
    """Return what the official runner says about them."""
    command = [sys.executable, "-m", "runner.tosa_verif_run_tests", "--recursive"]
    command += ["--test", str(cases), "--jobs", str(jobs), "--profile", "all", "--extension", "all"]
    command += ["--sut-module", _MODULE, "--sut-module-args", f"{_MODULE}:{operator}"]
    paths = [str(_TESTS.parent), str(_TESTS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command += ["--xunit-file", str(report)]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        if not report.exists():
            raise RuntimeError(ended.stderr)
        rows = ET.parse(report).getroot().iterfind(f"testsuite[@name='{_MODULE}']/testcase")
        return dict(_official_row(cases, row) for row in rows)


def _official_row(cases: Path, row: Any) -> tuple[str, tuple[str, str]]:
    name = os.path.relpath(row.get("name"), cases)
    failure = row.find("failure")
    if row.find("skipped") is not None:
        return name, ("SKIPPED", "")
    if failure is None:
        return name, ("EXPECTED_PASS", "")
    message = failure.get("message") or failure.text or ""
    return name, (message.partition(":")[0].strip(), message)


def disagreements(official: Verdicts, ours: Verdicts) -> list[str]:
    """Return the cases on which the two disagree, and those that only one of them has."""
    found = []
    for name in sorted({*official, *ours}):
        theirs, our = official.get(name, ("none", "")), ours.get(name, ("none", ""))
        if our[0] not in SAME.get(theirs[0], set()):
            found.append(f"{name}: official {theirs[0]} ({theirs[1]}), suite {our[0]} ({our[1]})")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", type=Path)
    parser.add_argument("--every", type=int, default=1, help="compare every N-th case only")
    parser.add_argument("--change", default="", metavar="OPERATOR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    suite: Path = arguments.suite.resolve()
    with tempfile.TemporaryDirectory() as work:
        copy_cases(suite, find_cases(suite)[:: arguments.every], Path(work))
        ours = verdicts_of_suite(Path(work), arguments.change, arguments.jobs)
        official = verdicts_of_runner(Path(work), arguments.change, arguments.jobs)
    different = disagreements(official, ours)
    for line in different:
        print(line)
    pairs = Counter((official[name][0], ours[name][0]) for name in official if name in ours)
    for (theirs, status), count in sorted(pairs.items()):
        print(f"official {theirs}, suite {status}: {count}")
    print(f"{len(ours)} cases: {len(ours) - len(different)} agree, {len(different)} differ")
    return int(bool(different) or not ours)


if __name__ == "__main__":
    sys.exit(main())
