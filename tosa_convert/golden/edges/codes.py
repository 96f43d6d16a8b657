"""Elements of every type as integers in the order of their values.

The code of an integer is its value. Those of floating point count the numbers of the type: 0 is 0 and -0
is -1, the smallest positive number is 1, and NaN is above infinity.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType

#: The code of -0.
NEGATIVE_ZERO: Final = -1
#: The code of NaN, of the types that have it.
NAN: Final = {
    "FP32": 0x7FC00000,
    "FP16": 0x7E00,
    "BF16": 0x7FC0,
    "FP8E4M3": 0x7F,
    "FP8E5M2": 0x7E,
}
#: The code of infinity, of the types that have it.
INFINITE: Final = {"FP32": 0x7F800000, "FP16": 0x7C00, "BF16": 0x7F80, "FP8E5M2": 0x7C}
#: Those of the smallest normal numbers: what is between 0 and this is subnormal.
SMALLEST_NORMAL: Final = {
    "FP32": 1 << 23,
    "FP16": 1 << 10,
    "BF16": 1 << 7,
    "FP8E4M3": 1 << 3,
    "FP8E5M2": 1 << 2,
}


def codes_of(array: Array, row: DType) -> Array:
    """Return the codes of elements, as INT64."""
    if not row.is_float:
        return array.astype(np.int64)
    sign = np.int64(1) << (row.bits - 1)
    unsigned = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.int64)
    size = unsigned & (sign - 1)
    codes = np.where(unsigned & sign, -size - 1, size)
    return np.where(np.isnan(_plain(array)), NAN.get(row.name, 0), codes)


def elements_of(codes: Array, row: DType) -> Array:
    target: np.dtype[Any] = row.numpy
    if not row.is_float:
        narrow = codes.astype(np.int8) if row.name == "INT4" else codes
        return narrow.astype(target)
    sign = np.int64(1) << (row.bits - 1)
    unsigned = np.where(codes < 0, (-codes - 1) | sign, codes)
    return unsigned.astype(f"u{target.itemsize}").view(target)


def limits_of(row: DType) -> tuple[int, int]:
    """Return the lowest and the highest code of a number that is not infinite."""
    if row.name == "BOOL":
        return 0, 1
    if row.name == "INT4":
        return -7, 7
    if row.name == "MXINT8":
        return -127, 127
    if not row.is_float:
        return -(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1
    every = np.arange(256, dtype=np.uint8).view(row.numpy) if row.bits <= 8 else None
    if every is not None:
        codes = codes_of(every[: 1 << row.bits], row)
        finite = np.isfinite(_plain(every[: 1 << row.bits]))
        return int(codes[finite].min()), int(codes[finite].max())
    greatest = int(codes_of(np.array([np.inf], np.float32).astype(row.numpy), row)[0]) - 1
    return -greatest - 1, greatest


def _plain(array: Array) -> Array:
    """Return numbers in a type of numpy's own."""
    return array if array.dtype.kind == "f" else array.astype(np.float32)
