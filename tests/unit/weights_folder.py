"""Helpers for tests of weight folders: small graphs, and functions that change a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from refusing import error_of
from unit.building import encode, graph, op, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.weights.read import read
from tosa_convert.graph import Constant, DType, Graph, dtype
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale

Json = Any


def one(kind: str, dims: tuple[int, ...], data: bytes, name: str = "w") -> Graph:
    """Return a graph of one constant."""
    return graph("", name, [tensor(name, kind, dims, data)], [op("CONST", "", name)])


def several(*names: str) -> Graph:
    """Return a graph of constants of these names; the first element of each is its position."""
    values: list[Any] = [
        tensor(name, "INT32", (2,), bytes([i % 256, 0, 0, 0] * 2)) for i, name in enumerate(names)
    ]
    made = graph("", "", values, [])
    made.main.operators = [op("CONST") for _ in names]
    for row, name in zip(made.main.operators, names, strict=True):
        row.outputs = (name,)
    return made


def scaled() -> Graph:
    """Return a block-scaled constant."""
    value = tensor("w", "FP4E2M1", (2, 32), bytes(range(32)))
    value.scale = BlockScale(
        dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, Constant(dtype("FP8UE8M0"), 2, b"\x7f\x80")
    )
    return graph("", "w", [value], [op("CONST", "", "w")])


def flat(made: Graph) -> bytes:
    """Return the whole graph as values, including padding and unused values."""
    return encode(made)


def data_of(made: Graph, name: str = "w") -> Constant:
    found = made.main.tensors[name].data
    assert found is not None
    return found


def entries(folder: Path) -> Json:
    return json.loads((folder / "manifest.json").read_text())["constants"]


def edit(folder: Path, change: Callable[[Json], None]) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_entry(folder: Path, **fields: Any) -> None:
    edit(folder, lambda content: content["constants"][0].update(fields))


def refusal(made: Graph, folder: Path, **options: Any) -> TosaConvertError:
    return error_of(read, made, folder, **options)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def every_bit(row: DType) -> bytes:
    """Unpacked elements with every bit pattern of 8 bits or less, and many of the others."""
    count = 1 << min(row.bits, 8)
    raw = np.random.default_rng(5).integers(0, 256, (count, row.element_bytes)).astype(np.uint8)
    raw[:, 0] = np.arange(count)
    if row.name == "BOOL":
        raw &= 1
    if row.name == "INT4":
        raw[8] = 7
    if row.bits == 16:
        # NaNs with payloads of FP16 and BF16, -0, infinity.
        raw[:6] = [[1, 0x7C], [1, 0xFE], [0x81, 0x7F], [1, 0xFF], [0, 0x80], [0, 0x7C]]
    if row.bits == 32:
        raw[:3] = [[1, 0, 0x80, 0x7F], [1, 0, 0xC0, 0xFF], [0, 0, 0, 0x80]]
    return raw.tobytes()


def forms(row: DType) -> Iterator[Constant]:
    """Iterate over the same elements in every form a constant may have."""
    raw = every_bit(row)
    count = len(raw) // row.element_bytes
    unpacked = Constant(row, count, raw, unpacked=row.is_packed)
    yield unpacked
    if row.is_packed:
        yield Constant(row, count, unpacked.packed())
