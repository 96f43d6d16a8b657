"""Installed programs read our files of networks wherever they read those of tosa-opt."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compare_consumers import (
    OURS,
    THEIRS,
    Outcomes,
    Tool,
    compared,
    defects,
    from_torch,
    installed,
)
from oracle import consumers
from oracle.consumers import Consumer, Outcome

import tosa_convert as tc
from tosa_convert.builder import Builder

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        importlib.util.find_spec("tosa_reference_model") is None,
        reason="tosa-tools, which has tosa-opt, is not installed",
    ),
]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed, with which networks of the zoo are made",
)
PROGRAMS = ("vela", "model-converter", "model-explorer", "iree")


@pytest.fixture(scope="session")
def tools() -> dict[str, Tool]:
    further = os.environ.get("TOSA_CONSUMERS", "").split(os.pathsep)
    return installed([Path(sys.prefix), *map(Path, filter(None, further))])


def digits(root: Path) -> tc.Graph:
    return tc.load(root / "examples" / "digits_cnn.mlirbc")


def zoo(name: str) -> Callable[[Path], tc.Graph]:
    return lambda root: from_torch(name)


@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=pytest.mark.slow) if name == "iree" else name for name in PROGRAMS],
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(digits, id="digits_cnn"),
        *(
            pytest.param(zoo(name), id=name, marks=needs_torch)
            for name in ("espcn", "graph_convolution", "streaming_keywords")
        ),
    ],
)
def test_what_is_read_from_tosa_opt_is_read_from_us(
    make: Callable[[Path], tc.Graph],
    program: str,
    tools: dict[str, Tool],
    root: Path,
    tmp_path: Path,
) -> None:
    if program not in tools:
        pytest.skip(f"{program} is not installed; nox -s consumers has it")
    rows = compared(make(root), "network", {program: tools[program]}, Outcomes(), tmp_path)
    assert list(defects("network", rows)) == []


def scale() -> tc.Graph:
    b = Builder("main")
    b.output(b.add(b.input("x", "int32", (1, 8)), 1), name="y")
    return b.graph()


def compared_with(read: Consumer, folder: Path) -> list[str]:
    """Return what is found with a test double of Vela, which reads only .tosa files."""
    rows = compared(scale(), "scale", {"vela": Tool("vela", "v 1", read)}, Outcomes(), folder)
    return list(defects("scale", rows))


def test_a_program_that_refuses_only_our_file_is_a_defect(tmp_path: Path) -> None:
    found = compared_with(lambda file, _: Outcome(file.parent.name != OURS, "it is ours"), tmp_path)
    assert found == [
        "scale: vela, .tosa: ours is refused, that of tosa-opt is read: it is ours",
        "scale: vela, .tosa: doctor is wrong: it does not read the file of ours: it is ours",
    ]


def test_a_program_that_makes_another_result_of_our_file_is_a_defect(tmp_path: Path) -> None:
    found = compared_with(lambda file, _: Outcome(True, "", file.parent.name), tmp_path)
    assert found == ["scale: vela, .tosa: what is made of the two files differs"]


def test_a_program_that_reads_both_files_alike_has_no_defect(tmp_path: Path) -> None:
    assert compared_with(lambda file, _: Outcome(True, "", "the same"), tmp_path) == []


def test_a_file_that_both_writers_are_refused_is_no_defect_of_ours(tmp_path: Path) -> None:
    found = compared_with(lambda file, _: Outcome(False, "no place"), tmp_path)
    assert [line for line in found if "doctor" not in line] == []
    # What refuses a file that doctor says it reads is one.
    assert [THEIRS in line or OURS in line for line in found] == [True, True]


def test_known_outcomes_are_not_asked_again_also_after_a_run_that_was_stopped(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def read(file: Path, feeds: Any) -> Outcome:
        asked.append(file.name)
        return Outcome(True, "", "r")

    file, kept = tmp_path / "a.tosa", tmp_path / "outcomes.jsonl"
    tc.save(scale(), file)
    tool = Tool("vela", "v 1", read)
    assert Outcomes(kept).of(tool, file) == Outcome(True, "", "r")
    with kept.open("a", encoding="utf-8") as stream:
        stream.write('{"key": "half a li')
    assert Outcomes(kept).of(tool, file) == Outcome(True, "", "r")
    assert asked == ["a.tosa"]
    assert [
        json.loads(line)["result"] for line in kept.read_text(encoding="utf-8").splitlines()
    ] == ["r"]
    tc.save(scale(), file, weights="offset")
    Outcomes(kept).of(tool, file)
    assert len(asked) == 2


def test_a_program_that_did_not_end_in_time_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "PATIENCE", 0.01)
    file, kept = tmp_path / "a.tosa", tmp_path / "outcomes.jsonl"
    tc.save(scale(), file)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    slow = Tool("vela", "v 1", lambda file, _: consumers.run(command))
    assert "no result" in Outcomes(kept).of(slow, file).message
    ready = Tool("vela", "v 1", lambda file, _: Outcome(True, "", "r"))
    assert Outcomes(kept).of(ready, file) == Outcome(True, "", "r")
