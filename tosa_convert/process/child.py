"""Run one child process under limits and report how it ended."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NoReturn, Protocol, TypeVar

from tosa_convert.process.ending_signals import ENDING, signals_deferred

if TYPE_CHECKING:
    import subprocess

#: Bytes of a child's stderr that are returned; the end of it, where the reason usually is.
STDERR_BYTES: Final = 1 << 16
#: Lines of a child's stderr that a message repeats, and characters of each.
_LAST_LINES: Final = 20
#: Of a long line: its beginning and its end, which has what an assertion says.
_LINE_CHARACTERS: Final = (90, 120)
#: Exit codes from here on are Windows exception codes (NTSTATUS), which are known in hexadecimal.
_WINDOWS_EXCEPTION: Final = 0x8000_0000
#: `prctl` option of Linux: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG: Final = 1
#: Seconds between two looks at the memory of a child.
MEMORY_INTERVAL: Final = 0.1
#: Seconds that work may take to end that is not wanted any more; then it is left alone.
_LONGEST_END: Final = 1.0
#: Seconds that one wait takes at most, and between two questions where no wait can be ended.
_LONGEST_WAIT: Final = 1e5
_POLL_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class Used:
    """What a child process used.

    seconds: of wall-clock time. processor_seconds: of processor time (POSIX).
    memory: the most bytes that it, or a process that it waited for, had at a time; 0 if unknown. Shared
        pages and mapped files count.
    """

    seconds: float = 0.0
    processor_seconds: float = 0.0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child process.

    code: the exit code, or minus the number of the signal that ended it.
    stderr: the last STDERR_BYTES that it wrote there.
    timed_out: it was killed because its time was up.
    too_large: it was killed because it took too much memory.
    used: the time and the memory that it took.
    """

    code: int
    stderr: str = ""
    timed_out: bool = False
    too_large: bool = False
    used: Used = Used()


def run_child(
    command: list[str],
    *,
    timeout: float,
    memory: int = 0,
    folder: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    with_stdout: bool = False,
    when_started: Callable[[], object] | None = None,
) -> Ended:
    """Run a command to its end in a session of its own; kill what it leaves running."""
    # The command imports this module for its small functions, and should not wait for these.
    import subprocess
    import tempfile

    group = _GROUP.get()
    with tempfile.TemporaryFile() as errors:
        child: subprocess.Popen[bytes] | None = None
        used = Used()
        start = time.monotonic()
        try:
            with signals_deferred():  # the child may start before Popen returns
                child = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=errors if with_stdout else subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            _KEEPER.tell(f"+s {child.pid}")
            if group is not None:
                group.add(child)
            if when_started is not None:
                when_started()
            _forbid_core_file(child.pid)
            timed_out, too_large = watch(child.pid, timeout, memory, child.poll)
        finally:
            if child is not None:
                seconds = time.monotonic() - start
                _kill_session(child)
                if group is not None:
                    group.remove(child)
                used = _reaped(child, seconds)
                _KEEPER.tell(f"-s {child.pid}")
        return Ended(child.returncode, _tail(errors), timed_out, too_large, used)


_T = TypeVar("_T")


class Begin(Protocol):
    """Begins work in a thread, and returns what waits for its result and raises its exceptions."""

    def __call__(self, work: Callable[[], _T], /) -> Callable[[], _T]: ...


class _Group:
    """Hold the child processes of a thread, which another thread can end."""

    def __init__(self) -> None:
        self.lock, self.is_ended = threading.Lock(), False
        self.children: list[subprocess.Popen[bytes]] = []

    def add(self, child: subprocess.Popen[bytes]) -> None:
        with self.lock:
            self.children.append(child)
            if self.is_ended:
                _kill_session(child)

    def remove(self, child: subprocess.Popen[bytes]) -> None:
        with self.lock:
            self.children.remove(child)

    def end(self) -> None:
        with self.lock:
            self.is_ended = True
            for child in self.children:
                _kill_session(child)


_GROUP: ContextVar[_Group | None] = ContextVar("_GROUP", default=None)


def end_if_unwanted() -> None:
    """End this thread if `done_meanwhile` began its work and nobody waits for the result."""
    group = _GROUP.get()
    if group is not None and group.is_ended:
        raise SystemExit


