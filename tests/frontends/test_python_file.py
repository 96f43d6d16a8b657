"""A factory in a Python file: what is run is what the file says now."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CALL = (
    "import pathlib, sys\n"
    "from tosa_convert.frontends.converters.python_file import call_factory\n"
    "print(call_factory(pathlib.Path(sys.argv[1]), 'make'))"
)


def made(path: Path) -> str:
    """What the factory returns, in a process of its own, as in a conversion."""
    command = [sys.executable, "-c", _CALL, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def write(path: Path, text: str) -> None:
    """Write a file, always with the same time of change."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))


def test_a_file_that_changes_within_a_second_is_run_as_it_is_now(tmp_path: Path) -> None:
    factory, part = tmp_path / "net.py", tmp_path / "part.py"
    for value in (1, 2):
        write(part, f"value = {value}\n")
        write(factory, f"import part\ndef make():\n    return {value}, part.value\n")
        assert made(factory) == f"({value}, {value})"
    assert {path.name for path in tmp_path.iterdir()} == {"net.py", "part.py"}


def test_a_compiled_copy_that_another_program_made_is_not_read(tmp_path: Path) -> None:
    factory = tmp_path / "net.py"
    write(factory, "def make():\n    return 1\n")
    py_compile.compile(str(factory))
    write(factory, "def make():\n    return 2\n")
    assert made(factory) == "2"
