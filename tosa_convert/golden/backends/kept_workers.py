"""Processes that are kept for the backends of a suite: each has imported what its runs need.

Every run is a fork of such a process (Linux), so that a crash, a hang or a changed state costs that run
only. A backend that cannot be forked, and any backend on other systems, has a process for each run.
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Final

from tosa_convert.golden.backends.fingerprint import files_of_python, of_files
from tosa_convert.golden.backends.warm_up import FORKED
from tosa_convert.process.workers import KeptProcess, can_fork, command_with_this_package
from tosa_convert.records import dataclass

#: What such a process does. The backend's own imports must not find this package.
_SERVE: Final = """
from tosa_convert.golden.backends.warm_up import prepare, record_files, write_files_read
from tosa_convert.process.workers import serve
for name in [name for name in sys.modules if name.partition(".")[0] == "tosa_convert"]:
    del sys.modules[name]
source, software, model = arguments
worker = {"__name__": "worker"}
exec(compile(source, "worker.py", "exec"), worker)
def work():
    write_files_read()  # what the imports have read, should the run crash
    try:
        return worker["main"]()
    finally:
        write_files_read()
if software == "python":
    record_files()
load_file = lambda: worker["_python_file"](model, "tosa_backend")
raise SystemExit(serve(lambda: prepare(software, load_file), work))
"""


@dataclass(slots=True)
class _Kept:
    """A process, and what decides what it does: its environment, and the user's files as they were."""

    process: KeptProcess
    environment: dict[str, str]
    files: dict[str, str]

    def is_current(self) -> bool:
        return self.environment == dict(os.environ) and self.files == of_files(self.files)


class KeptWorkers(threading.local):
    """The processes of this thread, by Python, software and the user's file. They end with this process.

    Example:
        >>> KeptWorkers().of("python3", "jax", "", 60.0) is None
        True
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], _Kept] = {}
        self._owner = os.getpid()
        atexit.register(self.close)

    def of(self, python: str, software: str, model: str, timeout: float) -> KeptProcess | None:
        """Return the process for the runs of a model; None if each needs one of its own.

        timeout: seconds for the imports.
        """
        if software not in FORKED or not can_fork():
            return None
        if self._owner != os.getpid():  # a fork: these are its parent's
            self._kept, self._owner = {}, os.getpid()
        key = python, software, model if software == "python" else ""
        found = self._kept.get(key)
        if found is not None and not found.is_current():
            self._kept.pop(key).process.close()
            found = None
        if found is None:
            files = of_files(files_of_python(Path(key[2]))) if key[2] else {}
            source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
            command = command_with_this_package(python, _SERVE, [source, *key[1:]])
            process = KeptProcess(command, start_seconds=timeout)
            found = self._kept[key] = _Kept(process, dict(os.environ), files)
        return found.process

    def close(self) -> None:
        """End the processes."""
        while self._kept and self._owner == os.getpid():
            self._kept.popitem()[1].process.close()
