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


@pytest.mark.parametrize(
    ("words", "given", "found"),
    [
        (["tests/docs"], None, "auto"),
        (["tests/docs"], 0, 0),
        ([FILE], None, None),
        ([f"{FILE}::{TEST}"], None, None),
    ],
)
def test_a_file_or_a_test_runs_in_one_process(
    words: list[str], given: int | None, found: object, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conftest import pytest_cmdline_main

    monkeypatch.chdir(root)
    option = SimpleNamespace(numprocesses=given, usepdb=False, capture="fd", dist="no")
    plugins = SimpleNamespace(hasplugin=lambda name: True)
    config = SimpleNamespace(pluginmanager=plugins, option=option, args=words)
    pytest_cmdline_main(cast("pytest.Config", config))
    assert option.numprocesses == found


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


def test_the_tests_of_a_change_exist(root: Path) -> None:
    parts = {
        path.name for path in (root / "tosa_convert").iterdir() if (path / "__init__.py").exists()
    }
    table = (
        read(root, "CONTRIBUTING.md").partition("## The tests of a change")[2].partition("\n## ")[0]
    )
    for part in parts - {"formats"}:
        assert f"`{part}/`" in table, f"no row says what tests a change in {part}/"
    commands = re.findall(r"`python -m pytest ([^`]+)`", table)
    for command in map(shlex.split, commands):
        paths = [word for word in command if "/" in word]
        assert paths
        for path in paths:
            assert (root / path).exists(), f"CONTRIBUTING.md: {path} does not exist"


def test_the_longest_files_exist_and_start_first(root: Path) -> None:
    from conftest import LONGEST, pytest_collection_modifyitems

    missing = [name for name in LONGEST if not (root / name).exists()]
    assert not missing, "LONGEST in tests/conftest.py names files that do not exist"
    items = [SimpleNamespace(nodeid=f"{name}::test") for name in ("tests/a.py", *LONGEST[::-1])]
    pytest_collection_modifyitems(cast("list[pytest.Item]", items))
    assert [item.nodeid.partition("::")[0] for item in items] == [*LONGEST, "tests/a.py"]
