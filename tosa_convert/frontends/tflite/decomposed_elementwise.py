"""Decompositions of operators that compute each element from elements at its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.decomposition import Decompose, Given, between, ranked

_INT16_TABLE: Final = 513
#: The position in a table of int16 of the number 0.
_MIDDLE: Final = 256
_TABLE_FRACTION: Final = 7
#: Type -> what sets the higher bits of INT32 to 0.
_MASKS: Final = {"uint8": 0xFF, "uint16": 0xFFFF}


def _ranked_operands(b: Builder, given: Given) -> list[Value]:
    return [ranked(b, one, len(given.shape)) for one in given.operands]


def _compared(b: Builder, given: Given) -> tuple[Value, Value]:
    """Both operands of 8 bits in one scale, by tables."""
    found = []
    for one, numbers, dtype in zip(
        _ranked_operands(b, given), given.facts["tables"], given.facts["dtypes"], strict=True
    ):
        if dtype == "uint8":
            one = b.bitwise_xor(one, -128)
        middle = _MIDDLE - len(numbers) // 2
        table = np.pad(np.array(numbers), (middle, _INT16_TABLE - middle - len(numbers)), "edge")
        wide = b.logical_left_shift(b.cast(one, dtype="int32"), _TABLE_FRACTION)
        found.append(b.table(b.cast(wide, dtype="int16"), b.const(table.astype(np.int16))))
    return found[0], found[1]


def _equal(b: Builder, given: Given) -> list[Value]:
    return [b.equal(*_compared(b, given))]


def _not_equal(b: Builder, given: Given) -> list[Value]:
    return [b.logical_not(b.equal(*_compared(b, given)))]


def _greater(b: Builder, given: Given) -> list[Value]:
    return [b.greater(*_compared(b, given))]


def _greater_equal(b: Builder, given: Given) -> list[Value]:
    return [b.greater_equal(*_compared(b, given))]


def _less(b: Builder, given: Given) -> list[Value]:
    x, y = _compared(b, given)
    return [b.greater(y, x)]


def _less_equal(b: Builder, given: Given) -> list[Value]:
    x, y = _compared(b, given)
    return [b.greater_equal(y, x)]


def _bounded(compute: Callable[[Builder, Value, Value], Value]) -> Decompose:
    """Return the decomposition of an operator of integers with an activation."""

    def decompose(b: Builder, given: Given) -> list[Value]:
        x, y = _ranked_operands(b, given)
        return [between(b, compute(b, x, y), given.facts["bounds"])]

    return decompose


def _floor_div(b: Builder, given: Given) -> list[Value]:
    """Round the quotient down: INTDIV rounds it towards zero, one too large if the signs differ."""
    x, y = _ranked_operands(b, given)
    zero = 0
    quotient = b.intdiv(x, y)
    rest = b.sub(x, b.mul(quotient, y))
    differ = b.logical_xor(b.greater(zero, rest), b.greater(zero, y))
    is_above = b.logical_and(differ, b.logical_not(b.equal(rest, zero)))
    return [b.sub(quotient, b.cast(is_above, dtype="int32"))]


def _right_shift(b: Builder, given: Given) -> list[Value]:
    """At most by the bits of the type, whose sign fills the upper ones."""
    dtype = given.facts["dtype"]
    x, places = _ranked_operands(b, given)
    most = 8 * np.dtype(dtype).itemsize - 1
    wide, wide_places = (
        one if str(one.dtype) == "INT32" else b.cast(one, dtype="int32") for one in (x, places)
    )
    if dtype in _MASKS:
        wide = b.bitwise_and(wide, _MASKS[dtype])
    by = b.minimum(wide_places, most)
    if dtype == "uint32":
        return [b.logical_right_shift(wide, by)]
    shifted = b.arithmetic_right_shift(wide, by, round=False)
    return [shifted if x.dtype == shifted.dtype else b.cast(shifted, dtype=x.dtype)]


def _exclusive_or(b: Builder, given: Given) -> list[Value]:
    return [b.bitwise_xor(*_ranked_operands(b, given))]


def _elu(b: Builder, given: Given) -> list[Value]:
    return [b.table(given.operands[0], b.const(np.array(given.facts["table"], np.int8)))]


def _abs(b: Builder, given: Given) -> list[Value]:
    """Rounded to 31 bits, and then to integers."""
    multiplier, shift = given.facts["sizes"]
    size = b.abs(b.cast(given.operands[0], dtype="int32"))
    factor = b.const(np.array([multiplier], np.int32)), b.const(np.array([shift], np.int8))
    return [b.rescale(size, *factor, scale32=True, rounding_mode="DOUBLE_ROUND", dtype="int16")]


def _fake_quant(b: Builder, given: Given) -> list[Value]:
    """Round to the nearest of the values that integers represent."""
    low, high, scale, inverse = given.facts["range"]
    clamped = b.minimum(b.maximum(given.operands[0], low), high)
    steps = b.floor(b.add(b.mul(b.sub(clamped, low), inverse), 0.5))
    return [b.add(b.mul(steps, scale), low)]


KINDS: Final[Mapping[str, Decompose]] = {
    "EQUAL": _equal,
    "NOT_EQUAL": _not_equal,
    "GREATER": _greater,
    "GREATER_EQUAL": _greater_equal,
    "LESS": _less,
    "LESS_EQUAL": _less_equal,
    "ADD": _bounded(lambda b, x, y: b.add(x, y)),
    "SUB": _bounded(lambda b, x, y: b.sub(x, y)),
    "MUL": _bounded(lambda b, x, y: b.mul(x, y)),
    "DIV": _bounded(lambda b, x, y: b.intdiv(x, y)),
    "FLOOR_DIV": _floor_div,
    "RIGHT_SHIFT": _right_shift,
    "BITWISE_XOR": _exclusive_or,
    "ELU": _elu,
    "ABS": _abs,
    "FAKE_QUANT": _fake_quant,
}
