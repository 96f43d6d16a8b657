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
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import file_errors, npy_pieces
from tosa_convert.graph.model import DYNAMIC, quoted
from tosa_convert.io.files import WRITE_BYTES, file_error, open_regular, plain_reason, replace_file
from tosa_convert.records import dataclass

#: Most bytes of the header of an `.npy` file that numpy reads from strangers.
_HEADER_BYTES: Final = 10_000
#: What damaged archives and arrays raise.
_DAMAGES: Final = (
    *(ValueError, EOFError, SyntaxError, RecursionError, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)
#: Bytes of the largest element that numpy computes with: a complex number of two long doubles.
_ELEMENT_BYTES: Final = 32
#: An array in Fortran order is read as a whole if it has at most as many bytes, or at most as many times
#: those of the file.
_WHOLE_BYTES, _WHOLE_TIMES = 64 << 20, 8
#: Sizes; DYNAMIC stands for any.
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


def _header(file: Any) -> tuple[Shape, np.dtype[Any], bool] | None:
    """Read the shape, the type, and whether the order is Fortran's, that an `.npy` file declares.

    None for a damaged header, which is left to numpy's reader. file: at its start, and then at its
    elements.
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
        if min(shape, default=0) < 0:
            return None
        return shape, np.dtype(kind), bool(header["fortran_order"])
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def _of_another_shape(file: Any, shape: Shape | None) -> Array | None:
    """Return a substitute for an array of an unexpected shape; None if it has the expected one.

    file: at its start; the header is read. Raises ValueError for elements that are no numbers.
    """
    header = _header(file)
    if header is None:
        return None
    found, kind, _ = header
    if kind.itemsize > _ELEMENT_BYTES:
        raise ValueError(f"its elements have {kind.itemsize} bytes each, expected numbers")
    if shape is not None and fits(found, shape):
        return None
    return np.broadcast_to(np.zeros((), kind), found)


def fits(found: Shape, expected: Shape) -> bool:
    """Return whether a shape is the expected one, whose DYNAMIC sizes may be any."""
    return len(found) == len(expected) and all(
        size in (other, DYNAMIC) for other, size in zip(found, expected, strict=True)
    )


def open_array(path: str | os.PathLike[str]) -> Array:
    """Open the array of an `.npy` file, mapped if possible; raise TosaConvertError("file-error")."""
    lib: Any = np.lib.format
    with _reading(path), open_regular(path) as file:
        is_array = file.read(6) == lib.MAGIC_PREFIX
    if is_array:
        # Empty arrays cannot be mapped, and damaged files have a better error from the reader.
        with contextlib.suppress(OSError, TypeError, MemoryError, *_DAMAGES):
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
    except MemoryError:
        raise ValueError("its header or its elements do not fit into memory") from None
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
        one, or that is not expected, is not unpacked; see `read_npy`. A size may be DYNAMIC.
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
    """An array in a file.

    blocks: yields its elements, in the order of the file, in arrays of as many; each call begins anew.
    read: reads the whole array.
    """

    dtype: np.dtype[Any]
    shape: Shape
    blocks: Callable[[int], Iterator[Array]]
    read: Callable[[], Array]
    is_fortran: bool = False

    def rows(self) -> Iterator[Array]:
        """Yield the array at each index of its first dimension, in bounded memory.

        Raises TosaConvertError("file-error"), also for a small file of a large array in Fortran order.
        """
        size = math.prod(self.shape[1:])
        if self.is_fortran:
            yield from self.read()
        elif size:
            yield from (block.reshape(self.shape[1:]) for block in self.blocks(size))
        else:
            yield from np.broadcast_to(np.zeros((), self.dtype), self.shape)


def stored_arrays(path: str | os.PathLike[str]) -> Iterator[tuple[str, StoredArray]]:
    """Iterate over the arrays of an `.npz` file in bounded memory.

    Raises TosaConvertError("file-error").
    """
    archive, members = _open_archive(path)

    def blocks(entry: str, block: int) -> Iterator[Array]:
        with _reading(path), _open_member(path, archive, entry) as member:
            header = _header(member)
            if header is None:
                member.seek(0)
                yield _read_array(member).reshape(-1)
                return
            shape, kind, _ = header
            left = math.prod(shape)
            while left:
                part = member.read(min(block, left) * kind.itemsize)
                if len(part) < min(block, left) * kind.itemsize:
                    raise EOFError(f"{left} elements are missing, or part of them")
                yield np.frombuffer(part, kind)
                left -= min(block, left)

    def read(entry: str) -> Array:
        info = archive.getinfo(entry)
        if info.file_size > max(_WHOLE_BYTES, _WHOLE_TIMES * info.compress_size):
            message = f"{quoted(entry)} is in Fortran order; write it in C order, or uncompressed"
            raise fail("file-error", os.fspath(path), message)
        with _reading(path), _open_member(path, archive, entry) as member:
            return _read_array(member)

    for name, entry in members.items():
        with _reading(path), _open_member(path, archive, entry) as member:
            header = _header(member)
            if header is None or header[1].hasobject:
                member.seek(0)
                array = _read_array(member)
                header = array.shape, array.dtype, False
        of_entry = functools.partial(blocks, entry), functools.partial(read, entry)
        yield name, StoredArray(header[1], header[0], *of_entry, header[2])


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
    except _DAMAGES as error:
        extension = ".npz" if Path(path).suffix == ".npz" else ".npy"
        raise fail(
            "file-error", os.fspath(path), f"not a valid {extension} file: {plain_reason(error)}"
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


def npz_pieces(arrays: Mapping[str, Array] | Iterable[tuple[str, Array]]) -> Iterator[Any]:
    """Iterate over the bytes of an `.npz` file, which do not depend on the clock; see `save_npz`."""
    written = _Pieces()
    file: Any = written
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                for piece in npy_pieces(np.asanyarray(array)):
                    for start in range(0, len(piece), WRITE_BYTES):
                        member.write(piece[start : start + WRITE_BYTES])
                        yield from written.take()
    yield from written.take()


class _Pieces:
    """A file for zipfile that keeps what is written, without a copy."""

    def __init__(self) -> None:
        self._written: list[Any] = []

    def write(self, data: Any) -> int:
        self._written.append(data)
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> list[Any]:
        """Return what has been written since the last call."""
        written, self._written = self._written, []
        return written
