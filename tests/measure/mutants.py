"""Mutation testing: change the code in one place, and see whether a test of its folder fails.

    python tests/measure/mutants.py --state .nox/mutants --sample 60

A seeded sample of the mutations of each folder; each is judged by those tests that run the changed line
or its file, as many as take a minute of a processor's time. Answers are kept as they come, so a run that
was stopped goes on. A mutant lives in the memory of a forked process (`judges.py`): no file changes.
Children that tests start run the code as it is, but models of TFLite are lowered in the judge's process.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from measure.judges import OPTIONS, ROOT, Change, OwnConverter, Server, judge_anew
from measure.mutations import mutations

_ACCURACY: Final = (
    *("accuracy", "compare", "compliance", "criteria", "error_bounds"),
    *("measured_spreads", "spreads"),
)
_GOLDEN: Final = (
    *("bisect", "bisect_integers", "check_runs", "edge_inputs", "engines", "extract"),
    *("network_accuracy", "regions", "unpacked_arrays", "widen"),
)
_TFLITE: Final = tuple(
    str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/frontends/test_tflite_*.py"))
)
#: Folder of the package -> the tests that judge its mutants first.
FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "graph": ("tests/unit/graph",),
    "formats/wire": ("tests/unit/formats/wire", "tests/unit/formats/flatbuffer"),
    "formats/flatbuffer": ("tests/unit/formats/flatbuffer", "tests/roundtrip"),
    "rules": ("tests/rules",),
    "golden/accuracy": tuple(f"tests/golden/test_{name}.py" for name in _ACCURACY),
    "reference": ("tests/reference",),
    "frontends/tflite": ("tests/frontends/test_tflite", "tests/unit/frontends/test_tflite"),
}
#: The tests that judge the mutants of all folders, as groups that are recorded one by one.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    **{
        name: (f"tests/{name}",)
        for name in (
            *("unit/graph", "unit/formats/flatbuffer", "unit/formats/wire", "unit/eras"),
            *("roundtrip", "reference", "inspection", "rewrites"),
        )
    },
    "rules": ("tests/rules", "-k", "not reference_model"),
    "golden": tuple(f"tests/golden/test_{name}.py" for name in (*_ACCURACY, *_GOLDEN)),
    "tflite": (
        *_TFLITE,
        *(
            f"tests/frontends/test_{name}.py"
            for name in ("damaged_models", "partial", "show_models")
        ),
        "tests/unit/frontends",
    ),
}
#: Seconds of a processor that the tests of one mutant may take where no mutant is; others are left out.
BUDGET: Final = 60.0
#: Files that a script writes, and that tests compare with what it writes from.
GENERATED: Final = ("layout.py", "layout_080.py")


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file, and the tests that run its line, the quick ones first."""

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def place(self) -> list[str]:
        """Say what is changed, by the text of its line; the same in another version of the file."""
        text = (ROOT / self.path).read_text(encoding="utf-8").splitlines()[self.line - 1]
        return [self.path, text.strip(), self.before, self.after]

    @property
    def key(self) -> str:
        """Return names the mutant as long as its file stays the same."""
        return hashlib.sha256(f"{self.path}\0{self.source}".encode()).hexdigest()[:16]


