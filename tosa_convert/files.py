"""Files: mapped for reading, replaced whole when writing.

A write goes to a new file beside the target, reaches the disk, and is renamed into place: whoever
looks sees the old file or the new one, and a failure leaves the old one and no litter.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO

from tosa_convert.errors import TosaConvertError, fail

#: What stands for standard input and output in place of a path.
STANDARD: Final = "-"
#: Pieces are gathered up to this many bytes before they are written; larger ones go straight out.
GATHER_BYTES: Final = 1 << 20

#: Characters of a file's name that the file beside it repeats; each may take 4 bytes of 255.
_NAME_CHARACTERS: Final = 32

#: Bytes handed to the system at a time, and so how often progress is told.
WRITE_BYTES: Final = 1 << 24

PathLike = str | os.PathLike[str]


def file_error(path: PathLike, error: OSError, doing: str) -> TosaConvertError:
    """The operating system's refusal as an expected failure."""
    reason = error.strerror or type(error).__name__
    return fail("file-error", os.fspath(path), f"cannot be {doing}: {reason}")


def refuse_invalid_path(path: PathLike) -> None:
    """Raise TosaConvertError("file-error") for a path that no system could have a file at."""
    text = os.fspath(path)
    try:
        odd = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        odd = True
    if odd:
        raise fail("file-error", ascii(text), "no file can be called that")


def map_file(path: PathLike) -> memoryview:
    """The bytes of a file: mapped if it is a regular file, read otherwise.

    A mapping follows the file: it must not be truncated while the view lives. Replacing it by a
    rename, as everything here does, is safe.
    Raises TosaConvertError("file-error").
    """
    refuse_invalid_path(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise file_error(path, error, "read") from None


def standard_input() -> TextIO:
    """Standard input; its `buffer` has the bytes. Raises TosaConvertError("file-error") if closed."""
    if sys.stdin is None:
        raise fail("file-error", "<stdin>", "standard input is closed")
    return sys.stdin


def standard_output() -> TextIO:
    """Standard output; its `buffer` takes bytes. Raises TosaConvertError("file-error") if closed."""
    if sys.stdout is None:
        raise fail("file-error", "<stdout>", "standard output is closed")
    return sys.stdout


def read_standard_input() -> memoryview:
    """All of standard input."""
    return memoryview(standard_input().buffer.read())


def write_standard_output(pieces: Pieces) -> None:
    """Write the pieces to standard output; a reader that left is a BrokenPipeError.

    Raises TosaConvertError("file-error") for anything else that is wrong with it.
    """
    stream = standard_output().buffer
    try:
        write_pieces(stream, pieces)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_error("<stdout>", error, "written") from None


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


class Sink:
    """What a writer that calls back is given as its file.

    Foreign code calls `write` and cannot pass a Python exception on, so the first one is kept, the
    rest of the output is swallowed, and `finish` raises it.
    """

    def __init__(self, file: BinaryIO, progress: Progress | None = None) -> None:
        self.file = file
        self.progress = progress
        self.total = 0
        self.error: BaseException | None = None

    def write(self, piece: bytes) -> int:
        """Write all of `piece`, unless an earlier write failed."""
        if self.error is None:
            try:
                self.total += _write_all(self.file, piece, self.total, self.progress)
            except BaseException as error:  # also an interrupt: it must not cross foreign code
                self.error = error
        return len(piece)

    def finish(self) -> int:
        """Raise what went wrong, or return the number of bytes."""
        if self.error is not None:
            raise self.error
        return self.total


#: A file's content: its bytes in order, or a function that writes them to a Sink.
Pieces = Iterable[Any] | Callable[[Sink], None]
#: Told how many bytes were written so far.
Progress = Callable[[int], None]


def _write_all(file: BinaryIO, piece: Any, done: int = 0, progress: Progress | None = None) -> int:
    view = memoryview(piece)
    total = view.nbytes
    while view:
        # A write to a pipe or of more than 2 GiB may take only a part.
        view = view[file.write(view[:WRITE_BYTES]) :]
        if progress is not None:
            progress(done + total - view.nbytes)
    return total


def write_pieces(file: BinaryIO, pieces: Pieces, progress: Progress | None = None) -> int:
    """Write the pieces to a file; returns the number of bytes."""
    if callable(pieces):
        sink = Sink(file, progress)
        pieces(sink)
        return sink.finish()
    total = 0
    for piece in gathered(pieces):
        total += _write_all(file, piece, total, progress)
    return total


def same_file(one: PathLike, other: PathLike) -> bool:
    """Whether both paths lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def replace_file(
    path: PathLike,
    pieces: Pieces,
    check: Callable[[Path], None] | None = None,
    progress: Progress | None = None,
) -> int:
    """Put a file with these bytes in place of `path`, or leave everything as it was.

    check: looks at the new file before it takes its place, and raises if it should not.
    progress: told how many bytes were written, at least every WRITE_BYTES.
    Follows symbolic links, keeps the permissions of a file that is replaced, and writes straight
    into what is no regular file (a pipe, a device). Returns the number of bytes.
    Raises TosaConvertError("file-error").
    """
    refuse_invalid_path(path)
    target = Path(os.path.realpath(path))
    try:
        mode: int | None = target.stat().st_mode
    except OSError:
        mode = None
    try:
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb", buffering=0) as special:
                return write_pieces(special, pieces, progress)
        return _replace(target, mode, pieces, check, progress)
    except OSError as error:
        raise file_error(path, error, "written") from None


def _replace(
    target: Path,
    mode: int | None,
    pieces: Pieces,
    check: Callable[[Path], None] | None,
    progress: Progress | None,
) -> int:
    beside = target.parent / f".{target.name[:_NAME_CHARACTERS]}.{os.urandom(6).hex()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Created with the permissions any new file gets here, so that a replacement is no surprise.
    try:
        descriptor = os.open(beside, flags, 0o666)
        with open(descriptor, "wb", buffering=0) as file:
            total = write_pieces(file, pieces, progress)
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
    sync_folder(target.parent)
    return total


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system has such a thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
