"""The numbers of docs/backends.md about IREE add up."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from oracle.iree_table import CAUSES, STATUSES, cause, kind, tables

#: passed, wrong, does not compile, crashes.
Counts = tuple[int, ...]


@pytest.fixture(scope="module")
def section(root: Path) -> str:
    text = (root / "docs" / "backends.md").read_text(encoding="utf-8")
    return text.split("## IREE 3.13 on the official suite")[1].split("\n## ")[0]


def stated(section: str) -> tuple[int, Counts]:
    """Return the number of cases and the counts of the first paragraph."""
    paragraph = section.strip().split("\n\n")[0].partition("on `llvm-cpu`:")
    cases = int(re.findall(r"[\d,]+", paragraph[0])[0].replace(",", ""))
    counts = re.findall(
        r"([\d,]+) (?:pass|are wrong|do not|the)", re.sub(r"\s+", " ", paragraph[2])
    )
    return cases, tuple(int(count.replace(",", "")) for count in counts)


def test_the_causes_add_up(section: str) -> None:
    cases, counts = stated(section)
    assert len(counts) == len(STATUSES)
    assert sum(counts) == cases
    table = section.split("| cases | cause | ")[1].split("\n\n")[0].splitlines()[2:]
    causes = [int(line.split("|")[1].replace(",", "")) for line in table]
    assert sum(causes) == cases - counts[0]
    assert f"The causes of the {cases - counts[0]:,} that did not pass" in section
    assert causes[0] == max(causes)


def test_a_result_is_counted() -> None:
    def row(status: str, operator: str, type_: str, case: str, message: str = "") -> dict[str, str]:
        return {
            "status": status,
            "operator": operator,
            "type": type_,
            "case": case,
            "message": message,
        }

    answers = [
        row("pass", "ABS", "FP32", "abs/abs_4_f32"),
        row("wrong", "COS", "FP32", "cos/cos_4_f32"),
        row("refused", "CAST", "MX FP4E2M1", "cast/x", "failed to legalize operation 'tosa.cast'"),
        row(
            "refused", "CONV3D", "FP8E5M2", "conv3d/c_dyn", "failed to legalize operation 'tosa.c'"
        ),
        row("crashed", "ABS", "FP6E2M3", "abs/a"),
    ]
    assert Counter(map(cause, answers[1:])) == Counter(
        ["wrong", "block-scaled", "zero point that is an input", "other"]
    )
    assert [kind(answer) for answer in answers[2:]] == [
        "block-scaled",
        "FP8E5M2",
        "FP4, FP6, MXINT8",
    ]
    assert set(CAUSES) >= {cause(answer) for answer in answers}
    lines = "\n".join(tables(answers))
    assert "| FP32 | 1 | 1 | 0 | 0 |" in lines
    assert "| ABS | 1 | 0 | 0 | 1 |" in lines
