"""The progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest
from unit.building import example

from tosa_convert import api
from tosa_convert.cli.progress import ProgressDisplay, WriteProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves only when a test moves it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_a_bar_after_a_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with WriteProgress("m.tosa", 1000) as report:
        report(100)
        assert screen.getvalue() == ""
        clock[0] += 1.5
        report(500)
        assert "m.tosa" in screen.getvalue()
        assert "50%" in screen.getvalue()
        drawn = len(screen.getvalue())
        clock[0] += 0.1
        report(600)
        assert len(screen.getvalue()) == drawn, "it is drawn at most twice a second"
        clock[0] += 1
        report(1000)
        assert "100%" in screen.getvalue()
    assert screen.getvalue().endswith("\n"), "the next message starts on a line of its own"


def test_without_a_terminal_there_is_a_line_every_ten_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with WriteProgress("m.tosa", 4 << 20) as report:
        clock[0] += 9
        report(1 << 20)
        assert capsys.readouterr().err == ""
        clock[0] += 2
        report(2 << 20)
        report(3 << 20)
        assert capsys.readouterr().err == "m.tosa: 2 MiB written (50 %)\n"
        clock[0] += 11
        report(4 << 20)
        assert capsys.readouterr().err == "m.tosa: 4 MiB written (100 %)\n"


def test_a_total_of_zero_gives_a_line_without_a_percentage(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with WriteProgress("m.tosa", 0) as report:
        clock[0] += 11
        report(5 << 20)
    assert capsys.readouterr().err == "m.tosa: 5 MiB written\n"


def test_a_file_is_written_while_standard_error_is_closed(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with `2>&-`, when `sys.stderr` is None. Progress is due, but it is not shown."""
    shown = []
    monkeypatch.setattr(ProgressDisplay, "_draw", lambda self, done: shown.append(done))
    monkeypatch.setattr(sys, "stderr", None)
    target = tmp_path / "m.tosa"
    with WriteProgress(str(target), 10) as report:

        def late(done: int) -> None:
            clock[0] += 60
            report(done)

        api.save(example(), target, progress=late)
        assert clock[0] > 100, "progress was reported"
        assert report.next_at > clock[0], "and the report got as far as showing it"
    assert shown == [], "not a terminal"
    assert b"TOSA" in target.read_bytes()[:8]
