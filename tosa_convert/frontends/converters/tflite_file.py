"""Facts of a TFLite file that its converter does not keep: signatures, operators by tensor, metadata.

The fields are those of TensorFlow's schema (tensorflow/compiler/mlir/lite/schema/schema.fbs), by their
position in their table.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Element types by their code.
_DTYPES: Final = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64"),
    *("int8", "float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4"),
    "bfloat16",
)
#: The number of a tensor that an operator leaves out.
_NO_TENSOR: Final = -1


@dataclass(slots=True)
class Tensor:
    """shape: its sizes, -1 where they are dynamic. data: of a constant; else empty.

    scale, zero_point: of a quantised tensor; 0.0 if it is not, or has several scales.
    scales: all of them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    scale: float = 0.0
    zero_point: int = 0
    scales: tuple[float, ...] = ()


@dataclass(slots=True)
class Operator:
    """code: of the built-in operator. index: its position. options: their table, if it has one."""

    code: int
    index: int
    inputs: list[int]
    outputs: list[int]
    options: Table | None = None


@dataclass(slots=True)
class TfliteFile:
    """The main subgraph of a model.

    input_signature: tensor -> its name in the only signature. output_names: what the author calls each
    output: its name in the signature, else that of the tensor.
    """

    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]
    input_signature: dict[int, str] = field(default_factory=dict)
    output_names: list[str] = field(default_factory=list)

    def input_name(self, tensor: int) -> str:
        """What the author calls an input: its name in the signature, else that of the tensor."""
        return self.input_signature.get(tensor) or self.tensors[tensor].name

    def output_name(self, tensor: int) -> str:
        """What the author calls an output; the first name of one that is returned several times."""
        if tensor not in self.outputs:
            return self.tensors[tensor].name
        return self.output_names[self.outputs.index(tensor)]

    def operator_making(self) -> dict[str, int]:
        """Name of a tensor -> the position of the operator that makes it."""
        return {
            self.tensors[tensor].name: operator.index
            for operator in self.operators
            for tensor in operator.outputs
        }


def read_tflite(data: bytes | memoryview) -> TfliteFile:
    """The facts of a model.

    Raises:
        ValueError: an offset leads out of the file, or a number does not name anything.
    """
    try:
        return _model(root_table(data))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("the TFLite file is damaged: an offset leads out of it") from error


def place_text(index: int, *tensors: str) -> str:
    """Where an operator is, for messages: its number, and the names of the tensors that it makes."""
    made = ", ".join(f'"{name}"' for name in tensors)
    return f"operator {index}, which makes {made}"


def root_table(data: bytes | bytearray | memoryview) -> Table:
    """The table of the whole model."""
    return Table(memoryview(data), *struct.unpack_from("<I", data, 0))


