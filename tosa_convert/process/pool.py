"""Run many jobs in worker processes; a job that kills its worker costs that job only.

`concurrent.futures.ProcessPoolExecutor` gives up all jobs when a worker dies and does not say which job
killed it. Here each worker has a pipe, and jobs go out and results come back in order on it, so
the job that a dead worker was at is the first one without a result.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, NoReturn, TypeVar

from tosa_convert.process.child import describe_exit, end_with_parent, limit_this_process
from tosa_convert.process.ending_signals import ENDING, EXIT_SIGNAL, RequestToEnd, Terminated

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
    """Yield the index and the result of each job as it is done.

    Close the iterator (`contextlib.closing`) to end all workers, also after an exception.
    """
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
        self,
        context: Any,
        function: Callable[[Any], Any],
        workers: dict[Connection, _Worker[Job]],
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


def _work(
    connection: Connection,
    function: Callable[[Any], Any],
    parent: int,
) -> NoReturn:
    """Do jobs until there are none; the process then ends without taking its objects apart."""
    code = 0
    request = RequestToEnd()
    try:
        request.install()
        end_with_parent(parent)
        limit_this_process()
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
