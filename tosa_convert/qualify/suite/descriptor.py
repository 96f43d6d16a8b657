"""The files of an official case: its descriptor, read and checked, and data that a library makes.

A descriptor comes from elsewhere, and the reference model reads and writes every file that it names. So
the model gets a descriptor of our own, whose files are in a temporary folder. For inputs without a file
it says by which generator, range and seed the library of the reference model makes the data.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import INT48, SCALE_FILE, Slot
from tosa_convert.graph.constant import sign_extend, unpack
from tosa_convert.installation import install_command
from tosa_convert.io.files import path_below, read_json

NAME: Final = "desc.json"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _are_rows(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(row, dict) for row in value.values())


#: Path of a field -> whether it must be there, and its type or what accepts its value.
_FIELDS: Final[Mapping[str, tuple[bool, type | Callable[[object], bool]]]] = {
    "tosa_file": (True, str),
    "ifm_name": (True, _are_texts),
    "ifm_file": (True, _are_texts),
    "ofm_name": (True, _are_texts),
    "ofm_file": (True, _are_texts),
    "expected_failure": (False, bool),
    "test_details": (False, dict),
    "test_requirements": (False, dict),
    "test_requirements.profiles_supported": (False, _are_texts),
    "test_requirements.extensions_required": (False, _are_texts),
    "meta": (False, dict),
    "meta.data_gen": (False, dict),
    "meta.data_gen.tensors": (False, _are_rows),
    "meta.compliance": (False, dict),
    "meta.compliance.tensors": (False, _are_rows),
}
#: Fields that the reference model gets as they are.
_FOR_THE_MODEL: Final = ("expected_failure", "test_requirements", "meta")
_ABSENT: Final = object()


def read_descriptor(folder: Path) -> dict[str, Any]:
    """Read the descriptor of a case, whose fields have the types that official tests give them."""
    path = folder / NAME
    content = read_json(path, "a test descriptor")
    if not isinstance(content, dict):
        raise fail("file-error", str(path), "not a test descriptor: expected an object")
    for name, (is_needed, holds) in _FIELDS.items():
        value: Any = content
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            if is_needed:
                raise fail("file-error", str(path), f"not a test descriptor: it has no {name}")
        elif not (isinstance(value, holds) if isinstance(holds, type) else holds(value)):
            raise fail("file-error", str(path), f"not a test descriptor: {name} is {value!r:.80}")
    for kind in ("ifm", "ofm"):
        names, files = content[f"{kind}_name"], content[f"{kind}_file"]
        if len(names) != len(files):
            message = f"it has {len(names)} in {kind}_name, and {len(files)} in {kind}_file"
            raise fail("file-error", str(path), f"not a test descriptor: {message}")
    return content


def case_file(folder: Path, name: str) -> Path:
    """Find a file that a descriptor names. Raises TosaConvertError("unsafe-path") and ("file-error")."""
    return Path(path_below(folder, name, str(folder / NAME)))


def case_files(folder: Path, description: Mapping[str, Any]) -> tuple[Path, dict[str, Path]]:
    """Find the program of a case, and the files of its inputs by their names in `described_run`.

    Files of scales are beside those of the values; files that do not exist are left out.
    """
    found: dict[str, Path] = {}
    for number, name in enumerate(description["ifm_file"]):
        for suffix in ("", SCALE_FILE):
            path = case_file(folder, f"{name.removesuffix('.npy')}{suffix}.npy")
            if os.path.exists(path):
                found[f"in{number}{suffix}.npy"] = path
    return case_file(folder, description["tosa_file"]), found


def described_run(description: Mapping[str, Any]) -> dict[str, Any]:
    """Make the descriptor of a run in a folder that has model.tosa and in0.npy and gets out0.npy."""
    kept = {name: description[name] for name in _FOR_THE_MODEL if name in description}
    return {
        **kept,
        "tosa_file": "model.tosa",
        "ifm_name": description["ifm_name"],
        "ifm_file": [f"in{i}.npy" for i in range(len(description["ifm_name"]))],
        "ofm_name": description["ofm_name"],
        "ofm_file": [f"out{i}.npy" for i in range(len(description["ofm_name"]))],
    }


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
    """Generate the data of one input."""
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
