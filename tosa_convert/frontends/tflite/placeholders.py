"""A placeholder for ABS of int8, with which TFLite's converter fails."""

from __future__ import annotations

import math
import struct
from typing import Final

from tosa_convert.frontends.tflite.file import (
    Operator,
    TfliteFile,
    expected_form,
    root_table,
)

#: The code of ABS.
ABS: Final = 101
#: The placeholder: an operator that the converter writes as a table for every scale.
_PLACEHOLDER: Final = 117  # HARD_SWISH
#: Positions of fields: of a model, of a subgraph, of an operator's code.
_CODES, _SUBGRAPHS, _OPERATORS, _INDEX, _OPTIONS_TYPE = 1, 2, 3, 0, 3
_OLD_CODE, _NEW_CODE = 0, 3


def abs_table(model: TfliteFile, operator: Operator) -> list[int]:
    """Return the values of ABS; [] if the operator is not one of int8."""
    scales = _scales(model, operator)
    if scales is None:
        return []
    given, result = scales
    (ratio,) = struct.unpack("<f", struct.pack("<f", given[0] / result[0]))
    fraction, exponent = math.frexp(ratio)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    values = []
    for element in range(-128, 128):
        value = abs(element - given[1])
        if given[0] != result[0]:
            # Rounded to the integer of the product's upper half, then to that of the shift: twice.
            value = ((value << max(exponent, 0)) * multiplier + (1 << 30)) >> 31
            right = max(-exponent, 0)
            value = (value + (1 << right >> 1)) >> right
        values.append(_saturated(value + result[1]))
    return values


def _scales(
    model: TfliteFile, operator: Operator
) -> tuple[tuple[float, int], tuple[float, int]] | None:
    """Scale and zero point of the operand and of the result, if both are of int8."""
    tensors = [model.tensors[number] for number in (*operator.inputs, *operator.outputs)]
    if len(tensors) != 2 or any(one.dtype != "int8" or not one.scale for one in tensors):
        return None
    given, result = tensors
    return (given.scale, given.zero_point), (result.scale, result.zero_point)


def _saturated(value: int) -> int:
    return max(-128, min(127, value))


def with_placeholders(data: bytes | memoryview, model: TfliteFile) -> bytes | memoryview:
    """Return a model's bytes with a placeholder for each ABS, if all of them are of int8.

    The converter ends at ABS of int8. For the placeholder it writes a table, whose values are then
    corrected to those of ABS.
    """
    absolute = [operator for operator in model.operators if operator.code == ABS]
    for operator in absolute:
        with expected_form(model, operator.index, "ABS"):
            if not abs_table(model, operator):
                return data
    if not absolute:
        return data
    changed = bytearray(data)
    root = root_table(data)
    main = next(root.tables(_SUBGRAPHS))
    indices = set()
    for operator, row in zip(model.operators, main.tables(_OPERATORS), strict=True):
        if operator.code == ABS:
            indices.add(row.number(_INDEX, "I"))
            if at := row.place(_OPTIONS_TYPE):
                changed[at] = 0
    for index, row in enumerate(root.tables(_CODES)):
        if index in indices:
            # A field that is absent has a default, which is not the code of ABS.
            if at := row.place(_OLD_CODE):
                changed[at] = _PLACEHOLDER
            if at := row.place(_NEW_CODE):
                struct.pack_into("<i", changed, at, _PLACEHOLDER)
    return bytes(changed)
