"""Mutation testing: change the code in one place, and see whether a test of its folder fails.

    python tests/measure/mutants.py --state .nox/mutants --sample 60

A seeded sample of the mutations of each folder; each is judged by those tests that run the changed line
or its file, as many as fit into a minute. Answers are kept as they come, so a run that was stopped goes
on. A mutant lives in the memory of a forked process: no file changes. Children that tests start run the
code as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from measure.mutations import mutations

ROOT: Final = Path(__file__).resolve().parents[2]
#: Folder of the package -> the tests that judge its mutants first.
FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "graph": ("tests/unit/graph",),
    "formats/wire": ("tests/unit/formats/wire", "tests/unit/formats/flatbuffer"),
    "formats/flatbuffer": ("tests/unit/formats/flatbuffer", "tests/roundtrip"),
    "rules": ("tests/rules",),
    "golden/accuracy": tuple(
        f"tests/golden/test_{name}.py" for name in ("accuracy", "compare", "compliance")
    ),
    "reference": ("tests/reference",),
}
_GOLDEN: Final = (
    *(
        "accuracy",
        "bisect",
        "bisect_integers",
        "bisect_parts",
        "check_runs",
        "compare",
        "compliance",
    ),
    *(
        "edge_inputs",
        "engines",
        "extract",
        "generate",
        "network_accuracy",
        "reduce",
        "regions",
        "run",
    ),
    *("write_errors", "widen", "unpacked_arrays"),
)
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
    "golden": tuple(f"tests/golden/test_{name}.py" for name in _GOLDEN),
}
#: Seconds that the tests of one mutant may take where no mutant is: the others are left out.
BUDGET: Final = 60.0
#: Files that a script writes, and that tests compare with what it writes from.
GENERATED: Final = ("layout.py", "layout_080.py")
#: pytest's exit codes: tests passed; a test failed; the changed code could not be imported, by tests or
#: by conftest.py.
_VERDICTS: Final = {0: "survived", 1: "killed", 2: "killed", 3: "killed", 4: "killed"}


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file, and the tests that run its line, the quick ones first."""

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> str:
        """Names the mutant as long as its file stays the same."""
        return hashlib.sha256(f"{self.path}\0{self.source}".encode()).hexdigest()[:16]


class Recorder:
    """Names the running test to coverage.py, and records how long each takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        import coverage

        current = coverage.Coverage.current()
        assert current is not None
        current.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.seconds.get(report.nodeid, 0.0)
        self.seconds[report.nodeid] = before + report.duration


def record(group: str, state: Path) -> None:
    """Run a group of tests, and write which of them runs which line of the folders."""
    import coverage

    files = [f"{ROOT}/tosa_convert/{folder}/*" for folder in FOLDERS]
    measured = coverage.Coverage(None, branch=True, include=files, config_file=False)
    recorder = Recorder()
    measured.start()
    code = pytest.main([*GROUPS[group], *_OPTIONS], plugins=[recorder])
    measured.stop()
    assert code == 0, f"the tests of {group} fail without a change: {code}"
    found = measured.get_data()
    tests = sorted(recorder.seconds)
    numbers = {test: number for number, test in enumerate(tests)}
    lines = {
        str(Path(path).relative_to(ROOT)): {
            line: sorted(numbers[test] for test in tests if test)
            for line, tests in found.contexts_by_lineno(path).items()
        }
        for path in found.measured_files()
    }
    rows = [(test, recorder.seconds[test]) for test in tests]
    recorded(group, state).write_text(json.dumps({"tests": rows, "lines": lines}))


_OPTIONS: Final = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header")


def recorded(group: str, state: Path) -> Path:
    """Name the file that says which tests run which lines, as the code and the tests are now."""
    tops = [ROOT / name for name in GROUPS[group] if name.startswith("tests/")]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*.py"))]
    for folder in FOLDERS:
        files += (ROOT / "tosa_convert" / folder).rglob("*.py")
    text = b"".join(path.read_bytes() for path in sorted(files))
    digest = hashlib.sha256(text).hexdigest()[:12]
    return state / f"{group.replace('/', '-')}-{digest}.lines.json"


@dataclass(frozen=True)
class Record:
    """Says which tests run which lines, and how long each test takes."""

    seconds: dict[str, float]
    #: File -> line -> tests. A line that an import runs has those of the first test that imports it.
    lines: dict[str, dict[int, list[str]]]
    #: Changes when a test or the code does.
    name: str = ""


def read_record(state: Path) -> Record:
    """Record the groups of tests that are not recorded as they are now, and return all of them."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[str]]] = {}
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
                known += [tests[number] for number in numbers]
    digest = hashlib.sha256("".join(names).encode()).hexdigest()[:12]
    return Record(seconds, lines, digest)


