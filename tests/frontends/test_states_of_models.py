"""`suite --frontends` and `--check` call models with states several times, and compare the states."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tosa_convert.cli.main import run, verb

pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


needs_torch = needs("torch")
needs_flax = needs("jax", "flax")

#: Two buffers: one that the output depends on, and one that counts in 64 bits.
TORCH = """
import torch


class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        is_program = torch.compiler.is_exporting()
        self.calls.add_({calls})
        self.total.add_(x)
        return {result}


def make_sums():
    return Sums(), (torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),)
"""
FLAX = """
import jax
import jax.numpy as jnp
from flax import nnx


class Sums(nnx.Module):
    def __init__(self):
        self.total = nnx.BatchStat(jnp.zeros((2, 3)))

    def __call__(self, x):
        self.total[...] = self.total[...] + x{change}
        return self.total[...] * 2


def make_sums():
    return Sums(), (jnp.arange(6.0).reshape(2, 3),)
"""


def answer(folder: Path, frontend: str, source: str) -> tuple[dict[str, Any], list[str]]:
    """Return the suite's answer to the case of a file, and the names of what differs."""
    path = folder / "sums.py"
    path.write_text(source, encoding="utf-8")
    report = folder / "report.json"
    words = [str(path), "--frontends", frontend, "--narrow", "i64", "--jobs", "1"]
    run(verb("suite"), [*words, "--json-report", str(report)])
    (row,) = json.loads(report.read_text(encoding="utf-8"))["answers"]
    lines = str(row["message"]).splitlines()
    differing = [line.split("FAIL ")[1].partition(")")[0] + ")" for line in lines if "FAIL" in line]
    return row, differing


@needs_torch
def test_outputs_and_states_of_three_calls_are_those_of_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TORCH.format(calls="1", result="2 * self.total")
    row, differing = answer(tmp_path, "torch", source)
    assert (row["status"], differing) == ("pass", [])
    assert "9 outputs compared" in capsys.readouterr().out


@needs_torch
def test_the_state_that_differs_is_named(tmp_path: Path) -> None:
    """The outputs agree: they do not depend on it."""
    source = TORCH.format(calls="1 if is_program else 2", result="2 * self.total")
    row, differing = answer(tmp_path, "torch", source)
    assert row["status"] == "wrong"
    assert differing == [f"variable:calls (call {number})" for number in (1, 2, 3)]


@needs_torch
def test_an_output_that_differs_in_a_later_call_only_is_named(tmp_path: Path) -> None:
    result = "2 * self.total if is_program else torch.where(self.calls > 1, 3, 2) * self.total"
    row, differing = answer(tmp_path, "torch", TORCH.format(calls="1", result=result))
    assert row["status"] == "wrong"
    assert [name.partition(" ")[2] for name in differing] == ["(call 2)", "(call 3)"]


@needs_torch
def test_check_compares_the_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sums.py"
    path.write_text(TORCH.format(calls="1", result="2 * self.total"), encoding="utf-8")
    words = [f"{path}:make_sums", "-o", str(tmp_path / "m.tosa"), "--narrow", "i64", "--check"]
    assert run(verb("convert"), words) == 0
    assert "ok   variable:total (call 3) float32[2, 3]" in capsys.readouterr().out


@needs_flax
def test_the_state_of_a_module_of_flax_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, differing = answer(tmp_path, "jax", FLAX.format(change=""))
    assert (row["status"], differing) == ("pass", [])
    assert "6 outputs compared" in capsys.readouterr().out


@needs_flax
def test_the_state_of_flax_that_differs_is_named(tmp_path: Path) -> None:
    change = " + (not isinstance(x, jax.core.Tracer))"
    row, differing = answer(tmp_path, "jax", FLAX.format(change=change))
    assert row["status"] == "wrong"
    assert "variable:total (call 1)" in differing
