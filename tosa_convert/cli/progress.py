"""Progress of long work: a bar on stderr, if that is a terminal; of suites a line a minute otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tosa_convert.cli.messages import note
from tosa_convert.io import log
from tosa_convert.process.ending_signals import Terminated

#: Seconds of work before a bar appears: shorter work shows nothing.
PATIENCE: Final = 1.0
#: Seconds between updates of a bar: each takes milliseconds, and together they may take 1 % at most.
DRAW_EVERY: Final = 0.5
#: Seconds between lines where stderr is no terminal, such as the log of a CI runner.
LINE_EVERY: Final = 60.0
#: The parts in which the work of a run is shown.
_SHARES: Final = 1000


Display = TypeVar("Display", bound="ProgressDisplay")


class ProgressDisplay:
    """Shows how much of the work is done; call it as often as you like.

    A context manager: leaving it ends the bar's line.
    """

    def __init__(
        self, label: str, total: int | Callable[[], int], *, has_lines: bool = False
    ) -> None:
        """Begin.

        label: the text before the bar. total: the amount of work, or what finds it; 0 if unknown.
        has_lines: where there is no terminal, print a line a minute, and one if the work is ended.
        """
        self.label = label
        self._total = total
        self.is_shown = sys.stderr is not None and sys.stderr.isatty() and not log.is_quiet()
        self.started = time.time()
        self.next_at = time.monotonic() + PATIENCE
        self.bar: Any = None
        self.has_lines = has_lines and not self.is_shown and not log.is_quiet()
        self.next_line = time.monotonic() + LINE_EVERY
        self.done = 0

    @property
    def total(self) -> int:
        """Return the amount of work; 0 if it is unknown."""
        if not isinstance(self._total, int):
            self._total = self._total()
        return self._total

    def __call__(self, done: int) -> None:
        """Show that the amount `done` is done, unless the last update was a moment ago."""
        now = time.monotonic()
        self.done = done
        if self.has_lines and now >= self.next_line:
            self.next_line = now + LINE_EVERY
            self._note("")
        if self.is_shown and now >= self.next_at:
            self.next_at = now + DRAW_EVERY
            self._draw(done)

    def _note(self, what: str) -> None:
        seconds = time.time() - self.started
        note(f"{what}{self.done} of {self.total} {self.label}, {seconds:.0f} s")

    def _draw(self, done: int) -> None:
        if self.bar is None:
            import click

            # click's bar: importing rich takes a seventh of a second, of work that may take two.
            self.bar = click.progressbar(
                length=max(1, self.total), label=self.label, file=sys.stderr, show_eta=True
            )
            self.bar.start = self.started
            self.bar.__enter__()
        self.bar.update(done - self.bar.pos)

    def __enter__(self: Display) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        if self.has_lines and error and error[0] in (KeyboardInterrupt, Terminated):
            self._note("ended after ")
        if self.bar is not None:
            self.bar.__exit__(None, None, None)
            self.bar = None


class StageDisplay:
    """Shows what a converter does, and for how long, in a line that is gone at its end."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._is_shown = sys.stderr is not None and sys.stderr.isatty() and not log.is_quiet()
        self._started = time.monotonic()
        self._width = 0

    def __call__(self, stage: str) -> None:
        """Show a stage; an empty text removes the line."""
        seconds = time.monotonic() - self._started
        if not self._is_shown or (stage and seconds < PATIENCE):
            return
        text = f"{self._label}: {stage}, {seconds:.0f} s" if stage else ""
        end = "" if stage else "\r"
        print(f"\r{text:{self._width}}", end=end, file=sys.stderr, flush=True)
        self._width = len(text)


class RunProgress(ProgressDisplay):
    """Shows how much of a run is done; less than before is the beginning of a further run."""

    def __init__(self, label: str) -> None:
        super().__init__(label, _SHARES)
        self._done = 0

    def report(self, done: float, total: float) -> None:
        """Show what is done, in the unit of `total`."""
        share = int(_SHARES * done / total) if total else _SHARES
        if share < self._done:
            self.__exit__()
            self.started, self.next_at = time.time(), time.monotonic() + PATIENCE
        self._done = share
        self(share)