def mutants_of(folder: str) -> Iterator[Mutant]:
    """Yield all mutants of a folder."""
    for path in sorted((ROOT / "tosa_convert" / folder).rglob("*.py")):
        if path.name not in GENERATED:
            name = str(path.relative_to(ROOT))
            for row in mutations(path.read_text(encoding="utf-8")):
                yield Mutant(name, row.line, row.before, row.after, row.source)


class MutatedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed source; as a plugin of pytest, and runs the tests in order."""

    def __init__(self, mutant: Mutant, tests: Sequence[str]) -> None:
        self.mutant = mutant
        name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.name = name
        self.ranks = {test: rank for rank, test in enumerate(tests)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Go before pytest's own finder, and before the first import of the package's parts."""
        sys.meta_path.insert(0, self)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.ranks]
        items.sort(key=lambda item: self.ranks[item.nodeid])

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        is_package = self.mutant.path.endswith("__init__.py")
        spec = importlib.util.spec_from_file_location(
            fullname,
            ROOT / self.mutant.path,
            loader=self,
            submodule_search_locations=[str((ROOT / self.mutant.path).parent)]
            if is_package
            else None,
        )
        assert spec is not None
        return spec

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.mutant.source, str(ROOT / self.mutant.path), "exec")
        exec(code, module.__dict__)


def judge(mutant: Mutant, tests: Sequence[str], seconds: int) -> str:
    """Run the tests with a mutant: "killed" or "survived"."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 70
        try:
            _limit(seconds)
            plugin = MutatedModule(mutant, tests)
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            code = int(pytest.main([*files, *_OPTIONS], plugins=[plugin]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed"  # most of them at the end of their time
    return _VERDICTS[os.WEXITSTATUS(status)]


def _limit(seconds: int) -> None:
    """Bound a child's time and memory, and drop what it prints."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def tests_for(mutant: Mutant, found: Record) -> list[str]:
    """Return the tests that may notice a mutant, within the budget, the most likely ones first.

    Those that run its line come first, of the mutant's own folder before others, quick files before
    slow ones. Then come all that run another line of the file: what an import or a cached function
    computes is recorded for the first test that needs it alone. The result is empty if no test runs
    the line.
    """
    rows = found.lines.get(mutant.path, {})
    if mutant.line not in rows:
        return []
    folder = next(name for name in FOLDERS if mutant.path.startswith(f"tosa_convert/{name}/"))
    own = tuple(FOLDERS[folder])
    direct = set(rows[mutant.line])
    everything = direct.union(*rows.values()) or set(found.seconds)
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


def run(folder: str, state: Path, sample: int, seed: int) -> None:
    """Judge a sample of the mutants of a folder, and print those that survive."""
    found = read_record(state)
    everything = list(mutants_of(folder))
    chosen = random.Random(f"{seed} {folder}").sample(everything, min(sample, len(everything)))
    answers = state / f"{folder.replace('/', '-')}.jsonl"
    known = read_answers(answers)
    _require_survivor(chosen[0], found)
    for mutant in chosen:
        row = known.get(mutant.key)
        # A survivor is judged again when there are other tests.
        if row is None or (row["verdict"] != "killed" and row["tests"] != found.name):
            verdict = _verdict(mutant, found)
            row = {"key": mutant.key, "path": mutant.path, "line": mutant.line}
            row |= {"before": mutant.before, "after": mutant.after}
            row |= {"verdict": verdict, "tests": found.name}
            with answers.open("a") as file:
                file.write(json.dumps(row) + "\n")
            known[mutant.key] = row
        if row["verdict"] in {"survived", "not run"}:
            text = re.sub(r"\s+", " ", f"{row['before']}  ->  {row['after']}")
            print(f"{row['verdict']}: {mutant.path}:{mutant.line}: {text}", flush=True)
    verdicts = [known[mutant.key]["verdict"] for mutant in chosen]
    killed = verdicts.count("killed")
    print(f"{folder}: {killed} of {len(chosen)} killed ({len(everything)} in all)", flush=True)


def _verdict(mutant: Mutant, found: Record) -> str:
    """Judge a mutant by the tests that may notice it."""
    tests = tests_for(mutant, found)
    limit = 30 + 4 * int(sum(found.seconds[test] for test in tests))
    return judge(mutant, tests, limit) if tests else "not run"


def _require_survivor(mutant: Mutant, found: Record) -> None:
    """Fail unless a module that is imported in the same way, but unchanged, passes a test."""
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    unchanged = replace(mutant, source=source)
    (test, *_) = tests_for(mutant, found) or list(found.seconds)
    assert judge(unchanged, [test], 60) == "survived", f"{test} fails without a change"


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
        run(folder, state, given.sample, given.seed)


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    main()