@contextlib.contextmanager
def done_meanwhile() -> Iterator[Begin]:
    """Yield a function that begins work in a thread, and returns what waits for the result.

    At the end of the block, work that still goes on loses its child processes, and begins no more; it
    should also call `end_if_unwanted` from time to time.
    """
    group, threads = _Group(), list[threading.Thread]()

    def begin(work: Callable[[], _T]) -> Callable[[], _T]:
        found: list[_T] = []
        raised: list[BaseException] = []

        def in_group() -> None:
            _GROUP.set(group)
            try:
                found.append(work())
            except BaseException as error:
                raised.append(error)

        def wait() -> _T:
            thread.join()
            if raised:
                raise raised[0]
            return found[0]

        thread = threading.Thread(target=copy_context().run, args=(in_group,), daemon=True)
        with group.lock:
            if group.is_ended:
                raise SystemExit
            threads[:] = [one for one in threads if one.is_alive()]
            thread.start()
            threads.append(thread)
        return wait

    try:
        yield begin
    finally:
        group.end()
        end = time.monotonic() + _LONGEST_END
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


def _reaped(child: subprocess.Popen[bytes], seconds: float) -> Used:
    if not hasattr(os, "wait4") or child.returncode is not None:
        child.wait()
        return Used(round(seconds, 4))
    import resource

    try:
        _, status, usage = os.wait4(child.pid, 0)
    except ChildProcessError:  # somebody else has waited for it
        child.wait()
        return Used(round(seconds, 4))
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1 << 10
    # A child begins with the peak of its parent (Linux): what is not more is not known.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = usage.ru_maxrss * unit if usage.ru_maxrss > own else 0
    return Used(round(seconds, 4), round(usage.ru_utime + usage.ru_stime, 4), memory)


#: What the keeper does. A session that has just been killed may still be writing, hence the second try.
_KEEPER_CODE: Final = """
import os, shutil, signal, time
os.setsid()
os.chdir("/")
while os.read(0, 1 << 16):
    pass
left = set()
os.lseek(1, 0, os.SEEK_SET)
with os.fdopen(1) as file:
    for line in file:
        sign, rest = line[0], line[1:].strip()
        (left.add if sign == "+" else left.discard)(rest)
for rest in left:
    if rest.startswith("s "):
        try:
            os.killpg(int(rest[2:]), signal.SIGKILL)
        except OSError:
            pass
for pause in (0, 0.2, 1):
    time.sleep(pause)
    for rest in left:
        if rest.startswith("d "):
            shutil.rmtree(bytes.fromhex(rest[2:]), ignore_errors=True)
"""
#: Bytes of what has been told and is over, from which on it is forgotten.
_FORGOTTEN: Final = 1 << 16


class _Keeper:
    """A process that cleans up if this one is killed: it ends sessions and removes temporary folders.

    It waits for the end of a pipe, which it sees when this process ends, however that happens, and reads
    then what is in a file that both have open: nothing wakes it before. It starts with the first line. A
    fork of this process has one of its own.
    """

    def __init__(self) -> None:
        self.owner = self.pipe = self.file = self.size = self.count = 0
        self.lock = threading.Lock()

    def tell(self, line: str) -> None:
        """Say what has been made (`+`) or is gone (`-`): a session `s PID`, or a folder `d HEX`."""
        if os.name != "posix" or not sys.executable:
            return
        with contextlib.suppress(OSError), self.lock:
            if self.owner != os.getpid():
                self._start()
            self.size += os.write(self.file, f"{line}\n".encode())
            self.count += 1 if line[0] == "+" else -1
            if self.size > _FORGOTTEN and not self.count:
                os.ftruncate(self.file, 0)
                os.lseek(self.file, 0, os.SEEK_SET)
                self.size = 0

    def _start(self) -> None:
        try:
            file = os.memfd_create("kept")
        except (AttributeError, OSError):  # another system, or a kernel that lacks it
            import tempfile

            with tempfile.TemporaryFile() as made:
                file = os.dup(made.fileno())
        theirs, self.pipe = os.pipe()
        try:
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", _KEEPER_CODE],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_DUP2, file, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsigmask=ENDING,
            )
            self.owner, self.file, self.size, self.count = os.getpid(), file, 0, 0
        finally:
            os.close(theirs)


