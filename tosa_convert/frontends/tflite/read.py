"""Reads TFLite files by the fields of tensorflow/compiler/mlir/lite/schema/schema.fbs."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from tosa_convert.errors import fail, near_match
from tosa_convert.io.flatbuffer_tables import FlatbufferError, Table, root_table

_DTYPES: Final = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64"),
    *("int8", "float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4"),
    "bfloat16",
)
#: The number of a tensor that an operator leaves out.
_NO_TENSOR: Final = -1
#: Element type -> the bits of an element, for types of a fixed size.
_BITS: Final = {
    **{name: int(re.sub(r"\D", "", name)) for name in _DTYPES if name[-1:].isdigit()},
    "bool": 8,
}
#: A table without fields, in place of one that is left out.
_EMPTY: Final = root_table(b"\x08\0\0\0\4\0\4\0\4\0\0\0")


class DamagedError(FlatbufferError):
    """The file is not a TFLite model, or a damaged one."""


@dataclass(slots=True)
class Tensor:
    """shape: its sizes, -1 where they are dynamic. data: of a constant; else empty.

    scale, zero_point: of a quantised tensor; 0.0 if it is not, or has several scales.
    scales: all of them, along an axis. is_sparse: whether the data are only some of its elements.
    is_variable: whether it keeps its elements from one call to the next.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    scale: float
    zero_point: int
    scales: tuple[float, ...]
    axis: int
    is_variable: bool
    is_sparse: bool

    @property
    def is_state(self) -> bool:
        """Return whether it outlives a call: no operator makes it."""
        return self.is_variable or self.dtype == "resource"


@dataclass(slots=True)
class Operator:
    """One operator.

    code: of the built-in operator. index: its position. options: their table.
    custom, custom_options: its name, and its options, if it is not built in.
    intermediates: tensors that only have a quantisation.
    """

    code: int
    index: int
    inputs: list[int]
    outputs: list[int]
    options: Table = _EMPTY
    custom: str = ""
    custom_options: bytes | memoryview = b""
    intermediates: tuple[int, ...] = ()

    def option(self, position: int, form: str = "i", default: int = 0) -> int:
        """Return an option by its position in the schema."""
        return self.options.number(position, form, default)


@dataclass(slots=True)
class TfliteFile:
    """A subgraph of a model: that of a signature, or the first.

    input_signature: tensor -> its name in the only signature. output_names: what the author calls each
    output: its name in the signature, else that of the tensor. other_signatures: the keys of those that
    are of other subgraphs. subgraph: its number. name: its name. read_subgraph: reads another one by
    its number; it raises DamagedError if there is none.
    """

    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]
    subgraph: int
    name: str
    read_subgraph: Callable[[int], TfliteFile]
    input_signature: dict[int, str] = field(default_factory=dict)
    output_names: list[str] = field(default_factory=list)
    other_signatures: list[str] = field(default_factory=list)

    def input_name(self, tensor: int) -> str:
        """Return what the author calls an input: its name in the signature, else that of the tensor."""
        return self.input_signature.get(tensor) or self.tensors[tensor].name

    def output_name(self, tensor: int) -> str:
        """Return what the author calls an output: the first name, if it is returned several times."""
        if tensor not in self.outputs:
            return self.tensors[tensor].name
        return self.output_names[self.outputs.index(tensor)]

    def operands(self, operator: Operator) -> list[Tensor]:
        """Return the operands of an operator, without those that it leaves out."""
        return [self.tensors[one] for one in operator.inputs if one >= 0]

    def result(self, operator: Operator) -> Tensor:
        return self.tensors[operator.outputs[0]]

    def operator_making(self) -> dict[str, int]:
        """Return the position of the operator that makes a tensor, by the tensor's name."""
        return {
            self.tensors[tensor].name: operator.index
            for operator in self.operators
            for tensor in operator.outputs
        }

    def kinds(self) -> dict[str, str]:
        """Return what the operator that makes a tensor is called, by the tensor's name."""
        return {
            self.tensors[tensor].name: operator.custom or operator_name(operator.code)
            for operator in self.operators
            for tensor in operator.outputs
        }


#: Operator -> the positions of subgraphs among its options.
_CALLED: Final = {"IF": (0, 1), "WHILE": (0, 1), "CALL_ONCE": (0,), "CALL": (0,)}


def reached(model: TfliteFile) -> list[TfliteFile]:
    """Return a subgraph and those that its control flow calls."""
    found = {model.subgraph: model}
    waiting = [model]
    while waiting:
        for operator in waiting.pop().operators:
            for position in _CALLED.get(operator_name(operator.code), ()):
                number = operator.option(position)
                if number not in found:
                    found[number] = model.read_subgraph(number)
                    waiting.append(found[number])
    return list(found.values())


def with_first_subgraph(data: bytes | memoryview, number: int) -> bytes:
    """Return a model's bytes with a subgraph as the first, which TFLite runs, and no signatures."""
    root = root_table(data)
    codes = _codes(root)
    for graph in root.tables(2):
        for row in graph.tables(3):
            (code, _), options = codes[row.number(0, "I")], row.table(4) or _EMPTY
            name = operator_name(code)
            if {0, number} & {options.number(at, "i") for at in _CALLED.get(name, ())}:
                message = f"{name} calls the subgraph of this signature, or that of the first one"
                hint = "export the model with this signature alone"
                raise fail("option-conflict", "--func", message, hint)
    changed = bytearray(data)
    start, _ = root.vector(2)
    places = start, start + 4 * number
    targets = [place + struct.unpack_from("<I", data, place)[0] for place in places]
    try:
        for place, target in zip(places, reversed(targets), strict=True):
            # An offset counts from where it is stored.
            struct.pack_into("<I", changed, place, target - place)
    except struct.error:
        raise DamagedError("the TFLite file has its subgraphs inside of their list") from None
    start, length = root.vector(7)
    if length:
        struct.pack_into("<I", changed, start - 4, 0)
    return bytes(changed)


