"""The work of `data`: read arrays one after the other, and print their statistics."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from tosa_convert.cli import show_json
from tosa_convert.cli.command import say
from tosa_convert.cli.text_columns import (
    STATISTICS_HEADER,
    STATISTICS_NUMBERS,
    aligned,
    fitted,
    one_line,
    statistics_cells,
)
from tosa_convert.errors import TosaConvertError, fail, printable
from tosa_convert.files import write_standard_output
from tosa_convert.golden.arrays.npz import open_array, open_npz
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.inspection.statistics import Statistics, statistics_of
from tosa_convert.reading import types_of_weights
from tosa_convert.spec.values import shape_text

Array = npt.NDArray[Any]

#: Elements of an array that are read at a time.
_BLOCK: Final = 1 << 20
_EXTENSIONS: Final = (".npy", ".npz")
#: The only type of two opaque bytes.
_OPAQUE: Final = {2: "BF16"}


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """An array. statistics: None if its elements are not numbers, or it is not known which."""

    file: str
    name: str
    type: str
    shape: tuple[int, ...]
    statistics: Statistics | None


def show_arrays(paths: Sequence[str], element_type: str | None, *, as_json: bool) -> int:
    """Show the arrays of files and folders; one that cannot be read does not stop the others.

    Returns the exit code: the highest of all files.
    """
    wanted = None if element_type is None else dtype(element_type)
    rows: list[ArrayRow] = []
    code = 0
    for path in paths:
        try:
            files = _files(path)
        except TosaConvertError as error:
            code = max(code, _report(error))
            continue
        for file, types in files:
            try:
                rows += _rows(file, wanted or types)
            except TosaConvertError as error:
                code = max(code, _report(error))
    if as_json:
        write_standard_output([_as_json(rows).encode()])
    elif rows:
        write_standard_output(f"{printable(line)}\n".encode() for line in fitted(_lines(rows)))
    return code


def _report(error: TosaConvertError) -> int:
    say(str(error), err=True)
    return error.exit_code


def _files(path: str) -> list[tuple[str, DType | None]]:
    """The files of a path, each with the element type that a manifest gives it."""
    if not os.path.isdir(path):
        return [(path, None)]
    types = types_of_weights(path)
    found = sorted(file for file in Path(path).iterdir() if file.suffix in _EXTENSIONS)
    if not found:
        raise fail("file-error", path, "the folder has no .npy or .npz files")
    return [(str(file), types.get(file.name)) for file in found]


def _rows(file: str, row: DType | None) -> Iterator[ArrayRow]:
    try:
        if os.path.splitext(file)[1].lower() == ".npz":
            arrays = open_npz(file)
            for name in arrays:
                yield _row(file, name, arrays[name], row)
        else:
            yield _row(file, "", open_array(file), row)
    except MemoryError:
        raise fail("file-error", file, "an array does not fit into memory") from None


def _row(file: str, name: str, array: Array, row: DType | None) -> ArrayRow:
    found = _numbers(array, row)
    if found is None:
        return ArrayRow(file, name, str(array.dtype), array.shape, None)
    type_name, numbers = found
    flat = numbers.reshape(-1, order="F" if numbers.flags.f_contiguous else "C")
    blocks = functools.partial(_blocks, flat)
    return ArrayRow(file, name, type_name, array.shape, statistics_of(blocks))


def _blocks(flat: Array) -> Iterator[Array]:
    return (flat[start : start + _BLOCK] for start in range(0, len(flat), _BLOCK))


def _numbers(array: Array, row: DType | None) -> tuple[str, Array] | None:
    """The name of the element type, and the array in a type that numpy computes with."""
    width = array.dtype.itemsize
    if array.dtype.kind == "V" and array.dtype.names is None:
        if row is None and width in _OPAQUE:
            row = dtype(_OPAQUE[width])
        if row is None or row.numpy.itemsize != width:
            return None
        return row.name, array.view(row.numpy)
    if row is not None and row.numpy != array.dtype:
        if array.dtype.kind == "u" and row.numpy.itemsize == width:
            return row.name, array.view(row.numpy)
        if row.name == "INT4" and array.dtype.kind == "i":
            return row.name, array
    if array.dtype.kind in "biuf":
        return str(array.dtype) if row is None else row.name, array
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
        numbers = {} if row.statistics is None else show_json.statistics_row(row.statistics)
        files.setdefault(row.file, []).append(
            {"name": row.name, "type": row.type, "shape": list(row.shape), **numbers}
        )
    return show_json.document([{"file": file, "arrays": found} for file, found in files.items()])
