"""The progress of a long write: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from tosa_convert.cli import progress
from tosa_convert.cli.progress import WriteProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless somebody moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_a_bar_after_a_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with WriteProgress("m.tosa", 1000) as told:
        told(100)
        assert screen.getvalue() == ""
        clock[0] += 1.5
        told(500)
        assert "m.tosa" in screen.getvalue()
        assert "50%" in screen.getvalue()
        drawn = len(screen.getvalue())
        clock[0] += 0.1
        told(600)
        assert len(screen.getvalue()) == drawn, "it is drawn at most twice a second"
        clock[0] += 1
        told(1000)
        assert "100%" in screen.getvalue()


def test_elsewhere_there_is_a_line_every_ten_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with WriteProgress("m.tosa", 4 << 20) as told:
        clock[0] += 9
        told(1 << 20)
        assert capsys.readouterr().err == ""
        clock[0] += 2
        told(2 << 20)
        told(3 << 20)
        assert capsys.readouterr().err == "m.tosa: 2 MiB written (50 %)\n"


def test_without_standard_error_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with WriteProgress("m.tosa", 10) as told:
        told.shown_at = 0.0
        told(5)
