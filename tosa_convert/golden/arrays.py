"""Read and write arrays by name: those of a run, of users, and of the reference model."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import math
import operator
import os
import re
import tempfile
import tokenize
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import Finding, TosaConvertError, fail, suggest
from tosa_convert.graph.constant import pack, unpack
from tosa_convert.graph.dtypes import INT64, DType, dtype
from tosa_convert.graph.model import DYNAMIC, Block, ShapeValue, Tensor, quoted
from tosa_convert.io.files import (
    WRITE_BYTES,
    PathLike,
    Pieces,
    file_error,
    open_regular,
    plain_reason,
    replace_file,
    write_pieces,
)
from tosa_convert.process.child import new_temporary_folder, remove_temporary_folder
from tosa_convert.process.ending_signals import removed_if_ended

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
_Value = TypeVar("_Value")


class Lazy(Mapping[str, _Value]):
    """Map names to values that are read or made on every access, and not kept."""

    def __init__(self, names: Iterable[str], read: Callable[[str], _Value]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, name: str) -> _Value:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class LazyArrays(Lazy[Array]):
    """Map names to arrays that are read on every access and not stored."""


def differing_elements(one: Array, other: Array) -> int:
    """Count the elements that differ, bit for bit, of arrays of one type and shape."""
    if not one.size or not (any(one.strides) or any(other.strides)):
        # Arrays that were not read for their shape are one zero; written out they may not fit.
        return int(one.size and one.flat[0].tobytes() != other.flat[0].tobytes()) * one.size
    bits = [
        np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1) for a in (one, other)
    ]
    return int(np.count_nonzero((bits[0] != bits[1]).any(axis=1)))


# -- temporary folders and folders of results, whose write errors are expected failures ------------
# A full disk, a read-only place or a file where a folder is needed raises TosaConvertError("file-
# error") and leaves nothing of what was being written.

_HINT = "set TMPDIR to a folder on a disk with enough space"


@contextlib.contextmanager
def file_errors(path: PathLike, hint: str = "") -> Iterator[None]:
    """Raise an OSError of the `with` block as TosaConvertError("file-error") about `path`."""
    try:
        yield
    except OSError as error:
        (finding,) = file_error(path, error, "written").findings
        raise fail(finding.code, finding.where, finding.message, hint or finding.hint) from None


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = new_scratch_folder()
    try:
        with scratch_errors(folder):
            yield folder
    finally:
        remove_temporary_folder(folder)


def subfolder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def scratch_errors(folder: PathLike) -> contextlib.AbstractContextManager[None]:
    """Return `file_errors` for a block that writes to a temporary folder."""
    return file_errors(folder, _HINT)


def new_scratch_folder() -> Path:
    """Make a temporary folder that the caller removes."""
    with temporary_file_errors():
        return Path(new_temporary_folder("tosa-run-"))


def temporary_file_errors() -> contextlib.AbstractContextManager[None]:
    """Return `file_errors` for a block that makes temporary files."""
    root = os.environ.get("TMPDIR", "") or "TMPDIR"  # if no folder can be used
    with contextlib.suppress(OSError):
        root = tempfile.gettempdir()
    return file_errors(root, _HINT)


def full_disk(folder: Path) -> TosaConvertError:
    return fail("file-error", os.fspath(folder), "no space left for the model's output", _HINT)


def write_scratch(path: Path, pieces: Pieces) -> None:
    """Write a file that need not survive a crash: unlike `replace_file`, it waits for no disk."""
    with open(path, "wb", buffering=0) as file:
        write_pieces(file, pieces)


def npy_pieces(array: Array) -> list[Any]:
    """Return the bytes of an `.npy` file, the same that `numpy.save` writes; the data is not copied.

    numpy itself reports a full disk without the system's reason, and writes FP8E5M2 of ml_dtypes as
    `<f1`, which it cannot read; here it becomes opaque bytes.
    """
    contiguous = np.asarray(array, order="C")
    if contiguous.dtype.str[1:] == "f1":
        contiguous = contiguous.view("V1")
    header = io.BytesIO()
    lib: Any = np.lib.format
    lib.write_array_header_1_0(header, lib.header_data_from_array_1_0(contiguous))
    # As bytes: arrays with types of ml_dtypes have no buffer of their own.
    return [header.getvalue(), contiguous.reshape(-1).view(np.uint8).data]


def write_npy(path: Path, array: Array) -> None:
    write_scratch(path, npy_pieces(array))


class StoredArrays(Mapping[str, Array]):
    """Map names to arrays, each in a file of a temporary folder and read on every access."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, tuple[Path, np.dtype[Any], tuple[int, ...]]] = {}

    def store(self, name: str, array: Array) -> None:
        path = self._folder / f"stored{len(self._rows)}"
        write_scratch(path, [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data])
        self._rows[name] = path, array.dtype, array.shape

    def __getitem__(self, name: str) -> Array:
        path, row, shape = self._rows[name]
        return np.fromfile(path, np.uint8).view(row).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class OutputFolder:
    """Fill a folder with all files of a `with` block, or none of them.

    The folder is created with its parents. If the block raises, the files that it added and the folders
    that were created for it are removed. A file that existed before is replaced as a whole.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self._added: list[Path] = []
        self._created: list[Path] = []
        self._unfinished = contextlib.ExitStack()

    def __enter__(self) -> OutputFolder:
        self._unfinished.enter_context(removed_if_ended(self._remove))
        with file_errors(self.folder):
            try:
                self._created = [p for p in (self.folder, *self.folder.parents) if not p.exists()]
                for folder in reversed(self._created):
                    folder.mkdir(exist_ok=True)
                if not self.folder.is_dir():
                    self.folder.mkdir()  # raises what is wrong with the path
            except BaseException:
                self._remove()
                self._unfinished.close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._remove()
        self._unfinished.close()

    def _remove(self) -> None:
        for path in self._added:
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in self._created:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def write(self, name: str, pieces: Pieces) -> None:
        path = self.folder / name
        with file_errors(path):
            if not path.exists():
                self._added.append(path)
        replace_file(path, pieces)


# -- users' `.npy` and `.npz` files: equal arrays give equal bytes, and a file is replaced as a whole

#: Most bytes of the header of an `.npy` file that numpy reads from untrusted files.
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
#: Sizes of dimensions; DYNAMIC is any size.
Shape = tuple[int, ...]


def read_npy(path: PathLike, shape: Shape | None = None) -> Array:
    """Read the array of an `.npy` file; raise TosaConvertError("file-error").

    An array of another shape than `shape` is not read: it is zeros that take no memory.
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
    """Read the shape, the type, and whether the order is Fortran's, up to the elements of a file.

    None for a damaged header, which is left to numpy's reader.
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
    """Return zeros in place of an array of an unexpected shape; None if it has the expected one."""
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


def open_array(path: PathLike) -> Array:
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


def load_npz(path: PathLike, shapes: Mapping[str, Shape] | None = None) -> dict[str, Array]:
    """Read the arrays of an `.npz` file by name; raise TosaConvertError("file-error").

    shapes: the expected one of each array, if they are known. The data of an array that has another one,
        or that is not expected, is not unpacked; see `read_npy`. A size may be DYNAMIC.
    """
    return dict(open_npz(path, shapes))


def open_npz(path: PathLike, shapes: Mapping[str, Shape] | None = None) -> LazyArrays:
    """Open the arrays of an `.npz` file by name, each read on demand; see `load_npz`."""
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
    """Read an array of a file, in blocks of so many elements or as a whole."""

    dtype: np.dtype[Any]
    shape: Shape
    blocks: Callable[[int], Iterator[Array]]
    read: Callable[[], Array]
    is_fortran: bool = False

    def rows(self) -> Iterator[Array]:
        size = math.prod(self.shape[1:])
        if self.is_fortran:
            yield from self.read()
        elif size:
            yield from (block.reshape(self.shape[1:]) for block in self.blocks(size))
        else:
            yield from np.broadcast_to(np.zeros((), self.dtype), self.shape)


def stored_arrays(path: PathLike) -> Iterator[tuple[str, StoredArray]]:
    """Iterate over the arrays of an `.npz` file, each in bounded memory."""
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


def _open_archive(path: PathLike) -> tuple[zipfile.ZipFile, dict[str, str]]:
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


def _open_member(path: PathLike, archive: zipfile.ZipFile, entry: str) -> Any:
    """Open a member that begins as an array does, and refuse others."""
    member = archive.open(entry)
    if member.read(6) != b"\x93NUMPY":
        raise fail("file-error", os.fspath(path), f"{quoted(entry)} is not an array")
    member.seek(0)
    return member


@contextlib.contextmanager
def _reading(path: PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(path, error, "read") from None
    except _DAMAGES as error:
        extension = ".npz" if Path(path).suffix == ".npz" else ".npy"
        raise fail(
            "file-error", os.fspath(path), f"not a valid {extension} file: {plain_reason(error)}"
        ) from None


def unpack_npz(path: Path, folder: Path, shapes: Mapping[str, Shape] | None = None) -> Arrays:
    """Unpack the arrays of an `.npz` file into a folder, and read them from there; see `load_npz`."""
    stored, others = StoredArrays(folder), dict[str, Array]()
    opened = open_npz(path, shapes)
    for name, array in opened.items():
        if any(array.strides) or not array.size:
            stored.store(name, array)
        else:  # of another shape: it takes no memory, and may not fit written out
            others[name] = array
    return LazyArrays(opened, lambda name: others[name] if name in others else stored[name])


def npy_files(files: Mapping[str, Path]) -> LazyArrays:
    """Return the arrays of `.npy` files by name, each read on demand."""
    return LazyArrays(files, lambda name: read_npy(files[name]))


def save_npz(path: PathLike, arrays: Arrays | Iterable[tuple[str, Array]]) -> None:
    """Write arrays by name; the same arrays give the same bytes, and the file is replaced as a whole.

    arrays: a mapping, or pairs of name and array, of which one is in memory at a time.
    """
    replace_file(path, npz_pieces(arrays))


def npz_pieces(arrays: Arrays | Iterable[tuple[str, Array]]) -> Iterator[Any]:
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
    """Keep what zipfile writes, without a copy."""

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


# -- arrays that users pass in, and the `.npy` dialect of the reference model ----------------------
# The model reads and writes each element type in one numpy type only: BF16 as two opaque bytes,
# FP8E4M3 and FP8UE8M0 as one, FP8E5M2 and MXINT8 as uint8, FP4 and FP6 packed into uint8 along
# the last dimension, INT4 as int8, INT48 as int64. In precise mode every floating-point tensor is
# a float64.

#: Appended to the name of a block-scaled tensor: the name of its scales.
SCALE_SUFFIX: Final = "/scale"
#: What the name of a file with scales adds to that of the values.
SCALE_FILE: Final = "_scale"
INT48: Final = dtype("INT48")
_UINT8_IN_FILE: Final = frozenset(("FP8E5M2", "MXINT8"))


@dataclass(frozen=True, slots=True)
class Slot:
    """Hold the key, element type and shape of one array that a graph takes or gives.

    tensor: the tensor's name; the key adds SCALE_SUFFIX for the scales of a block-scaled tensor.
    """

    key: str
    tensor: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.element_bytes

    def __str__(self) -> str:
        return f'"{self.key}" {self.dtype}{list(self.shape)}'


def slots(block: Block, name: str, where: str = "") -> list[Slot]:
    """List the arrays of a tensor or shape: one, or values and scales."""
    value: Tensor | ShapeValue | None = block.tensors.get(name) or block.shapes.get(name)
    if value is None:
        raise fail("undefined-name", where, f'the block has no tensor or shape "{name}"')
    if isinstance(value, ShapeValue):
        return [Slot(name, name, INT64, (value.rank,))]
    if value.shape is None or min(value.shape, default=0) < 0:
        shape = "unranked" if value.shape is None else str(list(value.shape))
        raise fail(
            "unsupported-shape",
            where or f'tensor "{name}"',
            f"its shape is {shape}; only static shapes can be run",
        )
    values = Slot(name, name, value.dtype, value.shape)
    if value.scale is None:
        return [values]
    blocks = (*value.shape[:-1], value.shape[-1] // int(value.scale.shape))
    return [values, Slot(name + SCALE_SUFFIX, name, value.scale.dtype, blocks)]


def coerce(slot: Slot, array: Any) -> Array:
    """Convert an array to the slot's own numpy type and shape. Nothing is broadcast.

    Opaque bytes, as numpy reads types of ml_dtypes from a file, and raw uint8 codes are reinterpreted; a
    list of numbers is converted if no value changes.
    """
    if isinstance(array, (np.ndarray, np.generic)):
        result = np.asarray(array)
    else:
        result = _converted(slot, array)
    if result.shape != slot.shape:
        raise _mismatch(slot, f"found shape {list(result.shape)}", str(list(slot.shape)))
    result = _reinterpreted(slot, result)
    if slot.dtype is INT48 and result.size:
        _refuse_values_outside(slot, result, -(2**47), 2**47 - 1, "48 bits")
    return np.ascontiguousarray(result).reshape(slot.shape)


def _converted(slot: Slot, numbers: Any) -> Array:
    target = slot.dtype.numpy
    try:
        given = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        raise _mismatch(slot, f"found {numbers!r}, which is not an array") from None
    if given.dtype.kind not in "OUS":
        converted: Array = given.astype(target)
        is_float = given.dtype.kind == "f"
        if is_float and target.kind in "fV":
            return converted  # rounding is allowed
        if np.array_equal(converted.astype(given.dtype), given, equal_nan=is_float):
            return converted
    raise _mismatch(slot, f"found {numbers!r}, which {slot.dtype} cannot hold")


def _reinterpreted(slot: Slot, array: Array) -> Array:
    """View an array in the slot's type, if its own type holds the same elements in another notation."""
    target = slot.dtype.numpy
    if array.dtype == target:
        return array
    same_width = array.dtype.itemsize == target.itemsize
    # Types of ml_dtypes have the kind "V" as well, and other values for the same bits.
    is_opaque = array.dtype.type is np.void and same_width
    are_codes = array.dtype == np.uint8 and same_width and target.kind not in "biu"
    if is_opaque or are_codes:
        return np.ascontiguousarray(array).view(target).reshape(array.shape)
    if slot.dtype.is_in_bytes and array.dtype == np.int8:
        if array.size:
            low, high = slot.dtype.limits
            _refuse_values_outside(slot, array, low, high, f"{low} to {high}")
        return array.astype(target)
    raise _mismatch(slot, f"found {array.dtype}", str(target))


