"""Worker processes: many jobs side by side, and a process that is kept for many jobs."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

from tosa_convert.exit_codes import EXIT_SIGNAL
from tosa_convert.process.child import (
    STDERR_BYTES,
    Ended,
    Used,
    describe_exit,
    end_with_parent,
    leave_no_core_file,
    new_temporary_folder,
    remove_temporary_folder,
    watch,
)
from tosa_convert.process.ending_signals import ENDING, RequestToEnd, Terminated

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Jobs that a worker is given at a time, at most.
MOST_AT_A_TIME: Final = 16
#: Seconds that a worker has to end after SIGTERM, before it is killed.
PATIENCE: Final = 10.0


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    processes: int,
    on_death: Callable[[Job, int], Result],
    fork: bool = False,
) -> Generator[tuple[int, Result], None, None]:
    """Yield the index and result of each job as it is done; closing the iterator ends all workers."""
    step = max(1, min(len(jobs) // (4 * processes), MOST_AT_A_TIME))
    waiting = deque(
        range(start, min(start + step, len(jobs))) for start in range(0, len(jobs), step)
    )
    context = multiprocessing.get_context("fork" if fork else "spawn")
    workers: dict[Connection, _Worker[Job]] = {}

    def start() -> None:
        worker = _Worker(context, function, workers)
        worker.give(jobs, waiting)

    try:
        for _ in range(min(processes, len(waiting))):
            start()
        while workers:
            for connection in wait(list(workers)):
                worker = workers[connection]  # type: ignore[index]
                try:
                    error, value = worker.connection.recv()
                except (EOFError, OSError):
                    yield from _after_end(worker, workers, jobs, waiting, on_death)
                    if waiting and len(workers) < processes:
                        start()
                    continue
                if not worker.has_started:
                    worker.has_started = True
                    continue
                if error:
                    raise RuntimeError(f"a job failed with an unexpected exception\n{error}")
                index = worker.given.popleft()
                if len(worker.given) <= step // 2:
                    worker.give(jobs, waiting)
                yield index, value
    finally:
        _stop(list(workers.values()))


class _Worker(Generic[Job]):
    """A worker process, our end of its pipe, and the jobs it was given and has not done, in order."""

    def __init__(
        self, context: Any, function: Callable[[Any], Any], workers: dict[Connection, _Worker[Job]]
    ) -> None:
        self.given: deque[int] = deque()
        self.has_started = False
        self.connection, theirs = context.Pipe()
        arguments = (theirs, function, os.getpid())
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        # A signal must not arrive before the worker has its handlers and is in our list.
        with _signals_blocked():
            self.process.start()
            workers[self.connection] = self
        theirs.close()

    def give(self, jobs: Sequence[Job], waiting: deque[range]) -> None:
        """Send it the next jobs; if there are none left and it has finished, make it end."""
        if waiting:
            indices = waiting.popleft()
            self.given.extend(indices)
            message = [jobs[index] for index in indices]
        elif not self.given:
            message = []
        else:
            return
        with contextlib.suppress(OSError):  # it died: its end of the pipe will be seen next
            self.connection.send(message)


def _after_end(
    worker: _Worker[Job],
    workers: dict[Connection, _Worker[Job]],
    jobs: Sequence[Job],
    waiting: deque[range],
    on_death: Callable[[Job, int], Result],
) -> Iterator[tuple[int, Result]]:
    """Yield the result of the job that a worker died of, if it did; let the jobs after it wait again."""
    worker.process.join()
    code = worker.process.exitcode
    del workers[worker.connection]
    worker.connection.close()
    if code in {-number for number in ENDING} | {EXIT_SIGNAL + number for number in ENDING}:
        raise KeyboardInterrupt
    if not worker.has_started:
        raise RuntimeError(f"a worker process could not start: {describe_exit(code)}")
    if not worker.given:
        return
    index = worker.given.popleft()
    if worker.given:
        waiting.appendleft(range(worker.given[0], worker.given[-1] + 1))
    yield index, on_death(jobs[index], code)


def _stop(workers: list[_Worker[Any]]) -> None:
    """End the workers; those that do not hear SIGTERM are killed."""
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.connection.close()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in a worker ----------------------------------------------------------------------------------------


def _work(connection: Connection, function: Callable[[Any], Any], parent: int) -> NoReturn:
    """Do jobs until there are none; the process then ends without taking its objects apart."""
    code = 0
    request = RequestToEnd()
    try:
        request.install()
        end_with_parent(parent)
        leave_no_core_file()
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        connection.send(("", None))  # it has started
        while jobs := connection.recv():
            for job in jobs:
                try:
                    message = "", function(job)
                except Exception:
                    message = traceback.format_exc(), None
                request.raise_if_heard()
                connection.send(message)
    except (KeyboardInterrupt, Terminated):
        code = request.exit_code
    except (EOFError, OSError):
        code = 1  # the parent is gone
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


# -- A process that is kept for many jobs: it imports a framework once, and forks for each job -----
# `KeptProcess` is its end here. `serve` is the loop in the process itself, which may be another
# Python: this module, and those that it imports, need the standard library only.

#: The line that such a process writes when it can begin.
READY: Final = "ready"
#: The file of a job's folder with what the job wrote to stdout and stderr.
OUTPUT_FILE: Final = "output.txt"
#: Seconds after a job's time limit in which the process must answer, else it is killed, too.
_PATIENCE: Final = 20.0

#: Imports this package from the folder `package`. The folder around it does not go onto the path of the
#: child: that may have other packages, built for another Python.
_IMPORT: Final = """
import importlib.util, os, sys
if sys.version_info < (3, 10):
    sys.exit("this is Python " + sys.version.split()[0] + ", expected 3.10 or later")
