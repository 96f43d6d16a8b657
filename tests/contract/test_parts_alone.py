"""Run the core without frontends, judge and qualification, and the judge without qualification."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: The parts above the core, the lowest first.
ABOVE = ("frontends", "golden", "qualify")
#: Command lines that need no more than the core.
CORE = (
    "convert digits_cnn.mlirbc -o m.tosa",
    "convert m.tosa -o m.json",
    "convert m.json -o m.mlir",
    "validate m.tosa",
    "show m.tosa",
    "diff m.tosa m.json",
    "rewrite m.tosa -o r.tosa",
    "repack m.tosa -o w.tosa --weights offset",
    "doctor m.tosa",
    "report m.tosa -o m.html",
    "extract m.tosa -o e.tosa --outputs logits",
    "explain CONV2D",
    "upgrade m.mlir -o u.mlir",
)
#: What the judge needs no qualification for.
JUDGE = (
    "convert digits_cnn.mlirbc -o m.tosa",
    "run m.tosa --random 1 --engine numpy -o out",
    "check m.tosa --random 1 --engine numpy --against ./backend.py",
)
#: A backend that computes with the engine of this package.
BACKEND = """
import tosa_convert as tc

def run(model, inputs):
    return tc.run(model, inputs, engine="numpy").outputs
"""
#: Run the command line, found in the working directory even where the package is installed in place.
START = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
from tosa_convert.cli.start import exit_code
sys.exit(exit_code("", sys.argv[1:]))
"""


def failures(
    root: Path, folder: Path, removed: tuple[str, ...], lines: tuple[str, ...]
) -> list[str]:
    """Return what command lines print that fail with a copy of the package without some folders."""
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "tosa_convert", folder / "tosa_convert", ignore=left_out)
    for part in removed:
        shutil.rmtree(folder / "tosa_convert" / part)
    shutil.copy(root / "examples" / "digits_cnn.mlirbc", folder)
    (folder / "backend.py").write_text(BACKEND, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    found = []
    for line in lines:
        command = [sys.executable, "-c", START, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        if done.returncode:
            found.append(f"{line}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return found


@pytest.mark.slow
def test_the_core_runs_alone(root: Path, tmp_path: Path) -> None:
    assert failures(root, tmp_path, ABOVE, CORE) == []


@pytest.mark.slow
def test_the_judge_runs_without_qualification(root: Path, tmp_path: Path) -> None:
    assert failures(root, tmp_path, ("qualify",), JUDGE) == []


def test_a_part_that_is_needed_is_missed(root: Path, tmp_path: Path) -> None:
    (problem,) = failures(root, tmp_path, (*ABOVE, "rules"), CORE[:1])
    assert "No module named 'tosa_convert.rules'" in problem
