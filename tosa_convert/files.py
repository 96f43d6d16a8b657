"""Files: mapped for reading, replaced whole when writing.

A write goes to a temporary file in the directory of the target, is flushed to the disk, and is
renamed into place. Readers see either the old file or the new one. A failed write leaves the old file
and removes the temporary one.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, TextIO

from tosa_convert.ending_signals import signals_deferred
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats import refuse_model_directory

#: The path that means standard input or standard output.
STANDARD: Final = "-"
#: Smaller pieces are joined up to this many bytes before they are written.
GATHER_BYTES: Final = 1 << 20
#: Characters of the target's name in the name of its temporary file. A character takes up to 4 bytes,
#: and a name has at most 255.
_NAME_CHARACTERS: Final = 32
#: Bytes of one write call; progress is reported after each.
WRITE_BYTES: Final = 1 << 24

PathLike = str | os.PathLike[str]


def file_error(path: PathLike, error: OSError, doing: str) -> TosaConvertError:
    """The "file-error" for an error of the operating system; doing: "read" or "written"."""
    reason = error.strerror or type(error).__name__
    return fail("file-error", os.fspath(path), f"cannot be {doing}: {reason}")


def refuse_invalid_path(path: PathLike) -> None:
    """Raise TosaConvertError("file-error") for a path that no file can have."""
    text = os.fspath(path)
    try:
        problem = "it contains a NUL byte" if b"\0" in os.fsencode(text) else ""
    except UnicodeEncodeError:
        problem = "it contains a character that the file system's encoding does not have"
    if problem:
        raise fail("file-error", ascii(text), f"invalid path: {problem}")


def map_file(path: PathLike, *, copy: bool = False) -> memoryview:
    """The bytes of a file: mapped into memory if it is a regular file and not `copy`, else read.

    A mapped file must not be truncated or rewritten in place while the view is in use. Replacing it
    by a rename, as `replace_file` does, is safe.

    Raises:
        TosaConvertError: "file-error"; "unrecognised-input" for a directory that holds a model.
    """
    refuse_invalid_path(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if copy or not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        refuse_model_directory(path)
        raise file_error(path, error, "read") from None


def standard_input() -> TextIO:
    """Standard input. Raises TosaConvertError("file-error") if it is closed."""
    if sys.stdin is None:
        raise fail("file-error", "<stdin>", "standard input is closed")
    return sys.stdin


def standard_output() -> TextIO:
    """Standard output. Raises TosaConvertError("file-error") if it is closed."""
    if sys.stdout is None:
        raise fail("file-error", "<stdout>", "standard output is closed")
    return sys.stdout


def read_standard_input() -> memoryview:
    """All of standard input."""
    return memoryview(standard_input().buffer.read())


def write_standard_output(pieces: Pieces) -> None:
    """Write the pieces to standard output.

    Raises BrokenPipeError if the reader closed the pipe, and TosaConvertError("file-error") for any
    other failure.
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
    """The same bytes in fewer pieces: small pieces are joined, large ones are passed on as they are."""
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
    """A file object for foreign code, such as zipfile, that writes by itself.

    Foreign code cannot propagate a Python exception. `write` therefore stores the first one and
    discards the output that follows; `finish` raises it.

    interrupts: the signals that have arrived (`signals_deferred`); after one, output is discarded.
    """

    def __init__(
        self, file: BinaryIO, progress: Progress | None = None, interrupts: Sequence[int] = ()
    ) -> None:
        self.file = file
        self.progress = progress
        self.interrupts = interrupts
        self.bytes_written = 0
        self.error: BaseException | None = None

    def write(self, piece: bytes) -> int:
        """Write the whole piece, unless an earlier write failed."""
        if self.error is None and not self.interrupts:
            try:
                self.bytes_written += _write_all(
                    self.file, piece, self.bytes_written, self.progress
                )
            except BaseException as error:  # an interrupt must not cross foreign code, either
                self.error = error
        return len(piece)

    def finish(self) -> int:
        """The number of bytes written. Raises the exception of the first failed write."""
        if self.error is not None:
            raise self.error
        return self.bytes_written


#: The content of a file: its bytes in order, or a function that writes them to a Sink.
Pieces = Iterable[Any] | Callable[[Sink], None]
#: Called with the number of bytes written so far.
Progress = Callable[[int], None]


def _write_all(file: BinaryIO, piece: Any, done: int = 0, progress: Progress | None = None) -> int:
    view = memoryview(piece)
    total = view.nbytes
    while view:
        # A write to a pipe, or of more than 2 GiB, can be partial.
        view = view[file.write(view[:WRITE_BYTES]) :]
        if progress is not None:
            progress(done + total - view.nbytes)
    return total


def write_pieces(file: BinaryIO, pieces: Pieces, progress: Progress | None = None) -> int:
    """Write the pieces to a file. Returns the number of bytes."""
    if callable(pieces):
        with signals_deferred() as interrupts:
            sink = Sink(file, progress, interrupts)
            pieces(sink)
        return sink.finish()
    total = 0
    for piece in gathered(pieces):
        total += _write_all(file, piece, total, progress)
    return total


def same_file(one: PathLike, other: PathLike) -> bool:
    """Whether both paths name the same existing file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def refuse_same_file(source: PathLike, target: PathLike) -> None:
    """Raise TosaConvertError("would-overwrite-input") if both are one file."""
    if same_file(source, target):
        raise fail(
            "would-overwrite-input",
            os.fspath(target),
            "the output is the input file",
            "choose another name for the output",
        )


def replace_file(
    path: PathLike,
    pieces: Pieces,
    check: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> int:
    """Replace the file at `path`, or create it; on failure nothing changes.

    Follows symbolic links and keeps the permissions of an existing file. Writes directly into a pipe
    or a device.

    Args:
        path: The file.
        pieces: Its new content.
        check: Called with the path of the complete temporary file before it is renamed. An exception
            that it raises cancels the write.
        progress: Called with the number of bytes written so far, at least every `WRITE_BYTES`.

    Returns:
        The number of bytes.

    Raises:
        TosaConvertError: "file-error".

    Example:
        >>> replace_file("notes.txt", [b"first ", b"second"])
        12
        >>> bytes(map_file("notes.txt"))
        b'first second'
    """
    refuse_invalid_path(path)
    target = os.path.realpath(path)
    try:
        mode: int | None = os.stat(target).st_mode
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
    target: str,
    mode: int | None,
    pieces: Pieces,
    check: Callable[[str], None] | None,
    progress: Progress | None,
) -> int:
    temporary = temporary_path(target, "part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # A new file gets the permissions that the umask allows, not those of a temporary file.
    try:
        descriptor = os.open(temporary, flags, 0o666)
        with open(descriptor, "wb", buffering=0) as file:
            total = write_pieces(file, pieces, progress)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
        if check is not None:
            check(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(target))
    return total


def temporary_path(target: PathLike, extension: str) -> str:
    """A hidden, unused name in the directory of `target`."""
    folder, name = os.path.split(target)
    hidden = f".{name[:_NAME_CHARACTERS]}.{os.urandom(6).hex()}.{extension}"
    return os.path.join(folder, hidden)


def sync_folder(folder: PathLike) -> None:
    """Flush the directory entries to the disk, where the system supports it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
