"""Which operators of a TFLite model that compute element by element are decomposed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tosa_convert.frontends.tflite.facts import (
    Facts,
    Find,
    bounds,
    operands_of,
    result_of,
)
from tosa_convert.frontends.tflite.file import Operator, TfliteFile
from tosa_convert.frontends.tflite.numbers import (
    multiplier_and_shift,
    option,
    rounded,
    scaled_down,
    single,
)

_RANGES: Final = {"int8": range(-128, 128), "uint8": range(256)}
#: How many bits TFLite adds to numbers of 8 bits before it compares them.
_LEFT: Final = 8
_LARGEST_INT16: Final = 32767
_SHIFTED: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
#: Bits of FAKE_QUANT that the converter lowers.
_LOWERED_BITS: Final = (8, 16)


def _compared(model: TfliteFile, operator: Operator) -> Facts | None:
    """Comparisons of 8 bits, with the numbers that TFLite compares."""
    operands = operands_of(model, operator, 2)
    if any(one.dtype not in _RANGES or not 0 < one.scale < 1 for one in operands):
        return None
    tables = [
        [
            scaled_down((element - one.zero_point) << _LEFT, one.scale)
            for element in _RANGES[one.dtype]
        ]
        for one in operands
    ]
    if any(abs(number) > _LARGEST_INT16 for table in tables for number in table):
        return None
    return {"tables": tables}


def _bounded(model: TfliteFile, operator: Operator) -> Facts | None:
    """Arithmetic of int32 with an activation."""
    limits = bounds(option(operator, 0, "b"))
    if (
        any(one.dtype != "int32" for one in operands_of(model, operator, 2))
        or limits is None
        or limits == (None, None)
    ):
        return None
    return {"bounds": [None if limit is None else int(limit) for limit in limits]}


def _floor_div(model: TfliteFile, operator: Operator) -> Facts | None:
    """If both operands are repeated, the converter fails."""
    result = result_of(model, operator)
    operands = operands_of(model, operator, 2)
    is_int32 = all(one.dtype == "int32" for one in operands)
    return {} if is_int32 and all(one.shape != result.shape for one in operands) else None


def _right_shift(model: TfliteFile, operator: Operator) -> Facts | None:
    x, places = operands_of(model, operator, 2)
    return {} if x.dtype == places.dtype and x.dtype in _SHIFTED else None


def _exclusive_or(model: TfliteFile, operator: Operator) -> Facts | None:
    types = {one.dtype for one in operands_of(model, operator, 2)}
    return {} if types in ({"uint16"}, {"uint32"}) else None


def _elu(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find ELU of int8, with TFLite's values."""
    (given,), result = operands_of(model, operator), result_of(model, operator)
    if {given.dtype, result.dtype} != {"int8"} or not given.scale or not result.scale:
        return None
    inverse = single(1 / result.scale)
    table = []
    for element in _RANGES["int8"]:
        number = single(given.scale * (element - given.zero_point))
        value = single(math.expm1(number)) if number < 0 else number
        table.append(max(-128, min(127, rounded(single(value * inverse)) + result.zero_point)))
    return {"table": table}


def _abs(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find ABS of int16, if the result has another scale."""
    (given,), result = operands_of(model, operator), result_of(model, operator)
    if result.dtype != "int16" or not given.scale or given.scale == result.scale:
        return None
    sizes = multiplier_and_shift(single(given.scale / result.scale), 1.0) if result.scale else []
    return {"sizes": sizes} if sizes else None


def _fake_quant(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find the range that integers of some bits represent, as TFLite moves it to have a zero."""
    options = operator.options
    if options is None or result_of(model, operator).dtype != "float32":
        return None
    low, high = options.real(0), options.real(1)
    bits = options.number(2, "i")
    if bits in _LOWERED_BITS or options.number(3, "b") or not 2 <= bits <= 16 or low >= high:
        return None  # TFLite does not run the narrow range.
    least, most = 0, (1 << bits) - 1
    scale = single((high - low) / (most - least))
    zero = rounded(max(least, min(most, single(least - low / scale))))
    ends = [single((limit - zero) * scale) for limit in (least, most)]
    return {"range": [*ends, scale, single(1 / scale)]}


FINDERS: Final[Mapping[str, Find]] = {
    **dict.fromkeys(
        ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _compared
    ),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), _bounded),
    "FLOOR_DIV": _floor_div,
    "RIGHT_SHIFT": _right_shift,
    "BITWISE_XOR": _exclusive_or,
    "ELU": _elu,
    "ABS": _abs,
    "FAKE_QUANT": _fake_quant,
}
