"""Models of frameworks as their files describe them; no framework is imported."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.header import Header, ModelValue
from tosa_convert.frontends.module_header import read_module_header
from tosa_convert.frontends.onnx.header import OnnxValue, read_onnx
from tosa_convert.frontends.protobuf import Value, fields
from tosa_convert.frontends.protobuf import message as _message
from tosa_convert.frontends.protobuf import text as _text
from tosa_convert.frontends.table import is_file, model_kinds, recognize, refuse_func
from tosa_convert.frontends.tflite.read import operator_name, read_tflite
from tosa_convert.frontends.tflite.unlowered import known_unlowered
from tosa_convert.frontends.torch.header import NEVER_LOWERED, read_pt2
from tosa_convert.io.files import map_file
from tosa_convert.io.options import LimitsLike, limits_of

# -- read frozen GraphDefs of TensorFlow without TensorFlow ----------------------------------------

#: Number of TensorFlow's DataType -> name of the element type.
_TYPES: Final = {
    0: "",
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
#: Operators that compute nothing: inputs, weights, and what orders others.
_NO_OPERATOR: Final = frozenset(("Placeholder", "Const", "NoOp"))


class Node(NamedTuple):
    name: str
    operator: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, memoryview]


def read_graph_def(data: memoryview) -> Header:
    r"""Read the main graph; functions in its library are left out.

    Example:
        >>> read_graph_def(memoryview(b"\n\x10\n\1x\x12\x0bPlaceholder")).inputs
        [ModelValue(name='x', dtype='', shape=None, scale=None, zero_point=0)]
    """
    nodes = [_node(_message(value)) for number, value in fields(data) if number == 1]
    used = {name.lstrip("^").partition(":")[0] for node in nodes for name in node.inputs}
    computed = [node for node in nodes if node.operator not in _NO_OPERATOR]
    return Header(
        [node.operator for node in computed],
        [_input(node) for node in nodes if node.operator == "Placeholder"],
        [ModelValue(node.name, "", None) for node in computed if node.name not in used],
    )


def _node(message: memoryview) -> Node:
    name, operator, inputs = "", "", []
    attributes: dict[str, memoryview] = {}
    for number, value in fields(message):
        if number == 1:
            name = _text(value)
        elif number == 2:
            operator = _text(value)
        elif number == 3:
            inputs.append(_text(value))
        elif number == 5:
            held = dict(fields(_message(value)))
            attributes[_text(held.get(1, memoryview(b"")))] = _message(held.get(2, memoryview(b"")))
    if not operator:
        raise ValueError("a node has no operator")
    return Node(name, operator, tuple(inputs), attributes)


def _input(node: Node) -> ModelValue:
    held = {key: dict(fields(node.attributes.get(key, b""))) for key in ("dtype", "shape")}
    number = held["dtype"].get(6, 0)
    dtype = _TYPES.get(number, f"type {number}") if isinstance(number, int) else ""
    shape = held["shape"].get(7)
    return ModelValue(node.name, dtype, None if shape is None else _sizes(_message(shape)))


def _sizes(message: memoryview) -> tuple[int | str, ...] | None:
    if any(number == 3 and value for number, value in fields(message)):
        return None
    return tuple(_size(value) for number, value in fields(message) if number == 2)


def _size(value: Value) -> int | str:
    numbers = {key: one for key, one in fields(_message(value)) if isinstance(one, int)}
    found = numbers.get(1, 0)
    return "?" if found >> 63 else found  # A negative number has 64 bits.


#: Names of ONNX's element types, by their number.
_ONNX_TYPES: Final = (
    *("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool"),
    *("float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16"),
    *("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4"),
    *("float4e2m1", "float8e8m0"),
)
#: Frontend -> its models, for messages.
KINDS: Final = {
    "tflite": "TFLite model",
    "onnx": "ONNX model",
    "torch": "torch program",
    "tensorflow": "TensorFlow GraphDef",
    "stablehlo": "module of StableHLO",
    "torch-mlir": "module of the torch dialect",
}


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a model's file says.

    frontend: which reads it, such as "tflite". size: its bytes, without weights that are beside it.
    operators: how many there are of each kind, the most frequent first, without those of inner graphs.
    not_lowered: how many operators of a kind are known not to lower. Of others, some forms may not.
    """

    frontend: str
    size: int
    operators: Mapping[str, int]
    inputs: tuple[ModelValue, ...]
    outputs: tuple[ModelValue, ...]
    not_lowered: Mapping[str, int]


