"""Files: mapped for reading, replaced whole by a rename when writing, found below their folder."""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, TextIO, TypeVar

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.io.formats import refuse_model_directory
from tosa_convert.process.ending_signals import removed_if_ended, signals_deferred

# -- temporary files and folders beside a target, and what is left of a write that was killed ------
# A write holds a lock on what it writes. What has the name of a temporary file and no lock was
# left by a process that was killed. Windows has no such locks: nothing is removed there.

T = TypeVar("T")

#: Characters of the target's name in the name of its temporary file. A character takes up to 4 bytes,
#: and a name has at most 255.
_NAME_CHARACTERS: Final = 32
_PART: Final = r"(?s)\..{0,32}\.[0-9a-f]{12}\.part"
#: Errors of a disk, or of a user's share of it, that is full.
_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def temporary_path(target: str | os.PathLike[str], extension: str = "part") -> str:
    """Return a hidden, unused name in the directory of `target`."""
    folder, name = os.path.split(target)
    hidden = f".{name[:_NAME_CHARACTERS]}.{os.urandom(6).hex()}.{extension}"
    return os.path.join(folder, hidden)


def create_locked(path: str | os.PathLike[str], create: Callable[[], T]) -> tuple[T, int]:
    """Create and lock a temporary file or folder; again if another write took it for a leftover."""
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
    if held >= 0:
        with contextlib.suppress(OSError):
            os.close(held)


@contextlib.contextmanager
def one_writer(folder: str) -> Iterator[None]:
    """Let one process or thread at a time write several files of a folder that belong together."""
    is_fresh = re.fullmatch(_PART, os.path.basename(folder)) is not None
    held = -1 if is_fresh else hold(folder or ".")
    try:
        yield
    finally:
        release(held)


def _lock(descriptor: int, *, waits: bool = False) -> None:
    """Lock a file or folder; raise OSError without support, or if it is locked, unless `waits`."""
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
        while re.fullmatch(_PART, os.path.basename(folder)):  # a folder that is being written
            folder = os.path.dirname(folder)
        remove_left.__wrapped__(folder)
        return _write(self.file, piece)


def _write(file: BinaryIO, piece: Any) -> int:
    return file.write(piece)


