"""Fixtures of the unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the path of a folder of weights that does not exist yet."""
    return tmp_path / "m.weights"
