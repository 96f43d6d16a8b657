"""The folder: files opened within it and nowhere else, and the whole of it replaced at once."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.files import file_error
from tosa_convert.weights import manifest

#: Smaller files are read, larger ones mapped: a mapping takes a page and a system call or two.
MAP_BYTES: Final = 1 << 16
#: Before Python 3.13 a mapping keeps its file open.
_KEEPS_OPEN: Final = sys.version_info < (3, 13)
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    # A pipe of that name must not keep us waiting for its writer.
    | getattr(os, "O_NONBLOCK", 0)
)


def files_to_map() -> int:
    """How many files may be mapped without using up half of those a process may have open."""
    if not _KEEPS_OPEN:
        return sys.maxsize
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


def size_of(folder: Path, name: str) -> int:
    """Bytes of a file in the folder.

    Raises TosaConvertError("missing-data" or "unsafe-path").
    """
    where = os.fspath(folder / name)
    try:
        status = os.lstat(where)
    except FileNotFoundError:
        raise fail(
            "missing-data", where, "the file is missing", "copy the whole folder of weights"
        ) from None
    except OSError as error:
        raise file_error(where, error, "read") from None
    _check_regular(status, where)
    return status.st_size


def _check_regular(status: os.stat_result, where: str) -> None:
    # On Windows a junction is no link to lstat, but a reparse point all the same.
    reparse = getattr(status, "st_file_attributes", 0) & 0x400
    if not stat.S_ISREG(status.st_mode) or reparse:
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) or reparse else "no regular file"
        raise fail(
            "unsafe-path",
            where,
            f"it is {kind}, and weights are read from files in their folder only",
            "put the file itself there",
        )


def view(folder: Path, name: str, *, mapped: bool) -> memoryview:
    """The bytes of a file in the folder; neither it nor what replaces it meanwhile may be a link.

    A mapped file must not be truncated while the view lives; replacing the folder as a whole, as
    `replacing` does, is safe.
    """
    where = os.fspath(folder / name)
    size_of(folder, name)
    try:
        descriptor = os.open(where, _FLAGS)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            _check_regular(status, where)
            if not mapped or status.st_size < MAP_BYTES:
                return memoryview(file.read())
            options: dict[str, Any] = {} if _KEEPS_OPEN else {"trackfd": False}
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options))
    except OSError as error:
        raise file_error(where, error, "read") from None


def manifest_of(folder: Path) -> list[manifest.Entry]:
    """The entries of the folder's manifest."""
    where = os.fspath(folder / manifest.NAME)
    size = size_of(folder, manifest.NAME)
    if size > manifest.MAX_BYTES:
        raise fail(
            "malformed-weights",
            where,
            f"it has {size} bytes, we read at most {manifest.MAX_BYTES}",
        )
    return manifest.load(bytes(view(folder, manifest.NAME, mapped=False)), where)


def _own_files(folder: Path) -> list[str]:
    """The files of a folder that is to be replaced: all of them ours.

    Raises TosaConvertError("foreign-folder") if there is anything else.
    """
    if not folder.is_dir():
        raise fail("foreign-folder", os.fspath(folder), "this is no folder", "choose another name")
    found = os.listdir(folder)
    if not found:
        return []
    ours = {manifest.NAME}
    if manifest.NAME in found:
        ours.update(entry.file for entry in manifest_of(folder))
    foreign = sorted(set(found) - ours)
    if foreign or manifest.NAME not in found:
        raise fail(
            "foreign-folder",
            os.fspath(folder),
            "the folder holds what is not ours and would be lost: "
            + ", ".join(map(repr, foreign[:8]))
            + (f" and {len(foreign) - 8} more" if len(foreign) > 8 else ""),
            "choose another folder, or empty this one",
        )
    return found


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `folder` at the end, or leaves no trace.

    Follows symbolic links. Raises TosaConvertError("foreign-folder") before anything is done, and
    "file-error" for what the system refuses.
    """
    target = Path(os.path.realpath(folder))
    try:
        old_files = _own_files(target) if os.path.lexists(target) else None
        token = secrets.token_hex(6)
        fresh = target.with_name(f".{target.name[:64]}.{token}.part")
        old = target.with_name(f".{target.name[:64]}.{token}.old")
        fresh.mkdir()
        try:
            yield fresh
            if old_files is None:
                fresh.rename(target)
            else:
                _swap(fresh, target, old)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if old_files is not None:
            _remove(old, old_files)
    except OSError as error:
        raise file_error(folder, error, "written") from None


def _swap(fresh: Path, target: Path, old: Path) -> None:
    target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        old.rename(target)
        raise


def _remove(folder: Path, files: list[str]) -> None:
    """Remove what was seen to be ours; what has come since then stays, and so does the folder."""
    with contextlib.suppress(OSError):
        for name in files:
            (folder / name).unlink()
        folder.rmdir()
