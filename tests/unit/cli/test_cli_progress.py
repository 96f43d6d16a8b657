"""The progress of long work: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest
from unit.building import example

from tosa_convert import api
from tosa_convert.cli.messages import ProgressDisplay
from tosa_convert.io import log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that moves only when a test moves it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_a_bar_after_a_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressDisplay("m.tosa", 1000) as report:
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


def test_a_log_gets_a_line_a_minute_and_what_was_done_until_ctrl_c(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    display = ProgressDisplay("cases", 9, has_lines=True)
    display(1)
    assert file.getvalue() == ""
    clock[0] += 61
    display(4)
    display(5)
    assert file.getvalue().startswith("4 of 9 cases, ")
    display.__exit__(KeyboardInterrupt, None, None)
    first, last = file.getvalue().splitlines()
    assert last.startswith("ended after 5 of 9 cases, ")
    assert first != last


@pytest.mark.parametrize("options", [{}, {"quiet": True}])
def test_files_pipes_and_quiet_terminals_get_nothing(
    options: dict[str, bool], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal() if options else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    log.choose_level(**options)
    with ProgressDisplay("m.tosa", 4 << 20) as report:
        for done in range(5):
            clock[0] += 60
            report(done << 20)
    log.choose_level()
    assert screen.getvalue() == ""


def test_a_file_is_written_while_standard_error_is_closed(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with `2>&-`, when `sys.stderr` is None. Progress is due, but it is not shown."""
    shown = []
    monkeypatch.setattr(ProgressDisplay, "_draw", lambda self, done: shown.append(done))
    monkeypatch.setattr(sys, "stderr", None)
    target = tmp_path / "m.tosa"
    with ProgressDisplay(str(target), 10) as report:

        def late(done: int) -> None:
            clock[0] += 60
            report(done)

        api.save(example(), target, progress=late)
        assert clock[0] > 100, "progress was reported"
    assert shown == [], "not a terminal"
    assert b"TOSA" in target.read_bytes()[:8]