def _refuse_values_outside(slot: Slot, array: Array, low: int, high: int, expected: str) -> None:
    if array.min() < low or array.max() > high:
        raise _mismatch(slot, f"found values {array.min()}..{array.max()}", expected)


def _mismatch(slot: Slot, found: str, expected: str = "") -> TosaConvertError:
    wanted = f", expected {expected}" if expected else ""
    return fail("input-mismatch", f'input "{slot.key}"', f"{found}{wanted}; it is {slot}")


def narrowed(array: Array, target: np.dtype[Any], *, rounds: bool = True) -> Array:
    """Return a framework's array in a program's type, if its values fit; else as it is.

    Unsigned integers keep their bits. rounds: FP64 becomes what the program has.
    """
    kinds = array.dtype.kind, target.kind
    if kinds == ("u", "i") and array.itemsize == target.itemsize:
        return np.ascontiguousarray(array).view(target).reshape(array.shape)
    if kinds in (("i", "i"), ("u", "i")) and array.dtype != target:
        converted = array.astype(target)
        return converted if np.array_equal(converted, array) else array
    is_rounded = rounds and array.dtype == np.float64 and kinds[1] == "f"
    return array.astype(target) if is_rounded else array


def missing_input(slot: Slot) -> Finding:
    return Finding("input-mismatch", f'input "{slot.key}"', f"it is missing; it is {slot}")


