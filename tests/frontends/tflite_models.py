"""TFLite models, written field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import flatbuffers
import numpy as np
import numpy.typing as npt
from frontends.tflite_schema import ELEMENT_TYPES, OPERATORS

#: Code, union and options of an operator that is not in the schema.
_CUSTOM: Final = (32, 0, "")
_SLOTS: Final = {"b": "Int8", "i": "Int32", "I": "Uint32", "f": "Float32", "?": "Bool"}


@dataclass(frozen=True)
class TensorRow:
    """data: of a constant. shape: -1 where it is dynamic.

    scales, zero_points: of a quantised tensor; of several, one for each element along `axis`.
    is_variable: it keeps its value from one call to the next.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[Any] | None = None
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    is_variable: bool = False


@dataclass(frozen=True)
class OperatorRow:
    """operator: its name in TensorFlow's schema, or of a custom one. inputs: -1 is one left out.

    options: fields of its table of options, by name. intermediates: tensors that have a quantisation.
    """

    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subgraph:
    """Tensors, operators, and which tensors are inputs and outputs. name: "" for its number's."""

    tensors: Sequence[TensorRow]
    operators: Sequence[OperatorRow]
    inputs: Sequence[int]
    outputs: Sequence[int]
    name: str = ""


def model(
    tensors: Sequence[TensorRow],
    operators: Sequence[OperatorRow],
    inputs: Sequence[int],
    outputs: Sequence[int],
    *,
    signature: tuple[Sequence[str], Sequence[str]] | None = None,
    metadata: str = "",
    others: Sequence[Subgraph] = (),
    other_signatures: Sequence[str] = (),
    name: str = "main",
) -> bytes:
    """Return the bytes of a model.

    signature: names of inputs and outputs. metadata: the key of an entry. others: subgraphs 1, 2, ...
    other_signatures: the keys of theirs, whose names are those of tensors with the key in front.
    name: that of the first subgraph.
    """
    b = flatbuffers.Builder(4096)
    graphs = [Subgraph(tensors, operators, inputs, outputs, name), *others]
    codes = sorted({(row.operator, row.version) for graph in graphs for row in graph.operators})
    buffers: list[npt.NDArray[Any] | None] = [None]
    code_table = _vector(b, [_code(b, *code) for code in codes])
    graph_table = _vector(
        b, [_subgraph(b, number, graph, codes, buffers) for number, graph in enumerate(graphs)]
    )
    buffer_table = _vector(b, [_buffer(b, data) for data in buffers])
    fields = {1: code_table, 2: graph_table, 4: buffer_table}
    if metadata:
        key = b.CreateString(metadata)
        fields[6] = _vector(b, [_table(b, 2, {0: key})])
    signatures = []
    if signature is not None:
        maps = [
            _vector(
                b, [_named(b, text, tensor) for text, tensor in zip(names, numbers, strict=True)]
            )
            for names, numbers in zip(signature, (inputs, outputs), strict=True)
        ]
        key = b.CreateString("serving_default")
        signatures.append(_table(b, 5, {0: maps[0], 1: maps[1], 2: key}))
    for number, key_text in enumerate(other_signatures, 1):
        graph = graphs[number]
        maps = [
            _vector(b, [_named(b, f"{key_text}_{graph.tensors[one].name}", one) for one in numbers])
            for numbers in (graph.inputs, graph.outputs)
        ]
        key = b.CreateString(key_text)
        signatures.append(_table(b, 5, {0: maps[0], 1: maps[1], 2: key}, {4: ("Uint32", number)}))
    if signatures:
        fields[7] = _vector(b, signatures)
    root = _table(b, 8, fields, {0: ("Uint32", 3)})
    b.Finish(root, file_identifier=b"TFL3")
    return bytes(b.Output())


def _table(
    b: Any,
    size: int,
    offsets: Mapping[int, int],
    numbers: Mapping[int, tuple[str, Any]] | None = None,
) -> int:
    b.StartObject(size)
    for slot, offset in offsets.items():
        b.PrependUOffsetTRelativeSlot(slot, offset, 0)
    b.ForceDefaults(True)  # Some defaults of the schema are not 0.
    for slot, (kind, value) in (numbers or {}).items():
        getattr(b, f"Prepend{kind}Slot")(slot, value, 0)
    b.ForceDefaults(False)
    return int(b.EndObject())


