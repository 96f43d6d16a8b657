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

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import file_error, sync_folder
from tosa_convert.options import DEFAULT_LIMITS, Limits
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

#: Characters of a folder's name that the folder beside it repeats; each may take 4 bytes of 255.
_NAME_CHARACTERS: Final = 32
#: For renameat2: names are relative to the working directory, and are exchanged. For renamex_np.
_HERE, _EXCHANGE, _DARWIN_SWAP = -100, 2, 2


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


def manifest_of(folder: Path, limits: Limits = DEFAULT_LIMITS) -> list[manifest.Entry]:
    """The entries of the folder's manifest."""
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

    Where the system can, the two are exchanged in one step; else the old one is moved away first, and
    moved back if the new one cannot follow. Follows symbolic links. Raises
    TosaConvertError("foreign-folder") before anything is done, and "file-error" for what the system
    refuses.
    """
    target = Path(os.path.realpath(folder))
    try:
        there = os.path.lexists(target)
        old_files = _own_files(target) if there else []
        stem = f".{target.name[:_NAME_CHARACTERS]}.{secrets.token_hex(6)}"
        fresh, old = target.with_name(f"{stem}.part"), target.with_name(f"{stem}.old")
        made = None
        try:
            fresh.mkdir()
            made = _identity(fresh)
            yield fresh
            sync_folder(fresh)
            _put(fresh, target, old, there=there)
        except BaseException:
            # An interrupt may come when the new folder is in place already.
            if made is not None and _identity(target) == made:
                _remove((fresh, old), old_files)
            else:
                if not os.path.lexists(target) and os.path.lexists(old):
                    old.rename(target)
                shutil.rmtree(fresh, ignore_errors=True)
            raise
        try:
            sync_folder(target.parent)
            _remove((fresh, old), old_files)
        except BaseException:  # an interrupt, which comes once
            _remove((fresh, old), old_files)
            raise
    except OSError as error:
        raise file_error(folder, error, "written") from None


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a folder from all others, whatever it is called."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _put(fresh: Path, target: Path, old: Path, *, there: bool) -> None:
    """Put `fresh` in place of `target`; what was there is then called `fresh` or `old`."""
    if not there:
        try:
            fresh.rename(target)
            return
        except OSError:
            # Somebody else may have written it meanwhile.
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
    """Exchange two names in one step; False where the system or the file system cannot."""
    import ctypes  # only where a folder is replaced

    names = os.fsencode(one), os.fsencode(other)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _DARWIN_SWAP) == 0)
        return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):  # Windows, and systems of long ago
        return False


def _remove(folders: tuple[Path, ...], files: list[str]) -> None:
    """Remove what was seen to be ours; what has come since then stays, and so does its folder."""
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
