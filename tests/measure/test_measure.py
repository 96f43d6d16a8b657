"""Mutations change what they say, and judges tell what tests notice."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from measure.mutations import mutations

SOURCE = '''def clip(x: int = 3, é: str = "a + b") -> "int | None":
    """1 + 1"""
    for place in range(x):
        if place < x and not é:
            break
    if x:
        raise ValueError(f"{x + 1}")
    return (x +
            2)
'''


def test_mutations_change_one_place_and_keep_the_lines() -> None:
    found = [(row.line, row.before, row.after) for row in mutations(SOURCE)]
    assert found == [
        (1, "3", "4"),
        (4, "place < x and (not é)", "place < x or not é"),
        (4, "place < x", "place <= x"),
        (4, "not é", "é"),
        (5, "break", "continue"),
        (6, "x", "not x"),
        (7, "raise ValueError(f'{x + 1}')", "pass"),
        (8, "return x + 2", "return None"),
        (8, "x + 2", "x - 2"),
        (9, "2", "3"),
    ]
    for row in mutations(SOURCE):
        ast.parse(row.source)
        assert len(row.source.splitlines()) == len(SOURCE.splitlines()), row
        assert row.source != SOURCE


def test_what_no_run_can_show_is_not_mutated() -> None:
    source = "import a.b\n@cache(1)\ndef f(x: 1 < 2 = None):\n"
    source += "    assert x < 1\n    zip(x, strict=True)\n"
    assert [row.after for row in mutations(source)] == ["pass"]
    assert list(mutations("if TYPE_CHECKING:\n    x = 1\n")) == []


_JUDGE = """
import json, subprocess, sys
from measure import judges
path = "tosa_convert/graph/versions.py"
text = (judges.ROOT / path).read_text(encoding="utf-8")
table = text.replace('"1.0": V1_0', '"1.0": V1_1_DRAFT')
function = text.replace("if since > limit", "if since >= limit")
nothing = text.replace("path = located(", "path = (located)(")
rows = [judges.Change(path, source) for source in (text, table, function, nothing)]
test = "tests/unit/graph/test_versions.py"
words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", test]
listed = subprocess.run(words, capture_output=True, text=True, cwd=judges.ROOT).stdout
tests = [line for line in listed.splitlines() if "::" in line]
seconds = dict.fromkeys(tests, 1.0)
server = judges.Server(tests, seconds)
print(json.dumps([server.judge(row, tests) for row in rows]))
server.close()
print(json.dumps([judges.judge_anew(row, tests, seconds) for row in rows]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mutants are judged in forks with limits")
def test_mutants_are_killed_and_unchanged_code_survives(root: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(root / "tests")}
    command = [sys.executable, "-c", _JUDGE]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    quick, anew = done.stdout.splitlines()[-2:]
    # A table that an import makes is for the second judge.
    assert quick == '["survived", "unsure", "killed", "survived"]', done.stderr
    assert anew == '["survived", "killed", "killed", "survived"]', done.stderr


def test_the_tests_that_run_a_line_judge_its_mutant_the_quick_ones_first() -> None:
    pytest.importorskip("resource", reason="mutants are judged in forks with limits")
    from measure import mutants

    path = "tosa_convert/graph/versions.py"
    mutant = mutants.Mutant(path, 1, "", "", "")
    own = f"{mutants.FOLDERS['graph'][0]}/a.py"
    seconds = {"a.py::x": 2.0, "b.py::y": 1.0, f"{own}::z": 3.0, "c.py::slow": mutants.BUDGET}

    def judges(lines: dict[int, list[str]]) -> list[str]:
        return mutants.tests_for(mutant, mutants.Record(seconds, {path: lines}))

    assert judges({2: ["a.py::x"]}) == []
    assert judges({1: ["a.py::x", "b.py::y", f"{own}::z"]}) == [f"{own}::z", "b.py::y", "a.py::x"]
    # Another test of the file may be the one that needs what an import computes.
    assert judges({1: ["a.py::x"], 2: ["b.py::y"]}) == ["a.py::x", "b.py::y"]
    assert judges({1: []}) == [f"{own}::z", "b.py::y", "a.py::x"], "run by an import"
    assert judges({1: ["c.py::slow", "a.py::x"]}) == ["a.py::x"], "the budget is kept"
    assert judges({1: ["c.py::slow"]}) == ["c.py::slow"]
