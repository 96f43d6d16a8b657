"""The official verifier's library, called in this process."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np

from tosa_convert.golden.arrays import Array

#: Numbers of the library's element types.
_TYPES = {
    "BF16": 0,
    "BOOL": 1,
    "FP16": 2,
    "FP32": 3,
    "INT16": 4,
    "INT32": 5,
    "INT4": 7,
    "INT48": 6,
    "INT64": 14,
    "INT8": 8,
    "SHAPE": 11,
    "FP8E4M3": 12,
    "FP8E5M2": 13,
    "FP6E2M3": 15,
    "FP6E3M2": 16,
    "FP4E2M1": 17,
    "FP8UE8M0": 18,
}
_FP64 = 99


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int32)),
        ("num_dims", ctypes.c_int32),
        ("data_type", ctypes.c_int),
        ("data", ctypes.POINTER(ctypes.c_uint8)),
        ("size", ctypes.c_size_t),
    )


def find_library() -> Path | None:
    """Return the library of tosa-tools, if it is installed."""
    from importlib import metadata

    try:
        folder = metadata.distribution("tosa-tools").locate_file("tosa_reference_model")
    except metadata.PackageNotFoundError:
        return None
    return next(iter(Path(str(folder)).glob("libtosa_reference_verify_lib.so")), None)


class OfficialVerifier:
    """Judges arrays as the official runner does."""

    def __init__(self, library: Path) -> None:
        self.verify = ctypes.CDLL(str(library)).tvf_verify_data
        self.verify.restype = ctypes.c_bool

    def accepts(
        self, row: dict[str, Any], reference: Array, bounds: Array | None, actual: Array
    ) -> bool:
        """Return whether an array passes under a row of a descriptor."""
        row = {**row, "shape": list(actual.shape)}
        config = {"version": "1.0", "tensors": {"out": row}}
        alive: list[Any] = []

        def tensor(array: Array | None) -> Any:
            if array is None:
                return None
            array = np.ascontiguousarray(array)
            shape = (ctypes.c_int32 * array.ndim)(*array.shape)
            alive.extend((array, shape))
            kind = _FP64 if array.dtype == np.float64 else _TYPES[row["data_type"]]
            data = ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
            shape_pointer = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int32))
            made = _Tensor(b"out", shape_pointer, array.ndim, kind, data, array.nbytes)
            alive.append(made)
            return ctypes.byref(made)

        text = ctypes.c_char_p(json.dumps(config).encode())
        return bool(self.verify(tensor(reference), tensor(bounds), tensor(actual), text))
