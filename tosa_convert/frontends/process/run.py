"""Runs a converter in a child process, and says what happened to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.process.child import OUTPUT_FILE, READY, SERVE, STARTED_FILE
from tosa_convert.frontends.process.interface import INSTALLED_FILE, INTERFACE_FILE, Interface
from tosa_convert.frontends.process.request import REQUEST_FILE, Request
from tosa_convert.frontends.table import Frontend, Installed, all_installed, frontend, missing
from tosa_convert.process.child import (
    STDERR_BYTES,
    Ended,
    last_words,
    new_temporary_folder,
    remove_temporary_folder,
    run_child,
    temporary_folder,
)

if TYPE_CHECKING:
    import subprocess


#: Seconds after a model's time limit in which the process must answer, else it is killed, too.
_PATIENCE: Final = 20.0
#: Seconds for the import of a framework on a busy machine.
_START_SECONDS: Final = 300.0
#: For the temporary files of a process of one model, in its folder.
TEMPORARY_FOLDER: Final = "temporary"


def with_temporary_folder(folder: Path) -> dict[str, str]:
    """Our environment, with a folder for temporary files, which frameworks leave behind."""
    return {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}


def can_serve(row: Frontend) -> bool:
    """Return whether one process can lower many models of a frontend."""
    return row.forks and sys.platform == "linux"


class ConverterServer:
    """A process for the models of one frontend.

    command: from the arguments of the child to the command that starts it.
    """

    def __init__(self, name: str, command: Callable[[list[str]], list[str]]) -> None:
        self.name, self.command = name, command
        self.process: subprocess.Popen[bytes] | None = None
        self.has_failed = False
        self._rest = b""
        self._temporary = ""

    def run(self, folder: Path, timeout: float, memory: int = 0) -> Ended | None:
        """Lower the model of a folder's request; None if the process cannot be started.

        timeout, memory: seconds and bytes that it may take; 0 bytes for any number.

        Raises:
            OSError: the program cannot be started.
        """
        if self.process is None and not self.has_failed:
            self._start()
        if self.process is None:
            return None
        request = json.dumps({"folder": str(folder), "timeout": timeout, "memory": memory}) + "\n"
        line = None
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(request.encode())
            self.process.stdin.flush()
            line = self._line(timeout + _PATIENCE)
        if line is None:
            timed_out = self.process.poll() is None
            self.close()
            return Ended(-signal.SIGKILL, _tail(folder), timed_out=timed_out)
        answer = json.loads(line)
        return Ended(answer["code"], _tail(folder), answer["timed_out"], answer["too_large"])

    def _start(self) -> None:
        import subprocess

        self._temporary = new_temporary_folder("tosa-frontend-")
        self.process = subprocess.Popen(
            self.command([SERVE, self.name]),
            env=with_temporary_folder(Path(self._temporary)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._rest = b""
        if self._line(_START_SECONDS) != READY:
            # A process of its own will say what is wrong with each model.
            self.has_failed = True
            self.close()

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
        """End the process."""
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
    """Return the end of what a converter wrote to stdout and stderr."""
    try:
        data = (folder / OUTPUT_FILE).read_bytes()
    except OSError:
        return ""
    return data[-STDERR_BYTES:].decode(errors="replace")


#: Seconds that a converter may take unless the caller says otherwise.
TIMEOUT: Final = 1800.0

#: Finds this package where the parent has it and imports it. The folder around it does not go onto the
#: child's path: that may have other packages, built for another Python.
_START: Final = """
import importlib.util, os, sys
if sys.version_info < (3, 10):
    sys.exit("this is Python " + sys.version.split()[0] + ", expected 3.10 or later")