def match(
    wanted: list[Slot], given: Mapping[str, Any], *, strict: bool = True, complete: bool = True
) -> dict[str, Array]:
    """Return every slot's array; `strict` refuses those without a slot, `complete` missing ones."""
    findings: list[Finding] = []
    arrays: dict[str, Array] = {}
    for slot in wanted:
        if slot.key not in given:
            findings += [missing_input(slot)] * complete
            continue
        try:
            arrays[slot.key] = coerce(slot, given[slot.key])
        except TosaConvertError as error:
            findings += error.findings
    keys = {slot.key for slot in wanted}
    for key in given if strict else ():
        if key not in keys:
            hint = suggest(quoted(key), map(quoted, keys))
            names = ", ".join(f'"{name}"' for name in sorted(keys)) or "none"
            message = f"there is no such input; the inputs are: {names}"
            findings.append(Finding("input-mismatch", f'input "{key}"', message, hint))
    if findings:
        raise TosaConvertError(findings)
    return arrays


def save_npy(path: Path, slot: Slot, array: Array) -> None:
    """Write an array of the slot's type and shape as the reference model expects it."""
    row = slot.dtype
    if row.is_packed and not row.is_in_bytes:
        codes = np.ascontiguousarray(array).view(np.uint8)
        last = slot.shape[-1] if slot.shape else 1
        packed = pack(codes.reshape(-1), row.bits)
        rows = codes.size // last if last else 0
        if rows and len(packed) == rows * row.wire_bytes(last):
            packed = packed.reshape(*slot.shape[:-1], row.wire_bytes(last))
        write_npy(path, packed)
    elif row.is_in_bytes:
        write_npy(path, array.astype(np.int8))
    elif row.name in _UINT8_IN_FILE:
        write_npy(path, np.ascontiguousarray(array).view(np.uint8).reshape(slot.shape))
    else:
        write_npy(path, array)


