"""The work of `data`: read arrays one after the other, and print their statistics."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tosa_convert.cli import show_text
from tosa_convert.cli.messages import STDIN, copy_standard_input, named_by_user, say
from tosa_convert.cli.text_columns import (
    STATISTICS_HEADER,
    STATISTICS_NUMBERS,
    aligned,
    fitted,
    one_line,
    statistics_cells,
)
from tosa_convert.errors import TosaConvertError, fail, printable
from tosa_convert.formats.read import types_of_weights
from tosa_convert.golden.arrays import StoredArray, open_array, stored_arrays
from tosa_convert.graph.dtypes import FLOATS, DType, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.io.files import STANDARD, open_regular, write_standard_output
from tosa_convert.io.formats import FORMATS, sniff
from tosa_convert.rules.operator_view import shape_text
from tosa_convert.views.inspection.value_statistics import Statistics, statistics_of

if TYPE_CHECKING:
    import numpy.typing as npt


Array: TypeAlias = "npt.NDArray[Any]"

#: Elements of an array that are read at a time.
_BLOCK: Final = 1 << 20
_EXTENSIONS: Final = (".npy", ".npz")
#: Bytes by which the kind of a file is told.
_FIRST_BYTES: Final = 1 << 12
#: Bytes -> the only type of so many opaque bytes, if there is one.
_OPAQUE: Final = {2: next(row for row in FLOATS if not row.is_native)}


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """An array. statistics: None if its elements are not numbers, or it is not known which."""

    file: str
    name: str
    type: str
    shape: tuple[int, ...]
    statistics: Statistics | None


def show_arrays(paths: Sequence[str], element_type: str | None, *, as_json: bool) -> int:
    """Show the arrays of files and folders, unreadable ones as errors; return the highest exit code."""
    wanted = None if element_type is None else dtype(element_type)
    rows: list[ArrayRow] = []
    code = 0
    for path in paths:
        try:
            files = _files(copy_standard_input(path))
        except TosaConvertError as error:
            code = max(code, _report(error))
            continue
        for file, types in files:
            name = STDIN if path == STANDARD else file
            try:
                rows += (replace(row, file=name) for row in _rows(file, wanted or types))
            except TosaConvertError as error:
                code = max(code, _report(error))
    if as_json:
        write_standard_output([_as_json(rows).encode()])
    elif rows:
        write_standard_output(f"{printable(line)}\n".encode() for line in fitted(_lines(rows)))
    return code


def _report(error: TosaConvertError) -> int:
    say(str(named_by_user(error)), err=True)
    return error.exit_code


def _files(path: str) -> list[tuple[str, DType | None]]:
    """Return the files of a path, each with the element type that a manifest gives it."""
    if not os.path.isdir(path):
        return [(path, None)]
    types = types_of_weights(path)
    found = sorted(file for file in Path(path).iterdir() if file.suffix in _EXTENSIONS)
    if not found:
        raise fail("file-error", path, "the folder has no .npy or .npz files")
    return [(str(file), types.get(file.name)) for file in found]


def _rows(file: str, row: DType | None) -> Iterator[ArrayRow]:
    _refuse_others(file)
    try:
        if os.path.splitext(file)[1].lower() == ".npz":
            for name, stored in stored_arrays(file):
                yield _row(file, name, stored, row)
        else:
            array = open_array(file)
            flat = array.reshape(-1, order="F" if array.flags.f_contiguous else "C")
            blocks = functools.partial(_blocks, flat)
            yield _row(file, "", StoredArray(array.dtype, array.shape, blocks, lambda: array), row)
    except MemoryError:
        raise fail("file-error", file, "an array does not fit into memory") from None


def _refuse_others(file: str) -> None:
    """Refuse a file that is another kind than its name, or no name at all, says."""
    with open_regular(file) as opened:
        begin = opened.read(_FIRST_BYTES)
    if begin.startswith((b"\x93NUMPY", b"PK")) or Path(file).suffix in _EXTENSIONS:
        return
    hint = ""
    try:
        kind = FORMATS[sniff(memoryview(begin), file)]
        hint = f"`tosa-flatbuffer show --constants {file}` shows the values of a program"
    except TosaConvertError:
        kind = f"a file that begins with {begin[:8]!r}"
    raise fail("file-error", file, f"found {kind}, expected .npy, .npz or a folder of them", hint)


def _row(file: str, name: str, array: StoredArray, row: DType | None) -> ArrayRow:
    found = _numbers(array.dtype, row)
    if found is None:
        return ArrayRow(file, name, str(array.dtype), array.shape, None)
    type_name, kind = found
    numbers = statistics_of(lambda: (block.view(kind) for block in array.blocks(_BLOCK)))
    return ArrayRow(file, name, type_name, array.shape, numbers)


def _blocks(flat: Array, block: int) -> Iterator[Array]:
    return (flat[start : start + block] for start in range(0, len(flat), block))


def _numbers(found: np.dtype[Any], row: DType | None) -> tuple[str, np.dtype[Any]] | None:
    """Return the name of the element type, and the type in which numpy computes with the elements."""
    width = found.itemsize
    if found.kind == "V" and found.names is None:
        if row is None and width in _OPAQUE:
            row = _OPAQUE[width]
        if row is None or row.numpy.itemsize != width:
            return None
        return row.name, row.numpy
    if row is not None and row.numpy != found:
        if found.kind == "u" and row.numpy.itemsize == width:
            return row.name, row.numpy
        if row.is_in_bytes and found.kind == "i":
            return row.name, found
    if found.kind in "biuf":
        return str(found) if row is None else row.name, found
    return None


def _lines(rows: Sequence[ArrayRow]) -> Iterator[str]:
    several = len({row.file for row in rows}) > 1
    cells: list[tuple[str, ...]] = [("array", "type", "shape", *STATISTICS_HEADER)]
    for row in rows:
        parts = [Path(row.file).name] if several or not row.name else []
        name = "/".join((*parts, *([row.name] if row.name else [])))
        numbers = () if row.statistics is None else statistics_cells(row.statistics)
        cells.append((one_line(name), row.type, shape_text(row.shape), *numbers))
    yield from aligned(cells, right=[3 + index for index in STATISTICS_NUMBERS])


def _as_json(rows: Sequence[ArrayRow]) -> str:
    files: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        numbers = {} if row.statistics is None else show_text.statistics_row(row.statistics)
        files.setdefault(row.file, []).append(
            {"name": row.name, "type": row.type, "shape": list(row.shape), **numbers}
        )
    return show_text.document([{"file": file, "arrays": found} for file, found in files.items()])
