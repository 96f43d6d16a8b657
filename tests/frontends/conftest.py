from __future__ import annotations

import importlib.util
import os
import re
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"

if importlib.util.find_spec("tensorflow") is None:
    # Keras takes TensorFlow if nothing is said.
    os.environ.setdefault("KERAS_BACKEND", "jax")

FOLDER: Final = Path(__file__).parent
#: Frameworks that take seconds to import, and whose models take seconds to convert.
_HEAVY: Final = (
    r"(?:torch|onnx|onnxruntime|jax|flax|keras|tensorflow|timm|torchvision|transformers)"
)
_OF_FILE: Final = re.compile(
    rf"^(?:(?:\w.*)?importorskip\(\s*\"{_HEAVY}\"|from frontends.jax_runs )", re.MULTILINE
)
_OF_TEST: Final = re.compile(rf"\b{_HEAVY}\b.* not installed")
#: Files whose first test stays in the run of every day, as an example of its framework.
_EXAMPLES: Final = ("test_torch.py", "test_onnx.py", "test_jax_models.py", "test_keras.py")


@cache
def _needs_heavy(path: Path) -> bool:
    return _OF_FILE.search(path.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs an installed framework `slow`, so that every day's run takes as long with them.

    A test that is marked `quick` stays, and so does the first one of _EXAMPLES.
    """
    seen: set[str] = set()
    for item in items:
        if item.path.parent != FOLDER or item.get_closest_marker("slow"):
            continue
        reasons = (str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif"))
        if not (_needs_heavy(item.path) or any(map(_OF_TEST.search, reasons))):
            continue
        is_example = item.path.name in _EXAMPLES and item.path.name not in seen
        seen.add(item.path.name)
        if not is_example and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.slow)


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
