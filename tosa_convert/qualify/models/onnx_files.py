"""What ONNX's files say, read without the package onnx: tensors, and the operators of a model.

Field numbers are those of ONNX's schema, onnx.proto.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.frontends.onnx.header import read_onnx
from tosa_convert.frontends.protobuf import fields, message, numbers
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import dtype
from tosa_convert.io.files import map_file
from tosa_convert.records import dataclass, field

#: ONNX's number of an element type -> its elements. Those of 4 bits have a byte each here.
_TYPES: Final[dict[int, Any]] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
    16: dtype("BF16").numpy,
    21: np.uint8,
    22: np.int8,
}
_UINT4, _INT4 = 21, 22
#: Names of types that have no row above.
_OTHERS: Final = {
    8: "strings",
    14: "complex64",
    15: "complex128",
    **{number: f"float8 (type {number})" for number in (17, 18, 19, 20, 24)},
    23: "float4e2m1",
}
#: Field of a TensorProto -> the type of its numbers, if they are not in `raw_data`.
_LISTS: Final[dict[int, Any]] = {4: np.float32, 10: np.float64}
_WHOLE: Final = (5, 7, 11)
_RAW: Final = 9


class NoTensorError(ValueError):
    """A value that is not a tensor of numbers, or that TOSA cannot hold."""


def read_tensor(path: Path) -> Array:
    """Read the array of a file with a TensorProto."""
    data = map_file(path)
    try:
        return _tensor(data)
    except NoTensorError:
        raise
    except ValueError as error:
        raise fail("file-error", str(path), f"not a tensor of ONNX: {error}") from None


def _tensor(data: memoryview) -> Array:
    shape: list[int] = []
    kind = 0
    raw: memoryview | None = None
    whole: list[int] = []
    lists: list[Array] = []
    for number, value in fields(data):
        if number == 1:
            shape += numbers(value)
        elif number == 2:
            kind = numbers(value)[0]
        elif number == _RAW:
            raw = message(value)
        elif number in _WHOLE:
            whole += numbers(value)
        elif number in _LISTS:
            lists.append(np.frombuffer(message(value), _LISTS[number]))
    if kind not in _TYPES:
        raise NoTensorError(f"it has {_OTHERS.get(kind, f'elements of the type {kind}')}")
    target = np.dtype(_TYPES[kind])
    if raw is not None:
        flat = _unpacked(kind, np.frombuffer(raw, np.uint8), target)
    elif lists:
        flat = np.concatenate(lists).astype(target)
    else:
        flat = _of_numbers(kind, whole, target)
    size = int(np.prod(shape, dtype=np.int64))
    return flat[:size].reshape(shape)


def _of_numbers(kind: int, whole: list[int], target: np.dtype[Any]) -> Array:
    """Return elements that are a list of whole numbers: 16-bit floats as their bits, others by value."""
    # Negative numbers have 64 bits there, whatever their type.
    given = np.array(whole, np.uint64)
    if kind in (_INT4, _UINT4):
        return _unpacked(kind, given.astype(np.uint8), target)
    if target.kind in "fV":
        return given.astype(np.uint16).view(target)
    return given.astype(np.bool_) if target.kind == "b" else given.view(np.int64).astype(target)


def _unpacked(kind: int, raw: Array, target: np.dtype[Any]) -> Array:
    """Unpack elements of their bytes; two of 4 bits are in a byte, the first in its lower half."""
    if kind not in (_INT4, _UINT4):
        return raw.view(target)
    halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
    signed: Array = (halves << 4).view(np.int8) >> 4
    return signed if kind == _INT4 else halves


@dataclass(slots=True)
class OnnxModel:
    """What a model's file says.

    operators: of its nodes, in order, without those of functions and inner graphs.
    inputs: names, in order, without initializers. outputs: names.
    not_tensors: inputs and outputs that TOSA cannot hold, and why.
    open_inputs: inputs with sizes that are not fixed.
    """

    operators: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    not_tensors: list[str] = field(default_factory=list)
    open_inputs: set[str] = field(default_factory=set)


def read_model(path: Path) -> OnnxModel:
    """Read what an ONNX file says."""
    try:
        found = read_onnx(map_file(path))
    except ValueError as error:
        raise fail("file-error", str(path), f"not a model of ONNX: {error}") from None
    inputs, outputs = ([value.name for value in row] for row in (found.inputs, found.outputs))
    model = OnnxModel(found.operators, inputs, outputs)
    for value in (*found.inputs, *found.outputs):
        if value.kind:
            model.not_tensors.append(f"{value.name}: it is {value.kind}")
        elif value.element and value.element not in _TYPES:
            why = _OTHERS.get(value.element, f"elements of the type {value.element}")
            model.not_tensors.append(f"{value.name}: it has {why}")
    model.open_inputs = {value.name for value in found.inputs if value.is_open}
    return model
