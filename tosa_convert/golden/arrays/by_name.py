"""Arrays by name, in memory or in files."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.io.files import PathLike, Pieces, file_error, replace_file, write_pieces
from tosa_convert.process.child import new_temporary_folder, remove_temporary_folder
from tosa_convert.process.ending_signals import removed_if_ended

Array = npt.NDArray[Any]
_Value = TypeVar("_Value")


class Lazy(Mapping[str, _Value]):
    """Values by name that are read or made on every access, and not kept.

    read: returns the value of one of the names, from a file for example.
    """

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
    """Arrays by name that are read on every access and not stored."""


def differing_elements(one: Array, other: Array) -> int:
    """Count the elements that differ, bit for bit, of arrays of one type and shape.

    Example:
        >>> differing_elements(np.array([0.0, 1.0]), np.array([-0.0, 1.0]))
        1
    """
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
    """Make a temporary folder that is removed after the `with` block."""
    folder = new_scratch_folder()
    try:
        with scratch_errors(folder):
            yield folder
    finally:
        remove_temporary_folder(folder)


def subfolder(folder: Path, name: str) -> Path:
    """Make a folder in a temporary one."""
    (folder / name).mkdir()
    return folder / name


def scratch_errors(folder: PathLike) -> contextlib.AbstractContextManager[None]:
    """`file_errors` for a block that writes to a temporary folder."""
    return file_errors(folder, _HINT)


def new_scratch_folder() -> Path:
    """Make a temporary folder that the caller removes. Raise TosaConvertError("file-error")."""
    with temporary_file_errors():
        return Path(new_temporary_folder("tosa-run-"))


def temporary_file_errors() -> contextlib.AbstractContextManager[None]:
    """`file_errors` for a block that makes temporary files."""
    return file_errors(_temporary_root(), _HINT)


def _temporary_root() -> str:
    """Return the folder for temporary files, or the requested one if none can be used."""
    with contextlib.suppress(OSError):
        return tempfile.gettempdir()
    return os.environ.get("TMPDIR", "") or "TMPDIR"


def incomplete_file(path: Path, problem: object) -> TosaConvertError:
    """Make the error for a file in a temporary folder that its writer did not complete."""
    return fail("file-error", os.fspath(path), f"the file is incomplete: {problem}", _HINT)


def full_disk(folder: Path) -> TosaConvertError:
    """Make the error for a temporary folder on a disk without space."""
    return fail("file-error", os.fspath(folder), "no space left for the model's output", _HINT)


def write_scratch(path: Path, pieces: Pieces) -> None:
    """Write a file that need not survive a crash: unlike `replace_file`, it waits for no disk."""
    with open(path, "wb", buffering=0) as file:
        write_pieces(file, pieces)


def npy_pieces(array: Array) -> list[Any]:
    """Return the bytes of an `.npy` file, the same that `numpy.save` writes; the data is not copied.

    numpy itself reports a full disk without the operating system's reason, and leaves the file. It
    writes FP8E5M2 of ml_dtypes as `<f1`, which it cannot read; here it becomes opaque bytes, as the
    other types do that numpy does not have.
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
    """Write a scratch `.npy` file. Raises OSError."""
    write_scratch(path, npy_pieces(array))


class StoredArrays(Mapping[str, Array]):
    """Arrays by name, of any type, each in a file of a temporary folder and read on every access."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, tuple[Path, np.dtype[Any], tuple[int, ...]]] = {}

    def store(self, name: str, array: Array) -> None:
        """Write an array. Raises OSError."""
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
    """A folder that gets all files of a `with` block, or none of them.

    The folder is created with its parents. If the block raises, the files that it added and the
    folders that were created for it are removed. A file that existed before is replaced as a whole.
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
                missing = [p for p in (self.folder, *self.folder.parents) if not p.exists()]
                self._created = missing
                for folder in reversed(missing):
                    folder.mkdir(exist_ok=True)
                if not self.folder.is_dir():
                    self.folder.mkdir()  # raises what is wrong with the path
            except BaseException:
                self._remove()
                self._unfinished.close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Write one file."""
        path = self.folder / name
        with file_errors(path):
            if not path.exists():
                self._added.append(path)
        replace_file(path, pieces)

    def write_array(self, name: str, array: Array) -> None:
        """Write one array as an `.npy` file."""
        self.write(name, npy_pieces(array))
