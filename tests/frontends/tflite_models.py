"""Small TFLite models, written field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import flatbuffers
import numpy as np
import numpy.typing as npt

#: Codes of operators and of element types in TensorFlow's schema.
ADD, EMBEDDING_LOOKUP, FLOOR_MOD, CUMSUM, GELU, MUL = 0, 7, 95, 128, 150, 18
_TYPES = {"float32": 0, "int32": 2, "int8": 9, "int64": 4}
#: Code -> the number of its table in the union of options, where it has fields to set.
_OPTIONS = {GELU: 116, ADD: 11, MUL: 21, CUMSUM: 102}


class TensorRow(NamedTuple):
    """data: of a constant. shape: -1 where it is dynamic."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[Any] | None = None


class OperatorRow(NamedTuple):
    """code: of the operator. flags: the boolean fields of its options, in order."""

    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flags: tuple[bool, ...] = ()


def model(
    tensors: Sequence[TensorRow],
    operators: Sequence[OperatorRow],
    inputs: Sequence[int],
    outputs: Sequence[int],
    *,
    signature: tuple[Sequence[str], Sequence[str]] | None = None,
    metadata: str = "",
) -> bytes:
    """The bytes of a model. signature: names of inputs and outputs. metadata: the key of an entry."""
    b = flatbuffers.Builder(4096)
    codes = sorted({row.code for row in operators})
    buffers = [None, *(row.data for row in tensors if row.data is not None)]
    code_table = _vector(b, [_code(b, code) for code in codes])
    buffer_table = _vector(b, [_buffer(b, data) for data in buffers])
    main = _subgraph(b, tensors, operators, codes, inputs, outputs)
    graphs = _vector(b, [main])
    fields = {1: code_table, 2: graphs, 4: buffer_table}
    if metadata:
        key = b.CreateString(metadata)
        fields[6] = _vector(b, [_table(b, 2, {0: key})])
    if signature is not None:
        maps = [
            _vector(
                b, [_named(b, name, tensor) for name, tensor in zip(names, numbers, strict=True)]
            )
            for names, numbers in zip(signature, (inputs, outputs), strict=True)
        ]
        key = b.CreateString("serving_default")
        fields[7] = _vector(b, [_table(b, 5, {0: maps[0], 1: maps[1], 2: key})])
    root = _table(b, 8, fields, numbers={0: ("Uint32", 3)})
    b.Finish(root, file_identifier=b"TFL3")
    return bytes(b.Output())


def _table(
    b: Any, size: int, offsets: dict[int, int], numbers: dict[int, tuple[str, int]] | None = None
) -> int:
    b.StartObject(size)
    for slot, offset in offsets.items():
        b.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, (kind, value) in (numbers or {}).items():
        getattr(b, f"Prepend{kind}Slot")(slot, value, 0)
    return int(b.EndObject())


def _vector(b: Any, tables: Sequence[int]) -> int:
    b.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return int(b.EndVector())


def _code(b: Any, code: int) -> int:
    numbers = {0: ("Int8", min(code, 127)), 2: ("Int32", 1), 3: ("Int32", code)}
    return _table(b, 4, {}, numbers)


def _buffer(b: Any, data: npt.NDArray[Any] | None) -> int:
    if data is None:
        return _table(b, 3, {})
    raw = data.tobytes()
    b.StartVector(1, len(raw), 16)
    b.head = b.head - len(raw)
    b.Bytes[b.head : b.head + len(raw)] = raw
    return _table(b, 3, {0: b.EndVector()})


def _integers(b: Any, values: Sequence[int]) -> int:
    return int(b.CreateNumpyVector(np.array(values, np.int32)))


def _subgraph(
    b: Any,
    tensors: Sequence[TensorRow],
    operators: Sequence[OperatorRow],
    codes: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> int:
    rows, buffer = [], 0
    for row in tensors:
        buffer += row.data is not None
        name, shape = b.CreateString(row.name), _integers(b, [abs(size) for size in row.shape])
        offsets = {0: shape, 3: name}
        if -1 in row.shape:
            offsets[7] = _integers(b, row.shape)
        numbers = {
            1: ("Int8", _TYPES[row.dtype]),
            2: ("Uint32", buffer if row.data is not None else 0),
        }
        rows.append(_table(b, 8, offsets, numbers))
    tensor_table = _vector(b, rows)
    operator_table = _vector(b, [_operator(b, row, codes) for row in operators])
    given, returned = _integers(b, inputs), _integers(b, outputs)
    return _table(b, 5, {0: tensor_table, 1: given, 2: returned, 3: operator_table})


def _operator(b: Any, row: OperatorRow, codes: Sequence[int]) -> int:
    offsets = {1: _integers(b, row.inputs), 2: _integers(b, row.outputs)}
    numbers: dict[int, tuple[str, int]] = {0: ("Uint32", codes.index(row.code))}
    if row.code in _OPTIONS:
        flags = {slot: ("Bool", int(flag)) for slot, flag in enumerate(row.flags)}
        offsets[4] = _table(b, max(1, len(flags)), {}, flags)
        numbers[3] = ("Uint8", _OPTIONS[row.code])
    return _table(b, 9, offsets, numbers)


def _named(b: Any, name: str, tensor: int) -> int:
    text = b.CreateString(name)
    return _table(b, 2, {0: text}, {1: ("Uint32", tensor)})