def _vector(b: Any, tables: Sequence[int]) -> int:
    b.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return int(b.EndVector())


def _code(b: Any, operator: str, version: int) -> int:
    offsets = {}
    if operator not in OPERATORS:
        offsets = {1: b.CreateString(operator)}
    code, _, _ = OPERATORS.get(operator, _CUSTOM)
    numbers = {0: ("Int8", min(code, 127)), 2: ("Int32", version), 3: ("Int32", code)}
    return _table(b, 4, offsets, numbers)


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
    number: int,
    graph: Subgraph,
    codes: Sequence[tuple[str, int]],
    buffers: list[npt.NDArray[Any] | None],
) -> int:
    """Return a subgraph's table; the data of its constants are added to `buffers`."""
    tensors = _vector(b, [_tensor(b, row, buffers) for row in graph.tensors])
    operators = _vector(b, [_operator(b, row, codes) for row in graph.operators])
    given, returned = _integers(b, graph.inputs), _integers(b, graph.outputs)
    # Without a name of its own the converter does not find it.
    name = b.CreateString(graph.name or f"graph_{number}")
    return _table(b, 5, {0: tensors, 1: given, 2: returned, 3: operators, 4: name})


def _tensor(b: Any, row: TensorRow, buffers: list[npt.NDArray[Any] | None]) -> int:
    buffer = 0
    if row.data is not None:
        buffer = len(buffers)
        buffers.append(row.data)
    name, shape = b.CreateString(row.name), _integers(b, [abs(size) for size in row.shape])
    offsets = {0: shape, 3: name}
    if row.scales:
        scales = b.CreateNumpyVector(np.array(row.scales, np.float32))
        zeros = b.CreateNumpyVector(np.array(row.zero_points, np.int64))
        offsets[4] = _table(b, 7, {2: scales, 3: zeros}, {6: ("Int32", row.axis)})
    if -1 in row.shape:
        offsets[7] = _integers(b, row.shape)
    numbers: dict[int, tuple[str, Any]] = {
        1: ("Int8", ELEMENT_TYPES[row.dtype]),
        2: ("Uint32", buffer),
        5: ("Bool", row.is_variable),
        8: ("Bool", True),  # has_rank: without sizes it is a scalar.
    }
    return _table(b, 9, offsets, numbers)


def _operator(b: Any, row: OperatorRow, codes: Sequence[tuple[str, int]]) -> int:
    offsets = {1: _integers(b, row.inputs), 2: _integers(b, row.outputs)}
    numbers: dict[int, tuple[str, Any]] = {0: ("Uint32", codes.index((row.operator, row.version)))}
    _, union, text = OPERATORS.get(row.operator, _CUSTOM)
    if row.intermediates:
        offsets[8] = _integers(b, row.intermediates)
    if union:
        offsets[4] = _options(b, text, row.options)
        numbers[3] = ("Uint8", union)
    return _table(b, 9, offsets, numbers)


def _options(b: Any, text: str, given: Mapping[str, Any]) -> int:
    """Return the table of an operator's options; KeyError for a field that it does not have."""
    fields = dict(one.split(":") for one in text.split())
    offsets, numbers = {}, {}
    for name, value in given.items():
        slot, kind = int(fields[name][:-1]), fields[name][-1]
        if kind == "*":
            offsets[slot] = _integers(b, value)
        elif kind == "F":
            offsets[slot] = int(b.CreateNumpyVector(np.array(value, np.float32)))
        elif kind == "s":
            offsets[slot] = b.CreateString(value)
        else:
            numbers[slot] = (_SLOTS[kind], value)
    return _table(b, max(1, len(fields) + 2), offsets, numbers)


def _named(b: Any, name: str, tensor: int) -> int:
    text = b.CreateString(name)
    return _table(b, 2, {0: text}, {1: ("Uint32", tensor)})
