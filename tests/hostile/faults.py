"""A file system that fails at a chosen call: every call that a write makes is counted, and one of
them is refused, interrupted before or behind, or takes only a part.
"""

from __future__ import annotations

import builtins
import errno
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: What a write asks of the system, by the name that Python has for it. `write` is of open files.
CALLS = (
    "open",
    "write",
    "fchmod",
    "fsync",
    "replace",
    "rename",
    "mkdir",
    "unlink",
    "rmdir",
    "close",
)

ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EACCES", "EIO", "EROFS")}
#: What may happen at a call: an error, an interrupt on either side of it, or death.
FAULTS = (*ERRORS, "interrupt before", "interrupt behind", "kill before", "kill behind", "part")


class Disk:
    """Counts calls, and lets the fault happen at one of them. place -1: at none."""

    def __init__(self, fault: str = "", place: int = -1) -> None:
        self.fault, self.place = fault, place
        self.calls: list[str] = []

    def call(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        place = len(self.calls)
        self.calls.append(name)
        if place != self.place:
            return function(*args, **options)
        if self.fault in ERRORS:
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))
        if self.fault == "interrupt before":
            raise KeyboardInterrupt
        if self.fault == "kill before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **options)
        if self.fault == "interrupt behind":
            # Nobody has what was opened.
            if isinstance(result, int) and name == "open":
                os.close(result)
            elif hasattr(result, "close"):
                result.close()
            raise KeyboardInterrupt
        if self.fault == "kill behind":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def write(self, file: Any, piece: Any) -> int:
        """A write; "part" takes half of it once, and has no room for the rest."""
        if self.fault == "part" and len(self.calls) == self.place and len(piece) > 1:
            self.calls.append("write")
            taken: int = file.write(memoryview(piece)[: len(piece) // 2])
            self.fault, self.place = "ENOSPC", len(self.calls)
            return taken
        result: int = self.call("write", file.write, piece)
        return result


class File:
    """An open file whose writes go through the disk."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self.disk, self.file = disk, file

    def write(self, piece: Any) -> int:
        return self.disk.write(self.file, piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


@contextmanager
def failing(disk: Disk) -> Iterator[None]:
    """Python's functions for files, with the disk in between."""
    # Python 3.10's paths have the system's functions from an object of their own.
    paths: Any = getattr(pathlib, "_normal_accessor", None)
    saved = [
        (place, name, getattr(place, name))
        for place, names in (
            (os, CALLS),
            (paths, ("replace", "rename", "mkdir", "unlink", "rmdir")),
        )
        for name in names
        if place is not None and name != "write"
    ]
    opened = builtins.open

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: disk.call(name, function, *args, **options)

    def open_file(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wx"):
            return opened(path, mode, *args, **options)
        if isinstance(path, int):
            return File(disk, opened(path, mode, *args, **options))
        return File(disk, disk.call("open", opened, path, mode, *args, **options))

    try:
        for place, name, function in saved:
            setattr(place, name, wrap(name, function))
        builtins.open = open_file  # type: ignore[assignment]
        yield
    finally:
        for place, name, function in saved:
            setattr(place, name, function)
        builtins.open = opened