def read_tflite(data: bytes | memoryview, signature: str = "") -> TfliteFile:
    try:
        return _model(root_table(data), signature)
    except DamagedError:
        raise
    except FlatbufferError as error:
        raise DamagedError(f"the TFLite file is damaged: {error}") from error


def _model(model: Table, signature: str) -> TfliteFile:
    chosen = _signature_of(model, signature) if signature else None
    number = 0 if chosen is None else chosen.number(4, "I")
    found = _subgraph(model, number)
    tensors = found.tensors
    signatures = []
    for row in model.tables(7):
        if row.number(4, "I") != number:
            found.other_signatures.append(row.text(2))
        else:
            signatures.append(row)
    if chosen is not None:
        signatures = [chosen]
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


def _codes(model: Table) -> list[tuple[int, str]]:
    """Return the codes of operators, and their names if they are custom ones."""
    # Old files have the code in a field of one byte; in new ones it is at most 127 there.
    return [(max(row.number(0, "b"), row.number(3, "i")), row.text(1)) for row in model.tables(1)]


def _subgraph(model: Table, number: int) -> TfliteFile:
    codes = _codes(model)
    graph = next(islice(model.tables(2), number, None), None) if number >= 0 else None
    if graph is None:
        raise DamagedError("the TFLite file has no subgraph" + f" {number}" * bool(number))
    buffers = [row.octets(0) for row in model.tables(4)]
    tensors = [_tensor(row, buffers) for row in graph.tables(0)]
    operators = [_operator(index, row, codes) for index, row in enumerate(graph.tables(3))]
    inputs, outputs = graph.integers(1), graph.integers(2)
    used = (inputs, outputs, *(operator.outputs for operator in operators))
    given = (
        tensor for operator in operators for tensor in (*operator.inputs, *operator.intermediates)
    )
    if any(not 0 <= tensor < len(tensors) for row in used for tensor in row) or any(
        not _NO_TENSOR <= tensor < len(tensors) for tensor in given
    ):
        raise DamagedError("the TFLite file names a tensor that it does not have")
    return TfliteFile(
        tensors,
        inputs,
        outputs,
        operators,
        subgraph=number,
        name=graph.text(4),
        read_subgraph=partial(_subgraph, model),
    )


def _signature_of(model: Table, key: str) -> Table:
    rows = {row.text(2): row for row in model.tables(7)}
    if key not in rows:
        names = ", ".join(map(repr, rows)) or "none"
        near = near_match(key, rows)
        hint = f"did you mean {near}?" if near else ""
        message = f"the model has no signature {key!r}; it has {names}"
        raise fail("unknown-function", "--func", message, hint)
    return rows[key]


def _tensor(row: Table, buffers: Sequence[memoryview]) -> Tensor:
    dtype = dict(enumerate(_DTYPES)).get(row.number(1, "b"), "")
    # `shape_signature` has -1 where `shape` has a size to begin with.
    data = buffers[row.number(2, "I")] if buffers else memoryview(b"")
    shape = tuple(row.integers(0))
    quantization = row.table(4) or _EMPTY
    scales, zeros = quantization.numbers(2, "f"), quantization.numbers(3, "q")
    is_one = len(scales) == len(zeros) == 1
    tensor = Tensor(
        row.text(3),
        dtype,
        tuple(row.integers(7)) or shape,
        data,
        scale=scales[0] if is_one else 0.0,
        zero_point=int(zeros[0]) if is_one else 0,
        scales=tuple(scales),
        axis=quantization.number(6, "i"),
        is_variable=bool(row.number(5, "b")),
        is_sparse=row.table(6) is not None,
    )
    # A constant that is stored as a sparse one has fewer elements.
    if len(data) and dtype in _BITS and not tensor.is_sparse:
        needed = math.prod(shape) * _BITS[dtype] + 7 >> 3
        if needed != len(data):
            found = f'the constant "{tensor.name}" has {len(data)} bytes'
            raise DamagedError(f"the TFLite file is damaged: {found}, its shape needs {needed}")
    return tensor


def _operator(index: int, row: Table, codes: Sequence[tuple[int, str]]) -> Operator:
    code, custom = codes[row.number(0, "I")]
    outputs = [tensor for tensor in row.integers(2) if tensor != _NO_TENSOR]
    return Operator(
        code,
        index,
        row.integers(1),
        outputs,
        row.table(4) or _EMPTY,
        custom,
        custom_options=row.octets(5),
        intermediates=tuple(row.integers(8)),
    )


def _signature(rows: Iterator[Table], tensors: Sequence[int]) -> dict[int, list[str]]:
    """Return the names of tensors; {} unless each input or output has exactly one name."""
    names: dict[int, list[str]] = {}
    for row in rows:
        names.setdefault(row.number(1, "I"), []).append(row.text(0))
    given = [name for row in names.values() for name in row]
    counts = {tensor: len(row) for tensor, row in names.items()}
    return names if len(set(given)) == len(given) and counts == Counter(tensors) else {}


# -- names of operators ----------------------------------------------------------------------------

_NAMES: Final = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM
EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND
TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX
MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV
SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT
REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU
REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM
MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER
STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
OPERATOR_NAMES: Final = tuple(_NAMES.split())


def operator_name(code: int) -> str:
    """Return what TensorFlow's schema calls an operator.

    Example:
        >>> operator_name(95), operator_name(100_000)
        ('FLOOR_MOD', 'operator 100000')
    """
    return OPERATOR_NAMES[code] if 0 <= code < len(OPERATOR_NAMES) else f"operator {code}"
