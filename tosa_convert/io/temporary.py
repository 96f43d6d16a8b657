"""Temporary files and folders beside a target, and what is left of a write that was killed.

A write holds a lock on what it writes. What has the name of a temporary file and no lock was left by a
process that was killed. Windows has no such locks: nothing is removed there.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar

T = TypeVar("T")

#: Characters of the target's name in the name of its temporary file. A character takes up to 4 bytes,
#: and a name has at most 255.
_NAME_CHARACTERS: Final = 32
_PART: Final = re.compile(r"\..{0,32}\.[0-9a-f]{12}\.part", re.DOTALL)
#: Errors of a disk, or of a user's share of it, that is full.
_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def temporary_path(target: str | os.PathLike[str], extension: str = "part") -> str:
    """Return a hidden, unused name in the directory of `target`."""
    folder, name = os.path.split(target)
    hidden = f".{name[:_NAME_CHARACTERS]}.{os.urandom(6).hex()}.{extension}"
    return os.path.join(folder, hidden)


def create_locked(path: str | os.PathLike[str], create: Callable[[], T]) -> tuple[T, int]:
    """Create a temporary file or folder, and lock it, once what killed writes left there is gone.

    Another write may remove it as a leftover before it is locked. Then it is created again.
    """
    remove_left(os.path.dirname(path))
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


@contextlib.contextmanager
def one_writer(folder: str) -> Iterator[None]:
    """Let one process or thread at a time write several files of a folder that belong together.

    A folder that is itself being written has its own lock, and one writer.
    """
    is_fresh = _PART.fullmatch(os.path.basename(folder)) is not None
    held = -1 if is_fresh else hold(folder or ".")
    try:
        yield
    finally:
        release(held)


def _lock(descriptor: int, *, waits: bool = False) -> None:
    """Lock a file or folder.

    Raises OSError if the file system has no locks, and if another process has it, unless `waits`.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)


class Retried:
    """A file in a folder that is written once more if the disk is full and leftovers were there."""

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self.file, self.folder = file, folder

    def write(self, piece: Any) -> int:
        """Write a part of the piece; return how many bytes."""
        try:
            return _write(self.file, piece)
        except OSError as error:
            if error.errno not in _FULL:
                raise
        folder = self.folder
        while _PART.fullmatch(os.path.basename(folder)):  # a folder that is being written
            folder = os.path.dirname(folder)
        remove_left.__wrapped__(folder)
        return _write(self.file, piece)


def _write(file: BinaryIO, piece: Any) -> int:
    return file.write(piece)


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
