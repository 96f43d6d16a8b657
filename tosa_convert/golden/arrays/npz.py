"""Users' `.npy` and `.npz` files: equal arrays give equal bytes, and a file is replaced as a whole."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import math
import operator
import os
import re
import shutil
import tokenize
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import file_errors, readable_by_numpy
from tosa_convert.graph.model import quoted
from tosa_convert.io.files import Pieces, Sink, file_error, open_regular, replace_file

#: Most bytes of the header of an `.npy` file that numpy reads from strangers.
_HEADER_BYTES: Final = 10_000
#: What damaged archives and arrays raise.
_DAMAGES: Final = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)
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


def _header(file: Any) -> tuple[Shape, np.dtype[Any]] | None:
    """Read the shape and the type that an `.npy` file declares; None for a damaged header.

    file: at its start, and then at its elements. A damaged one is left to numpy's reader.
    """
    start = file.read(10)
    if start[6:7] > b"\1":
        start += file.read(2)
    size = int.from_bytes(start[8:], "little")
    if not start.startswith(b"\x93NUMPY") or size > _HEADER_BYTES:
        return None
    try:
        # Python 2 wrote 10L for 10.
        text = re.sub(r"(\d)L\b", r"\1", file.read(size).decode("utf-8"))
        header = ast.literal_eval(text.strip())
        shape = tuple(map(operator.index, header["shape"]))
        kind = header["descr"] if header["descr"] != "<f1" else "V1"
        return None if min(shape, default=0) < 0 else (shape, np.dtype(kind))
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def _of_another_shape(file: Any, shape: Shape | None) -> Array | None:
    """Return what stands for an array of another shape than the expected; None if it has that shape.

    file: at its start; the header is read.
    """
    header = _header(file)
    if header is None or header[0] == shape:
        return None
    found, kind = header
    return np.broadcast_to(np.zeros((), kind), found)


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
        # numpy writes that type with a name that it cannot read.
        header, found, data = file.read(_HEADER_BYTES).partition(b"\n")
        if not found or b"'<f1'" not in header:
            raise ValueError(error) from None
        known = header.replace(b"'<f1'", b"'|V1'") + found + data + file.read()
        known_array: Array = lib.read_array(io.BytesIO(known), allow_pickle=False)
        return known_array


def load_npz(
    path: str | os.PathLike[str], shapes: Mapping[str, Shape] | None = None
) -> dict[str, Array]:
    """Read the arrays of an `.npz` file by name; raise TosaConvertError("file-error").

    shapes: the expected one of each array, if they are known. The data of an array that has another
        one, or that is not expected, is not unpacked; see `read_npy`.
    """
    return dict(open_npz(path, shapes))


def open_npz(path: str | os.PathLike[str], shapes: Mapping[str, Shape] | None = None) -> LazyArrays:
    """Open the arrays of an `.npz` file by name, each read on demand; see `load_npz`.

    The file stays open. Raises TosaConvertError("file-error").
    """
    archive, members = _open_archive(path)

    def read(name: str) -> Array:
        with _reading(path):
            if shapes is not None:
                with archive.open(members[name]) as member:
                    other = _of_another_shape(member, shapes.get(name))
                if other is not None:
                    return other
            with _open_member(path, archive, members[name]) as member:
                return _read_array(member)

    arrays = LazyArrays(members, read)
    weakref.finalize(arrays, archive.close)
    return arrays


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array in a file. blocks: yields its elements in arrays, each time it is called."""

    dtype: np.dtype[Any]
    shape: Shape
    blocks: Callable[[], Iterator[Array]]


def stored_arrays(
    path: str | os.PathLike[str], block: int = 1 << 20
) -> Iterator[tuple[str, StoredArray]]:
    """Iterate over the arrays of an `.npz` file in bounded memory. block: elements of a block.

    Each is of use until the next one. Raises TosaConvertError("file-error").
    """
    archive, members = _open_archive(path)

    def blocks(entry: str) -> Iterator[Array]:
        with _reading(path), _open_member(path, archive, entry) as member:
            header = _header(member)
            if header is None:
                member.seek(0)
                yield _read_array(member).reshape(-1)
                return
            shape, kind = header
            left = math.prod(shape)
            while left:
                part = member.read(min(block, left) * kind.itemsize)
                if len(part) < min(block, left) * kind.itemsize:
                    raise EOFError(f"{left} elements are missing, or part of them")
                yield np.frombuffer(part, kind)
                left -= min(block, left)

    with archive:
        for name, entry in members.items():
            with _reading(path), _open_member(path, archive, entry) as member:
                header = _header(member)
                if header is None or header[1].hasobject:
                    member.seek(0)
                    array = _read_array(member)
                    header = array.shape, array.dtype
            yield name, StoredArray(header[1], header[0], functools.partial(blocks, entry))


def _open_archive(path: str | os.PathLike[str]) -> tuple[zipfile.ZipFile, dict[str, str]]:
    """Open an `.npz` file; return it and the member of each array by name."""
    with _reading(path):
        file = open_regular(path)
        try:
            if file.read(6) == b"\x93NUMPY":
                message = "it holds one array, expected an .npz file"
                raise fail("file-error", os.fspath(path), message)
            file.seek(0)
            archive = zipfile.ZipFile(file)
        except BaseException:
            file.close()
            raise
    weakref.finalize(archive, file.close)
    if any(entry.flag_bits & 1 for entry in archive.infolist()):
        raise fail("file-error", os.fspath(path), "it is encrypted, expected an .npz file")
    return archive, {name.removesuffix(".npy"): name for name in archive.namelist()}


def _open_member(path: str | os.PathLike[str], archive: zipfile.ZipFile, entry: str) -> Any:
    """Open a member that begins as an array does, and refuse others."""
    member = archive.open(entry)
    if member.read(6) != b"\x93NUMPY":
        raise fail("file-error", os.fspath(path), f"{quoted(entry)} is not an array")
    member.seek(0)
    return member


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(path, error, "read") from None
    except (*_DAMAGES, tokenize.TokenError) as error:
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
    archive, members = _open_archive(path)
    with _reading(path), archive:
        for name, entry in members.items():
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