if "tosa_convert" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "tosa_convert", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    sys.modules["tosa_convert"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
"""
_START: Final = "import sys\npackage, *arguments = sys.argv[1:]" + _IMPORT
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def command_with_this_package(python: str, code: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs code in any Python, with this package and a list `arguments`."""
    return [python, "-c", _START + code, str(_PACKAGE), *arguments]


def import_of_this_package() -> str:
    """Return code that imports this package in any Python, from where this process has it."""
    return f"package = {str(_PACKAGE)!r}{_IMPORT}"


def can_fork() -> bool:
    """Return whether a process may be kept here: other systems cannot fork one that has a framework."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class KeptProcess:
    """A process for many jobs. It starts with the first one, and again after it has died.

    command: starts a process that calls `serve`.
    start_seconds: how long it may take until it is ready.

    It works in a folder of its own, which also gets temporary files, and is removed with it.
    """

    def __init__(self, command: Sequence[str], *, start_seconds: float = 300.0) -> None:
        self.command, self.start_seconds = list(command), start_seconds
        self.process: subprocess.Popen[bytes] | None = None
        self.has_failed = self._is_ready = False
        self._rest = b""
        self._temporary = ""

    def can_start(self) -> bool:
        """Return whether there is a process, started now if there is none."""
        self.begin()
        if self.process is not None and not self._is_ready:
            self._is_ready = self._line(self.start_seconds) == READY
            if not self._is_ready:
                # A process of its own will say what is wrong with each job.
                self.has_failed = True
                self.close()
        return self.process is not None

    def run(
        self,
        folder: Path,
        timeout: float,
        memory: int = 0,
        *,
        arguments: Sequence[str] | None = None,
        with_stdout: bool = True,
    ) -> Ended:
        """Do the job of a folder, if the process `can_start`."""
        if not self.can_start() or self.process is None:
            return Ended(1)
        job = {
            "folder": str(folder),
            "timeout": timeout,
            "memory": memory,
            "arguments": [str(folder)] if arguments is None else list(arguments),
            "with_stdout": with_stdout,
        }
        line = None
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(timeout + _PATIENCE)
        if line is None:
            timed_out = self.process.poll() is None
            self.close()
            return Ended(-signal.SIGKILL, _tail(folder), timed_out=timed_out)
        answer = json.loads(line)
        return Ended(
            answer["code"],
            _tail(folder),
            answer["timed_out"],
            answer["too_large"],
            Used(*answer["used"]),
        )

    def begin(self) -> None:
        """Start the process if there is none, without waiting until it is ready."""
        if self.process is not None or self.has_failed:
            return
        self._temporary = new_temporary_folder("tosa-kept-")
        self.process = subprocess.Popen(
            self.command,
            cwd=self._temporary,
            env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._rest, self._is_ready = b"", False

    def _line(self, seconds: float) -> str | None:
        """Return the next line that the process writes; None if there is none in time."""
        assert self.process is not None
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            part = os.read(pipe, 1 << 16)
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process = None
        remove_temporary_folder(self._temporary)


def _tail(folder: Path) -> str:
    """Return the end of what a job wrote to stdout and stderr."""
    try:
        with open(folder / OUTPUT_FILE, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


# -- in the process that is kept -----------------------------------------------------------


#: The file of a job's folder that lists modules which further jobs are likely to import, too.
MODULES_FILE: Final = "modules.json"
#: How often a process imports what its jobs have imported.
_MOST_GROWTHS: Final = 8
#: Exit code of a process that cannot be forked after these imports.
_CANNOT_FORK: Final = 75


def serve(prepare: Callable[[], bool], work: Callable[[], object]) -> int:
    """Prepare once, write READY, and answer each line of stdin from a fork; import what jobs list."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # Frameworks print to stdout, which carries our answers.
        os.dup2(nothing, stream)
    os.close(nothing)
    end_with_parent(os.getppid())
    if not prepare():
        return 1
    print(READY, file=answers, flush=True)
    growths = 0
    for line in requests:
        job = json.loads(line)
        answer = _in_fork(job, work)
        names = []
        with contextlib.suppress(OSError, ValueError):
            names = json.loads(Path(job["folder"], MODULES_FILE).read_text("utf-8"))
        print(json.dumps(answer), file=answers, flush=True)
        if names and growths < _MOST_GROWTHS:
            growths = growths + 1 if _go_on_as_fork(names) else _MOST_GROWTHS
    return 0


def _go_on_as_fork(names: Sequence[str]) -> bool:
    """Import modules in a fork; it goes on in place of this process unless it got threads or files."""
    parent, before = os.getpid(), threads_and_files()
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == _CANNOT_FORK:
            return False
        os._exit(max(code, 0))
    end_with_parent(parent)
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if threads_and_files() != before:
        os._exit(_CANNOT_FORK)
    return True


def threads_and_files() -> tuple[int, set[str]]:
    """Return how many threads this process has, and its open files (Linux)."""
    files = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder itself, which is closed by now
            files.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return len(os.listdir("/proc/self/task")), files


def _in_fork(job: dict[str, object], work: Callable[[], object]) -> dict[str, object]:
    """Do a job in a fork of this process, and return how the fork ended."""
    parent = os.getpid()
    timeout, memory = float(str(job["timeout"])), int(str(job["memory"]))
    start = time.monotonic()
    gc.freeze()  # a collection in the fork would copy the pages of all objects
    child = os.fork()
    if not child:
        _work_and_exit(job, work, parent)
    timed_out, too_large = watch(child, timeout, memory)
    seconds = time.monotonic() - start
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):  # Before it had a session of its own.
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "too_large": too_large,
        "used": [
            round(seconds, 4),
            round(usage.ru_utime + usage.ru_stime, 4),
            usage.ru_maxrss << 10,
        ],
    }


def _work_and_exit(job: dict[str, object], work: Callable[[], object], parent: int) -> NoReturn:
    code: object = 1
    try:
        os.setsid()
        end_with_parent(parent)
        folder = str(job["folder"])
        output = os.open(
            os.path.join(folder, OUTPUT_FILE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666
        )
        for stream in (1, 2) if job["with_stdout"] else (2,):
            os.dup2(output, stream)
        os.close(output)
        os.chdir(folder)
        arguments = job["arguments"]
        assert isinstance(arguments, list)
        sys.argv[1:] = arguments
        code = work()
    except SystemExit as leave:
        code = leave.code
        if isinstance(code, str):
            os.write(2, f"{code}\n".encode())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
