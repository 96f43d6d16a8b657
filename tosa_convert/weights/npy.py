"""One constant as an `.npy` file: the header, and elements in the form numpy has for them.

| dtype | in the file |
|---|---|
| BOOL, INT8 to INT64, FP16, FP32 | numpy's own type |
| INT4 | int8, -7 to 7 |
| INT48 | int64 |
| all others | the bits of one element, as an unsigned integer of 8 or 16 bits |

Everything is little-endian, in C order. The header is written and read here and not by numpy: its
bytes must not depend on numpy's version, and a header that nobody has vouched for is matched
against a pattern and never evaluated.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DTYPES, INT4, DType, dtype
from tosa_convert.graph.packing import BLOCK, pack

_BOOL: Final = dtype("BOOL")
_INT48: Final = dtype("INT48")
_NATIVE: Final = {
    "BOOL": "|b1",
    "INT4": "|i1",
    "INT8": "|i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT48": "<i8",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
}
#: DType -> the type string of its elements in a file.
DESCR: Final = {
    row: _NATIVE.get(row.name, "<u2" if row.element_bytes == 2 else "|u1") for row in DTYPES
}

#: Dimensions of an array that numpy can have, in all its versions.
MAX_RANK: Final = 32

_MAGIC: Final = b"\x93NUMPY"
_ALIGN: Final = 64
#: Bytes that a header may have; numpy's own for a rank of 32 has about 600.
_MAX_HEADER: Final = 1 << 14
_LENGTHS: Final = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
_ITEM: Final = re.compile(
    r"\s*'(\w{1,20})'\s*:\s*('[^'\\]{1,20}'|True|False|\([0-9,\s]*\))\s*(,|(?=\}))"
)
_SIZE: Final = re.compile(r"\s*(0|[1-9][0-9]{0,18})\s*(?:,|$)")
_KEYS: Final = {"descr", "fortran_order", "shape"}


def header(row: DType, shape: tuple[int, ...]) -> bytes:
    """What stands before the elements of an array of this type and shape."""
    sizes = "".join(f"{size}, " for size in shape)
    sizes = sizes[:-1] if len(shape) == 1 else sizes[:-2]
    text = f"{{'descr': '{DESCR[row]}', 'fortran_order': False, 'shape': ({sizes}), }}"
    length = _LENGTHS[1, 0]
    start = len(_MAGIC) + 2 + length.size
    text += " " * (-(start + len(text) + 1) % _ALIGN) + "\n"
    return _MAGIC + b"\x01\x00" + length.pack(len(text)) + text.encode("ascii")


def stored_bytes(constant: Constant) -> int:
    """Bytes of the constant's elements in a file."""
    return constant.count * np.dtype(DESCR[constant.dtype]).itemsize


def blocks(constant: Constant) -> Iterator[memoryview]:
    """The elements as they stand in a file, BLOCK elements at a time.

    Truth values other than 0 and 1 become 1, as every reader takes them.
    """
    row = constant.dtype
    for start in range(0, constant.count, BLOCK):
        part = _part(constant, start, min(start + BLOCK, constant.count))
        array: npt.NDArray[Any]
        if row is _BOOL or row is INT4 or row is _INT48:
            array = part.numpy().astype(DESCR[row], copy=False)
        else:
            array = part.elements().reshape(-1)
            if row.is_packed:
                array = array & ((1 << row.bits) - 1)
        yield np.ascontiguousarray(array).view(np.uint8).data


def _part(constant: Constant, start: int, stop: int) -> Constant:
    """Elements `start` to `stop` as a constant of their own; `start` is a multiple of BLOCK."""
    row, buffer = constant.dtype, constant.buffer
    if constant.splat:
        return Constant(row, stop - start, buffer, splat=True)
    if constant.unpacked:
        return Constant(row, stop - start, buffer[start:stop], unpacked=True)
    return Constant(row, stop - start, buffer[row.wire_bytes(start) : row.wire_bytes(stop)])


def array(file: memoryview, where: str, row: DType, shape: tuple[int, ...]) -> memoryview:
    """The elements of a file that must hold an array of this type and shape.

    Raises TosaConvertError("malformed-weights" or "mismatched-weights").
    """
    descr, fortran, found, start = _header(file, where)
    if fortran:
        raise fail(
            "malformed-weights",
            where,
            "the array is in Fortran order, expected C order",
            "save it with numpy.save(path, numpy.ascontiguousarray(array))",
        )
    if descr != DESCR[row]:
        raise fail(
            "mismatched-weights",
            where,
            f"its type is {descr!r}, a {row} is stored as {DESCR[row]!r}",
            "arrays must be little-endian; bf16 and floats below 16 bits are stored as their bits",
        )
    if found != shape:
        raise fail(
            "mismatched-weights", where, f"its shape is {list(found)}, expected {list(shape)}"
        )
    needed = np.dtype(descr).itemsize
    for size in shape:
        needed *= size
    if len(file) - start != needed:
        raise fail(
            "malformed-weights",
            where,
            f"{len(file) - start} bytes behind the header, {row} of shape {list(shape)} "
            f"need {needed}",
            "the file was cut off or something was appended: make it again",
        )
    return file[start:]