class Table:
    """A table of a flatbuffer; its fields go by their position in the schema."""

    __slots__ = ("_data", "_fields", "_offset")

    def __init__(self, data: memoryview, offset: int) -> None:
        self._data, self._offset = data, offset
        (back,) = struct.unpack_from("<i", data, offset)
        start = offset - back
        if start < 0:
            raise IndexError(f"a table at {offset} has no fields")
        (size,) = struct.unpack_from("<H", data, start)
        self._fields = struct.unpack_from(f"<{max(0, size // 2 - 2)}H", data, start + 4)

    def place(self, position: int) -> int:
        """Where a field is; 0 if it has its default."""
        offset = self._fields[position] if position < len(self._fields) else 0
        return self._offset + offset if offset else 0

    def number(self, position: int, form: str, default: int = 0) -> int:
        at = self.place(position)
        return int(struct.unpack_from(f"<{form}", self._data, at)[0]) if at else default

    def real(self, position: int, default: float = 0.0) -> float:
        """A number in FP32."""
        at = self.place(position)
        return float(struct.unpack_from("<f", self._data, at)[0]) if at else default

    def _target(self, at: int) -> int:
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, position: int) -> Table | None:
        at = self.place(position)
        return Table(self._data, self._target(at)) if at else None

    def text(self, position: int) -> str:
        at = self.place(position)
        if not at:
            return ""
        start = self._target(at)
        (length,) = struct.unpack_from("<I", self._data, start)
        return bytes(self._data[start + 4 : start + 4 + length]).decode()

    def vector(self, position: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self.place(position)
        if not at:
            return 0, 0
        start = self._target(at)
        (length,) = struct.unpack_from("<I", self._data, start)
        if length > len(self._data):
            raise IndexError(f"a list at {start} has {length} elements")
        return start + 4, int(length)

    def integers(self, position: int) -> list[int]:
        return list(map(int, self.numbers(position, "i")))

    def numbers(self, position: int, form: str) -> list[float]:
        start, length = self.vector(position)
        return list(struct.unpack_from(f"<{length}{form}", self._data, start)) if length else []

    def octets(self, position: int) -> memoryview:
        start, length = self.vector(position)
        return self._data[start : start + length]

    def tables(self, position: int) -> Iterator[Table]:
        start, length = self.vector(position)
        for index in range(length):
            yield Table(self._data, self._target(start + 4 * index))


def _model(model: Table) -> TfliteFile:
    # Old files have the code in a field of one byte; in new ones it is at most 127 there.
    codes = [max(row.number(0, "b"), row.number(3, "i")) for row in model.tables(1)]
    main = next(model.tables(2), None)
    if main is None:
        raise ValueError("the TFLite file has no subgraph")
    buffers = [row.octets(0) for row in model.tables(4)]
    tensors = [_tensor(row, buffers) for row in main.tables(0)]
    operators = [_operator(index, row, codes) for index, row in enumerate(main.tables(3))]
    found = TfliteFile(tensors, main.integers(1), main.integers(2), operators)
    used = (found.inputs, found.outputs, *(operator.outputs for operator in operators))
    if any(not 0 <= tensor < len(tensors) for row in used for tensor in row):
        raise ValueError("the TFLite file names a tensor that it does not have")
    signatures = [row for row in model.tables(7) if row.number(4, "I") == 0]
    names: dict[int, list[str]] = {}
    if len(signatures) == 1:
        rows = _signature(signatures[0].tables(0), found.inputs)
        found.input_signature = {tensor: given[0] for tensor, given in rows.items()}
        names = _signature(signatures[0].tables(1), found.outputs)
    # A tensor that is returned several times has a name for each time, in their order.
    left = {tensor: iter(given) for tensor, given in names.items()}
    signed = [next(left[tensor]) if tensor in left else "" for tensor in found.outputs]
    found.output_names = [
        name or tensors[tensor].name for name, tensor in zip(signed, found.outputs, strict=True)
    ]
    return found


def _tensor(row: Table, buffers: Sequence[memoryview]) -> Tensor:
    code = row.number(1, "b")
    dtype = _DTYPES[code] if 0 <= code < len(_DTYPES) else ""
    # `shape_signature` has -1 where `shape` has a size to begin with.
    data = buffers[row.number(2, "I")] if buffers else memoryview(b"")
    tensor = Tensor(row.text(3), dtype, tuple(row.integers(7) or row.integers(0)), data)
    quantization = row.table(4)
    if quantization is not None:
        scales, zero_points = quantization.numbers(2, "f"), quantization.numbers(3, "q")
        tensor.scales = tuple(scales)
        if len(scales) == len(zero_points) == 1:
            tensor.scale, tensor.zero_point = scales[0], int(zero_points[0])
    return tensor


def _operator(index: int, row: Table, codes: Sequence[int]) -> Operator:
    code = codes[row.number(0, "I")]
    outputs = [tensor for tensor in row.integers(2) if tensor != _NO_TENSOR]
    return Operator(code, index, row.integers(1), outputs, row.table(4))


def _signature(rows: Iterator[Table], tensors: Sequence[int]) -> dict[int, list[str]]:
    """Tensor -> its names; {} unless each input or output has exactly one name."""
    names: dict[int, list[str]] = {}
    for row in rows:
        names.setdefault(row.number(1, "I"), []).append(row.text(0))
    given = [name for row in names.values() for name in row]
    counts = {tensor: len(row) for tensor, row in names.items()}
    return names if len(set(given)) == len(given) and counts == Counter(tensors) else {}
