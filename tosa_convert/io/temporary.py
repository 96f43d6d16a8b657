"""Temporary files and folders beside a target, and what is left of a write that was killed.

A write holds a lock on what it writes. What has the name of a temporary file and no lock was left by a
process that was killed. Windows has no such locks: nothing is removed there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import sys
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

#: Characters of the target's name in the name of its temporary file. A character takes up to 4 bytes,
#: and a name has at most 255.
_NAME_CHARACTERS: Final = 32
_PART: Final = re.compile(r"\..{0,32}\.[0-9a-f]{12}\.part", re.DOTALL)


def temporary_path(target: str | os.PathLike[str], extension: str = "part") -> str:
    """Return a hidden, unused name in the directory of `target`."""
    folder, name = os.path.split(target)
    hidden = f".{name[:_NAME_CHARACTERS]}.{os.urandom(6).hex()}.{extension}"
    return os.path.join(folder, hidden)


def create_locked(path: str | os.PathLike[str], create: Callable[[], T]) -> tuple[T, int]:
    """Create a temporary file or folder, and lock it.

    Another write may remove it as a leftover before it is locked. Then it is created again.

    Args:
        path: where it is created.
        create: creates it; the result of a file is its descriptor.

    Returns:
        What `create` returned, and what `release` takes.

    Raises:
        OSError: from `create`.
    """
    while True:
        created = create()
        lock = hold(created if isinstance(created, int) else path)
        if os.path.lexists(path):
            return created, lock
        release(lock)
        if isinstance(created, int):
            os.close(created)


def hold(opened: int | str | os.PathLike[str]) -> int:
    """Lock a temporary file, by its descriptor, or a folder; return what `release` takes."""
    if sys.platform == "win32":
        return -1
    held = -1
    with contextlib.suppress(OSError):
        # The lock stays until this copy is closed, too.
        held = os.dup(opened) if isinstance(opened, int) else os.open(opened, os.O_RDONLY)
        # Who removes leftovers has it for a moment.
        _lock(held, waits=True)
    return held


def release(held: int) -> None:
    """Give up a lock."""
    if held >= 0:
        with contextlib.suppress(OSError):
            os.close(held)


def _lock(descriptor: int, *, waits: bool = False) -> None:
    """Lock a file or folder.

    Raises OSError if the file system has no locks, and if another process has it, unless `waits`.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)


@functools.cache
def remove_left(folder: str) -> None:
    """Remove what writes into a folder left when they were killed.

    A process looks at a folder once, so that a thousand writes into it take no longer.
    """
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for path in [entry.path for entry in entries if _PART.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                _remove_unlocked(path)


def _remove_unlocked(path: str) -> None:
    if sys.platform == "win32":
        return
    held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _lock(held)
        found = os.fstat(held)
        # Whoever had the lock may have put it in its place meanwhile.
        if not os.path.samestat(found, os.lstat(path)):
            return
        if stat.S_ISDIR(found.st_mode):
            import shutil  # it imports the modules of three compressions

            shutil.rmtree(path)
        elif stat.S_ISREG(found.st_mode):
            os.unlink(path)
    finally:
        os.close(held)
