"""The numbers of docs/legalizations.md about ONNX's node tests add up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def section(root: Path) -> str:
    text = (root / "docs" / "legalizations.md").read_text(encoding="utf-8")
    return text.split("## ONNX's own node tests")[1].split("\n## ")[0]


def table(section: str, head: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    lines = section.split(f"| {head} | ")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_answers_and_the_operators_add_up(section: str) -> None:
    counts = [number(row[0]) for row in table(section, "tests")]
    total, held, agree, differ, *others = counts
    assert total >= held
    assert agree + differ + sum(others) == held
    full = re.search(
        r"Every test agrees for (\d+) operators,\s+([\d,]+)\s+tests: (.*?)\. Without",
        section,
        re.DOTALL,
    )
    assert full is not None
    names = [name.strip() for name in full[3].replace("\n", " ").split(",")]
    assert len(names) == number(full[1])
    sizes = [number(name.partition("(")[2].rstrip(")") or "1") for name in names]
    assert sum(sizes) == number(full[2])
    rows = table(section, "operator")
    assert sum(sizes) + sum(number(row[1]) for row in rows) == held
    assert sum(sizes) + sum(number(row[2]) for row in rows) == agree
    assert all(number(row[2]) < number(row[1]) for row in rows)
