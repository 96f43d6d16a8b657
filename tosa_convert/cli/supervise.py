"""MLIR's parser in a process that may die, and one that stays behind to say so.

MLIR's parsers are native code that damaged files can crash. Before anything of MLIR is loaded, the
command forks: the child goes on with all that is to be done, and this process waits, passes signals on,
and ends as the child did. If a crash ended the child, the user is told which file it was.

On Linux only: elsewhere the system's own libraries do not allow a fork that goes on.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

import click

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Seconds that a child has to end by itself once it was asked to, while MLIR reads: native code does
#: not hear of signals, and nothing is being written yet.
PATIENCE: Final = 2.0
#: Signals that somebody asks the command to end with.
_ENDING: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)
#: What a terminal's signals carry in place of their sender: the terminal tells the child as well.
_FROM_TERMINAL: Final = 0x80
#: What a shell adds the number of a signal to.
_EXIT_SIGNAL: Final = 128
_EXIT_BUG: Final = 70
_HINT: Final = "the file is damaged, or MLIR has a defect; other bindings may read it (--bindings)"

#: Bytes of a file's name that are kept; a note is a length and the name.
_NAME_BYTES: Final = 4000
_LENGTH: Final = struct.Struct("<I")
#: The frame of a result: its size. The note of a worker: the job it is at.
_FRAME: Final = struct.Struct("<q")


class _Note:
    """What a child is reading, where its parent sees it."""

    def __init__(self) -> None:
        self.map = mmap.mmap(-1, _LENGTH.size + _NAME_BYTES)

    def set(self, name: str) -> None:
        raw = os.fsencode(name or "<stdin>")[:_NAME_BYTES]
        self.map[_LENGTH.size : _LENGTH.size + len(raw)] = raw
        _LENGTH.pack_into(self.map, 0, len(raw))

    def clear(self) -> None:
        _LENGTH.pack_into(self.map, 0, 0)

    def get(self) -> str:
        """The name, "" where nothing is being read."""
        (size,) = _LENGTH.unpack_from(self.map, 0)
        return os.fsdecode(self.map[_LENGTH.size : _LENGTH.size + size])


#: In a child: where it notes what it reads.
_note: _Note | None = None


#: Whether this process is the command's own, and not a test's or somebody's who embeds it.
_installed = False


def install() -> None:
    """Let everything that MLIR reads from now on happen in a child."""
    global _installed
    _installed = True
    api.around_mlir = reading


def possible() -> bool:
    """Whether this process may fork and go on in the child."""
    return _installed and sys.platform == "linux" and threading.active_count() == 1


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """All that happens within may end the process, and is told as the fault of the file `where`.

    The first time, this returns in a child; the process that called never comes back from it.
    """
    if _note is None and possible():
        _go_on_in_a_child()
    if _note is None:
        yield
        return
    _note.set(where)
    try:
        yield
    finally:
        _note.clear()


def crash(where: str, number: int) -> TosaConvertError:
    """What is said of a file whose reader was ended by signal `number`."""
    name = _name(number)
    if number == signal.SIGKILL:
        message = f"the process was killed while MLIR read it ({name}); memory may have run out"
    else:
        message = f"MLIR crashed while it read it ({name})"
    return fail("malformed-mlir", where, message, _HINT)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fork(note: _Note) -> int:
    """The child's id, 0 in the child, which ends when this process does."""
    global _note
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    mine = os.getpid()
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(reads)  # the other end stays open as long as this process lives
        return child
    import fcntl
    import resource

    os.close(writes)
    # At the end of the pipe comes SIGIO, which ends the process: also while native code runs.
    fcntl.fcntl(reads, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reads, fcntl.F_SETFL, fcntl.fcntl(reads, fcntl.F_GETFL) | os.O_ASYNC)
    if os.getppid() != mine:
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _hear_once()
    _note = note
    return 0


def _hear_once() -> None:
    """Let only the first request to end be heard: a second must not disturb what the first began."""
    handlers: dict[int, Callable[[int, Any], Any]] = {}

    def hear(number: int, frame: Any) -> None:
        for other in handlers:
            signal.signal(other, signal.SIG_IGN)
        handlers[number](number, frame)

    for number in _ENDING:
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, hear)


def _go_on_in_a_child() -> None:
    """Return in a child; here, wait for it and end as it does."""
    note = _Note()
    watched = {*_ENDING, signal.SIGCHLD}
    # Another disposition may have been left to us, under which nobody tells of a child's end.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = _fork(note)
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, before)
        return
    asked = 0
    deadline = 0.0
    while True:
        if asked:
            told = signal.sigtimedwait(watched, max(0.0, deadline - time.monotonic()))
        else:
            told = signal.sigwaitinfo(watched)
        if told is None:
            deadline = time.monotonic() + PATIENCE
            if note.get():
                os.kill(child, signal.SIGKILL)
        elif told.si_signo != signal.SIGCHLD:
            asked = told.si_signo
            deadline = time.monotonic() + PATIENCE
            if told.si_code != _FROM_TERMINAL:
                os.kill(child, asked)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end(os.waitstatus_to_exitcode(status), note, asked)