def slot_file(stem: str, slot: Slot) -> str:
    """Return the name of a slot's file, for the stem of its tensor's file."""
    return f"{stem}.npy" if slot.key == slot.tensor else f"{stem}{SCALE_FILE}.npy"


def load_npy(path: Path, slot: Slot) -> Array:
    """Read what the reference model wrote for a slot; float64 stays as it is (precise mode)."""
    try:
        raw: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        message = f"the file is incomplete: {error}"
        raise fail("file-error", os.fspath(path), message, _HINT) from None
    row = slot.dtype
    if raw.dtype == np.float64:
        return raw.reshape(slot.shape)
    if row.is_packed and not row.is_in_bytes:
        return _of_packed(slot, raw)
    if row.is_in_bytes:
        raw = raw.astype(row.numpy)
    elif raw.dtype != row.numpy:
        raw = np.ascontiguousarray(raw).view(row.numpy)
    return raw.reshape(slot.shape)


def unpacked(slot: Slot, array: Array) -> Array:
    """Unpack an array as the reference model packs elements below 8 bits; return others unchanged."""
    row = slot.dtype
    if not row.is_packed or row.is_in_bytes or array.dtype != np.uint8 or not slot.shape:
        return array
    if array.shape != (*slot.shape[:-1], row.wire_bytes(slot.shape[-1])):
        return array
    return _of_packed(slot, array)


def _of_packed(slot: Slot, array: Array) -> Array:
    codes = unpack(array.reshape(-1), slot.dtype.bits, math.prod(slot.shape))
    return codes.view(slot.dtype.numpy).reshape(slot.shape)
