"""Jobs in worker processes: a job that kills its worker fails alone, and workers end with the pool."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from unit.pool_jobs import Job, Outcome, died, work
from unit.process.test_child_process import ends, wait_for

from tosa_convert.process import workers as process_pool
from tosa_convert.process.workers import run_jobs

#: Forked workers, where the system has fork, and spawned workers.
both = pytest.mark.parametrize("fork", [True, False] if sys.platform == "linux" else [False])
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="ends with its parent on Linux only")


def results(jobs: list[Job], fork: bool, processes: int = 2) -> list[Job]:
    """Return the results in order, without the numbers of the processes."""
    outcome: list[tuple[int, Outcome]] = sorted(
        run_jobs(work, jobs, processes=processes, on_death=died, fork=fork)
    )
    assert [index for index, _ in outcome] == list(range(len(jobs)))
    return [value for _, (value, _) in outcome]


@pytest.mark.slow
@both
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_job_is_done_once(fork: bool, count: int) -> None:
    assert results(list(range(count)), fork) == list(range(count))


@pytest.mark.slow
@both
@pytest.mark.parametrize("processes", [1, 3])
def test_a_job_that_kills_its_worker_affects_no_other(fork: bool, processes: int) -> None:
    """Also the first, the last, and two in a row; jobs are given out several at a time."""
    jobs: list[Job] = [*range(100)]
    killers = {0: "die", 40: "exit", 41: "die", 99: "exit"}
    for index, killer in killers.items():
        jobs[index] = killer
    expected = [
        {"die": f"died: {-signal.SIGKILL}", "exit": "died: 3"}[str(job)]
        if index in killers
        else job
        for index, job in enumerate(jobs)
    ]
    assert results(jobs, fork, processes) == expected


@both
def test_several_workers_share_the_jobs(fork: bool) -> None:
    jobs: list[Job] = [*range(400)]
    outcome = run_jobs(work, jobs, processes=2, on_death=died, fork=fork)
    assert len({process for _, (_, process) in outcome}) == 2


@both
def test_an_exception_in_a_job_is_a_bug_and_shows_its_traceback(fork: bool) -> None:
    with pytest.raises(RuntimeError, match=r"in work(.|\n)*LookupError: what was looked for"):
        list(run_jobs(work, ["raise"], processes=1, on_death=died, fork=fork))


@pytest.mark.slow
@posix
@both
def test_closing_the_pool_ends_its_workers_and_lets_them_clean_up(
    fork: bool, tmp_path: Path
) -> None:
    jobs: list[Job] = [1, f"sleep {tmp_path / '0'}", f"sleep {tmp_path / '1'}"]
    pool = run_jobs(work, jobs, processes=2, on_death=died, fork=fork)
    with contextlib.closing(pool):
        next(pool)
        wait_for(tmp_path / "0.pid")
    assert ends(int(wait_for(tmp_path / "0.pid")))
    assert wait_for(tmp_path / "0.cleaned") == ""


@posix
def test_a_worker_that_does_not_respond_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool, "PATIENCE", 0.2)
    jobs: list[Job] = [1, f"deaf {tmp_path / 'pid'}"]
    pool = run_jobs(work, jobs, processes=1, on_death=died)
    with contextlib.closing(pool):
        next(pool)
        wait_for(tmp_path / "pid")
    assert ends(int(wait_for(tmp_path / "pid")))


@posix
@both
def test_a_worker_that_is_asked_to_end_ends_everything(fork: bool) -> None:
    """A terminal signals all processes at once; this does not count as a failed job."""
    jobs: list[Job] = [1, "be terminated", 2]
    with pytest.raises(KeyboardInterrupt):
        list(run_jobs(work, jobs, processes=1, on_death=died, fork=fork))


@pytest.mark.slow
@posix
@both
def test_an_interrupt_ends_all_workers(fork: bool, tmp_path: Path) -> None:
    """From another process: one with a second thread must not be forked."""
    pids = [tmp_path / f"{index}.pid" for index in range(2)]
    script = (
        f"until [ -s {shlex.quote(str(pids[0]))} ] && [ -s {shlex.quote(str(pids[1]))} ]; "
        f"do sleep 0.05; done; kill -INT {os.getpid()}"
    )
    jobs: list[Job] = [f"sleep {path.with_suffix('')}" for path in pids]
    pool = run_jobs(work, jobs, processes=2, on_death=died, fork=fork)
    with subprocess.Popen(["sh", "-c", script]) as interrupting:
        with pytest.raises(KeyboardInterrupt), contextlib.closing(pool):
            list(pool)
        assert interrupting.wait(timeout=20) == 0
    for path in pids:
        assert ends(int(wait_for(path)))
        assert wait_for(path.with_suffix(".cleaned")) == ""


@pytest.mark.slow
@linux
@both
def test_workers_end_when_their_parent_is_killed(fork: bool, tmp_path: Path) -> None:
    """Workers that run native code end, too."""
    jobs = [f"deaf {tmp_path / str(index)}" for index in range(2)]
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from unit.pool_jobs import died, work\n"
        "from tosa_convert.process.workers import run_jobs\n"
        f"list(run_jobs(work, {jobs!r}, processes=2, on_death=died, fork={fork}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pids = [int(wait_for(tmp_path / str(index))) for index in range(2)]
    parent.kill()
    parent.wait()
    assert ends(pids[0])
    assert ends(pids[1])
