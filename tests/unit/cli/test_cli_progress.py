"""The progress of long work: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tosa_convert.cli.messages import ProgressDisplay


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that moves only when a test moves it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


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
