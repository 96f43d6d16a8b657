"""A file system that fails at a chosen call.

Every call of a write is counted. One of them fails, is interrupted or killed before or after it, or
writes only a part of its data.
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

#: The system calls of a write, by their names in Python. `write` is a method of open files.
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
#: The faults at a call: an error, an interrupt or a kill before or after it, or a partial write.
FAULTS = (*ERRORS, "interrupt before", "interrupt after", "kill before", "kill after", "part")


class Disk:
    """Counts calls and injects the fault at call number `place`; -1: at none."""

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
        if self.fault == "interrupt after":
            # The caller never gets the file, so close it here.
            if isinstance(result, int) and name == "open":
                os.close(result)
            elif hasattr(result, "close"):
                result.close()
            raise KeyboardInterrupt
        if self.fault == "kill after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def write(self, file: Any, piece: Any) -> int:
        """Return a write; "part" writes half of it, and then the disk is full."""
        if self.fault == "part" and len(self.calls) == self.place and len(piece) > 1:
            self.calls.append("write")
            taken: int = file.write(memoryview(piece)[: len(piece) // 2])
            self.fault, self.place = "ENOSPC", len(self.calls)
            return taken
        result: int = self.call("write", file.write, piece)
        return result


class File:
    """An open file whose writes go through a `Disk`."""

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
    """Route Python's file functions through the disk."""
    # In Python 3.10, pathlib calls these functions through an accessor object.
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
