"""`.npz` files by name: the same arrays give the same bytes, and a file is replaced whole."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.files import file_error, replace_file
from tosa_convert.refmodel.arrays import Array


def load_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of an `.npz` by name; raises TosaConvertError("file-error")."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise fail("file-error", os.fspath(path), "it is one array, expected an .npz")
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise file_error(path, error, "read") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise fail("file-error", os.fspath(path), f"it is no .npz: {error}") from None


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; the same arrays give the same bytes, and the file is replaced whole."""
    buffer = io.BytesIO()
    write_npz(buffer, arrays.items())
    replace_file(path, [buffer.getbuffer()])


def write_npz(file: Any, arrays: Iterable[tuple[str, Array]]) -> None:
    """Write arrays one after the other into an open file; nothing depends on the clock."""
    write_array: Any = np.lib.format.write_array
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays:
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                write_array(member, np.asanyarray(array), allow_pickle=False)
