"""Puts weights from a safetensors file into a copy of a `.pt2` file that was saved without them.

A program that torch exported on the device `meta` has sizes of weights and no elements, and elements can
be taken out of an archive. Members and their keys were determined from files of torch 2.13 and 2.14.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torch._export.serde.schema import Layout, ScalarType

from tosa_convert.errors import Findings, fail
from tosa_convert.formats.weights.archive import Stored
from tosa_convert.formats.weights.safetensors import read
from tosa_convert.io.files import map_file
from tosa_convert.io.options import Limits

EXTENSION: Final = ".safetensors"
_CONFIG: Final = "data/weights/model_weights_config.json"
_META: Final = "meta"
#: Element type in safetensors -> that of torch's schema.
_KINDS: Final = {
    "BOOL": ScalarType.BOOL,
    "U8": ScalarType.BYTE,
    "I8": ScalarType.CHAR,
    "I16": ScalarType.SHORT,
    "I32": ScalarType.INT,
    "I64": ScalarType.LONG,
    "F16": ScalarType.HALF,
    "BF16": ScalarType.BFLOAT16,
    "F32": ScalarType.FLOAT,
    "F64": ScalarType.DOUBLE,
}


def with_weights(path: Path, folder: Path, shown: str) -> tuple[Path, bool]:
    """Return a copy of a file with its weights, or the file itself if it has them.

    Also returns whether the program was on the device `meta`, where its example arguments are, too.

    Args:
        path: the `.pt2` file. Its weights are in the `.safetensors` file of the same name.
        folder: where the copy is written.
        shown: how messages name the file.

    Raises:
        TosaConvertError: "mismatched-weights" if they are neither in the file nor beside it, or if
            types or shapes differ; "malformed-weights".
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        config = next((name for name in names if name.endswith(f"/{_CONFIG}")), "")
        rows = json.loads(archive.read(config))["config"] if config else {}
        root = config.removesuffix("model_weights_config.json")
        sizes = {row.filename: row.file_size for row in archive.infolist()}
        lacking = {
            name: row
            for name, row in rows.items()
            if not row["use_pickle"]
            and _count(row)
            and not sizes.get(f"{root}{row['path_name']}", 0)
        }
        if not lacking:
            return path, False
        is_meta = any(row["tensor_meta"]["device"]["type"] == _META for row in lacking.values())
        arrays = _arrays(path.with_suffix(EXTENSION), lacking, shown)
        for number, row in enumerate(lacking.values()):
            row["path_name"] = f"weight_beside_{number}"
            row["tensor_meta"] |= _in_order(_shape(row))
        with zipfile.ZipFile(folder / path.name, "w") as target:
            for member in names:
                data = archive.read(member)
                if member == config:
                    data = json.dumps({"config": rows}).encode()
                elif "/models/" in member:
                    data = _on_cpu(data)
                target.writestr(member, data)
            for name, row in lacking.items():
                target.writestr(f"{root}{row['path_name']}", bytes(arrays[name].load()))
    return folder / path.name, is_meta


def _shape(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(size["as_int"] for size in row["tensor_meta"]["sizes"])


def _count(row: dict[str, Any]) -> int:
    return math.prod(_shape(row))


def _arrays(beside: Path, lacking: Mapping[str, Any], shown: str) -> Mapping[str, Stored]:
    """Return the arrays of these names."""
    examples = ", ".join(list(lacking)[:3])
    if not beside.is_file():
        message = f"{len(lacking)} of its weights are not in it: {examples}"
        raise fail("mismatched-weights", shown, message, f"put them beside it, as {beside.name}")
    found = read(map_file(str(beside)), beside.name, Limits()).arrays
    findings = Findings()
    for name, row in lacking.items():
        stored, kind = found.get(name), ScalarType(row["tensor_meta"]["dtype"])
        if stored is None:
            findings.add(
                "mismatched-weights", beside.name, f"it has no {name}, which {shown} lacks"
            )
        elif _KINDS.get(stored.kind) != kind or stored.shape != _shape(row):
            message = (
                f"{name} is {stored.kind} {list(stored.shape or ())}, {shown} expects "
                f"{kind.name} {list(_shape(row))}"
            )
            findings.add("mismatched-weights", beside.name, message)
    findings.raise_if_any()
    return found


def _in_order(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what the archive says of a tensor in memory whose elements are in order."""
    return {
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": math.prod(shape[index + 1 :])} for index in range(len(shape))],
        "storage_offset": {"as_int": 0},
        "layout": Layout.Strided.value,
    }


def _on_cpu(model: bytes) -> bytes:
    """Return a program whose tensors are in memory instead of nowhere."""

    def place(row: dict[str, Any]) -> dict[str, Any]:
        is_meta = row.get("type") == _META and {*row} <= {"type", "index"}
        return {**row, "type": "cpu"} if is_meta else row

    return json.dumps(json.loads(model, object_hook=place)).encode()
