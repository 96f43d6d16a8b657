"""Users' `.npy` and `.npz` files: equal arrays give equal bytes, and a file is replaced as a whole."""

from __future__ import annotations

import ast
import contextlib
import io
import operator
import os
import shutil
import tokenize
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.files import Pieces, Sink, file_error, open_regular, replace_file
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import file_errors, readable_by_numpy
from tosa_convert.graph.model import quoted

#: Most bytes of the header of an `.npy` file that numpy reads from strangers.
_HEADER_BYTES: Final = 10_000
Shape = tuple[int, ...]


def read_npy(path: str | os.PathLike[str], shape: Shape | None = None) -> Array:
    """Read the array of an `.npy` file; raise TosaConvertError("file-error").

    shape: the expected one. The data of an array of another shape is not read: its elements are zeros
        that take no memory, and its shape says what is wrong.
    """
    with _reading(path), open_regular(path) as file:
        if file.read(2) == b"PK":
            message = "it holds several arrays, expected an .npy file"
            raise fail("file-error", os.fspath(path), message)
        file.seek(0)
        if shape is not None and (other := _of_another_shape(file, shape)) is not None:
            return other
        file.seek(0)
        return _read_array(file)


def _of_another_shape(file: Any, shape: Shape | None) -> Array | None:
    """Return what stands for an array of another shape than the expected; None if it has that shape.

    file: at its start; the header is read. A damaged one is left to numpy's reader.
    """
    start = file.read(12)
    wide = start[6:7] > b"\1"
    size = int.from_bytes(start[8 : 12 if wide else 10], "little")
    if not start.startswith(b"\x93NUMPY") or size > _HEADER_BYTES:
        return None
    text = start[10:] * (not wide) + file.read(size - 2 * (not wide))
    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
        found = tuple(map(operator.index, header["shape"]))
        if found == shape or min(found, default=0) < 0:
            return None
        kind = header["descr"] if header["descr"] != "<f1" else "V1"
        return np.broadcast_to(np.zeros((), np.dtype(kind)), found)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def open_array(path: str | os.PathLike[str]) -> Array:
    """Open the array of an `.npy` file, mapped if possible; raise TosaConvertError("file-error")."""
    lib: Any = np.lib.format
    with _reading(path), open_regular(path) as file:
        is_array = file.read(6) == lib.MAGIC_PREFIX
    if is_array:
        # Empty arrays cannot be mapped, and damaged files have a better error from the reader.
        with contextlib.suppress(OSError, TypeError, ValueError, tokenize.TokenError):
            array: Array = lib.open_memmap(path, mode="r")
            return array
    return read_npy(path)


def _read_array(file: Any) -> Array:
    """Read the array of an open `.npy` file.

    FP8E5M2 of ml_dtypes is opaque bytes, as its other types are.
    """
    lib: Any = np.lib.format
    try:
        array: Array = lib.read_array(file, allow_pickle=False)
        return array
    except (TypeError, ValueError) as error:
        file.seek(0)
        content: bytes = file.read()
        # numpy writes that type with a name that it cannot read.
        header, found, data = content.partition(b"\n")
        if not found or b"'<f1'" not in header:
            raise ValueError(error) from None
        known = header.replace(b"'<f1'", b"'|V1'") + found + data
        known_array: Array = lib.read_array(io.BytesIO(known), allow_pickle=False)
        return known_array


def load_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read the arrays of an `.npz` file by name; raise TosaConvertError("file-error")."""
    return dict(open_npz(path))


def open_npz(path: str | os.PathLike[str]) -> LazyArrays:
    """Open the arrays of an `.npz` file by name, each read on demand.

    The file stays open. Raises TosaConvertError("file-error").
    """
    with _reading(path):
        # An open file, not its name: numpy does not close a file that is not an archive.
        file = open_regular(path)
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise fail(
                    "file-error", os.fspath(path), "it holds one array, expected an .npz file"
                )
        except BaseException:
            file.close()
            raise

    def read(name: str) -> Array:
        with _reading(path):
            if name not in archive.files or f"{name}.npy" not in archive.zip.namelist():
                array: Any = archive[name]
                if not isinstance(array, np.ndarray):
                    # numpy returns the bytes of a member that is not an array.
                    raise fail("file-error", os.fspath(path), f"{quoted(name)} is not an array")
                return array
            with archive.zip.open(f"{name}.npy") as member:
                return _read_array(member)

    arrays = LazyArrays(archive.files, read)
    weakref.finalize(arrays, file.close)
    return arrays


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(path, error, "read") from None
    except (ValueError, EOFError, zipfile.BadZipFile, tokenize.TokenError) as error:
        extension = Path(path).suffix or ".npy"
        raise fail(
            "file-error", os.fspath(path), f"not a valid {extension} file: {error}"
        ) from None


def unpack_npz(
    path: Path, folder: Path, shapes: Mapping[str, Shape] | None = None
) -> Mapping[str, Array]:
    """Unpack the arrays of an `.npz` file into a folder, and read them from there on demand.

    shapes: the expected one of each array, if they are known. The data of an array that has another
        one, or that is not expected, is not unpacked; see `read_npy`.

    Raises TosaConvertError("file-error").
    """
    files: dict[str, Path] = {}
    others: dict[str, Array] = {}
    with _reading(path), open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if shapes is not None:
                with archive.open(entry) as source:
                    other = _of_another_shape(source, shapes.get(name))
                if other is not None:
                    others[name] = other
                    continue
            target = folder / f"unpacked{len(files)}.npy"
            with archive.open(entry) as source, file_errors(target), open(target, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            files[name] = target
    arrays = npy_files(files)
    return LazyArrays(
        [*files, *others], lambda name: others[name] if name in others else arrays[name]
    )


def npy_files(files: Mapping[str, Path]) -> LazyArrays:
    """Arrays of `.npy` files by name, each read on demand."""

    def read(name: str) -> Array:
        return read_npy(files[name])

    return LazyArrays(files, read)


def save_npz(
    path: str | os.PathLike[str], arrays: Mapping[str, Array] | Iterable[tuple[str, Array]]
) -> None:
    """Write arrays by name; the same arrays give the same bytes, and the file is replaced as a whole.

    arrays: a mapping, or pairs of name and array, of which one is in memory at a time.
    Raises TosaConvertError("file-error").
    """
    replace_file(path, npz_pieces(arrays))


def npz_pieces(arrays: Mapping[str, Array] | Iterable[tuple[str, Array]]) -> Pieces:
    """Return the bytes of an `.npz` file; see `save_npz`."""
    pairs = arrays.items() if isinstance(arrays, Mapping) else arrays
    return lambda sink: write_npz(_Stream(sink), pairs)


class _Stream:
    """A Sink as a file for zipfile that cannot seek, and that stops at the first failed write."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        written = self._sink.write(data)
        if self._sink.error is not None:
            raise self._sink.error
        return written

    def flush(self) -> None:
        pass


def write_npz(file: Any, arrays: Iterable[tuple[str, Array]]) -> None:
    """Write arrays one after the other into an open file; the bytes do not depend on the clock."""
    write_array: Any = np.lib.format.write_array
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays:
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                write_array(member, readable_by_numpy(np.asanyarray(array)), allow_pickle=False)
