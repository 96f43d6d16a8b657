"""ONNX files, written field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: ONNX's numbers of element types.
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
STRING = 8
Array = npt.NDArray[Any]


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(array: Array, *, name: str = "", kind: int = 0) -> bytes:
    """Return a TensorProto with `raw_data`."""
    dims = b"".join(number(1, size) for size in array.shape)
    kind = kind or TYPES[str(array.dtype)]
    return dims + number(2, kind) + part(8, name) + part(9, array.tobytes())


def value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """Return a ValueInfoProto; a size that is a text is not fixed."""
    sizes = b"".join(
        part(1, number(1, size) if isinstance(size, int) else part(2, size)) for size in shape
    )
    return part(1, name) + part(2, part(1, number(1, kind) + part(2, sizes)))


def model(
    operators: Sequence[str],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    constants: Mapping[str, Array] | None = None,
) -> bytes:
    """Return a ModelProto; its nodes have names of operators only."""
    graph = b"".join(part(1, part(4, name)) for name in operators)
    graph += b"".join(part(5, tensor(a, name=name)) for name, a in (constants or {}).items())
    graph += b"".join(part(11, row) for row in inputs) + b"".join(part(12, row) for row in outputs)
    return number(1, 10) + part(2, "tests") + part(7, graph)


def node_test(
    folder: Path,
    operator: str,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    open_inputs: bool = False,
) -> None:
    """Write a folder as those of ONNX's own tests."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    given, expected = (
        [
            value(name, TYPES[str(a.dtype)], ["N"] * a.ndim if open_inputs else a.shape)
            for name, a in arrays.items()
        ]
        for arrays in (inputs, outputs)
    )
    (folder / "model.onnx").write_bytes(model([operator], given, expected))
    for what, arrays in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(arrays.values()):
            (data / f"{what}_{index}.pb").write_bytes(tensor(np.asarray(array)))
