"""The child process: lowers one model with its framework.

It reads `request.json` of a folder, and writes `program.mlirbc` and `interface.json` there. Without a
request it writes `installed.json`, which says what of the frontends is installed. Until the
converter is imported it needs Python's standard library only, so that any Python can run it.

With the arguments SERVE and a frontend's name it lowers many models; see `server`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, NoReturn

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.process.interface import INSTALLED_FILE, INTERFACE_FILE, Interface
from tosa_convert.frontends.process.request import REQUEST_FILE, Request
from tosa_convert.frontends.table import Frontend, absent, all_installed, frontend
from tosa_convert.process.child import MEMORY_INTERVAL, end_with_parent, largest_memory

#: The first argument for a process that lowers many models.
SERVE: Final = "--serve"
#: The line that such a process writes when it can begin.
READY: Final = "ready"
#: The file of a folder with what its converter wrote to stdout and stderr.
OUTPUT_FILE: Final = "output.txt"
#: An empty file, which says that the process is a Python that could begin.
STARTED_FILE: Final = "started"
#: Lines of an exception's text that are repeated, and their width.
_MOST_LINES: Final = 12
_LINE_WIDTH: Final = 70
_PLEASE: Final = "please report it"


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say: the folder of one model, or SERVE and a frontend."""
    if arguments[0] == SERVE:
        return serve(arguments[1])
    return main(Path(arguments[0]))


def main(folder: Path) -> int:
    """Do what a folder's request says; returns the exit code."""
    (folder / STARTED_FILE).touch()
    if not (folder / REQUEST_FILE).exists():
        rows = [asdict(row) for row in all_installed()]
        (folder / INSTALLED_FILE).write_text(json.dumps(rows), encoding="utf-8")
        return 0
    request = Request.from_json((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    row = frontend(request.frontend)
    if distributions := absent(row):
        interface = Interface(absent=distributions)
    else:
        interface = _lower(row, request, folder)
    # Last: the parent takes its absence as a failure.
    (folder / INTERFACE_FILE).write_text(interface.to_json(), encoding="utf-8")
    return 0


def _lower(row: Frontend, request: Request, folder: Path) -> Interface:
    try:
        interface: Interface = importlib.import_module(row.converter).lower(request, folder)
    except TosaConvertError as error:
        return Interface(findings=list(error.findings))
    except Exception as error:
        # The parent repeats the end of stderr: the text says more there than a traceback.
        sys.exit(_words(error))
    interface.versions = {**_versions(row), **interface.versions}
    return interface


def _versions(row: Frontend) -> dict[str, str]:
    """Return the versions of the packages that the converter imported, as they state them."""
    modules = {name: sys.modules.get(package) for package, name in row.packages.items()}
    found = {name: getattr(module, "__version__", None) for name, module in modules.items()}
    return {name: version for name, version in found.items() if isinstance(version, str)}


def _words(error: Exception) -> str:
    """Return the text of an exception, in lines.

    The last one is the innermost line of this package that it came through.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "tosa_convert" in Path(frame.filename).parts]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    said = [part for line in str(error).splitlines() for part in textwrap.wrap(line, _LINE_WIDTH)]
    if ours[-1] is frames[-1]:
        place += f", a defect of tosa-convert: {_PLEASE}"
    head = type(error).__name__
    lines = [f"{head}: {said[0]}" if said else head, *said[1:_MOST_LINES], f"({place})"]
    return "\n".join(lines)


# -- many models, see `server` -----------------------------------------------------------


def serve(name: str) -> int:
    """Import a frontend's converter once, and lower a model in a fork for each line of stdin.

    A line has a folder, and the seconds and the bytes that its model may take; the answer is a line on
    stdout. Before the first one, READY is written there.
    """
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # Frameworks print to stdout, which carries our answers.
        os.dup2(nothing, stream)
    end_with_parent(os.getppid())
    row = frontend(name)
    if not absent(row):
        converter = importlib.import_module(row.converter)
        getattr(converter, "warm_up", lambda: None)()
    print(READY, file=answers, flush=True)
    for line in requests:
        job = json.loads(line)
        answer = _in_fork(Path(job["folder"]), job["timeout"], job["memory"])
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def _in_fork(folder: Path, timeout: float, memory: int) -> dict[str, object]:
    """Lower a model in a fork of this process, and return how the fork ended."""
    parent = os.getpid()
    child = os.fork()
    if not child:
        _lower_and_exit(folder, parent)
    handle = os.pidfd_open(child)
    end = time.monotonic() + timeout
    is_done = too_large = False
    try:
        while not (is_done or too_large) and (left := end - time.monotonic()) > 0:
            wait = min(left, MEMORY_INTERVAL) if memory else left
            is_done = bool(select.select([handle], [], [], wait)[0])
            too_large = bool(memory) and not is_done and largest_memory(child) > memory
    finally:
        os.close(handle)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):  # Before it had a session of its own.
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": not (is_done or too_large),
        "too_large": too_large,
    }


def _lower_and_exit(folder: Path, parent: int) -> NoReturn:
    code: object = 1
    try:
        os.setsid()
        end_with_parent(parent)
        output = os.open(folder / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(folder)
        code = main(folder)
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
        os._exit(code if isinstance(code, int) else 1)
