"""The lower bounds of the extras are those that SECURITY.md gives reasons for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| ([\w-]+) \| `([^`]+)` \| (.*CVE-.*) \|$",
    (ROOT / "SECURITY.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.partition(",")[0].split(".")]


def test_the_table_has_the_frameworks_that_read_files_of_others() -> None:
    assert {name for name, _, _ in ROWS} == {"keras", "onnx", "torch"}


@pytest.mark.parametrize(("name", "bound", "reasons"), ROWS)
def test_every_extra_asks_for_the_release_of_the_table(name: str, bound: str, reasons: str) -> None:
    assert set(re.findall(rf'"{name}([<>=!~][^";]*)', PROJECT)) == {f">={bound}"}
    repaired = re.findall(r"\((\d+(?:\.\d+)+)", reasons)
    assert all(numbers(text) <= numbers(bound) for text in repaired), repaired


@pytest.mark.parametrize(("name", "bound"), [row[:2] for row in ROWS])
def test_the_tested_releases_are_admitted(name: str, bound: str) -> None:
    folder = ROOT / "third_party" / "frontends"
    texts = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt")))
    tested = re.findall(rf"^{name}==([\d.]+)(?: #.*)?$", texts, re.MULTILINE)
    assert tested
    assert all(numbers(text) >= numbers(bound) for text in tested)
