"""Runs a converter in a child process, and says what happened to it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.process.request import (
    INSTALLED_FILE,
    INTERFACE_FILE,
    REQUEST_FILE,
    SERVE,
    STARTED_FILE,
    Interface,
    Request,
)
from tosa_convert.frontends.table import Frontend, Installed, all_installed, frontend, missing
from tosa_convert.process.child import Ended, last_words, run_child, temporary_folder
from tosa_convert.process.workers import KeptProcess, can_fork, command_with_this_package

#: For the temporary files of a process of one model, in its folder.
TEMPORARY_FOLDER: Final = "temporary"


def with_temporary_folder(folder: Path) -> dict[str, str]:
    """Return our environment, with a folder for temporary files, which frameworks leave behind."""
    return {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}


def can_serve(row: Frontend) -> bool:
    """Return whether one process can lower many models of a frontend."""
    return row.forks and can_fork()


#: Seconds that a converter may take unless the caller says otherwise.
TIMEOUT: Final = 1800.0

#: What the child does, with this package.
_RUN: Final = """
from tosa_convert.frontends.process.child import run
from tosa_convert.process.child import leave
leave(run(arguments))
"""
#: Bytes of a disk, below which it is full.
_LEAST_FREE: Final = 1 << 16


def server_of(name: str, python: str = "") -> KeptProcess | None:
    """Return a process for many models of a frontend, for `run_converter`; None if there can be none."""
    if not can_serve(frontend(name)):
        return None
    return KeptProcess(_command(_program(python), [SERVE, name]))


def run_converter(
    request: Request,
    folder: Path,
    *,
    python: str = "",
    timeout: float = TIMEOUT,
    memory: int = 0,
    when_started: Callable[[], object] | None = None,
    server: KeptProcess | None = None,
) -> Interface:
    """Lower a model in a child process."""
    name = request.frontend
    frontend(name)  # refused here, before a process is started
    (folder / REQUEST_FILE).write_text(request.to_json(), encoding="utf-8")
    if server is not None and server.can_start():
        ended = server.run(folder, timeout, memory)
    else:
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


def packages_of(names: Collection[str], python: str = "", timeout: float = 60) -> list[Installed]:
    """Return the packages of frontends in a Python, by default this one."""
    if not python:
        return all_installed(names)
    with temporary_folder("tosa-frontend-") as name:
        folder = Path(name)
        ended = _run(folder, python, timeout)
        try:
            rows = json.loads((folder / INSTALLED_FILE).read_text(encoding="utf-8"))
            found = {row["frontend"]: Installed(**row) for row in rows}
            return [found[name] for name in names]
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
    return command_with_this_package(program, _RUN, arguments)


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