@functools.cache
def remove_left(folder: str) -> None:
    """Remove, once for each folder, what killed writes left in it."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for path in [entry.path for entry in entries if re.fullmatch(_PART, entry.name)]:
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


#: The path that means standard input or standard output.
STANDARD: Final = "-"
#: Smaller pieces are joined up to this many bytes before they are written.
GATHER_BYTES: Final = 1 << 20
#: Bytes of one read call from a pipe.
READ_BYTES: Final = 1 << 20
#: Most bytes of a JSON file that describes a case, a run or a result.
JSON_BYTES: Final = 1 << 28
#: Flags that open a file without a wait for the writer of a pipe.
REGULAR_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
#: What a path is that is neither a regular file nor a device.
_KINDS: Final = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
#: Bytes of one write call; progress is reported after each.
WRITE_BYTES: Final = 1 << 24

PathLike = str | os.PathLike[str]


def file_error(path: PathLike, error: OSError, doing: str) -> TosaConvertError:
    """Return the "file-error" for an error of the operating system; doing: "read" or "written"."""
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


def map_file(path: PathLike, *, copy: bool = False, limit: int = sys.maxsize) -> memoryview:
    """Return the bytes of a file: mapped into memory if it is a regular file and not `copy`, else read.

    A mapped file must not be truncated or rewritten in place while the view is in use. Replacing it
    by a rename, as `replace_file` does, is safe.

    limit: bytes that are read of a pipe or a device, which has no size of its own.
    """
    refuse_invalid_path(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return read_at_most(file, limit, os.fspath(path))
            if copy or status.st_size == 0:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        refuse_model_directory(path)
        raise file_error(path, error, "read") from None


def read_at_most(file: Any, limit: int, where: str) -> memoryview:
    """Read a stream to its end. Raises TosaConvertError("too-large") as soon as it exceeds the limit."""
    content = bytearray()
    while part := file.read(min(READ_BYTES, limit + 1 - len(content))):
        content += part
        if len(content) > limit:
            raise too_large(where, f"more than {limit}", limit)
    return memoryview(content).toreadonly()


def too_large(where: str, found: object, limit: int) -> TosaConvertError:
    """Make the error for an input of more bytes than `--limit input-bytes` allows."""
    message = f"the input has {found} bytes, the limit is {limit}"
    hint = "to accept it, raise the limit: --limit input-bytes=N, or limits={'input-bytes': N}"
    return fail("too-large", where, message, hint)


def open_regular(path: PathLike) -> BinaryIO:
    """Open a regular file; refuse a pipe or device without a wait: its read may never end."""
    refuse_invalid_path(path)
    descriptor = -1
    try:
        descriptor = os.open(path, REGULAR_FLAGS)
        _refuse_irregular(path, os.fstat(descriptor).st_mode)
        return open(descriptor, "rb")
    except BaseException as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, OSError):
            raise file_error(path, error, "read") from None
        raise


def _refuse_irregular(path: PathLike, mode: int) -> None:
    if not stat.S_ISREG(mode):
        message = f"it is {_KINDS.get(stat.S_IFMT(mode), 'a device')}, expected a regular file"
        raise fail("file-error", os.fspath(path), message)


def refuse_irregular(path: PathLike) -> None:
    """Raise TosaConvertError("file-error") for a pipe, a device or a folder in place of a file."""
    with contextlib.suppress(OSError):  # the reader says what is wrong
        _refuse_irregular(path, os.stat(path).st_mode)


def path_below(folder: PathLike, name: object, where: str) -> str:
    """Find a regular file that another file names; return its path, with links resolved.

    Example:
        >>> path_below("cases", "../../etc/passwd", "desc.json")
        Traceback (most recent call last):
        tosa_convert.errors.TosaConvertError: desc.json: error: it names "../../etc/passwd", ...
    """
    if not isinstance(name, str) or not name:
        raise fail("unsafe-path", where, f"found {name!r:.80}, expected the name of a file")
    refuse_invalid_path(name)
    root = os.path.realpath(folder)
    try:
        path = os.path.realpath(os.path.join(root, name))
    except OSError as error:
        raise file_error(name, error, "read") from None
    if not path.startswith(os.path.join(root, "")):
        message = f'it names "{name}", which leads to {path}, and not to a file below {root}'
        raise fail("unsafe-path", where, message, "copy the file itself into the folder")
    refuse_irregular(path)
    return path


def walk(root: PathLike) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder from `root` down to any depth, with its files, sorted; follow no links."""
    waiting = [os.fspath(root)]
    while waiting:
        folder = waiting.pop()
        names: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                (waiting if is_folder else names).append(entry.path if is_folder else entry.name)
        yield folder, sorted(names)


def plain_reason(error: Exception) -> str:
    """Return what an error of Python says, without advice on Python itself.

    Example:
        >>> plain_reason(ValueError("too many digits; use sys.set_int_max_str_digits() to ..."))
        'too many digits'
    """
    return str(error).partition("; use sys.")[0]


def parse_json(data: bytes | bytearray | memoryview | str, where: str, expected: str) -> Any:
    """Return the value of a JSON text that a program writes and a user may have edited.

    Example:
        >>> parse_json("[" * 100_000, "state.json", "a state of reduce")
        Traceback (most recent call last):
        tosa_convert.errors.TosaConvertError: state.json: error: not a state of reduce: ...
    """
    import json  # only some commands need it

    try:
        return json.loads(data if isinstance(data, str) else bytes(data).decode())
    except RecursionError:
        reason = "it is nested too deep"
    except ValueError as error:
        reason = plain_reason(error)[:200]
    raise fail("file-error", where, f"not {expected}: {reason}")


def read_json(path: PathLike, expected: str) -> Any:
    """Parse a regular file of at most JSON_BYTES as `parse_json` does."""
    with open_regular(path) as file:
        try:
            data = file.read(JSON_BYTES + 1)
        except OSError as error:
            raise file_error(path, error, "read") from None
    if len(data) > JSON_BYTES:
        message = f"not {expected}: it has more than {JSON_BYTES} bytes"
        raise fail("file-error", os.fspath(path), message)
    return parse_json(data, os.fspath(path), expected)


