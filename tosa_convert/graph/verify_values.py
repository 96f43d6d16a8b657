"""The rules for a single value, and for the attributes of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BLOCK_SCALE, BLOCK_SCALED, INT64, DType, dtype
from tosa_convert.graph.model import (
    DYNAMIC,
    INT32_MAX,
    MAX_RANK,
    MAX_UNKNOWN_SIZES,
    BlockScale,
    Operator,
    ShapeValue,
    Tensor,
)
from tosa_convert.graph.opset import AttributeSpec

INT4_MINUS_8: Final = (
    "an INT4 element is -8; INT4 in TOSA goes from -7 to 7, and readers corrupt -8"
)
INT4_HINT: Final = "requantise the weight to -7..7"
DATA_LENGTH_HINT: Final = "constant data needs a static shape and one element for each place in it"

#: The code of a finding, what is wrong, and what to do or "".
Problem = tuple[str, str, str]


def tensor_problems(key: str, tensor: Tensor) -> Iterator[Problem]:
    """Iterate over the rules that a tensor of the name `key` breaks."""
    if tensor.name != key:
        yield "malformed-tensor", f'its name is "{tensor.name}"', ""
    shape = tensor.shape or ()
    if len(shape) > MAX_RANK:
        message = f"the shape has {len(shape)} dimensions, expected at most {MAX_RANK}"
        yield (
            "unsupported-shape",
            message,
            "merge dimensions with a RESHAPE where the model is built",
        )
        # Counting the elements of such a shape could take forever.
        return
    for size in shape:
        if not DYNAMIC <= size <= INT32_MAX:
            hint = f"a dimension is {DYNAMIC} (dynamic) or 0 to {INT32_MAX}"
            yield "unsupported-shape", f"dimension {size} in shape {list(shape)}", hint
            break
    if tensor.variable_name and not tensor.variable:
        message = f'it has the variable name "{tensor.variable_name}" but is not a variable'
        yield "malformed-tensor", message, ""
    if tensor.scale is not None:
        yield from _scale_problems(tensor, tensor.scale)
    if tensor.data is not None:
        yield from _data_problems(tensor, tensor.data)


def _scale_problems(tensor: Tensor, scale: BlockScale) -> Iterator[Problem]:
    block, data, count = int(scale.shape), scale.data, tensor.element_count()
    last = tensor.shape[-1] if tensor.shape else 0
    if not tensor.shape or (last != DYNAMIC and (last % block or last == 0)):
        message = f"shape {tensor.shape} cannot be divided into blocks of {block}"
        yield "malformed-tensor", message, f"the last dimension must be a multiple of {block}"
    elif tensor.dtype not in BLOCK_SCALED or scale.dtype is not BLOCK_SCALE:
        types = ", ".join(map(str, BLOCK_SCALED))
        hint = f"block-scaled tensors are {types} with scales of {BLOCK_SCALE}"
        yield "malformed-tensor", f"block-scaled {tensor.dtype} with scales of {scale.dtype}", hint
    elif data is not None and (
        count is None or data.count * block != count or data.dtype is not scale.dtype
    ):
        found = f"{data.count} scales of {data.dtype}"
        message = f"{found} for shape {tensor.shape} in blocks of {block} of {scale.dtype}"
        yield "data-length", message, ""


def _data_problems(tensor: Tensor, data: Constant) -> Iterator[Problem]:
    if tensor.element_count() != data.count:
        shape = "unranked" if tensor.shape is None else list(tensor.shape)
        yield "data-length", f"{data.count} elements of data for shape {shape}", DATA_LENGTH_HINT
    if data.dtype is not tensor.dtype:
        yield "malformed-tensor", f"{data.dtype} data in a tensor of {tensor.dtype}", ""
    elif data.holds_int4_minus_8():
        yield "int4-minus-8", INT4_MINUS_8, INT4_HINT


def shape_problems(key: str, shape: ShapeValue) -> Iterator[Problem]:
    """Iterate over the rules that a shape value of the name `key` breaks."""
    rank, data = shape.rank, shape.data
    if shape.name != key:
        yield "malformed-tensor", f'its name is "{shape.name}"', ""
    if not 0 <= rank <= INT32_MAX:
        yield "malformed-tensor", f"rank {rank}, expected 0 to {INT32_MAX}", ""
    elif data is None and rank > MAX_UNKNOWN_SIZES:
        # Rules count sizes, and nothing in the file backs these.
        message = f"{rank} sizes that are not known, expected at most {MAX_UNKNOWN_SIZES}"
        yield "unsupported-shape", message, ""
    elif data is not None and data.count != rank:
        yield "data-length", f"{data.count} sizes in a shape of rank {rank}", ""
    elif data is not None and data.dtype is not INT64:
        yield "malformed-tensor", f"{data.dtype} data in a shape, expected INT64", ""


# -- the rules for the attributes of an operator: their names, types and ranges --------------------

_PYTHON_TYPE: Final = {
    "i32": int,
    "i32s": tuple,
    "bool": bool,
    "dtype": DType,
    "element": bytes,
    "string": str,
    "bytes": bytes,
    "region": str,
}

_BOOL: Final = dtype("BOOL")
_BYTE: Final = 8


def name_problems(operator: Operator) -> list[str]:
    """Return a message for each attribute that the operator has and should not, or lacks."""
    rows, values = operator.spec.attributes, operator.attributes
    expected = {row.name for row in rows}
    listed = ", ".join(row.name for row in rows) or "none"
    return [
        *(
            f'unknown attribute "{name}", expected: {listed}'
            for name in values
            if name not in expected
        ),
        *(f'attribute "{row.name}" is missing' for row in rows if row.name not in values),
    ]


def attribute_problems(
    operator: Operator, operand: Tensor | None
) -> Iterator[tuple[AttributeSpec, str]]:
    """Iterate over attributes with wrong values, and what is wrong. operand: the first, if a tensor."""
    for row in operator.spec.attributes:
        if row.name not in operator.attributes:
            continue
        value = operator.attributes[row.name]
        problem = attribute_problem(row, value)
        if not problem and row.kind == "element":
            problem = element_problem(value, operand)
        if problem:
            yield row, problem


def attribute_problem(row: AttributeSpec, value: object) -> str:
    expected = row.enum if row.kind == "enum" else _PYTHON_TYPE[row.kind]
    assert expected is not None
    if not isinstance(value, expected) or (row.kind == "i32" and isinstance(value, bool)):
        return f"found {value!r}, expected {expected.__name__}"
    if row.kind == "i32":
        assert isinstance(value, int)
        return _i32_problem(value)
    if row.kind == "i32s":
        assert isinstance(value, tuple)
        if row.length >= 0 and len(value) != row.length:
            return f"{len(value)} values, expected {row.length}: {list(value)[:16]}"
        if len(value) > MAX_RANK:
            return f"{len(value)} values, expected at most {MAX_RANK}, the highest rank of a tensor"
        return next(filter(None, map(_i32_problem, value)), "")
    if row.kind == "dtype" and value not in row.choices:
        return f"found {value}, expected one of " + ", ".join(map(str, row.choices))
    return ""


def _i32_problem(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"found {value!r}, expected int"
    if -INT32_MAX - 1 <= value <= INT32_MAX:
        return ""
    return f"{value} does not fit into 32 bits"


def element_problem(value: object, operand: Tensor | None) -> str:
    """Return the problem with the bytes of an element of the first operand's type, or ""."""
    assert isinstance(value, bytes)
    if operand is None:
        return ""
    element = operand.dtype
    if len(value) < element.element_bytes:
        return f"{len(value)} bytes, expected {element.element_bytes}: an element of {element}"
    bits = 1 if element is _BOOL else element.bits
    if bits < _BYTE and value[0] >> bits and not _is_sign_extended(value[0], bits):
        return f"the byte 0x{value[0]:02x}, expected {bits} bits: an element of {element}"
    return ""


def _is_sign_extended(byte: int, bits: int) -> bool:
    """Return whether the bits above an element of several bits repeat its sign."""
    return bits > 1 and byte >> bits - 1 == (1 << _BYTE - bits + 1) - 1
