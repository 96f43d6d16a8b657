"""One process, measured from outside: wall, processor time, and two kinds of memory.

It imports nothing large: the kernel's figure for a child's peak memory starts at that of its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: If the warm-up takes longer than this, it counts, and one more run follows; then none.
LONG, VERY_LONG = 20.0, 120.0
#: Seconds between two samples of a process's anonymous memory.
SAMPLING = 0.004


class Failed(RuntimeError):
    """A measured process failed."""


@dataclass
class Run:
    """One run of a process. Seconds and bytes; anonymous is None where it was not sampled."""

    wall: float
    cpu: float
    peak: int
    anonymous: int | None = None
    output: str = ""


@dataclass
class Result:
    """All runs of one subject."""

    runs: list[Run] = field(default_factory=list)
    #: The warm-up, in which memory was sampled. It does not count unless it is long.
    anonymous: int | None = None
    note: str = ""

    @property
    def wall(self) -> float:
        """Median, in seconds."""
        return statistics.median(run.wall for run in self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the fastest and the slowest run, in seconds."""
        walls = [run.wall for run in self.runs]
        return min(walls), max(walls)

    @property
    def cpu(self) -> float:
        """Median of user and system time together, in seconds."""
        return statistics.median(run.cpu for run in self.runs)

    @property
    def peak(self) -> int:
        """Return the largest resident memory of any run, in bytes; mapped pages of files count."""
        return max(run.peak for run in self.runs)

    def as_json(self) -> dict[str, object]:
        """For the JSON file: every run, in seconds and bytes."""
        low, high = self.spread
        return {
            "wall": self.wall,
            "wall_min": low,
            "wall_max": high,
            "runs": [run.wall for run in self.runs],
            "cpu": self.cpu,
            "peak_bytes": self.peak,
            "anonymous_bytes": self.anonymous,
            "note": self.note,
        }


def run(
    command: Sequence[str | Path],
    *,
    sample: bool = False,
    listen: str = "stdout",
    environment: Mapping[str, str] | None = None,
    expected: int = 0,
) -> Run:
    """Run a command to its end; the stream `listen` becomes `output`.

    The environment is that of this process unless another is given.
    Raises Failed with the end of stderr if the exit code is not the expected one.
    """
    words = list(map(str, command))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
        ]
        started = time.perf_counter()
        pid = os.posix_spawn(words[0], words, environment or os.environ, file_actions=actions)
        watch = _Watch(pid) if sample else None
        try:
            _, status, usage = os.wait4(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        wall = time.perf_counter() - started
        anonymous = watch.stop() if watch else None
        code = os.waitstatus_to_exitcode(status)
        heard = out if listen == "stdout" else err
        heard.seek(0)
        output = heard.read(1 << 20).decode(errors="replace")
        if code != expected:
            err.seek(0)
            tail = err.read()[-2000:].decode(errors="replace").strip()
            raise Failed(f"exit code {code}: {' '.join(words)[:300]}\n{tail}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, anonymous, output)


def run_each(commands: Sequence[Sequence[str | Path]]) -> Run:
    """Many processes one after another, as one run."""
    total = Run(0.0, 0.0, 0)
    for command in commands:
        one = run(command)
        total.wall += one.wall
        total.cpu += one.cpu
        total.peak = max(total.peak, one.peak)
    return total


def _anonymous(pid: int) -> int:
    """Anonymous memory of a process and of those that it has started, in bytes."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/status") as status:
            total = int(status.read().partition("RssAnon:")[2].split(maxsplit=1)[0]) * 1024
        # The command converts in a child of its own. Not every kernel lists children.
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            total += sum(map(_anonymous, map(int, children.read().split())))
    return total


class _Watch:
    """Samples the anonymous memory of a process until `stop`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.most: int | None = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.done.is_set():
            amount = _anonymous(self.pid)
            if amount:
                self.most = max(self.most or 0, amount)
            self.done.wait(SAMPLING)

    def stop(self) -> int | None:
        self.done.set()
        self.thread.join()
        return self.most


def alternate(
    subjects: dict[str, Callable[[bool], Run]], repeat: int, say: Callable[[str], None]
) -> dict[str, Result]:
    """Run every subject once to warm up, then all in turn, `repeat` times; slow ones less often.

    A subject is called with True where its memory is to be sampled.
    """
    results = {name: Result() for name in subjects}
    left = dict.fromkeys(subjects, repeat)
    for name, subject in subjects.items():
        try:
            first = subject(True)
        except Failed as failure:
            say(f"{name}: {failure}")
            results[name].note = "failed: " + str(failure).splitlines()[0][:120]
            left[name] = 0
            continue
        results[name].anonymous = first.anonymous
        say(f"{name} warm-up {first.wall:.3f} s")
        if first.wall > LONG:
            results[name].runs.append(first)
            left[name] = 0 if first.wall > VERY_LONG or repeat == 1 else 1
            results[name].note = f"{1 + left[name]} runs, each over {LONG:.0f} s"
    while any(left.values()):
        for name, subject in subjects.items():
            if left[name]:
                left[name] -= 1
                results[name].runs.append(subject(False))
    return results
