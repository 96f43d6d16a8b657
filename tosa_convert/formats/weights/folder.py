"""The folder of weights: files are opened only inside it, and it is replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.weights.npy import MAX_RANK
from tosa_convert.graph.derived import Part
from tosa_convert.graph.dtypes import DTYPES
from tosa_convert.graph.model import block_path, quoted
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

# -- `manifest.json`: which file of a folder, or which array of a file, holds which constant -------
# {"format": "tosa-convert weights", "version": 1, "producer": "...", "constants": [
#       {"region": "main", "block": "main", "tensor": "w", "part": "data", "file": "w.npy",
#        "dtype": "INT8", "shape": [2, 3], "padding": 2, "sha256": "..."}]}
#
# part: "data", or "scale_data" for the scales of a block-scaled tensor in row-major order.
# padding: the number of zeros that followed the data in a flatbuffer. sha256: of the bytes after
# the header of the file, which are the elements as `npy` describes them.
#
# Version 1 is the first.

NAME: Final = "manifest.json"
FORMAT: Final = "tosa-convert weights"
VERSION: Final = 1

_PARTS: Final = get_args(Part)
_DTYPES: Final = frozenset(row.name for row in DTYPES)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}\.npy")
#: Names of devices on Windows, with any extension.
_DEVICES: Final = frozenset(
    ["CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))]
)
_HINT: Final = "the manifest is damaged or was edited; write the weights again"


@dataclass(frozen=True, slots=True)
class Entry:
    """A constant and the file that holds it."""

    region: str
    block: str
    tensor: str
    part: Part
    file: str
    dtype: str
    shape: tuple[int, ...]
    padding: int
    sha256: str

    def __str__(self) -> str:
        scales = " scales" if self.part == "scale_data" else ""
        return f"{block_path(self.region, self.block)} tensor {quoted(self.tensor)}{scales}"


def is_device(name: str) -> bool:
    """Return whether a file of this name is a device on Windows."""
    return name.partition(".")[0].upper() in _DEVICES


def is_safe(name: str) -> bool:
    """Return whether the name is that of a file in the folder itself on every system."""
    return _SAFE.fullmatch(name) is not None and not is_device(name)


def dump(entries: Iterable[Entry], producer: str) -> bytes:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "producer": producer,
        "constants": [asdict(entry) for entry in entries],
    }
    return json.dumps(content, indent=1).encode("ascii") + b"\n"


def load(text: bytes, where: str, *, has_keys: bool = False) -> list[Entry]:
    """Read the entries of a manifest. No file and no part of a tensor occurs twice in them."""
    content = _parsed(text, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise fail("malformed-weights", where, f"not a {FORMAT} manifest", _HINT)
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        message = f"its version is {_shown(version)}, expected {VERSION}"
        hint = "the manifest is damaged, or a newer release of tosa-convert wrote it"
        raise fail("malformed-weights", where, message, hint)
    reader = _Reader(where, has_keys)
    reader.check_keys("", content, ("format", "version", "producer", "constants"))
    reader.has_type("producer", content.get("producer"), str)
    rows = content.get("constants")
    if reader.has_type("constants", rows, list):
        assert isinstance(rows, list)
        for index, row in enumerate(rows):
            reader.read_entry(f"constants[{index}]", row)
    reader.check_duplicates()
    reader.findings.raise_if_any()
    return reader.entries


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise ValueError if a key occurs twice."""
    members = dict(items)
    if len(members) != len(items):
        raise ValueError("duplicate key")
    return members


