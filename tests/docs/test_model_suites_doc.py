"""The numbers of docs/model-suites.md add up, and are those that were recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs import operator_tables
from frontends.tflite_operators.write import all_programs

from tosa_convert.qualify.suite.model_cases import find_cases


@pytest.fixture(scope="module")
def section(root: Path) -> str:
    text = (root / "docs" / "model-suites.md").read_text(encoding="utf-8")
    return text.split("## ONNX's own node tests")[1].split("\n## ")[0]


def table(section: str, head: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this heading."""
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


@pytest.mark.slow
def test_every_program_was_run_and_no_other(root: Path) -> None:
    """Then record them: python tests/frontends/record_operators.py REPORT.json ..."""
    programs = {f"{one.operator}/{one.name}" for one in all_programs()}
    assert set(operator_tables.results("tflite")) == programs
    cases = find_cases([str(root / "tests" / "frontends" / "operators")], ["torch"])
    names = {name.partition("/")[2] for name in cases.names}
    assert set(operator_tables.results("torch")) == names


@pytest.mark.parametrize("frontend", ["torch", "tflite"])
def test_every_program_ended_and_every_operator_that_is_not_equal_is_explained(
    frontend: str,
) -> None:
    assert set(operator_tables.results(frontend).values()) <= set(operator_tables.WORDS)
    found = operator_tables.by_operator(frontend)
    others = {name for name, row in found.items() if row["equal"] < row.total()}
    assert set(operator_tables.NOTES[frontend]) == others
