"""Jobs for the tests of the pool, in a module that its worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

Job = int | str
Outcome = tuple[Job, int]


def work(job: Job) -> Outcome:
    """Do what the job says; returns the job and the number of the worker process."""
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "exit":
        os._exit(3)
    if job == "raise":
        raise LookupError("what was looked for")
    if job == "be terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    if isinstance(job, str) and job.startswith("sleep"):
        path = Path(job.removeprefix("sleep "))
        try:
            path.with_suffix(".pid").write_text(f"{os.getpid()}\n")
            time.sleep(60)
        finally:
            path.with_suffix(".cleaned").write_text("\n")
    if isinstance(job, str) and job.startswith("deaf"):
        Path(job.removeprefix("deaf ")).write_text(f"{os.getpid()}\n")
        sum(range(10**12))  # native code: no signal handler of Python runs
    return job, os.getpid()


def died(job: Job, code: int) -> Outcome:
    return f"died: {code}", 0


def end_at_once() -> None:
    os._exit(3)
