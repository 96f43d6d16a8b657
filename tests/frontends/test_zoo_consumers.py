"""Installed programs read our files of networks wherever they read those of tosa-opt."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compare_consumers import (
    Outcomes,
    Tool,
    compared,
    defects,
    from_torch,
    installed,
)
from oracle import consumers
from oracle.consumers import Outcome

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