package, *arguments = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "tosa_convert", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
)
sys.modules["tosa_convert"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from tosa_convert.frontends.process.child import run
raise SystemExit(run(arguments))
"""
#: Bytes of a disk, below which it is full.
_LEAST_FREE: Final = 1 << 16
_PACKAGE: Final = Path(__file__).resolve().parents[2]


def server_of(name: str, python: str = "") -> ConverterServer | None:
    """Return a process for many models of a frontend, for `run_converter`; None if there can be none."""
    if not can_serve(frontend(name)):
        return None
    return ConverterServer(name, lambda arguments: _command(_program(python), arguments))


def run_converter(
    request: Request,
    folder: Path,
    *,
    python: str = "",
    timeout: float = TIMEOUT,
    memory: int = 0,
    when_started: Callable[[], object] | None = None,
    server: ConverterServer | None = None,
) -> Interface:
    """Lower a model in a child process.

    Args:
        request: the model and how to lower it.
        folder: an empty folder, which gets `program.mlirbc` and what else the converter writes.
        python: the Python that has the framework; by default this one.
        timeout: seconds of wall-clock time.
        memory: bytes that the converter may take (Linux); 0 for any number.
        when_started: called as soon as the child runs, for what this process can do meanwhile.
        server: the process for models of this frontend and this Python, if there is one; it does not
            call `when_started`.

    Returns:
        What the converter says of the program.

    Raises:
        TosaConvertError: "frontend-missing" if a package or `python` is missing; "frontend-failed" if
            the converter refused the model, crashed, took too much memory, or did not end in time; what
            the converter itself found wrong, such as "unknown-argument".
    """
    name = request.frontend
    frontend(name)  # refused here, before a process is started
    (folder / REQUEST_FILE).write_text(request.to_json(), encoding="utf-8")
    ended = None if server is None else server.run(folder, timeout, memory)
    if ended is None:
        ended = _run(folder, python, timeout, memory=memory, when_started=when_started)
    result = folder / INTERFACE_FILE
    if ended.timed_out or ended.code or not result.exists():
        where = request.shown or request.source
        raise _failure(ended, where, timeout, folder, python=python, memory=memory)
    try:
        interface = Interface.from_json(result.read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError) as error:
        message = f"the converter wrote an invalid {INTERFACE_FILE}: {error!r}"
        raise fail("frontend-failed", name, message) from None
    if interface.absent:
        raise TosaConvertError(missing(frontend(name), interface.absent, python))
    if interface.findings:
        raise TosaConvertError(interface.findings)
    return interface


def packages_of(python: str = "", *, timeout: float = 60) -> list[Installed]:
    """Return the packages of every frontend in a Python; by default in this one.

    Raises:
        TosaConvertError: "frontend-missing" if it cannot be started, "frontend-failed" if it fails.
    """
    if not python:
        return all_installed()
    with temporary_folder("tosa-frontend-") as name:
        folder = Path(name)
        ended = _run(folder, python, timeout)
        try:
            rows = json.loads((folder / INSTALLED_FILE).read_text(encoding="utf-8"))
            return [Installed(**row) for row in rows]
        except (OSError, ValueError, TypeError):
            raise _failure(ended, python, timeout, folder, python=python) from None


def _run(
    folder: Path,
    python: str,
    timeout: float,
    *,
    memory: int = 0,
    when_started: Callable[[], object] | None = None,
) -> Ended:
    program = _program(python)
    temporary = folder / TEMPORARY_FOLDER
    temporary.mkdir()
    try:
        return run_child(
            _command(program, [str(folder)]),
            timeout=timeout,
            memory=memory,
            folder=folder,
            environment=with_temporary_folder(temporary),
            with_stdout=True,
            when_started=when_started,
        )
    except OSError as error:
        if error.filename != program:
            raise
        message = f"{program} cannot be started: {error.strerror}"
        raise fail("frontend-missing", "--python", message, "name another Python") from None


def _command(program: str, arguments: list[str]) -> list[str]:
    return [program, "-c", _START, str(_PACKAGE), *arguments]


def _program(python: str) -> str:
    """Return the program that runs the child, by a path that also holds in another folder."""
    found = shutil.which(python) if python else sys.executable
    if found is None:
        message = f"{python} is not a program that can be started"
        raise fail("frontend-missing", "--python", message, "name another Python")
    return os.path.abspath(found)


def _failure(
    ended: Ended, where: str, timeout: float, folder: Path, *, python: str, memory: int = 0
) -> TosaConvertError:
    """Return the error for a converter that wrote no result. where: the model, for the message."""
    text = last_words(ended).replace(f"{folder}{os.sep}", "")
    if ended.too_large:
        text = f"the converter took more than {memory:,} bytes of memory; {text.partition('; ')[2]}"
        hint = "if the model needs it, --limit converter-memory=BYTES allows more"
        return fail("frontend-failed", where, text.rstrip("; "), hint)
    if ended.timed_out:
        text = f"the converter did not end within {timeout:g} s; {text.partition('; ')[2]}"
        return fail("frontend-failed", where, text.rstrip("; "), "--timeout SECONDS allows more")
    if shutil.disk_usage(folder).free < _LEAST_FREE:
        message = f"the disk of the folder for temporary files, {folder.parent}, is full"
        hint = "set TMPDIR to a folder on a disk with enough space"
        return fail("file-error", str(folder.parent), message, hint)
    has_started = not python or (folder / STARTED_FILE).exists()
    hint = "" if has_started else f"{python} must be a Python of 3.10 or later"
    return fail("frontend-failed", where, text.replace("it ended", "the converter ended", 1), hint)
