"""The scoreboard counts answers by operator and type, and leaves out what is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docs import finding_tables
from oracle import scoreboard

from tosa_convert.cli.main import run, verb


def test_cells_with_a_fault_have_their_first_case() -> None:
    rows = [
        {"case": f"{operator}/{number}", "operator": operator, "type": "FP32", "status": status}
        for operator, statuses in {
            "ABS": ("pass", "wrong", "crashed"),
            "ADD": ("pass", "refused"),
        }.items()
        for number, status in enumerate(statuses)
    ]
    found = scoreboard.summary(rows)
    assert found["total"] == {"pass": 2, "wrong": 1, "crashed": 1, "refused": 1}
    assert found["cells"] == {"ABS FP32": {"pass": 1, "wrong": 1, "crashed": 1, "case": "ABS/1"}}


def test_every_published_consumer_is_known_and_ran_equal_cases() -> None:
    consumers = finding_tables.measured()["consumers"]
    assert set(consumers) <= set(scoreboard.CONSUMERS)
    assert len({sum(row["total"].values()) for row in consumers.values()}) == 1


@pytest.mark.slow
def test_a_consumer_runs_cases_and_one_that_is_missing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seed", "2", "--size", "1", "--only", "ABS", "--count", "1"]
    assert run(verb("generate"), [*words, "-o", str(tmp_path / "cases")]) == 0
    monkeypatch.setattr(scoreboard, "CONSUMERS", ("numpy", "no-such-program"))
    monkeypatch.setattr(scoreboard, "RESULTS", tmp_path / "scoreboard.json")
    words = [str(tmp_path / "state"), str(tmp_path / "cases"), "--publish"]
    assert scoreboard.main(words) == 0
    said = capsys.readouterr().out
    assert "numpy: 1 pass" in said
    assert "no-such-program: left out" in said
    written = json.loads((tmp_path / "scoreboard.json").read_text(encoding="utf-8"))
    assert list(written["consumers"]) == ["numpy"]
    assert (tmp_path / "state" / "numpy.html").exists()
