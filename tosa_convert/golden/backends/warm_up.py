"""What a process that is kept for many runs of a backend does before the first one.

It runs in the backend's Python, which may have no other package than the backend's.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final

#: Software -> the modules to import; of several in a row, the first that there is.
_IMPORTED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "iree": (("iree.compiler",), ("iree.runtime",)),
    "onnxruntime": (("onnxruntime",),),
    "python": (),
    "tflite": (("ai_edge_litert.interpreter", "tensorflow.lite.python.interpreter"),),
    "torch": (("torch",), ("torch.export",), ("torch.utils._pytree",)),
}
#: Software whose process can be forked after these imports. JAX starts threads with its first array.
FORKED: Final = frozenset(_IMPORTED)


#: The file of a run's folder that lists the files which the user's code has read.
READ_FILE: Final = "read.json"
_read: set[str] = set()


def record_files() -> None:
    """Keep from now on the names of the files that Python code opens to read.

    Not those of Python and of installed packages, which are known by their releases.
    """
    known = {os.path.realpath(path) + os.sep for path in (sys.prefix, sys.base_prefix)}
    known |= {path + os.sep for path in (sys.prefix, sys.base_prefix, "/dev", "/proc", "/sys")}

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        if arguments[2] & os.O_ACCMODE == os.O_RDONLY:
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not path.startswith(tuple(known)):
                _read.add(path)

    sys.addaudithook(heard)


def write_files_read() -> None:
    """Write the names of the recorded files into the working folder, which is the run's."""
    own = os.getcwd() + os.sep
    names = sorted(name for name in _read.copy() if not name.startswith(own))
    with open(READ_FILE, "w", encoding="utf-8") as file:
        json.dump(names, file)


def prepare(software: str, load_file: Callable[[], object]) -> bool:
    """Import what the runs of some software need, before this process forks for each of them."""
    for names in _IMPORTED[software]:
        _import_first(names)
    if software != "python":
        return True
    before = _threads_and_files()
    load_file()
    return _threads_and_files() == before


def _import_first(names: tuple[str, ...]) -> None:
    for name in names[:-1]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            return
    importlib.import_module(names[-1])


def _threads_and_files() -> tuple[int, set[str]]:
    files = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder itself, which is closed by now
            files.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return len(os.listdir("/proc/self/task")), files
