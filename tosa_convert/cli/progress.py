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

    A context: leaving it takes the bar off the screen.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.shown_at = time.monotonic() + PATIENCE
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now < self.shown_at:
            return
        if sys.stderr.isatty():
            self.shown_at = now + DRAW_EVERY
            self._draw(done)
        else:
            self.shown_at = now + LINE_EVERY
            share = f" ({min(100, 100 * done // self.total)} %)" if self.total else ""
            click.echo(f"{self.name}: {done / 2**20:.0f} MiB written{share}", err=True)

    def _draw(self, done: int) -> None:
        if self.bar is None:
            # Imported only by those who wait anyway.
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

            self.bar = Progress(
                "{task.description}",
                BarColumn(),
                DownloadColumn(binary_units=True),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                # Its own thread would draw ten times a second and take the processor from the work.
                auto_refresh=False,
            )
            self.task = self.bar.add_task(self.name, total=self.total or None)
            self.bar.start()
        self.bar.update(self.task, completed=done, refresh=True)

    def __enter__(self) -> WriteProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
