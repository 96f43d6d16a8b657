"""Input data of official tests, made by the library that comes with the reference model.

A descriptor says for each input by which generator, range and seed its data is made. The same
descriptor always gives the same data.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import INT48, Slot
from tosa_convert.graph.packing import sign_extend, unpack
from tosa_convert.installation import install_command

_WHEEL: Final = "tosa-tools"
_STEM: Final = "libtosa_reference_generate_lib"
_EXTENSIONS: Final = {"win32": ".dll", "darwin": ".dylib"}


@functools.cache
def _library() -> Any:
    """Return the function of the library. Raises TosaConvertError("missing-refmodel")."""
    name = _STEM + _EXTENSIONS.get(sys.platform, ".so")
    try:
        folder = metadata.distribution(_WHEEL).locate_file("tosa_reference_model")
        function = ctypes.CDLL(str(Path(str(folder)) / name)).tgd_generate_data
    except (metadata.PackageNotFoundError, OSError) as error:
        message = f"the library that makes the data of official tests is not available: {error}"
        raise fail("missing-refmodel", name, message, install_command("refmodel")) from None
    function.restype = ctypes.c_bool
    function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return function


def generate_data(data_gen: dict[str, Any], name: str, slot: Slot) -> Array:
    """Generate the data of one input.

    Args:
        data_gen: `meta.data_gen` of a descriptor.
        name: the input's name in it.
        slot: the element type and shape of the result.

    Raises:
        TosaConvertError: "missing-refmodel" without the library, "input-mismatch" if the descriptor
            does not say how to make the data.
    """
    where = f'input "{name}"'
    if name not in data_gen.get("tensors", {}):
        raise fail(
            "input-mismatch", where, "it has no file, and the descriptor no generator for it"
        )
    count = int(np.prod(slot.shape, dtype=np.int64))
    row = slot.dtype
    is_shape = data_gen["tensors"][name].get("data_type") == "SHAPE"
    if is_shape:
        size = count * 4
    elif row is INT48:
        size = count * 6
    else:
        size = -(-count * row.bits // 8)
    buffer = np.zeros(size, np.uint8)
    config = json.dumps(data_gen).encode()
    if not _library()(config, name.encode(), buffer.ctypes.data, size):
        raise fail(
            "input-mismatch", where, "the library of the official tests makes no data for it"
        )
    if is_shape:
        return buffer.view(np.int32).astype(np.int64).reshape(slot.shape)
    if row is INT48:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, :6] = buffer.reshape(count, 6)
        wide[:, 6:] = np.where(wide[:, 5:6] & 0x80, 0xFF, 0)
        return wide.reshape(-1).view(np.int64).reshape(slot.shape)
    if row.is_packed:
        codes = unpack(buffer, row.bits, count)
        if row.name == "INT4":
            return np.asarray(sign_extend(codes, 4).astype(row.numpy)).reshape(slot.shape)
        return codes.view(row.numpy).reshape(slot.shape)
    return buffer.view(row.numpy).reshape(slot.shape)