def _end(code: int, note: _Note, asked: int) -> NoReturn:
    """End this process as the child ended."""
    if code < 0:
        where = note.get()
        if asked:
            code = _EXIT_SIGNAL + asked
        elif where:
            error = crash(where, -code)
            click.echo(str(error), err=True)
            code = error.exit_code
        elif -code in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            code = _EXIT_SIGNAL - code
        else:
            click.echo(f"internal error: the process was ended by {_name(-code)}", err=True)
            code = _EXIT_BUG
    os._exit(code)


# -- many jobs ----------------------------------------------------------------------------------


class _Worker:
    """A child that does jobs: its id, the pipe of its results, and the job it is at."""

    def __init__(self, work: Callable[[Any], Any], jobs: list[Any], tickets: int, step: int,
                 begun: range) -> None:  # fmt: skip
        self.note = _Note()
        self.at = mmap.mmap(-1, 2 * _FRAME.size)
        self.results, writes = os.pipe()
        self.buffer = bytearray()
        self.process = _fork(self.note)
        if self.process:
            os.close(writes)
            return
        import pickle

        code = _EXIT_BUG
        try:
            while True:
                for index in begun:
                    _FRAME.pack_into(self.at, 0, index)
                    _FRAME.pack_into(self.at, _FRAME.size, begun.stop)
                    told = pickle.dumps((index, work(jobs[index])))
                    _write(writes, _FRAME.pack(len(told)) + told)
                ticket = os.read(tickets, _FRAME.size)
                if not ticket:
                    break
                (first,) = _FRAME.unpack(ticket)
                begun = range(first, min(first + step, len(jobs)))
            code = 0
        except KeyboardInterrupt:
            code = _EXIT_SIGNAL + signal.SIGINT
        except BaseException as error:
            number = getattr(error, "number", 0)  # somebody asked us to end
            code = _EXIT_SIGNAL + number if number else code
            if not number:
                sys.excepthook(type(error), error, error.__traceback__)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def received(self) -> Iterator[tuple[int, Any]]:
        """The results that have come in."""
        import pickle

        while len(self.buffer) >= _FRAME.size:
            (size,) = _FRAME.unpack_from(self.buffer)
            if len(self.buffer) < _FRAME.size + size:
                return
            yield pickle.loads(self.buffer[_FRAME.size : _FRAME.size + size])
            del self.buffer[: _FRAME.size + size]


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def each(
    work: Callable[[Job], Result],
    jobs: list[Job],
    processes: int,
    died: Callable[[Job, TosaConvertError], Result],
) -> Iterator[Result]:
    """The result of each job, in order, by child processes; `died` makes that of one that killed its.

    A worker that dies costs the job it was at: another one goes on.
    """
    # As many jobs at a time as leave the pipe of tickets room for all.
    step = max(1, min(len(jobs) // (4 * processes), 16), -(-len(jobs) // 4096))
    reads, writes = os.pipe()
    for first in range(step * processes, len(jobs), step):
        os.write(writes, _FRAME.pack(first))
    os.close(writes)
    workers: list[_Worker] = []
    done: dict[int, Result] = {}
    following = 0
    try:
        for first in range(0, min(step * processes, len(jobs)), step):
            begun = range(first, min(first + step, len(jobs)))
            workers.append(_Worker(work, jobs, reads, step, begun))
        while workers:
            ready, _, _ = select.select([worker.results for worker in workers], [], [])
            for worker in [worker for worker in workers if worker.results in ready]:
                piece = os.read(worker.results, 1 << 16)
                worker.buffer += piece
                done.update(worker.received())
                if not piece:
                    workers.remove(worker)
                    again = _ended(worker, jobs, done, died)
                    if again is not None:
                        workers.append(_Worker(work, jobs, reads, step, again))
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        os.close(reads)
        _stop(workers)


def _ended(
    worker: _Worker,
    jobs: list[Job],
    done: dict[int, Result],
    died: Callable[[Job, TosaConvertError], Result],
) -> range | None:
    """What a worker that died had begun and leaves to do; None of one that had nothing left."""
    os.close(worker.results)
    code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
    if code == 0:
        return None
    where = worker.note.get()
    if code > 0 or not where:
        raise RuntimeError(f"a process that converted files ended with {code}")
    index, stop = (_FRAME.unpack_from(worker.at, at)[0] for at in (0, _FRAME.size))
    done[index] = died(jobs[index], crash(where, -code))
    return range(index + 1, stop)


def _stop(workers: list[_Worker]) -> None:
    """End the workers that are left, if it must be by force."""
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.process, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        os.close(worker.results)
        while not os.waitpid(worker.process, os.WNOHANG)[0]:
            if time.monotonic() > deadline and worker.note.get():
                os.kill(worker.process, signal.SIGKILL)
            time.sleep(0.005)
