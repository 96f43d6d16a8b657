"""What tests of all folders share: which MLIR bindings there are, and how random tests are seeded."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tosa_convert.bindings.packages import Bindings, default_bindings, installed

#: Every distribution of bindings we are tested with; a test that takes `bindings` runs on each.
BINDINGS = ("torch_mlir", "iree.compiler")


def pytest_configure(config: pytest.Config) -> None:
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import settings

    # CI repeats the same examples every time; at home each run looks at new ones.
    settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
    settings.register_profile("home", deadline=None, print_blob=True)
    settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.fixture(scope="session", params=BINDINGS)
def bindings(request: pytest.FixtureRequest) -> Bindings:
    """Each distribution of MLIR's bindings that is installed."""
    if request.param not in installed():
        pytest.skip(f"the MLIR bindings {request.param} are not installed")
    return default_bindings(request.param)


@pytest.fixture(scope="session")
def torch_mlir() -> Bindings:
    """The bindings that the extra `mlir` brings."""
    if "torch_mlir" not in installed():
        pytest.skip("the MLIR bindings torch_mlir are not installed: pip install torch-mlir")
    return default_bindings("torch_mlir")


@pytest.fixture(scope="module")
def context(bindings: Bindings) -> Any:
    """A context of the bindings that a file's tests share: making one takes longer than a test."""
    return bindings.new_context()


@pytest.fixture(scope="module")
def parse(bindings: Bindings, context: Any) -> Callable[[str], Any]:
    """Text -> module."""

    def parse_text(text: str) -> Any:
        return bindings.ir.Module.parse(text, context)

    return parse_text


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parent.parent
