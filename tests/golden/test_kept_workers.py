"""A backend's process is kept for many cases, and each case is a fork of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from golden.official_cases import make_suite

from tosa_convert.process.workers import KeptProcess
from tosa_convert.qualify.suite.answers import Answer
from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case

pytestmark = [
    pytest.mark.usefixtures("refmodel"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
]

#: Counts its imports, and in a variable its runs.
BACKEND = """
import os, threading
from pathlib import Path

import numpy as np

MARK = Path(__file__).with_name("imports")
MARK.write_text(MARK.read_text() + "x" if MARK.exists() else "x")
runs = 0
{more}


def run(model, inputs):
    global runs
    runs += 1
    assert runs == 1, "another case has run in this process"
    assert threading.active_count() == {threads}
    if inputs["x"][0] == {crash}:
        os.abort()
    return {{"y": np.abs(inputs["x"])}}
"""


def qualify(root: Path, more: str = "", threads: int = 1, crash: int = 99) -> list[Answer]:
    names = make_suite(root / "cases")[:2]
    path = root / "backend.py"
    path.write_text(BACKEND.format(more=more, threads=threads, crash=crash))
    settings = Qualification(against=str(path))
    return [qualify_case(str(root / "cases"), name, settings=settings) for name in names]


def imports(root: Path) -> int:
    return len((root / "imports").read_text())


def test_a_crash_costs_one_case_and_no_import(tmp_path: Path) -> None:
    answers = qualify(tmp_path, crash=3)
    assert [answer.status for answer in answers] == ["crashed", "crashed"]
    assert "SIGABRT" in answers[1].message
    assert imports(tmp_path) == 1


@pytest.mark.parametrize(
    ("more", "threads"),
    [
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", 2),
        ("file = open(__file__)", 1),
        ("import socket; pair = socket.socketpair()", 1),
    ],
    ids=["thread", "file", "socket"],
)
def test_a_file_that_must_not_be_forked_has_a_process_for_each_case(
    more: str, threads: int, tmp_path: Path
) -> None:
    answers = qualify(tmp_path, more, threads)
    assert [answer.status for answer in answers] == ["pass", "pass"], answers
    assert imports(tmp_path) == 3  # of which one decides that it is not forked


#: Says whether the case before has left a module of Python's library, and imports it.
LAZY = """
import os, sys
from pathlib import Path

import numpy as np

FOUND = Path(__file__).with_name("found")


def run(model, inputs):
    with open(FOUND, "a") as file:
        file.write(str(int("colorsys" in sys.modules)))
    {before}
    import colorsys
    return {{"y": np.abs(inputs["x"])}}
"""


@pytest.mark.parametrize(
    ("before", "found"), [("", "01"), ('os.environ["HOW"] = model', "00")], ids=["kept", "own"]
)
def test_what_a_case_imports_is_there_for_the_next_unless_the_case_decides_how(
    before: str, found: str, tmp_path: Path
) -> None:
    names = make_suite(tmp_path / "cases")[:2]
    (tmp_path / "backend.py").write_text(LAZY.format(before=before))
    settings = Qualification(against=str(tmp_path / "backend.py"))
    for name in names:
        qualify_case(str(tmp_path / "cases"), name, settings=settings)
    assert (tmp_path / "found").read_text() == found


#: Tells in its folder which modules the process has, and which it should have.
SERVER = """
import json, sys
from pathlib import Path
from tosa_convert.process.workers import MODULES_FILE, serve

def work():
    Path("has").write_text(str([name for name in ("quiet", "opens") if name in sys.modules]))
    Path(MODULES_FILE).write_text(json.dumps(sys.argv[1:]))

raise SystemExit(serve(lambda: True, work))
"""


def test_a_module_that_keeps_a_file_open_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quiet.py").write_text("")
    (tmp_path / "opens.py").write_text("import quiet; file = open(__file__)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    server = KeptProcess([sys.executable, "-c", SERVER])
    server.begin()
    assert server.process is not None
    for number, (name, has) in enumerate(
        [("quiet", []), ("opens", ["quiet"]), ("quiet", ["quiet"])]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert server.run(folder, 60, arguments=[name]).code == 0
        assert (folder / "has").read_text() == str(has)
    server.close()