class Recorder:
    """Names the running test to coverage.py, and records how much of a processor's time each takes.

    Time that passes would count what else the machine does, and leave out tests for it.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.start = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        import coverage

        current = coverage.Coverage.current()
        assert current is not None
        current.switch_context(item.nodeid)
        self.start = sum(os.times()[:4])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = sum(os.times()[:4]) - self.start


def record(group: str, state: Path) -> None:
    """Run a group of tests, and write which of them runs which line of the folders."""
    import coverage

    files = [f"{ROOT}/tosa_convert/{folder}/*" for folder in FOLDERS]
    measured = coverage.Coverage(None, include=files, config_file=False)
    recorder = Recorder()
    measured.start()
    code = pytest.main([*GROUPS[group], *OPTIONS], plugins=[recorder, OwnConverter()])
    measured.stop()
    assert code == 0, f"the tests of {group} fail without a change: {code}"
    found = measured.get_data()
    tests = sorted(recorder.seconds)
    # Coverage calls what runs before the first test "".
    numbers = {"": -1} | {test: number for number, test in enumerate(tests)}
    lines = {
        str(Path(path).relative_to(ROOT)): {
            line: sorted(numbers[test] for test in tests)
            for line, tests in found.contexts_by_lineno(path).items()
        }
        for path in found.measured_files()
    }
    rows = [(test, recorder.seconds[test]) for test in tests]
    recorded(group, state).write_text(json.dumps({"tests": rows, "lines": lines}))


def recorded(group: str, state: Path) -> Path:
    """Name the file that says which tests run which lines, as the code and the tests are now."""
    tops = [ROOT / name for name in GROUPS[group] if name.startswith("tests/")]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*.py"))]
    for folder in FOLDERS:
        files += (ROOT / "tosa_convert" / folder).rglob("*.py")
    text = b"".join(path.read_bytes() for path in sorted(files))
    digest = hashlib.sha256(text).hexdigest()[:12]
    return state / f"{group.replace('/', '-')}-{digest}.json"


@dataclass(frozen=True)
class Record:
    """Says which tests run which lines, and how long each test takes."""

    seconds: dict[str, float]
    #: File -> line -> tests. A line that an import runs has those of the first test that imports it.
    lines: dict[str, dict[int, list[str]]]
    #: Changes when a test or the code does.
    name: str = ""
    #: Files and lines that run before the first test.
    at_import: set[tuple[str, int]] = field(default_factory=set)


def read_record(state: Path) -> Record:
    """Record the groups of tests that are not recorded as they are now, and return all of them."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[str]]] = {}
    at_import: set[tuple[str, int]] = set()
    names = []
    for group in GROUPS:
        path = recorded(group, state)
        names.append(path.name)
        if not path.exists():
            command = [sys.executable, __file__, "--state", str(state), "--record", group]
            environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}tests", "CI": "true"}
            subprocess.run(
                command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL
            )
        found = json.loads(path.read_text())
        seconds.update(found["tests"])
        tests = [test for test, _ in found["tests"]]
        for name, rows in found["lines"].items():
            for line, numbers in rows.items():
                known = lines.setdefault(name, {}).setdefault(int(line), [])
                known += [tests[number] for number in numbers if number >= 0]
                if -1 in numbers:
                    at_import.add((name, int(line)))
    digest = hashlib.sha256("".join(names).encode()).hexdigest()[:12]
    return Record(seconds, lines, digest, at_import)


def mutants_of(folder: str) -> Iterator[Mutant]:
    """Yield all mutants of a folder."""
    for path in sorted((ROOT / "tosa_convert" / folder).rglob("*.py")):
        if path.name not in GENERATED:
            name = str(path.relative_to(ROOT))
            for row in mutations(path.read_text(encoding="utf-8")):
                yield Mutant(name, row.line, row.before, row.after, row.source)


def tests_for(mutant: Mutant, found: Record) -> list[str]:
    """Return the tests that may notice a mutant, within the budget, the most likely ones first.

    Those that run its line come first, of the mutant's own folder before others, quick files before
    slow ones. Then come all that run another line of the file, and for what an import runs all of the
    folder: what an import or a cached function computes is recorded for the first test that needs it
    alone. The result is empty if no test runs the line.
    """
    rows = found.lines.get(mutant.path, {})
    if mutant.line not in rows:
        return []
    folder = next(name for name in FOLDERS if mutant.path.startswith(f"tosa_convert/{name}/"))
    own = tuple(FOLDERS[folder])
    direct = set(rows[mutant.line])
    everything = direct.union(*rows.values()) or set(found.seconds)
    if (mutant.path, mutant.line) in found.at_import:
        # A test that only reads a table runs no line of the file.
        everything |= {test for test in found.seconds if test.startswith(own)}
    by_file: dict[tuple[bool, str], float] = {}
    for test in everything:
        key = (test in direct, test.partition("::")[0])
        by_file[key] = by_file.get(key, 0.0) + found.seconds[test]

    def rank(test: str) -> tuple[bool, bool, float, float, str]:
        seconds = by_file[test in direct, test.partition("::")[0]]
        return (test not in direct, not test.startswith(own), seconds, found.seconds[test], test)

    chosen: list[str] = []
    spent = 0.0
    for test in sorted(everything, key=rank):
        spent += found.seconds[test]
        if chosen and spent > BUDGET:
            break
        chosen.append(test)
    return chosen


