"""A process that has imported a converter, and forks for each model; for suites of many models.

To import a framework takes longer than to lower a small model. On other systems than Linux, and for
frameworks that do not work after a fork, each model has a process of its own, as in `run_converter`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tosa_convert.frontends.process.child import OUTPUT_FILE, READY, SERVE
from tosa_convert.frontends.table import Frontend
from tosa_convert.process.child import (
    STDERR_BYTES,
    Ended,
    new_temporary_folder,
    remove_temporary_folder,
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
