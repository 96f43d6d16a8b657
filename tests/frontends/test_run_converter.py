"""Whatever happens to a converter, there is an error that says it, and no file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.frontends.process.request import Interface

Program = Callable[[str], str]


def error_of(model: Path, python: str, timeout: float = 60) -> tc.TosaConvertError:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_tflite(model, python=python, timeout=timeout)
    assert "Traceback" not in str(caught.value)
    return caught.value


def test_a_converter_that_hangs_is_ended(program: Program, empty_model: Path) -> None:
    python = program("import time\nprint('pass 3 of 7', flush=True)\ntime.sleep(600)")
    error = error_of(empty_model, python, timeout=1)
    assert error.code == "frontend-failed"
    assert "did not end within 1 s" in str(error)
    assert "pass 3 of 7" in str(error)


def test_a_converter_that_writes_nothing_failed(program: Program, empty_model: Path) -> None:
    error = error_of(empty_model, program("pass"))
    assert (error.code, error.exit_code) == ("frontend-failed", 4)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"inputs": 1}'])
def test_a_damaged_interface_is_an_error(program: Program, empty_model: Path, text: str) -> None:
    python = program(f"open('interface.json', 'w').write({text!r})")
    error = error_of(empty_model, python)
    assert error.code == "frontend-failed"
    assert "interface.json" in str(error)


def test_an_interface_without_a_program_is_an_error(program: Program, empty_model: Path) -> None:
    text = Interface().to_json()
    error = error_of(empty_model, program(f"open('interface.json', 'w').write({text!r})"))
    assert error.code == "frontend-failed"


def test_a_full_disk_for_temporary_files_is_named(
    program: Program, empty_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(empty_model.parent)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    error = error_of(empty_model, program("raise SystemExit(1)"))
    assert error.code == "file-error"
    assert "is full" in str(error)
    assert "TMPDIR" in str(error)


def test_a_python_that_does_not_exist_is_missing(empty_model: Path) -> None:
    error = error_of(empty_model, "no-such-python")
    assert (error.code, error.exit_code) == ("frontend-missing", 2)


def test_a_package_that_is_missing_is_named_with_its_command(empty_model: Path) -> None:
    """-S leaves out site-packages, as an interpreter does that has nothing installed."""
    if sys.platform == "win32":
        pytest.skip("Windows does not start a script by its first line")
    python = empty_model.with_name("bare")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    error = error_of(empty_model, str(python))
    assert {finding.code for finding in error.findings} == {"frontend-missing"}
    names = [finding.message.partition(" ")[0] for finding in error.findings]
    assert names == ["numpy", "ml_dtypes"]
    finding = error.findings[0]
    assert finding.hint.startswith(f"{python} -m pip install ")
    assert "[tflite]'" in finding.hint
