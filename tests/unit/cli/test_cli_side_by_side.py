"""Many files in one call: worker processes and a shared MLIR context only change the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.building import branching, example
from unit.cli.test_cli import convert, save

__all__ = ["convert"]  # the fixture


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Five programs, the second and the fourth of them damaged."""
    folder = tmp_path / "in"
    folder.mkdir()
    for index in range(5):
        path = folder / f"m{index}.tosa"
        if index in (1, 3):
            path.write_bytes(b"\x10\0\0\0TOSA")
        else:
            save(path, branching() if index else example())
    return folder


@pytest.mark.slow
def test_two_processes_write_and_print_what_one_process_does(convert: Any, mixed: Path) -> None:
    one = convert("in", "--to", "json", "-o", "one", "-j", "1")
    two = convert("in", "--to", "json", "-o", "two", "-j", "2")
    assert one == two
    assert one[0] == 3
    assert one[2].index("m1.tosa") < one[2].index("m3.tosa")
    assert one[2].endswith("3 of 5 files converted\n")
    root = mixed.parent
    assert contents(root / "one") == contents(root / "two")
    assert len(contents(root / "one")) == 3


@pytest.mark.slow
def test_a_missing_file_is_reported_by_a_worker_process_too(convert: Any) -> None:
    code, _, err = convert("no.mlir", "none.mlir", "--to", "tosa", "-o", "out", "-j", "2")
    assert code == 2
    assert err.count("[file-error]") == 2