def standard_input() -> TextIO:
    """Return standard input. Raises TosaConvertError("file-error") if it is closed."""
    if sys.stdin is None:
        raise fail("file-error", "<stdin>", "standard input is closed")
    return sys.stdin


def standard_output() -> TextIO:
    """Return standard output. Raises TosaConvertError("file-error") if it is closed."""
    if sys.stdout is None:
        raise fail("file-error", "<stdout>", "standard output is closed")
    return sys.stdout


def write_standard_output(pieces: Pieces) -> None:
    """Write the pieces to standard output; BrokenPipeError says that the reader closed the pipe."""
    stream = standard_output().buffer
    try:
        write_pieces(stream, pieces)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_error("<stdout>", error, "written") from None


def gathered(pieces: Iterable[Any]) -> Iterator[Any]:
    """Join small pieces into fewer ones with the same bytes; large ones are passed on as they are."""
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
        self,
        file: BinaryIO | Retried,
        progress: Progress | None = None,
        interrupts: Sequence[int] = (),
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
        """Return the number of bytes written. Raises the exception of the first failed write."""
        if self.error is not None:
            raise self.error
        return self.bytes_written


#: The content of a file: its bytes in order, or a function that writes them to a Sink.
Pieces = Iterable[Any] | Callable[[Sink], None]
#: Called with the number of bytes written so far.
Progress = Callable[[int], None]


def _write_all(
    file: BinaryIO | Retried, piece: Any, done: int = 0, progress: Progress | None = None
) -> int:
    view = memoryview(piece)
    total = view.nbytes
    while view:
        # A write to a pipe, or of more than 2 GiB, can be partial.
        view = view[file.write(view[:WRITE_BYTES]) :]
        if progress is not None:
            progress(done + total - view.nbytes)
    return total


def write_pieces(file: BinaryIO | Retried, pieces: Pieces, progress: Progress | None = None) -> int:
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
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def refuse_same_file(source: PathLike, target: PathLike) -> None:
    """Raise TosaConvertError("would-overwrite-input") if both are one file."""
    if same_file(source, target):
        message = "the output is the input file"
        hint = "choose another name for the output"
        raise fail("would-overwrite-input", os.fspath(target), message, hint)


def replace_file(
    path: PathLike,
    pieces: Pieces,
    check: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> int:
    """Replace the file at `path` (through links, with its rights), or create it, or change nothing."""
    refuse_invalid_path(path)
    target = os.path.realpath(path)
    try:
        old: os.stat_result | None = os.stat(target)
    except OSError:
        old = None
    try:
        if old is not None and not stat.S_ISREG(old.st_mode):
            with open(target, "wb", buffering=0) as special:
                return write_pieces(special, pieces, progress)
        return _replace(target, old, pieces, check, progress)
    except OSError as error:
        raise file_error(path, error, "written") from None


def _replace(
    target: str,
    old: os.stat_result | None,
    pieces: Pieces,
    check: Callable[[str], None] | None,
    progress: Progress | None,
) -> int:
    temporary, lock = temporary_path(target), -1
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # A new file gets the permissions that the umask allows, not those of a temporary file.
    try:
        descriptor, lock = create_locked(temporary, lambda: os.open(temporary, flags, 0o666))
        with (
            open(descriptor, "wb", buffering=0) as file,
            removed_if_ended(lambda: os.unlink(temporary)),
        ):
            total = write_pieces(Retried(file, os.path.dirname(target)), pieces, progress)
            if old is not None and hasattr(os, "fchmod"):
                keep_owner(file.fileno(), old)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            os.fsync(file.fileno())
        if check is not None:
            check(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        release(lock)
    sync_folder(os.path.dirname(target))
    return total


def keep_owner(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner and group of the old one, or the group alone, where permitted."""
    new = os.fstat(descriptor)
    for owner in (old.st_uid, -1):
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, old.st_gid)
                return


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