def describe(
    path: str | os.PathLike[str], *, func: str | None = None, limits: LimitsLike = None
) -> ModelSummary:
    """Describe a model that is in one file; its framework need not be installed.

    Those are TFLite and ONNX models, .pt2 files, frozen GraphDefs, and text of StableHLO and of the
    torch dialect.

    Args:
        path: a model.
        func: the signature of a TFLite model, or the function of a module, that is described; by default
            the main one.
        limits: as in `load`.

    Returns:
        Its operators, inputs and outputs, and the operators that are known not to lower.

    Raises:
        TosaConvertError: "unrecognised-input" for another model, for what is not a model, and for a
            damaged one; "unknown-function" for a signature that the model does not have;
            "ambiguous-function" for a module of several; "file-error" or "too-large".

    Example:
        >>> import tosa_convert as tc
        >>> summary = tc.frontends.describe("model.tflite")
        >>> summary.inputs[0].name, summary.operators
        ('image', {'ADD': 1})
    """
    name = os.fspath(path)
    model = recognize(name)
    if model is None:
        message = f"the input is not a model of a framework, expected one of: {model_kinds()}"
        raise fail("unrecognised-input", name, message)
    if model.frontend not in KINDS or not is_file(model):
        raise not_described(name, model.frontend)
    data = map_file(name, limit=limits_of(limits).input_bytes)
    return describe_data(data, model.frontend, name, func)


def not_described(where: str, frontend: str) -> TosaConvertError:
    """Return the error for a model that only its framework can read."""
    message = (
        f"the model is for {frontend}, and show cannot read it in this form, expected a TFLite or ONNX "
        "model, a .pt2 file, a frozen GraphDef, or text of StableHLO or of the torch dialect"
    )
    hint = "convert it first: tosa-flatbuffer-convert MODEL -o MODEL.tosa; then show MODEL.tosa"
    return fail("unrecognised-input", where, message, hint)


def describe_data(
    data: memoryview, frontend: str, where: str, func: str | None = None
) -> ModelSummary:
    """Describe the bytes of a model, as `describe` does; `where` is for messages."""
    refuse_func(frontend, func, where)
    try:
        if frontend in ("stablehlo", "torch-mlir"):
            header = _module(data, frontend, where, func or "")
        elif frontend == "tflite":
            header = _tflite(data, func or "")
        else:
            header = {"torch": read_pt2, "tensorflow": read_graph_def, "onnx": _onnx}[frontend](
                data
            )
    except ValueError as error:
        message = f"the {KINDS[frontend]} cannot be read: {error}"
        raise fail("unrecognised-input", where, message) from None
    operators, not_lowered = (
        dict(Counter(names).most_common()) for names in (header.operators, header.not_lowered)
    )
    values = tuple(header.inputs), tuple(header.outputs)
    return ModelSummary(frontend, len(data), operators, *values, not_lowered)


def _tflite(data: memoryview, signature: str) -> Header:
    model = read_tflite(data, signature)

    def value(number: int, name: str) -> ModelValue:
        tensor = model.tensors[number]
        shape = tuple("?" if n < 0 else n for n in tensor.shape)
        return ModelValue(name, tensor.dtype, shape, tensor.scale or None, tensor.zero_point)

    return Header(
        [row.custom or operator_name(row.code) for row in model.operators],
        [value(number, model.input_name(number)) for number in model.inputs],
        map(value, model.outputs, model.output_names),
        [row.operator for row in known_unlowered(model)],
    )


def _onnx(data: memoryview) -> Header:
    model = read_onnx(data)
    inputs, outputs = (map(_onnx_value, rows) for rows in (model.inputs, model.outputs))
    return Header(model.operators, inputs, outputs, model.not_lowered)


def _module(data: memoryview, frontend: str, where: str, func: str) -> Header:
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        raise not_described(where, frontend) from None
    header = read_module_header(text, func, where)
    of_torch = [name for name in header.operators if NEVER_LOWERED.match(f"{name}.")]
    return header._replace(not_lowered=[*header.not_lowered, *of_torch])


def _onnx_value(value: OnnxValue) -> ModelValue:
    known = 0 <= value.element < len(_ONNX_TYPES)
    dtype = _ONNX_TYPES[value.element] if known else f"type {value.element}"
    shape = value.shape and tuple("?" if size == "" else size for size in value.shape)
    return ModelValue(value.name, value.kind or dtype, shape)