def _parsed(text: bytes, where: str) -> Any:
    def refuse_number(word: str) -> Any:
        raise ValueError(f"{word[:20]} is not an integer")

    try:
        return json.loads(
            text,
            object_pairs_hook=unique_keys,
            parse_constant=refuse_number,
            parse_float=refuse_number,
        )
    except (ValueError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise fail("malformed-weights", where, f"not valid JSON: {reason}", _HINT) from None


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    # Python refuses to print numbers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    return repr(value[:80] if isinstance(value, str) else value)


class _Reader:
    """Reads the entries of a manifest and collects findings."""

    def __init__(self, where: str, has_keys: bool) -> None:
        self.where = where
        self.has_keys = has_keys
        self.findings = Findings()
        self.entries: list[Entry] = []

    def add(self, path: str, message: str, code: str = "malformed-weights") -> None:
        self.findings.add(code, f"{self.where}: {path}".rstrip(": "), message, _HINT)

    def check_keys(self, path: str, members: dict[str, Any], expected: Sequence[str]) -> bool:
        before = len(self.findings)
        for key in members:
            if key not in expected:
                self.add(path, f"unknown field {_shown(key)}, expected " + ", ".join(expected))
        for key in expected:
            if key not in members:
                self.add(path, f"the field {key!r} is missing")
        return len(self.findings) == before

    def has_type(self, path: str, value: object, expected: type) -> bool:
        # In Python, True is an int.
        if type(value) is expected:
            return True
        self.add(path, f"found {_shown(value)}, expected {expected.__name__}")
        return False

    def read_entry(self, path: str, row: object) -> None:
        before = len(self.findings)
        if not self.has_type(path, row, dict):
            return
        assert isinstance(row, dict)
        if not self.check_keys(path, row, Entry.__slots__):
            return
        for key in ("region", "block", "tensor", "part", "file", "dtype", "sha256"):
            self.has_type(f"{path}.{key}", row[key], str)
        self.has_type(f"{path}.shape", row["shape"], list)
        self.has_type(f"{path}.padding", row["padding"], int)
        if len(self.findings) == before:
            self.check_values(path, row)
        if len(self.findings) == before:
            self.entries.append(Entry(**(row | {"shape": tuple(row["shape"])})))

    def check_values(self, path: str, row: dict[str, Any]) -> None:
        if row["part"] not in _PARTS:
            self.add(f"{path}.part", f"found {_shown(row['part'])}, expected " + ", ".join(_PARTS))
        if row["dtype"] not in _DTYPES:
            self.add(f"{path}.dtype", f"found {_shown(row['dtype'])}, which is not an element type")
        if not _SHA256.fullmatch(row["sha256"]):
            self.add(f"{path}.sha256", "expected 64 hexadecimal digits in lower case")
        if not 0 <= row["padding"] < 8:
            self.add(f"{path}.padding", f"found {_shown(row['padding'])}, expected 0 to 7")
        sizes = row["shape"]
        if len(sizes) > MAX_RANK or any(
            type(size) is not int or not 0 <= size < 2**31 for size in sizes
        ):
            self.add(f"{path}.shape", f"expected at most {MAX_RANK} sizes from 0 to {2**31 - 1}")
        if not self.has_keys and not is_safe(row["file"]):
            self.add(
                f"{path}.file",
                f"found {_shown(row['file'])}, expected the name of an .npy file in this folder, "
                "of ASCII letters, digits and _ . + -",
                "unsafe-path",
            )

    def check_duplicates(self) -> None:
        files: set[str] = set()
        parts: set[tuple[str, str, str, str]] = set()
        for entry in self.entries:
            # On Windows and macOS, names that differ only in case are the same file.
            file = entry.file if self.has_keys else entry.file.lower()
            part = (entry.region, entry.block, entry.tensor, entry.part)
            if file in files:
                self.add("", f"two constants are in the file {entry.file[:80]!r}")
            if part in parts:
                self.add("", f"duplicate constant: {entry}")
            files.add(file)
            parts.add(part)


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
    """Map a file of the folder, which must not be truncated; refuse a link out of it."""
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


def manifest_of(folder: Path, limits: Limits = DEFAULT_LIMITS) -> list[Entry]:
    where = os.fspath(folder / NAME)
    size = size_of(folder, NAME)
    if size > limits.manifest_bytes:
        raise fail(
            "malformed-weights",
            where,
            f"the manifest has {size} bytes, the limit is {limits.manifest_bytes}",
            "to accept it, raise the limit: --limit manifest-bytes=N, or "
            "limits={'manifest-bytes': N}",
        )
    return load(bytes(view(folder, NAME, mapped=False)), where)


def _own_files(folder: Path) -> list[str]:
    """Return the files of a folder that is to be replaced, which tosa-convert has written."""
    if not folder.is_dir():
        raise fail("foreign-folder", os.fspath(folder), "not a directory", "choose another name")
    names = os.listdir(folder)
    if not names:
        return []
    ours = {NAME}
    if NAME in names:
        ours.update(entry.file for entry in manifest_of(folder))
    foreign = sorted(set(names) - ours)
    if foreign or NAME not in names:
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
