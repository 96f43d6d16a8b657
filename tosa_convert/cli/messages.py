"""What verbs say to people and raise, without the parser that small jobs start without."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from tosa_convert.errors import TosaConvertError, printable, printable_lines
from tosa_convert.io import log
from tosa_convert.io.files import (
    STANDARD,
    Pieces,
    read_at_most,
    replace_file,
    standard_input,
    standard_output,
    write_standard_output,
)
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.ending_signals import Terminated
from tosa_convert.version import __version__

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The streams that a parameter can be.
STANDARD_INPUT: Final = "standard input"
STANDARD_OUTPUT: Final = "standard output"
#: A stream -> the name of the parameter that it is in the verb that runs.
_taken: dict[str, str] = {}


class UsageError(Exception):
    """Options or arguments that contradict each other, or do not fit the files they name."""


def take_streams(users: Mapping[str, str]) -> None:
    """Note which parameter of the verb is standard input, and which is standard output."""
    _taken.clear()
    _taken.update(users)


def user_of(stream: str) -> str | None:
    """Return the name of the parameter that is a stream, or None."""
    return _taken.get(stream)


def note(text: str) -> None:
    """Print a summary or a note on stderr, unless --quiet is given."""
    if not log.is_quiet():
        say(text, err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print escaped lines for people; to stderr if `err`, or if stdout is one of the verb's files."""
    err = err or STANDARD_OUTPUT in _taken
    # Where standard error takes no more, there is nowhere to report that.
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        print_text(f"{printable_lines(text)}\n", err=err)


def print_text(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    if sys.platform != "win32" and getattr(stream, "encoding", None) == "utf-8":
        stream.write(text)
        stream.flush()
        return
    import click  # knows the consoles of Windows, and streams of other encodings

    click.echo(text, err=err, nl=False, color=True)


def report_bug(trace: str, where: str = "") -> None:
    """Print the traceback of an unexpected exception and say that it is our fault. where: the file."""
    prefix = f"{printable(where)}: " if where else ""
    say(
        f"{trace}{prefix}internal error in tosa-convert {__version__}: "
        "please report it with the command and, if you can share it, the input",
        err=True,
    )


# -- `-` in place of the name of a file: standard input and standard output ------------------------

#: The name of standard input in messages.
STDIN: Final = "<stdin>"
_READ_OPTIONS: Final = ReadOptions()
#: First bytes of a file -> its extension, for readers that go by it.
_EXTENSIONS: Final = {b"PK": ".npz", b"\x93NUMPY": ".npy"}
#: The key in the context's `meta` of the copy of standard input.
_COPY: Final = "copy of standard input"


def standard_data(options: ReadOptions = _READ_OPTIONS) -> memoryview:
    refuse_terminal_input()
    return read_at_most(standard_input().buffer, options.limits.input_bytes, STDIN)


def refuse_terminal_input() -> None:
    if standard_input().isatty():
        raise UsageError("no input: give a file, or pipe one in")


def copy_standard_input(path: str) -> str:
    """Return the path of a file to read: for standard input, that of a copy, which the verb removes."""
    if path != STANDARD:
        return path
    import click

    from tosa_convert.process.child import temporary_folder

    ctx = click.get_current_context()
    if _COPY in ctx.meta:  # it is one option's, which is read again
        return str(ctx.meta[_COPY])
    data = standard_data()
    folder = ctx.with_resource(temporary_folder("tosa-stdin-"))
    start = data[:6].tobytes()
    extensions = [name for magic, name in _EXTENSIONS.items() if start.startswith(magic)]
    copy = os.path.join(folder, "".join(["stdin", *extensions]))
    replace_file(copy, [data])
    ctx.meta[_COPY] = copy
    return copy


def named_by_user(error: TosaConvertError) -> TosaConvertError:
    """Return an error that names standard input instead of its copy."""
    import click

    copy = click.get_current_context().meta.get(_COPY)
    if copy is None:
        return error
    return TosaConvertError(
        replace(row, where=row.where.replace(copy, STDIN), message=row.message.replace(copy, STDIN))
        for row in error.findings
    )


def write_file(path: str, pieces: Pieces, what: str = "") -> None:
    """Write a file; "-" is standard output. what: the kind of a binary file, for a refusal."""
    if path != STANDARD:
        replace_file(path, pieces)
        return
    if what and standard_output().isatty():
        raise UsageError(f"{what} does not go to a terminal; use -o FILE or a pipe")
    write_standard_output(pieces)


# -- progress of long work: a bar on a terminal's stderr; of suites a line a minute ----------------

#: Seconds of work before a bar appears: shorter work shows nothing.
PATIENCE: Final = 1.0
#: Seconds between updates of a bar: each takes milliseconds, and together they may take 1 % at most.
DRAW_EVERY: Final = 0.5
#: Seconds between progress lines when stderr is not a terminal, as in a CI log.
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
        """Begin, with `label` before the bar. total: the work, or what finds it; 0 if unknown."""
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
    """Shows how much of a run is done; less than before is the beginning of a further run.

    Outside of its `with` block nothing is shown. Threads may report.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label, _SHARES)
        self._done, self._is_open = 0, False
        self._lock = threading.Lock()

    def report(self, done: float, total: float) -> None:
        """Show what is done, in the unit of `total`."""
        share = int(_SHARES * done / total) if total else _SHARES
        with self._lock:
            if share < self._done:
                super().__exit__()
                self.started, self.next_at = time.time(), time.monotonic() + PATIENCE
            self._done = share
            if self._is_open:
                self(share)

    def __enter__(self) -> RunProgress:
        self._is_open = True
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_open = False
            super().__exit__(*error)
