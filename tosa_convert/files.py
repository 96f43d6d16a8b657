"""Files: mapped for reading, replaced whole when writing.

A write goes to a new file beside the target, reaches the disk, and is renamed into place: whoever
looks sees the old file or the new one, and a failure leaves the old one and no litter.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from tosa_convert.errors import TosaConvertError, fail

#: What stands for standard input and output in place of a path.
STANDARD: Final = "-"
#: Pieces are gathered up to this many bytes before they are written; larger ones go straight out.
GATHER_BYTES: Final = 1 << 20

PathLike = str | os.PathLike[str]


def file_error(path: PathLike, error: OSError, doing: str) -> TosaConvertError:
    """The operating system's refusal as an expected failure."""
    reason = error.strerror or type(error).__name__
    return fail("file-error", os.fspath(path), f"cannot be {doing}: {reason}")


def map_file(path: PathLike) -> memoryview:
    """The bytes of a file: mapped if it is a regular file, read otherwise.

    A mapping follows the file: it must not be truncated while the view lives. Replacing it by a
    rename, as everything here does, is safe.
    Raises TosaConvertError("file-error").
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise file_error(path, error, "read") from None


def read_standard_input() -> memoryview:
    """All of standard input."""
    return memoryview(sys.stdin.buffer.read())


def gathered(pieces: Iterable[Any]) -> Iterator[Any]:
    """The same bytes in fewer pieces: small ones joined, large ones untouched."""
    buffer = bytearray()
    for piece in pieces:
        if len(piece) >= GATHER_BYTES:
            if buffer:
                yield buffer
                buffer = bytearray()
            yield piece
        else:
            buffer += piece
            if len(buffer) >= GATHER_BYTES:
                yield buffer
                buffer = bytearray()
    if buffer:
        yield buffer


def write_pieces(file: BinaryIO, pieces: Iterable[Any]) -> int:
    """Write the pieces to an unbuffered file; returns the number of bytes."""
    total = 0
    for piece in gathered(pieces):
        view = memoryview(piece)
        while view:
            # A write to a pipe or of more than 2 GiB may take only a part.
            count = file.write(view)
            total += count
            view = view[count:]
    return total


def same_file(one: PathLike, other: PathLike) -> bool:
    """Whether both paths lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def replace_file(
    path: PathLike, pieces: Iterable[Any], check: Callable[[Path], None] | None = None
) -> int:
    """Put a file with these bytes in place of `path`, or leave everything as it was.

    check: looks at the new file before it takes its place, and raises if it should not.
    Follows symbolic links, keeps the permissions of a file that is replaced, and writes straight
    into what is no regular file (a pipe, a device). Returns the number of bytes.
    Raises TosaConvertError("file-error").
    """
    target = Path(os.path.realpath(path))
    try:
        mode: int | None = target.stat().st_mode
    except OSError:
        mode = None
    try:
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb", buffering=0) as special:
                return write_pieces(special, pieces)
        return _replace(target, mode, pieces, check)
    except OSError as error:
        raise file_error(path, error, "written") from None


def _replace(
    target: Path,
    mode: int | None,
    pieces: Iterable[Any],
    check: Callable[[Path], None] | None,
) -> int:
    beside = target.parent / f".{target.name[:64]}.{secrets.token_hex(6)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Created with the permissions any new file gets here, so that a replacement is no surprise.
    descriptor = os.open(beside, flags, 0o666)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            total = write_pieces(file, pieces)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
        if check is not None:
            check(beside)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(target.parent)
    return total


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system has such a thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
