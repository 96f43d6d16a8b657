"""The rules for the attributes of an operator: their names, types and ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import INT32_MAX, MAX_RANK, Operator, Tensor
from tosa_convert.graph.opset import AttributeSpec

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
    """Iterate over each attribute whose value is wrong, and what is wrong.

    See `name_problems` for their names.

    operand: the operator's first operand; None if it has none, or a shape.
    """
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
