"""Commands that users give as text: backends of `check`, and the command of `reduce`."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.scratch import temporary_file_errors
from tosa_convert.process.child import Ended, run_child


def command_words(text: str) -> list[str]:
    """Split a command line into words. Return [] if it does not start with a program that exists."""
    if not isinstance(text, str):
        raise TypeError(f"found {type(text).__name__}, expected the text of a command line")
    try:
        words = shlex.split(text)
    except ValueError:  # an unclosed quote
        return []
    return words if words and shutil.which(words[0]) is not None else []


def program_path(name: str, python: str) -> str | None:
    """Return where a program is: beside a Python, as pip installs it, or on PATH. None if nowhere."""
    return shutil.which(name, path=os.path.dirname(python)) or shutil.which(name)


def with_paths(
    words: Sequence[str], paths: Mapping[str, str], *, appended: Sequence[str]
) -> list[str]:
    """Return the words of a command with files in place of marks such as `{model}`.

    appended: the marks that are appended if the words have none.

    Example:
        >>> with_paths(["run", "--model={model}"], {"{model}": "m.tosa"}, appended=["{model}"])
        ['run', '--model=m.tosa']
        >>> with_paths(["run"], {"{model}": "m.tosa"}, appended=["{model}"])
        ['run', 'm.tosa']
    """
    result = list(words)
    if not any(mark in word for word in words for mark in paths):
        result += appended
    for mark, path in paths.items():
        result = [word.replace(mark, path) for word in result]
    return result


def run_again_if_killed(run: Callable[[], Ended]) -> Ended:
    """Run a child process, and once more if SIGKILL ended it before its time was over.

    No program sends itself this signal: a user did, or the system, which had no memory left. So it says
    nothing about what was run.
    """
    ended = run()
    is_killed = ended.code == -getattr(signal, "SIGKILL", 0) and ended.code and not ended.timed_out
    return run() if is_killed else ended


def run_command(
    words: list[str],
    *,
    timeout: float,
    name: str,
    folder: str | os.PathLike[str] | None = None,
    with_stdout: bool = False,
) -> Ended:
    """Run a command to its end, again if it was killed; see `run_child`.

    name: of the backend, for messages.
    Raises TosaConvertError("missing-backend") if it cannot be started, and ("file-error") if there is
    no space for what it says on stderr.
    """
    with temporary_file_errors():
        try:
            return run_again_if_killed(
                lambda: run_child(words, timeout=timeout, folder=folder, with_stdout=with_stdout)
            )
        except OSError as error:
            if error.filename != words[0]:
                raise
            raise fail("missing-backend", name, f"{words[0]}: {error.strerror}") from None
