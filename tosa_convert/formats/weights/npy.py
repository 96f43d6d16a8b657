"""One constant as an `.npy` file, little-endian; the header is ours, and read by a pattern."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.constant import BLOCK, Constant, pack
from tosa_convert.graph.dtypes import DTYPES, DType, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.verify_values import INT4_HINT, INT4_MINUS_8

if TYPE_CHECKING:
    import numpy.typing as npt

_BOOL: Final = dtype("BOOL")
_INT48: Final = dtype("INT48")


def _descr(row: DType) -> str:
    kind = row.kind[0] if row.is_native or row.kind == "integer" else "u"
    width = 8 if row is _INT48 else row.element_bytes
    return f"{'<' if width > 1 else '|'}{kind}{width}"


#: DType -> the type string of its elements in a file.
DESCR: Final = {row: _descr(row) for row in DTYPES}

#: Most dimensions of an array in all versions of numpy.
MAX_RANK: Final = 32

_MAGIC: Final = b"\x93NUMPY"
_ALIGN: Final = 64
#: Most bytes of a header; the one that numpy writes for a rank of 32 has about 600.
_MAX_HEADER: Final = 1 << 14
_LENGTHS: Final = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
_ITEM: Final = re.compile(
    r"\s*'(\w{1,20})'\s*:\s*('[^'\\]{1,20}'|True|False|\([0-9,\s]*\))\s*(,|(?=\}))"
)
_SIZES: Final = re.compile(r"\s*(?:(?:0|[1-9][0-9]{0,18})\s*(?:,\s*|$))*")
_KEYS: Final = {"descr", "fortran_order", "shape"}


def header(row: DType, shape: tuple[int, ...]) -> bytes:
    """Return the bytes that precede the elements of an array of this type and shape."""
    sizes = "".join(f"{size}, " for size in shape)
    sizes = sizes[:-1] if len(shape) == 1 else sizes[:-2]
    text = f"{{'descr': '{DESCR[row]}', 'fortran_order': False, 'shape': ({sizes}), }}"
    length = _LENGTHS[1, 0]
    start = len(_MAGIC) + 2 + length.size
    text += " " * (-(start + len(text) + 1) % _ALIGN) + "\n"
    return _MAGIC + b"\x01\x00" + length.pack(len(text)) + text.encode("ascii")


def stored_bytes(row: DType, count: int) -> int:
    """Return the bytes of so many elements of a type in a file, without the header."""
    return count * np.dtype(DESCR[row]).itemsize


def blocks(constant: Constant) -> Iterator[memoryview]:
    """Iterate over the elements as a file has them, BLOCK at a time; a BOOL other than 0 becomes 1."""
    row = constant.dtype
    arrays: Iterator[npt.NDArray[Any]]
    if row is _BOOL or row.is_in_bytes or row is _INT48:
        arrays = (values.astype(DESCR[row], copy=False) for values in constant.blocks())
    elif row.is_packed:
        arrays = (raw & ((1 << row.bits) - 1) for raw in constant.raw_blocks())
    else:
        arrays = constant.raw_blocks()
    return (np.ascontiguousarray(array).view(np.uint8).data for array in arrays)


def array(file: memoryview, where: str, row: DType, shape: tuple[int, ...]) -> memoryview:
    """Read the elements of an `.npy` file, which must hold an array of this type and shape."""
    found = _read_header(file, where)
    if found.fortran_order:
        message = "the array is in Fortran order, expected C order"
        hint = "save it with numpy.save(path, numpy.ascontiguousarray(array))"
        raise fail("malformed-weights", where, message, hint)
    if found.descr != DESCR[row]:
        raise fail(
            "mismatched-weights",
            where,
            f"its type is {found.descr!r}, {row} is stored as {DESCR[row]!r}",
            "arrays must be little-endian; bf16 and floats below 16 bits are stored as their bits",
        )
    if found.shape != shape:
        raise fail(
            "mismatched-weights", where, f"its shape is {list(found.shape)}, expected {list(shape)}"
        )
    needed = np.dtype(found.descr).itemsize * math.prod(shape)
    present = len(file) - found.end
    if present != needed:
        message = f"{present} bytes after the header, {row} of shape {list(shape)} needs {needed}"
        hint = "the file was truncated or extended: write it again"
        raise fail("malformed-weights", where, message, hint)
    return file[found.end :]


class _Header(NamedTuple):
    """The fields of a header, and where the elements start."""

    descr: str
    fortran_order: bool
    shape: tuple[int, ...]
    end: int


def _read_header(file: memoryview, where: str) -> _Header:
    text, end = _header_text(file, where)
    items = _items(text)
    if items is not None and items.keys() == _KEYS:
        descr, fortran_order, sizes = items["descr"], items["fortran_order"], items["shape"]
        shape = _sizes(sizes[1:-1]) if sizes[0] == "(" else None
        if descr[0] == "'" and fortran_order[0] in "TF" and shape is not None:
            return _Header(descr[1:-1], fortran_order == "True", shape, end)
    raise _damaged(where, f"its header is not that of an array: {text[:80]!r}")


def _header_text(file: memoryview, where: str) -> tuple[str, int]:
    start = len(_MAGIC) + 2
    if bytes(file[: len(_MAGIC)]) != _MAGIC or len(file) < start:
        raise _damaged(where, f"it starts with {bytes(file[:8])!r}, which is not an .npy file")
    version = (file[start - 2], file[start - 1])
    length = _LENGTHS.get(version)
    if length is None:
        raise _damaged(where, f"its format is {version[0]}.{version[1]}, expected 1.0 or 2.0")
    if len(file) < start + length.size:
        raise _damaged(where, f"it ends after {len(file)} bytes, within its header")
    (size,) = length.unpack_from(file, start)
    start += length.size
    if size > _MAX_HEADER or size > len(file) - start:
        raise _damaged(
            where,
            f"its header has {size} bytes, expected at most {min(_MAX_HEADER, len(file) - start)}",
        )
    try:
        return bytes(file[start : start + size]).decode("ascii"), start + size
    except UnicodeDecodeError:
        raise _damaged(where, "its header is not ASCII") from None


def _damaged(where: str, message: str) -> TosaConvertError:
    return fail("malformed-weights", where, message, "write the file again with numpy.save")


def _items(text: str) -> dict[str, str] | None:
    """Parse a dict literal of strings, booleans and tuples of sizes; return None if it is not one."""
    text = text.strip()
    if text[:1] != "{" or text[-1:] != "}":
        return None
    items: dict[str, str] = {}
    position = 1
    while match := _ITEM.match(text, position):
        if match[1] in items:
            return None
        items[match[1]] = match[2]
        position = match.end()
    return items if text[position:].strip() == "}" else None


def _sizes(text: str) -> tuple[int, ...] | None:
    if _SIZES.fullmatch(text) is None:
        return None
    sizes = tuple(map(int, re.findall("[0-9]+", text)))
    return sizes if len(sizes) <= MAX_RANK else None


def constant(
    data: memoryview, where: str, row: DType, count: int, padding: int, *, checked: bool = True
) -> Constant:
    """Make a constant of elements; if not `checked`, unpacked and only to be looked at."""
    if row is _INT48 or (row.is_in_bytes and checked):
        packed = bytearray()
        for values in _values(data, row):
            _check(values, where, row)
            packed += _packed(values, row).data
        return Constant(row, count, memoryview(packed).toreadonly(), padding=padding)
    if checked and (row is _BOOL or row.is_packed):
        for values in _values(data, row):
            _check(values, where, row)
    return Constant(row, count, data, unpacked=row.is_packed, padding=padding)


def _values(data: memoryview, row: DType) -> Iterator[npt.NDArray[Any]]:
    # Read as numbers: as numpy's bool, 2 would be True.
    values = np.frombuffer(data, "|u1" if row is _BOOL else DESCR[row])
    for start in range(0, len(values), BLOCK):
        yield values[start : start + BLOCK]


def _packed(values: npt.NDArray[Any], row: DType) -> npt.NDArray[np.uint8]:
    if row.is_in_bytes:
        return pack(values.view(np.uint8), row.bits)
    wide = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, : row.element_bytes]).reshape(-1)


def _limits(row: DType) -> tuple[int, int]:
    """Return the lowest and highest value that an element can have in a file."""
    return row.limits if row.kind in ("bool", "integer") else (0, 2**row.bits - 1)


def _check(values: npt.NDArray[Any], where: str, row: DType) -> None:
    low, high = _limits(row)
    for value in (int(values.min()), int(values.max())):
        if low <= value <= high:
            continue
        if row.is_in_bytes and value == low - 1:
            raise fail("int4-minus-8", where, INT4_MINUS_8, INT4_HINT)
        message = f"an element is {value}, expected {low} to {high} for {row}"
        raise fail("value-out-of-range", where, message)
