"""Takes the weights of a `.pt2` file from where they are on disk, instead of reading them into memory.

torch reads every weight. So it gets a copy of the archive in which large weights are on the device
`meta`, without elements, and the program then gets views of the mapped file: of the `.pt2` file itself,
or of the safetensors file beside it if the program was saved without them. Members and their keys were
determined from files of torch 2.13 and 2.14.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch._export.serde.schema import Layout, ScalarType
from torch._export.serde.serialize import deserialize_scalar_type

from tosa_convert.errors import Findings, fail
from tosa_convert.formats.weights.archives import Stored, read_safetensors
from tosa_convert.io.files import map_file
from tosa_convert.io.options import Limits

EXTENSION: Final = ".safetensors"
_CONFIG: Final = "data/weights/model_weights_config.json"
_CONSTANTS: Final = "data/constants/model_constants_config.json"
_META: Final = "meta"
#: Bytes from which a weight stays in its file.
LEAST: Final = 1 << 20
#: The header of a member of a ZIP archive, which its name, further fields and its data follow.
_HEADER: Final = struct.Struct("<26xHH")
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


class MappedWeights(NamedTuple):
    """A program's archive without its large weights, and these.

    archive: a copy, or the file itself if it has all that torch needs.
    tensors: name -> a view of a mapped file.
    is_meta: whether the program was on the device `meta`, where its example arguments are, too.
    """

    archive: Path
    tensors: Mapping[str, Any]
    is_meta: bool

    def give_to(self, program: Any) -> None:
        """Put the weights into the program that torch loaded from the archive."""
        for name, tensor in self.tensors.items():
            if name in program.constants:
                program.constants[name] = tensor
                continue
            old = program.state_dict[name]
            if isinstance(old, torch.nn.Parameter):
                tensor = torch.nn.Parameter(tensor, requires_grad=False)
            program.state_dict[name] = tensor


def map_weights(path: Path, folder: Path, shown: str) -> MappedWeights:
    """Map the large weights of a file, and those that are beside it."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        config, rows = _rows(archive, _CONFIG)
        root = config.removesuffix("model_weights_config.json")
        members = {row.filename: row for row in archive.infolist()}
        own: dict[str, zipfile.ZipInfo] = {}
        lacking = {}
        for name, row in rows.items():
            member = members.get(f"{root}{row['path_name']}")
            if row["use_pickle"] or not _count(row):
                continue
            if member is None or not member.file_size:
                lacking[name] = row
            elif member.file_size >= LEAST and member.compress_type == zipfile.ZIP_STORED:
                own[name] = member
        # Buffers that are not in the state dict: torch has no other place for their elements.
        for name, row in _rows(archive, _CONSTANTS)[1].items():
            if not row["use_pickle"] and _count(row) and _device(row) == _META:
                lacking[name] = row
        if not lacking and not own:
            return MappedWeights(path, {}, is_meta=False)
        is_meta = any(_device(row) == _META for row in lacking.values())
        tensors = _of_archive(path, {name: (rows[name], own[name]) for name in own})
        if lacking:
            tensors |= _of_safetensors(path.with_suffix(EXTENSION), lacking, shown)
        mapped = [name for name in tensors if name in rows]
        for number, name in enumerate(mapped):
            rows[name]["path_name"] = f"mapped_weight_{number}"
            rows[name]["tensor_meta"] |= _without_elements(_shape(rows[name]))
        left_out = {row.filename for row in own.values()}
        with zipfile.ZipFile(folder / path.name, "w") as target:
            for filename in names:
                if filename in left_out:
                    continue
                data = archive.read(filename)
                if filename == config:
                    data = json.dumps({"config": rows}).encode()
                elif is_meta and "/models/" in filename:
                    data = _on_cpu(data)
                target.writestr(filename, data)
            for number in range(len(mapped)):
                target.writestr(f"{root}mapped_weight_{number}", b"")
    return MappedWeights(folder / path.name, tensors, is_meta)


def _rows(archive: zipfile.ZipFile, config: str) -> tuple[str, dict[str, Any]]:
    """Return a member of this end, and what it says of each tensor; nothing if there is none."""
    member = next((name for name in archive.namelist() if name.endswith(f"/{config}")), "")
    return member, json.loads(archive.read(member))["config"] if member else {}


def _of_archive(
    path: Path, found: Mapping[str, tuple[dict[str, Any], zipfile.ZipInfo]]
) -> dict[str, Any]:
    """Return views of the members of an archive; those of one member share its memory."""
    data = _mapped(path)
    shared: dict[str, Any] = {}
    tensors = {}
    for name, (row, member) in found.items():
        meta = row["tensor_meta"]
        dtype = deserialize_scalar_type(ScalarType(meta["dtype"]))
        if member.filename not in shared:
            start = member.header_offset
            start += _HEADER.size + sum(_HEADER.unpack_from(data, start))
            count = member.file_size // dtype.itemsize
            shared[member.filename] = _view(data, dtype, count, start)
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        # torch refuses what lies outside.
        tensors[name] = torch.as_strided(
            shared[member.filename].view(dtype), _shape(row), strides, offset
        )
    return tensors


def _of_safetensors(beside: Path, lacking: Mapping[str, Any], shown: str) -> dict[str, Any]:
    """Return views of the arrays of these names."""
    arrays = _arrays(beside, lacking, shown)
    data = _mapped(beside)
    tensors = {}
    for name, row in lacking.items():
        dtype = deserialize_scalar_type(ScalarType(row["tensor_meta"]["dtype"]))
        flat = _view(data, dtype, _count(row), arrays[name].offset)
        tensors[name] = flat.reshape(_shape(row))
    return tensors


def _view(data: mmap.mmap, dtype: Any, count: int, start: int) -> Any:
    """Return elements of a mapped file; a copy if they are not aligned, as MLIR needs them."""
    tensor = torch.frombuffer(data, dtype=dtype, count=count, offset=start)
    return tensor if start % dtype.itemsize == 0 else tensor.clone()


def _mapped(path: Path) -> mmap.mmap:
    """Map a file. torch wants to be able to write: a page that it writes to becomes a private copy."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _device(row: dict[str, Any]) -> str:
    return str(row["tensor_meta"]["device"]["type"])


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
    found = read_safetensors(map_file(str(beside)), beside.name, Limits()).arrays
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


def _without_elements(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what the archive says of a tensor without elements."""
    return {
        "device": {"type": _META, "index": None},
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
