"""The reference model's program: where it is, and how it is kept from harming us.

It is a native program that aborts on some inputs, and on an abort starts a debugger on itself whose
session reaches its caller's terminal. So it runs as a child in a session of its own, told to leave
the debugger out, with no search path to find one, without a core file, and with a time limit after
which its whole session is ended.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail

#: Names the program, for those who have built their own.
ENVIRONMENT: Final = "TOSA_REFERENCE_MODEL"
#: The end of what the program said that is kept, bytes.
KEPT_OUTPUT: Final = 1 << 16
_WHEEL: Final = "tosa-tools"
_NAME: Final = "tosa_reference_model"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the exit code (negative: the signal), and what was said on stderr."""

    code: int
    stderr: str


def locate() -> Path:
    """The reference model's program: $TOSA_REFERENCE_MODEL, the installed tosa-tools, or on PATH.

    Raises TosaConvertError("missing-refmodel").
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        if os.path.isfile(named) and os.access(named, os.X_OK):
            return Path(named)
        raise fail("missing-refmodel", named, f"${ENVIRONMENT} names no program")
    return _installed(os.environ.get("PATH", ""))


@functools.lru_cache(4)
def _installed(path: str) -> Path:
    suffix = ".exe" if sys.platform == "win32" else ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        program = Path(str(metadata.distribution(_WHEEL).locate_file(f"bin/{_NAME}{suffix}")))
        if program.is_file() and os.access(program, os.X_OK):
            return program
    on_path = shutil.which(_NAME, path=path)
    if on_path is None:
        raise fail(
            "missing-refmodel",
            "",
            f"the reference model ({_NAME}) is not installed",
            f"pip install {_WHEEL}, or name the program in ${ENVIRONMENT}",
        )
    return Path(on_path)


def run(command: list[str], folder: Path, timeout: float) -> Ended:
    """Run a command in `folder` until it ends; everything it started ends with it.

    Raises TosaConvertError("refmodel-timeout") after `timeout` seconds.
    """
    environment = {
        "TOSA_MODEL_NO_BACKTRACE": "1",
        "PATH": "",
        "LC_ALL": "C",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "HOME", "TMPDIR"):
        if name in os.environ:
            environment[name] = os.environ[name]
    with open(command[0], "rb") as program:
        is_script = program.read(2) == b"#!"
    if is_script:
        environment["PATH"] = os.environ.get("PATH", "")  # a launcher script needs its interpreter
    ended = watch(command, folder, folder / "stderr", timeout, environment)
    if ended is None:
        raise fail(
            "refmodel-timeout",
            "",
            f"the reference model did not end within {timeout:g} s",
            "raise the limit with --timeout, or cut the model with extract",
        )
    return ended


def watch(
    command: list[str],
    folder: Path,
    log: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Ended | None:
    """Run any command in a session of its own; None if it was ended after `timeout` seconds.

    log: gets what it says on stderr. environment: instead of ours. Raises OSError.
    """
    with open(log, "w+b") as errors:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        _without_core_file(child.pid)
        # A wait with a limit polls, and sleeps longer than a small model runs; a timer does not.
        late = threading.Event()

        def end() -> None:
            late.set()
            _end_session(child)

        timer = threading.Timer(timeout, end)
        timer.daemon = True
        timer.start()
        try:
            code = child.wait()
        finally:
            timer.cancel()
            _end_session(child)
        if late.is_set():
            return None
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - KEPT_OUTPUT))
        return Ended(code, errors.read().decode(errors="replace"))


def _without_core_file(pid: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """End a child that has not ended, with all its session; its number cannot be reused before."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                child.kill()
            else:
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
