"""`.npz` files by name: the same arrays give the same bytes, and a file is replaced whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.files import Sink, file_error, replace_file
from tosa_convert.golden.array_io import Array, Lazy


def load_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of an `.npz` by name; raises TosaConvertError("file-error")."""
    return dict(open_npz(path))


def open_npz(path: str | os.PathLike[str]) -> Lazy:
    """The arrays of an `.npz` by name, each read when it is asked for.

    The file stays open. Raises TosaConvertError("file-error").
    """
    with _reading(path):
        # An open file, not its name: numpy would not close what is no archive.
        file = open(path, "rb")  # noqa: SIM115
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise fail("file-error", os.fspath(path), "it is one array, expected an .npz")
        except BaseException:
            file.close()
            raise

    def read(name: str) -> Array:
        with _reading(path):
            array: Array = archive[name]
            return array

    found = Lazy(archive.files, read)
    weakref.finalize(found, file.close)
    return found


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(path, error, "read") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise fail("file-error", os.fspath(path), f"it is no .npz: {error}") from None


def unpack_npz(path: Path, folder: Path) -> Lazy:
    """The arrays of an `.npz` as files in a folder, unpacked without holding one in memory.

    Raises TosaConvertError("file-error").
    """
    files: dict[str, Path] = {}
    with _reading(path), zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            target = folder / f"unpacked{len(files)}.npy"
            with archive.open(entry) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            files[entry.filename.removesuffix(".npy")] = target
    return stored(files)


def stored(files: Mapping[str, Path]) -> Lazy:
    """Arrays of `.npy` files by name, each read when it is asked for."""

    def read(name: str) -> Array:
        with _reading(files[name]):
            array: Array = np.load(files[name], allow_pickle=False)
            return array

    return Lazy(files, read)


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; the same arrays give the same bytes, and the file is replaced whole."""
    replace_file(path, lambda sink: write_npz(_Stream(sink), arrays.items()))


class _Stream:
    """A Sink as zipfile wants it: a file that cannot go back."""

    def __init__(self, sink: Sink) -> None:
        self.write = sink.write

    def flush(self) -> None:
        pass


def write_npz(file: Any, arrays: Iterable[tuple[str, Array]]) -> None:
    """Write arrays one after the other into an open file; nothing depends on the clock."""
    write_array: Any = np.lib.format.write_array
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays:
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                write_array(member, np.asanyarray(array), allow_pickle=False)
