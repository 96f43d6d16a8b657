"""`--check` of a program with integers against a model of torch, which has numbers, with a double."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from frontends import fake_framework

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run, verb
from tosa_convert.golden.models import compare_model
from tosa_convert.golden.models.compare_model import STEPS

pytestmark = pytest.mark.oracle
SCALE = {"scale": 0.5, "zero_point": -3}


@pytest.fixture
def check(tmp_path: Path, program: Callable[[str], str]) -> Callable[..., int]:
    """Runs `convert --check` of a model that gives what it takes, with an error of some steps."""
    pytest.importorskip("tosa_tools_cli")
    b = Builder("net")
    b.output(b.identity(b.input("x", "int8", (2, 3))), name="y")
    tc.save(b.graph(), tmp_path / "net.tosa")
    (tmp_path / "net.py").write_text("import torch\n\n\ndef make_net(): ...\n", encoding="utf-8")
    (tmp_path / "net.scales").write_text(json.dumps({"x": SCALE, "y": SCALE}), encoding="utf-8")
    path = Path(fake_framework.__file__)
    python = program(f"import runpy\nrunpy.run_path({str(path)!r}, run_name='__main__')")

    def call(steps: float, *words: str) -> int:
        off = steps * SCALE["scale"]
        (tmp_path / "net.off").write_text(str(off), encoding="utf-8")
        source, target = f"{tmp_path / 'net.py'}:make_net", str(tmp_path / "m.tosa")
        command = [source, "-o", target, "--via", "executorch", "--python", python, "--check"]
        return run(verb("convert"), [*command, *words])

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "code"), [(0, 0), (STEPS, 0), (STEPS + 1, 1)])
def test_integers_are_compared_in_steps(
    check: Callable[..., int],
    tmp_path: Path,
    steps: float,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "x.npy", np.arange(-30, 30, 10, dtype=np.int8).reshape(2, 3))
    assert check(steps, "-i", f"x={tmp_path / 'x.npy'}") == code
    out = capsys.readouterr().out
    assert f"y int8[2, 3] [atol {STEPS:g} rtol 0]" in out
    assert ("all 6 elements equal" in out) == (steps == 0)


@pytest.mark.slow
def test_numbers_that_are_given_are_quantised(
    check: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([[0.0, 0.5, 1.0], [-1.0, 3.0, 2.0]], np.float32))
    assert check(0, "-i", f"x={tmp_path / 'x.npy'}") == 0
    assert "all 6 elements equal" in capsys.readouterr().out


@pytest.mark.slow
def test_random_integers_are_used_without_inputs(check: Callable[..., int]) -> None:
    assert check(0) == 0


@pytest.mark.slow
def test_numpy_computes_a_program_of_many_multiply_accumulates(
    check: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(0) == 0
    assert "the reference is numpy" not in capsys.readouterr().out
    monkeypatch.setattr(compare_model, "_LARGE", -1)
    assert check(0) == 0
    assert "the reference is numpy" in capsys.readouterr().out
    assert check(0, "--engine", "reference-model") == 0
    assert "the reference is numpy" not in capsys.readouterr().out
