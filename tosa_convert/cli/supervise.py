"""Before it loads MLIR the command continues in a child, and so survives a crash of MLIR's parser.

MLIR's parsers are native code, which damaged files can crash. The first time that MLIR is about to read,
the command forks. The child returns and does all that is left to do; this process passes signals on to
it, and ends as the child ended. If a crash ended it, the user is told which file MLIR was reading. On
Linux only; the decision note 0018 says why it is a fork.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

import click

from tosa_convert.child_process import describe_exit, end_with_parent, limit_this_process
from tosa_convert.cli.command import EXIT_BUG, is_own_process
from tosa_convert.ending_signals import ENDING, EXIT_SIGNAL
from tosa_convert.errors import TosaConvertError, fail

#: Bytes of a file name that the child passes to its parent.
_NAME_BYTES: Final = 4000
_LENGTH: Final = struct.Struct("<I")


class _SharedName:
    """The name of the file that MLIR is reading in the child, in memory that the parent sees."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _LENGTH.size + _NAME_BYTES)

    def set(self, name: str) -> None:
        raw = os.fsencode(name)[:_NAME_BYTES]
        self.memory[_LENGTH.size : _LENGTH.size + len(raw)] = raw
        _LENGTH.pack_into(self.memory, 0, len(raw))

    def get(self) -> str:
        """The name; empty when MLIR is not reading."""
        (size,) = _LENGTH.unpack_from(self.memory, 0)
        return os.fsdecode(self.memory[_LENGTH.size : _LENGTH.size + size])


#: In a child: the place for the name of the file that MLIR is reading.
_shared_name: _SharedName | None = None


def may_fork() -> bool:
    """Whether this process may fork and continue in the child.

    Only on Linux: the system libraries of macOS do not work after a fork, and Windows has none. Only
    without threads: a lock that one of them holds would never be released in the child.
    """
    return is_own_process() and sys.platform == "linux" and threading.active_count() == 1


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Let MLIR read the file `where` ("" is stdin) in the block; report a crash as the file's fault.

    The first call returns in a child; in the process that called it, it never returns. If the process
    may not fork, nothing happens.
    """
    global _shared_name
    if _shared_name is None and may_fork():
        _shared_name = _continue_in_child()
    if _shared_name is None:
        yield
        return
    # Native code does not run Python's signal handlers. Nothing is being written while MLIR reads, so
    # let a request to end take effect at once.
    handlers = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, signal.SIG_DFL)
    _shared_name.set(where or "<stdin>")
    try:
        yield
    finally:
        _shared_name.set("")
        for number, handler in handlers.items():
            signal.signal(number, handler)


def start_worker() -> None:
    """Declare that this process is a worker whose parent reports its death: `reading` need not fork."""
    global _shared_name
    _shared_name = _SharedName()


def crash(where: str, code: int) -> TosaConvertError:
    """The error for a file that MLIR was reading when the process ended with `code`."""
    ending = describe_exit(code)
    if sys.platform != "win32" and code == -signal.SIGKILL:
        message = f"the process was killed while MLIR read the file ({ending})"
        return fail("malformed-mlir", where, message, "memory may have run out")
    return fail(
        "malformed-mlir",
        where,
        f"MLIR crashed while it read the file ({ending})",
        "the file is damaged or MLIR has a defect; other bindings may read it (--bindings)",
    )


def _continue_in_child() -> _SharedName:
    """Return in a child; in this process, wait for it and end as it does."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    name = _SharedName()
    parent = os.getpid()
    # If SIGCHLD is ignored, which a process inherits, the system does not keep a child's exit code.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A signal waits until either process is ready for it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    child = os.fork()
    if child:
        _follow(child, name, mask)
    signal.signal(signal.SIGCHLD, before)
    end_with_parent(parent)
    limit_this_process()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return name


def _follow(child: int, reading: _SharedName, mask: set[int | signal.Signals]) -> NoReturn:
    """Pass signals on to the child, and end this process as the child ends."""

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in ENDING:
        if callable(signal.getsignal(number)):
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(child, 0)
    _end_like(os.waitstatus_to_exitcode(status), reading.get())


def _end_like(code: int, reading: str) -> NoReturn:
    """End this process as its child ended, which was reading that file or ""."""
    if -code in (*ENDING, signal.SIGQUIT) or (code == -signal.SIGKILL and not reading):
        code = EXIT_SIGNAL - code
    elif code < 0 and reading:
        error = crash(reading, code)
        click.echo(str(error), err=True)
        code = error.exit_code
    elif code < 0:
        click.echo(f"internal error: the process was ended by {describe_exit(code)}", err=True)
        code = EXIT_BUG
    os._exit(code)
