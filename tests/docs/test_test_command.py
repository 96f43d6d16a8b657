"""`python -m pytest` runs folders on all cores and single tests in one process."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest


def run_pytest(root: Path, *words: str) -> str:
    """Return the output of a run of pytest, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


TEST = "test_every_decision_is_in_the_list"
FILE = "tests/docs/test_links.py"


@pytest.fixture(autouse=True)
def test_the_test_that_is_run_exists(root: Path) -> None:
    assert f"def {TEST}" in (root / FILE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_folder_runs_on_all_cores(root: Path) -> None:
    pytest.importorskip("xdist")
    assert "worker" in run_pytest(root, "tests/docs", "-k", TEST)


@pytest.mark.slow
@pytest.mark.parametrize("words", [[f"{FILE}::{TEST}"], [FILE, "-k", TEST]])
def test_a_file_or_a_test_runs_in_one_process(root: Path, words: list[str]) -> None:
    assert "worker" not in run_pytest(root, *words)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["-n", "0"], ["-p", "no:xdist"]])
def test_a_folder_can_run_in_one_process(root: Path, words: list[str]) -> None:
    if "-n" in words:
        pytest.importorskip("xdist")
    assert "worker" not in run_pytest(root, "tests/docs", "-k", TEST, *words)


@pytest.mark.slow
def test_long_tests_are_counted_when_they_do_not_run(root: Path) -> None:
    words = ["tests/oracle/test_official_suite.py", "--collect-only", "-q"]
    assert "deselected" in run_pytest(root, *words)
    assert "test_the_whole_sample_agrees" in run_pytest(root, *words, "-m", "long")


def mark_expressions(root: Path) -> list[str]:
    """Return the expressions of marks of every step of .ci/run that runs tests.

    The first is the default.
    """
    (default,) = re.findall(
        r"^addopts = .* -m '([^']+)'", read(root, "pyproject.toml"), re.MULTILINE
    )
    sessions = re.findall(r"-s (.+?) \|\|", read(root, ".ci/run"))
    functions = {
        node.name: ast.unparse(node)
        for node in ast.parse(read(root, "noxfile.py")).body
        if isinstance(node, ast.FunctionDef)
    }
    code = "".join(functions.get(name, "") for line in sessions for name in line.split())
    return [default, *re.findall(r"'pytest', '-m', '([^']+)'", code)]


def test_every_test_is_in_exactly_one_of_the_sets_that_ci_runs(root: Path) -> None:
    expressions = mark_expressions(root)
    assert len(expressions) == 3
    marks = re.findall(r'^    "(\w+): ', read(root, "pyproject.toml"), re.MULTILINE)
    assert {"slow", "long"} <= set(marks)
    for values in itertools.product((False, True), repeat=len(marks)):
        names = dict(zip(marks, values, strict=True))
        # A word of such an expression is a mark; `and`, `or` and `not` are Python's.
        chosen = [words for words in expressions if eval(words, {}, names)]
        assert len(chosen) == 1, f"tests with the marks {names} are in {chosen}"


def commands_of_changes(root: Path) -> list[list[str]]:
    """Return the arguments of pytest in the table of CONTRIBUTING.md that says what tests a change."""
    table = (
        read(root, "CONTRIBUTING.md").partition("## The tests of a change")[2].partition("\n## ")[0]
    )
    return [shlex.split(words) for words in re.findall(r"`python -m pytest ([^`]+)`", table)]


def test_the_tests_of_a_change_exist(root: Path) -> None:
    commands = commands_of_changes(root)
    parts = {
        path.name for path in (root / "tosa_convert").iterdir() if (path / "__init__.py").exists()
    }
    table = (
        read(root, "CONTRIBUTING.md").partition("## The tests of a change")[2].partition("\n## ")[0]
    )
    for part in parts - {"formats"}:
        assert f"`{part}/`" in table, f"no row says what tests a change in {part}/"
    for command in commands:
        paths = [word for word in command if "/" in word]
        assert paths
        for path in paths:
            assert (root / path).exists(), f"CONTRIBUTING.md: {path} does not exist"


@pytest.mark.slow
def test_the_tests_of_a_change_are_some(root: Path) -> None:
    for command in commands_of_changes(root):
        found = re.search(
            r"(\d+)(?:/\d+)? tests? collected", run_pytest(root, *command, "--collect-only", "-q")
        )
        assert found is not None
        assert int(found[1]) >= 20, command


def test_the_longest_files_exist_and_start_first(root: Path) -> None:
    from conftest import LONGEST, pytest_collection_modifyitems

    missing = [name for name in LONGEST if not (root / name).exists()]
    assert not missing, "LONGEST in tests/conftest.py names files that do not exist"
    items = [SimpleNamespace(nodeid=f"{name}::test") for name in ("tests/a.py", *LONGEST[::-1])]
    pytest_collection_modifyitems(cast("list[pytest.Item]", items))
    assert [item.nodeid.partition("::")[0] for item in items] == [*LONGEST, "tests/a.py"]