def run(folder: str, state: Path, sample: int, seed: int, seen: Path | None = None) -> None:
    """Judge a sample of the mutants of a folder, and print those that survive.

    seen: answers of another run, whose mutants are left out: tests may have been written for them.
    """
    found = read_record(state)
    everything = list(mutants_of(folder))
    answers = state / f"{folder.replace('/', '-')}.jsonl"
    before = read_answers(seen / answers.name) if seen else {}
    left_out = {tuple(row["place"]) for row in before.values()}
    others = [
        mutant for mutant in everything if not left_out or tuple(mutant.place) not in left_out
    ]
    chosen = random.Random(f"{seed} {folder}").sample(others, min(sample, len(others)))
    known = read_answers(answers)
    # A survivor is judged again when there are other tests.
    new = {
        mutant.key: tests_for(mutant, found)
        for mutant in chosen
        if (row := known.get(mutant.key)) is None
        or (row["verdict"] != "killed" and row["tests"] != found.name)
    }
    judges = Judges(found, {test for tests in new.values() for test in tests}) if new else None
    for mutant in chosen:
        if judges is not None and mutant.key in new:
            start = time.monotonic()
            verdict = judges.judge(mutant, new[mutant.key])
            row = {"key": mutant.key, "path": mutant.path, "line": mutant.line}
            row |= {"before": mutant.before, "after": mutant.after, "place": mutant.place}
            row |= {"verdict": verdict, "tests": found.name}
            row |= {"seconds": round(time.monotonic() - start, 2)}
            with answers.open("a") as file:
                file.write(json.dumps(row) + "\n")
            known[mutant.key] = row
        row = known[mutant.key]
        if row["verdict"] in {"survived", "not run"}:
            text = re.sub(r"\s+", " ", f"{row['before']}  ->  {row['after']}")
            print(f"{row['verdict']}: {mutant.path}:{mutant.line}: {text}", flush=True)
    verdicts = [known[mutant.key]["verdict"] for mutant in chosen]
    killed = verdicts.count("killed")
    print(f"{folder}: {killed} of {len(chosen)} killed ({len(everything)} in all)", flush=True)


class Judges:
    """Judge mutants, the quick way first."""

    def __init__(self, found: Record, tests: set[str]) -> None:
        self.found = found
        # Both ways fork: what takes long to import, and is not ours, is there already.
        for name in ("ml_dtypes", "numpy.testing"):
            importlib.import_module(name)
        self.server = Server(sorted(tests), found.seconds)
        test = min(tests, key=found.seconds.__getitem__)
        path = "tosa_convert/graph/model.py"
        unchanged = Change(path, (ROOT / path).read_text(encoding="utf-8"))
        verdicts = (
            judge_anew(unchanged, [test], found.seconds),
            self.server.judge(unchanged, [test]),
        )
        assert verdicts == ("survived", "survived"), f"{test} fails without a change"

    def judge(self, mutant: Mutant, tests: list[str]) -> str:
        """Judge a mutant by the tests that may notice it."""
        if not tests:
            return "not run"
        change = Change(mutant.path, mutant.source)
        verdict = self.server.judge(change, tests)
        # What an import or the collection of tests computed was computed without the change.
        place = mutant.path, mutant.line
        if verdict == "unsure" or (verdict == "survived" and place in self.found.at_import):
            verdict = judge_anew(change, tests, self.found.seconds)
        return verdict


def read_answers(path: Path) -> dict[str, Any]:
    """Read the answers of earlier runs; a line that was cut off is left out."""
    rows = {}
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                rows[row["key"]] = row
    return rows


def main() -> None:
    """Judge the mutants of all folders, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", help="folders of the package, such as rules")
    parser.add_argument("--state", type=Path, required=True, help="folder for answers")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seen", type=Path, help="the state of a run whose mutants are left out")
    parser.add_argument("--record", choices=GROUPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.state.mkdir(parents=True, exist_ok=True)
    state = given.state.resolve()
    os.chdir(ROOT)
    os.environ["CI"] = "true"  # the same random examples for every mutant
    if given.record:
        record(given.record, state)
        return
    for folder in given.folders or FOLDERS:
        run(folder, state, given.sample, given.seed, given.seen)


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    main()
