"""Progress of long work, on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click

#: Work that is done sooner than this shows nothing, in seconds.
PATIENCE: Final = 1.0
#: Where there is no terminal, a line this often, in seconds.
LINE_EVERY: Final = 10.0
#: A bar is drawn this often, in seconds: drawing takes milliseconds, and is to take under 1 %.
DRAW_EVERY: Final = 0.5


class WriteProgress:
    """A callback for `api.save`: told how many bytes of about `total` were written.

    A context: leaving it ends the bar's line.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.terminal = bool(sys.stderr) and sys.stderr.isatty()
        self.shown_at = time.monotonic() + (PATIENCE if self.terminal else LINE_EVERY)
        self.bar: Any = None

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now < self.shown_at:
            return
        if self.terminal:
            self.shown_at = now + DRAW_EVERY
            self._draw(done)
        else:
            self.shown_at = now + LINE_EVERY
            share = f" ({min(100, 100 * done // self.total)} %)" if self.total else ""
            click.echo(f"{self.name}: {done / 2**20:.0f} MiB written{share}", err=True)

    def _draw(self, done: int) -> None:
        if self.bar is None:
            # Not rich: importing it takes a seventh of a second, of work that may take two.
            self.bar = click.progressbar(
                length=max(1, self.total), label=self.name, file=sys.stderr, show_eta=True
            )
            self.bar.__enter__()
        self.bar.update(done - self.bar.pos)

    def __enter__(self) -> WriteProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.__exit__(None, None, None)
