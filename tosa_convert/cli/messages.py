"""What verbs say to people, and what they raise for a command line that they cannot do.

Nothing here needs the parser of the command line, which small jobs start without.
"""

from __future__ import annotations

import contextlib
import sys

from tosa_convert.errors import printable, printable_lines
from tosa_convert.io import log
from tosa_convert.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

#: The exit code after an exception that is not an expected failure.
EXIT_BUG: Final = 70
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
    """Print lines for people. Characters that a terminal would obey are escaped.

    They go to stderr if `err`, and if standard output is one of the verb's files.
    """
    err = err or STANDARD_OUTPUT in _taken
    # Where standard error takes no more, there is nowhere to report that.
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        print_text(f"{printable_lines(text)}\n", err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Print text as it is."""
    stream = sys.stderr if err else sys.stdout
    if sys.platform != "win32" and getattr(stream, "encoding", None) == "utf-8":
        stream.write(text)
        stream.flush()
        return
    import click  # knows the consoles of Windows, and streams of other encodings

    click.echo(text, err=err, nl=False, color=True)


def report_bug(trace: str, where: str = "") -> None:
    """Print the traceback of an unexpected exception and say that it is our fault.

    where: the file that was being worked on, where there are several.
    """
    prefix = f"{printable(where)}: " if where else ""
    say(
        f"{trace}{prefix}internal error in tosa-convert {__version__}: "
        "please report it with the command and, if you can share it, the input",
        err=True,
    )
