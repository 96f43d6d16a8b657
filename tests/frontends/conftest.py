from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"


@pytest.fixture
def model() -> Callable[[str], Path]:
    """Return a real TFLite model by its name.

    The test is skipped if they are not beside the checkout.
    """

    def find(name: str) -> Path:
        path = MODELS / f"{name}.tflite"
        if not path.exists():
            pytest.skip("there is no ../shared/models beside the checkout")
        return path

    return find


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes a program of Python code, which runs in place of the Python that runs a converter."""

    def make(code: str) -> str:
        if sys.platform == "win32":
            pytest.skip("Windows does not start a script by its first line")
        path = tmp_path / f"program{len(list(tmp_path.glob('program*')))}.py"
        path.write_text(f"#!{sys.executable}\n{code}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


@pytest.fixture
def empty_model(tmp_path: Path) -> Path:
    """Return a file that is recognised as a TFLite model, for programs that do not read it."""
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3".ljust(64, b"\0"))
    return path
