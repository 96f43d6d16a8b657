"""A child process under limits: its end is reported, and all processes that it started end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tosa_convert.api import save
from tosa_convert.golden.arrays import save_npz
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.process.child import (
    STDERR_BYTES,
    Ended,
    describe_exit,
    done_meanwhile,
    end_if_unwanted,
    last_words,
    run_child,
)
from tosa_convert.qualify.random_graphs.generate import generate

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def python(code: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def is_alive(pid: int) -> bool:
    """Return whether a process exists that is not a zombie; Linux and macOS."""
    with os.popen(f"ps -o stat= -p {pid}") as status:
        return status.read().strip()[:1] not in ("", "Z")


def wait_for(path: Path) -> str:
    """Return the content of a file; waits until it is not empty."""
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.01)
    return path.read_text().strip()


def ends(pid: int) -> bool:
    """Return whether a process ends within a few seconds."""
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


#: Starts a process that runs for a minute, writes its number, and does what the rest says.
_PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open(sys.argv[1], "w") as file:
    print(child.pid, file=file)
"""


def test_the_exit_code_and_stderr_are_returned() -> None:
    ended = run_child(python("import sys; print('no', file=sys.stderr); sys.exit(7)"), timeout=60)
    assert (ended.code, ended.stderr.strip(), ended.timed_out) == (7, "no", False)


@pytest.mark.parametrize("late", [True, False])
def test_a_line_that_a_killed_child_had_not_ended_is_not_quoted(late: bool) -> None:
    for text, last in (("whole\ncut o", "whole"), ("cut o", "cut o")):
        killed = Ended(-9, text, timed_out=late, too_large=not late)
        assert last_words(killed).splitlines()[-1].strip() == last
    assert last_words(Ended(1, "whole\nwhole, too")).endswith("whole, too")


def test_the_end_of_a_long_line_is_quoted() -> None:
    said = last_words(Ended(-6, f"tool: /{'long/' * 99}a.cpp:7: Assertion `rank < 4' failed."))
    assert "tool: /long/" in said
    assert said.endswith("a.cpp:7: Assertion `rank < 4' failed.")
    assert len(said) < 300


def test_the_end_of_a_long_stderr_is_returned() -> None:
    code = f"import sys; sys.stderr.write('a' * {STDERR_BYTES}); sys.stderr.write('end')"
    text = run_child(python(code), timeout=60).stderr
    assert len(text) == STDERR_BYTES
    assert text.endswith("aend")


def test_the_child_runs_in_the_folder_without_input(tmp_path: Path) -> None:
    code = "import sys; open('out', 'wb').write(b'<' + sys.stdin.buffer.read() + b'>')"
    ended = run_child(python(code), timeout=60, folder=tmp_path)
    assert ended.code == 0
    assert (tmp_path / "out").read_bytes() == b"<>"


def test_without_input_stdin_is_empty() -> None:
    code = "import sys; sys.exit(len(sys.stdin.buffer.read()))"
    assert run_child(python(code), timeout=60).code == 0


def test_a_program_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_child(["/does/not/exist"], timeout=60)


@posix
def test_the_signal_that_ended_the_child_is_returned() -> None:
    ended = run_child(python("import os; os.abort()"), timeout=60)
    assert ended.code == -signal.SIGABRT
    assert describe_exit(ended.code) == "SIGABRT"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (-11, "SIGSEGV"),
        (-99, "signal 99"),
        (0xC0000005, "exit code 0xC0000005"),
    ],
)
def test_an_exit_code_is_described(code: int, text: str) -> None:
    assert describe_exit(code) == text


@posix
def test_a_child_that_exceeds_its_time_ends_with_all_that_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    ended = run_child(python(_PARENT + "time.sleep(60)", tmp_path / "pid"), timeout=3)
    assert ended.timed_out
    assert time.monotonic() - began < 30
    assert ends(int(wait_for(tmp_path / "pid")))


@posix
def test_processes_that_a_child_leaves_running_are_ended(tmp_path: Path) -> None:
    ended = run_child(python(_PARENT, tmp_path / "pid"), timeout=60)
    assert (ended.code, ended.timed_out) == (0, False)
    assert ends(int(wait_for(tmp_path / "pid")))


@posix
def test_an_interrupt_of_ours_ends_the_child(tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_for(tmp_path / "pid")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_child(python(_PARENT + "time.sleep(60)", tmp_path / "pid"), timeout=60)
    thread.join()
    assert ends(int(wait_for(tmp_path / "pid")))


def test_the_end_of_the_block_ends_the_children_of_what_is_done_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    found: list[Ended] = []

    def work() -> None:
        found.append(run_child(python(_PARENT + "time.sleep(60)", file), timeout=30))
        found.append(run_child(python("import time; time.sleep(60)"), timeout=30))
        end_if_unwanted()
        raise AssertionError("it goes on")

    with done_meanwhile() as begin:
        wait = begin(work)
        wait_for(file)
    with pytest.raises(SystemExit):
        wait()
    assert [row.timed_out for row in found] == [False, False]
    assert ends(int(wait_for(file)))


def test_nothing_begins_after_the_block() -> None:
    with done_meanwhile() as begin:
        begin(lambda: time.sleep(0.1))
    with pytest.raises(SystemExit):
        begin(lambda: 7)


def test_what_is_done_meanwhile_gives_its_result_or_its_error() -> None:
    with done_meanwhile() as begin:
        right, wrong = begin(lambda: 7), begin(lambda: run_child(["nowhere"], timeout=1))
        assert (right(), right()) == (7, 7)
        with pytest.raises(FileNotFoundError):
            wrong()


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    run_child(python("pass"), timeout=60)
    assert threading.active_count() == before


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process")
def test_a_child_leaves_no_core_file() -> None:
    code = (
        "import resource, sys, time; time.sleep(0.5); "
        "sys.exit(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    assert run_child(python(code), timeout=60).code == 0


@posix
@pytest.mark.parametrize("arguments", [["check", "m.tosa"], ["suite", "cases", "--jobs", "2"]])
def test_a_tool_that_is_killed_leaves_no_backend_and_no_folder(
    arguments: list[str], tmp_path: Path
) -> None:
    """SIGKILL gives the tool no chance to clean up, nor the worker processes of a suite."""
    graph = generate(2, 2, kinds=["ABS"])
    save(graph, tmp_path / "m.tosa")
    for name in "ab":
        (tmp_path / "cases" / name).mkdir(parents=True)
        save(graph, tmp_path / "cases" / name / "model.tosa")
        save_npz(tmp_path / "cases" / name / "inputs.npz", input_arrays(graph, None, random=1))
    (tmp_path / "temporary").mkdir()
    script = tmp_path / "backend"
    script.write_text(f"#!/bin/sh\nsleep 60 & echo $$ $! > {tmp_path}/pids\nwait\n")
    script.chmod(0o755)
    more = ["--random", "1"] if arguments[0] == "check" else []
    tool = subprocess.Popen(
        [sys.executable, "-m", "tosa_convert", *arguments, *more, "--against", str(script)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )
    try:
        pids = list(map(int, wait_for(tmp_path / "pids").split()))
        assert all(map(is_alive, pids))
        assert os.listdir(tmp_path / "temporary")
    finally:
        tool.kill()
        tool.wait()
    assert all(map(ends, pids))
    deadline = time.monotonic() + 10
    while os.listdir(tmp_path / "temporary") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.listdir(tmp_path / "temporary") == []