def _header(file: memoryview, where: str) -> tuple[str, bool, tuple[int, ...], int]:
    def bad(message: str) -> TosaConvertError:
        return fail("malformed-weights", where, message, "make the file again with numpy.save")

    start = len(_MAGIC) + 2
    if bytes(file[: len(_MAGIC)]) != _MAGIC or len(file) < start:
        raise bad(f"it starts with {bytes(file[:8])!r}, which is no .npy file")
    version = (file[start - 2], file[start - 1])
    length = _LENGTHS.get(version)
    if length is None:
        raise bad(f"its format is {version[0]}.{version[1]}, expected 1.0 or 2.0")
    if len(file) < start + length.size:
        raise bad(f"it ends after {len(file)} bytes, within its header")
    (size,) = length.unpack_from(file, start)
    start += length.size
    if size > _MAX_HEADER or size > len(file) - start:
        raise bad(
            f"its header has {size} bytes, of which the file has {len(file) - start} "
            f"and we read at most {_MAX_HEADER}"
        )
    try:
        text = bytes(file[start : start + size]).decode("ascii")
    except UnicodeDecodeError:
        raise bad("its header is not ASCII") from None
    items = _items(text)
    if items is None or items.keys() != _KEYS:
        raise bad(f"its header is not that of an array: {text[:80]!r}")
    descr, fortran, sizes = items["descr"], items["fortran_order"], items["shape"]
    shape = _sizes(sizes[1:-1]) if sizes[0] == "(" else None
    if descr[0] != "'" or fortran[0] not in "TF" or shape is None:
        raise bad(f"its header is not that of an array: {text[:80]!r}")
    return descr[1:-1], fortran == "True", shape, start + size


def _items(text: str) -> dict[str, str] | None:
    """The members of a dict literal whose values are strings, truth values or tuples of sizes."""
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
    sizes: list[int] = []
    position = 0
    while text[position:].strip():
        match = _SIZE.match(text, position)
        if match is None or len(sizes) == MAX_RANK:
            return None
        sizes.append(int(match[1]))
        position = match.end()
    return tuple(sizes)


def constant(data: memoryview, where: str, row: DType, count: int, padding: int) -> Constant:
    """The elements that `array` returned as a constant.

    A view of the file, but for INT4 and INT48, which are packed as the program has them. Only the
    types that have values to refuse are looked at.

    Raises TosaConvertError("value-out-of-range" or "int4-minus-8").
    """
    if row is INT4 or row is _INT48:
        packed = bytearray()
        for values in _values(data, row):
            _check(values, where, row)
            packed += _packed(values, row).data
        return Constant(row, count, memoryview(packed).toreadonly(), padding=padding)
    if row is _BOOL or row.is_packed:
        for values in _values(data, row):
            _check(values, where, row)
    return Constant(row, count, data, unpacked=row.is_packed, padding=padding)


def _values(data: memoryview, row: DType) -> Iterator[npt.NDArray[Any]]:
    # Truth values are looked at as what they are: numbers that should be 0 or 1.
    values = np.frombuffer(data, "|u1" if row is _BOOL else DESCR[row])
    for start in range(0, len(values), BLOCK):
        yield values[start : start + BLOCK]


def _packed(values: npt.NDArray[Any], row: DType) -> npt.NDArray[np.uint8]:
    if row is INT4:
        return pack(values.view(np.uint8), row.bits)
    wide = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, : row.element_bytes]).reshape(-1)


def _limits(row: DType) -> tuple[int, int]:
    """The lowest and highest number that a file may hold for an element."""
    if row is _BOOL:
        return 0, 1
    if row is INT4:
        return -7, 7
    if row is _INT48:
        return -(2**47), 2**47 - 1
    return 0, 2**row.bits - 1


def _check(values: npt.NDArray[Any], where: str, row: DType) -> None:
    low, high = _limits(row)
    for value in (int(values.min()), int(values.max())):
        if low <= value <= high:
            continue
        if row is INT4 and value == -8:
            raise fail(
                "int4-minus-8",
                where,
                "an INT4 element is -8; TOSA's INT4 goes from -7 to 7 and readers corrupt -8",
                "requantise the weight to -7..7",
            )
        raise fail(
            "value-out-of-range",
            where,
            f"an element is {value}, those of {row} go from {low} to {high}",
        )
