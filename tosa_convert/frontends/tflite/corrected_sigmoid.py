"""TANH and LOGISTIC of int16, interpolated in 256 numbers as TFLite's kernels do."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tosa_convert.frontends.process.interface import Correction
from tosa_convert.frontends.tflite.lowering_group import Group, OtherFormError, Writer
from tosa_convert.graph.dtypes import INT32, NanPropagationMode, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block
from tosa_convert.graph.opset import AttributeValue

_BOOL: Final = dtype("BOOL")
_INT16: Final = dtype("INT16")
#: Indices of a TABLE of int16, the number of its index 0, and the bits of its fractions.
_INDICES: Final = 513
_MIDDLE: Final = 256
_FRACTION: Final = 7
#: The table's numbers without their lowest one, so that they fit into 16 bits.
_LOWEST: Final = 1 << 15
_SATURATED: Final = 255


class _Function(NamedTuple):
    """bits: of the fraction of a position. largest: the result from index 255 on, before the last shift.

    positive, negative: what is added to the result, and to the negated result. shift: the last one.
    """

    bits: int
    largest: int
    positive: int
    negative: int
    shift: int


_LOGISTIC: Final = _Function(9, 0x7FFF << 10, 512, (1 << 25) + 511, 10)
_TANH: Final = _Function(8, 0xFFFF << 8, 128 - (1 << 23), (1 << 23) + 127, 8)


def logistic(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """LOGISTIC; the converter's table has other numbers."""
    _interpolated(block, group, row, write, _LOGISTIC)


def tanh(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """TANH, as 2 * logistic(2 * x) - 1."""
    _interpolated(block, group, row, write, _TANH)


def _of(kind: str) -> dict[str, AttributeValue]:
    """Return the attributes of an operator."""
    if kind == "ARITHMETIC_RIGHT_SHIFT":
        return {"round": False}
    return {"nan_mode": NanPropagationMode.PROPAGATE} if kind == "MINIMUM" else {}


def _interpolated(
    block: Block, group: Group, row: Correction, write: Writer, function: _Function
) -> None:
    group.the("TABLE")
    if len(group.inputs) != 1 or block.tensors[group.inputs[0]].dtype is not _INT16:
        raise OtherFormError
    (value,) = group.inputs
    multiplier, shift = row.sizes

    def with_number(kind: str, operand: str, number: int) -> str:
        return write.operator(kind, operand, write.number(number, operand), attributes=_of(kind))

    position = with_number("MUL", write.operator("CAST", value, element=INT32), multiplier)
    if shift:
        position = with_number("ADD", position, 1 << (shift - 1))
        position = with_number("ARITHMETIC_RIGHT_SHIFT", position, shift)
    size = write.operator("ABS", position)
    whole = with_number("ARITHMETIC_RIGHT_SHIFT", size, function.bits)
    fraction = with_number("BITWISE_AND", size, (1 << function.bits) - 1)
    index = with_number("MINIMUM", whole, _SATURATED - 1)
    elements = np.zeros(_INDICES, np.int64)
    elements[_MIDDLE : _MIDDLE + len(row.table)] = np.array(row.table) - _LOWEST
    table = write.constant(constant_of(elements, _INT16), (_INDICES,))

    def looked_up(at: str) -> str:
        place = write.operator(
            "CAST", with_number("LOGICAL_LEFT_SHIFT", at, _FRACTION), element=_INT16
        )
        found = write.operator("TABLE", place, table, element=INT32)
        return with_number("ARITHMETIC_RIGHT_SHIFT", found, _FRACTION)

    low, high = looked_up(index), looked_up(with_number("ADD", index, 1))
    step = write.operator("MUL", fraction, write.operator("SUB", high, low))
    base = with_number("LOGICAL_LEFT_SHIFT", low, function.bits)
    between = with_number("ADD", write.operator("ADD", base, step), _LOWEST << function.bits)
    is_large = write.operator(
        "GREATER_EQUAL", whole, write.number(_SATURATED, whole), element=_BOOL
    )
    result = write.operator("SELECT", is_large, write.number(function.largest, between), between)
    is_positive = write.operator(
        "GREATER_EQUAL", position, write.number(0, position), element=_BOOL
    )
    above = with_number("ADD", result, function.positive)
    below = write.operator("SUB", write.number(function.negative, result), result)
    signed = write.operator("SELECT", is_positive, above, below)
    last = with_number("ARITHMETIC_RIGHT_SHIFT", signed, function.shift)
    write.operator("CAST", last, result=group.result)