_KEEPER: Final = _Keeper()


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """Make a temporary folder that is removed after the block, or when this process is killed."""
    folder = new_temporary_folder(prefix)
    try:
        yield folder
    finally:
        remove_temporary_folder(folder)


def new_temporary_folder(prefix: str) -> str:
    """Make a temporary folder for the caller to remove; it is removed if this process is killed."""
    import secrets
    import tempfile

    parent = os.path.abspath(tempfile.gettempdir())
    folder = os.path.join(parent, prefix + secrets.token_hex(8))
    # Before it exists: this process may be killed between.
    _KEEPER.tell(f"+d {os.fsencode(folder).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def remove_temporary_folder(folder: str | os.PathLike[str]) -> None:
    """Remove a folder that `new_temporary_folder` has made, as far as the system allows it."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    _KEEPER.tell(f"-d {os.fsencode(folder).hex()}")


def largest_memory(process: int) -> int:
    """Return the bytes of memory of a process or the descendant that has most (Linux).

    Mapped files do not count.

    0 if there is no such process. The largest one, not the sum: a fork shares memory with its parent.

    Example:
        >>> 1 << 20 < largest_memory(os.getpid()) < 1 << 34
        True
    """
    most, pending = 0, [process]
    while pending:
        folder = f"/proc/{pending.pop()}"
        # A process can end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"{folder}/status", encoding="ascii", errors="replace") as file:
                found = file.read().partition("RssAnon:")[2].split(maxsplit=1)
            most = max(most, 1024 * int(found[0]))
            for thread in os.listdir(f"{folder}/task"):
                with open(f"{folder}/task/{thread}/children", encoding="ascii") as file:
                    pending += map(int, file.read().split())
    return most


def watch(
    process: int,
    timeout: float,
    memory: int = 0,
    poll: Callable[[], int | None] | None = None,
) -> tuple[bool, bool]:
    """Wait for a child; return whether it ran out of time, and of memory. poll: asks how it ended."""
    end = time.monotonic() + timeout
    with _end_of(process, poll) as has_ended:
        while (left := end - time.monotonic()) > 0:
            if has_ended(min(left, MEMORY_INTERVAL if memory else _LONGEST_WAIT)):
                return False, False
            if memory and largest_memory(process) > memory:
                return False, True
    return True, False


@contextlib.contextmanager
def _end_of(
    process: int, poll: Callable[[], int | None] | None
) -> Iterator[Callable[[float], bool]]:
    """Return what waits for some seconds and says whether a child has ended; it is not reaped."""
    import select

    def polled(seconds: float) -> bool:
        assert poll is not None
        end = time.monotonic() + seconds
        while (code := poll()) is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return code is not None

    try:
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):  # another system, or a kernel that lacks it
        yield polled
        return
    try:
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        yield lambda seconds: bool(ready.poll(1000 * seconds))
    finally:
        os.close(handle)


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - STDERR_BYTES))
    return file.read().decode(errors="replace")


def _forbid_core_file(child: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):
            resource.prlimit(child, resource.RLIMIT_CORE, (0, 0))


def describe_exit(code: int) -> str:
    """Return the name of the signal that ended a child, or its exit code, for messages."""
    if code >= _WINDOWS_EXCEPTION:
        return f"exit code 0x{code:08X}"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def last_words(ended: Ended, problem: str = "") -> str:
    """Describe how a child ended, and `problem`, with the last whole lines of its stderr."""
    text = ended.stderr
    if ended.timed_out or ended.too_large:
        text = text[: text.rfind("\n") + 1] or text
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    head = f"it ended with {describe_exit(ended.code)}{problem}"
    if not lines:
        return f"{head}, and wrote nothing to stderr"
    return "\n    ".join((f"{head}; the end of its stderr:", *map(_shortened, lines)))


def _shortened(line: str) -> str:
    first, last = _LINE_CHARACTERS
    return line if len(line) <= first + last else f"{line[:first]} ... {line[-last:]}"


# -- for use in the child process ----------------------------------------------------------------


def leave(code: int) -> NoReturn:
    """End this process without the teardown of frameworks, which takes torch 0.4 seconds."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def leave_no_core_file() -> None:
    """Let this process leave no core file, as far as the system enforces it."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent, of this process id, ends (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
