"""The folder of weights: files are opened only inside it, and it is replaced as a whole."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.weights import manifest
from tosa_convert.io.files import (
    REGULAR_FLAGS,
    create_locked,
    file_error,
    path_below,
    release,
    sync_folder,
    temporary_path,
)
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

#: Smaller files are read, larger ones are mapped: a mapping costs a page and two system calls.
MAP_BYTES: Final = 1 << 16
#: Before Python 3.13, a mapping keeps its file open.
_KEEPS_OPEN: Final = sys.version_info < (3, 13)
_FLAGS: Final = REGULAR_FLAGS | getattr(os, "O_NOFOLLOW", 0)

#: Flags of renameat2 (names relative to the working directory; exchange) and of renamex_np (swap).
_HERE, _EXCHANGE, _DARWIN_SWAP = -100, 2, 2


def files_to_map() -> int:
    """Return the number of files to map: at most half of the files that a process can have open."""
    if not _KEEPS_OPEN:
        return sys.maxsize
    try:
        import resource
    except ImportError:  # Windows does not have this limit
        return sys.maxsize
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


def size_of(folder: Path, name: str) -> int:
    """Return the bytes of a file in the folder; a link is followed if it stays there."""
    where = os.fspath(folder / name)
    try:
        status = os.lstat(_followed(folder, name))
    except FileNotFoundError:
        raise fail(
            "missing-data", where, "the file is missing", "copy the whole folder of weights"
        ) from None
    except OSError as error:
        raise file_error(where, error, "read") from None
    _check_regular(status, where)
    return status.st_size


def _followed(folder: Path, name: str) -> str:
    """Return the path of a file; that to which a link leads, if it is below the folder."""
    where = os.fspath(folder / name)
    # On Windows, a junction is no link, but a reparse point.
    is_link = os.path.islink(where) or getattr(os.lstat(where), "st_file_attributes", 0) & 0x400
    return path_below(folder, name, where) if is_link else where


def _check_regular(status: os.stat_result, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        message = "it is not a regular file; weights are read only from regular files"
        raise fail("unsafe-path", where, message, "copy the file itself into the folder")


def view(folder: Path, name: str, *, mapped: bool) -> memoryview:
    """Return the bytes of a file in the folder. A link out of it is refused, even a later one.

    A mapped file must not be truncated while the view is in use. Replacing the folder, as `replacing`
    does, is safe.
    """
    where = os.fspath(folder / name)
    size_of(folder, name)
    try:
        descriptor = os.open(_followed(folder, name), _FLAGS)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            _check_regular(status, where)
            if not mapped or status.st_size < MAP_BYTES:
                return memoryview(file.read())
            options: dict[str, Any] = {} if _KEEPS_OPEN else {"trackfd": False}
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options))
    except OSError as error:
        raise file_error(where, error, "read") from None


def manifest_of(folder: Path, limits: Limits = DEFAULT_LIMITS) -> list[manifest.Entry]:
    """Read the entries of the folder's manifest."""
    where = os.fspath(folder / manifest.NAME)
    size = size_of(folder, manifest.NAME)
    if size > limits.manifest_bytes:
        raise fail(
            "malformed-weights",
            where,
            f"the manifest has {size} bytes, the limit is {limits.manifest_bytes}",
            "to accept it, raise the limit: --limit manifest-bytes=N, or "
            "limits={'manifest-bytes': N}",
        )
    return manifest.load(bytes(view(folder, manifest.NAME, mapped=False)), where)


def _own_files(folder: Path) -> list[str]:
    """Return the files of a folder that is to be replaced, which tosa-convert has written."""
    if not folder.is_dir():
        raise fail("foreign-folder", os.fspath(folder), "not a directory", "choose another name")
    names = os.listdir(folder)
    if not names:
        return []
    ours = {manifest.NAME}
    if manifest.NAME in names:
        ours.update(entry.file for entry in manifest_of(folder))
    foreign = sorted(set(names) - ours)
    if foreign or manifest.NAME not in names:
        raise fail(
            "foreign-folder",
            os.fspath(folder),
            "the folder has files that tosa-convert did not write and that would be lost: "
            + ", ".join(map(repr, foreign[:8]))
            + (f" and {len(foreign) - 8} more" if len(foreign) > 8 else ""),
            "choose another folder, or empty this one",
        )
    return names


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a new, empty folder for the caller to fill. It replaces `folder` at the end, or is removed.

    Where the system supports it, the two are exchanged in one step. Otherwise the old folder is moved
    away first, and moved back if the new one cannot take its place. Follows symbolic links.
    """
    target, lock = Path(os.path.realpath(folder)), -1
    try:
        exists = os.path.lexists(target)
        old_files = _own_files(target) if exists else []
        fresh, old = (Path(temporary_path(target, extension)) for extension in ("part", "old"))
        identity = None
        try:
            _, lock = create_locked(fresh, fresh.mkdir)
            identity = _identity(fresh)
            yield fresh
            sync_folder(fresh)
            _put(fresh, target, old, exists=exists)
        except BaseException:
            # An interrupt can arrive after the new folder has taken its place.
            if identity is not None and _identity(target) == identity:
                _remove((fresh, old), old_files)
            else:
                if not os.path.lexists(target) and os.path.lexists(old):
                    old.rename(target)
                shutil.rmtree(fresh, ignore_errors=True)
            raise
        try:
            sync_folder(target.parent)
            _remove((fresh, old), old_files)
        except BaseException:  # an interrupt; try the removal again
            _remove((fresh, old), old_files)
            raise
    except OSError as error:
        raise file_error(folder, error, "written") from None
    finally:
        release(lock)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a folder, which renaming does not change; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _put(fresh: Path, target: Path, old: Path, *, exists: bool) -> None:
    """Move `fresh` to `target`. A folder that was there is then at `fresh` or at `old`."""
    if not exists:
        try:
            fresh.rename(target)
            return
        except OSError:
            # Another process can have created it meanwhile.
            if not target.is_dir():
                raise
    if _exchanged(fresh, target):
        return
    target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        old.rename(target)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step. False if the system or the file system does not support it."""
    import ctypes  # slow to import, and needed only here

    names = os.fsencode(one), os.fsencode(other)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _DARWIN_SWAP) == 0)
        return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):  # Windows and old systems
        return False


def _remove(folders: tuple[Path, ...], files: list[str]) -> None:
    """Remove folders with these files in them. A file that was added since stays, with its folder."""
    for folder in folders:
        if not folder.is_dir():
            continue
        names = set(files)
        with contextlib.suppress(TosaConvertError, OSError):
            names.update(_own_files(folder))
        for name in names:
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
