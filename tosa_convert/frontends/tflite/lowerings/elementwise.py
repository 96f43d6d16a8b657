"""Operators that compute each element from elements at its position, and are not lowered or wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    ACTIVATIONS,
    OFFSETS,
    RANGES,
    multiplier_and_shift,
    rounded,
    scaled_down,
    single,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    between,
    ranked,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile
from tosa_convert.records import dataclass

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer

    _Tables = list[list[int]]
    _Bounds = tuple[float | None, float | None]
    _Compute = Callable[[Builder, Value, Value], Value]

#: How many bits TFLite adds to numbers of 8 bits before it compares them.
_LEFT: Final = 8
_LARGEST_INT16: Final = 32767
#: Type -> the most places by which RIGHT_SHIFT shifts it.
_SHIFTED: Final = {"int8": 7, "uint8": 7, "int16": 15, "uint16": 15, "int32": 31, "uint32": 31}
#: Bits of FAKE_QUANT that the converter lowers.
_LOWERED_BITS: Final = (8, 16)
_INT16_TABLE: Final = 513
#: The position in a table of int16 of the number 0.
_MIDDLE: Final = 256
_TABLE_FRACTION: Final = 7
#: Type -> what sets the higher bits of INT32 to 0.
_MASKS: Final = {"uint8": 0xFF, "uint16": 0xFFFF}


def _elements(element: str) -> range:
    """Return the elements of a type of 8 bits, from the lowest."""
    low, high = RANGES[element]
    return range(low, high + 1)


def _ranked_operands(b: Builder, given: Given) -> list[Value]:
    return [ranked(b, one, len(given.shape)) for one in given.operands]


def _find_compared(model: TfliteFile, operator: Operator) -> _Tables | None:
    """Find the numbers that TFLite compares, for the elements of each operand."""
    operands = model.operands(operator, 2)
    if any(one.dtype not in ("int8", "uint8") or not 0 < one.scale < 1 for one in operands):
        return None
    tables = [
        [
            scaled_down((element - one.zero_point) << _LEFT, one.scale)
            for element in _elements(one.dtype)
        ]
        for one in operands
    ]
    if any(abs(number) > _LARGEST_INT16 for table in tables for number in table):
        return None
    return tables


def _comparison(compute: _Compute) -> Decomposition[_Tables]:
    """Compare both operands in one scale, by tables."""

    def lower(b: Builder, given: Given, facts: _Tables) -> list[Value]:
        import numpy as np

        found = []
        for one, numbers, element in zip(
            _ranked_operands(b, given), facts, given.dtypes, strict=True
        ):
            if element == "uint8":
                one = b.bitwise_xor(one, -128)
            middle = _MIDDLE - len(numbers) // 2
            pads = middle, _INT16_TABLE - middle - len(numbers)
            table = np.pad(np.array(numbers), pads, "edge")
            wide = b.logical_left_shift(b.cast(one, dtype="int32"), _TABLE_FRACTION)
            found.append(b.table(b.cast(wide, dtype="int16"), b.const(table.astype(np.int16))))
        return [compute(b, *found)]

    return Decomposition(_find_compared, lower)


def _find_bounded(model: TfliteFile, operator: Operator) -> _Bounds | None:
    """Find arithmetic of int32 with an activation."""
    limits = ACTIVATIONS.get(operator.option(0, "b"))
    is_int32 = all(one.dtype == "int32" for one in model.operands(operator, 2))
    if not is_int32 or limits is None or limits == (None, None):
        return None
    low, high = (None if limit is None else int(limit) for limit in limits)
    return low, high


def _bounded(compute: _Compute) -> Decomposition[_Bounds]:
    """Clamp the result of an operator to the bounds of its activation."""

    def lower(b: Builder, given: Given, facts: _Bounds) -> list[Value]:
        x, y = _ranked_operands(b, given)
        return [between(b, compute(b, x, y), facts)]

    return Decomposition(_find_bounded, lower)


def _find_right_shift(model: TfliteFile, operator: Operator) -> bool:
    x, places = model.operands(operator, 2)
    return x.dtype == places.dtype and x.dtype in _SHIFTED


def _lower_right_shift(b: Builder, given: Given, facts: bool) -> list[Value]:
    """At most by the bits of the type, whose sign fills the upper ones.

    Of a negative count of places the lower five bits count, as on processors.
    """
    x, places = _ranked_operands(b, given)
    wide, wide_places = (
        one if str(one.dtype) == "INT32" else b.cast(one, dtype="int32") for one in (x, places)
    )
    if given.dtype in _MASKS:
        wide, wide_places = (b.bitwise_and(one, _MASKS[given.dtype]) for one in (wide, wide_places))
    is_negative = b.greater(0, wide_places)
    masked = 31 if given.dtype == "uint32" else b.bitwise_and(wide_places, 31)
    by = b.minimum(b.select(is_negative, masked, wide_places), _SHIFTED[given.dtype])
    if given.dtype == "uint32":
        return [b.logical_right_shift(wide, by)]
    shifted = b.arithmetic_right_shift(wide, by, round=False)
    return [shifted if x.dtype == shifted.dtype else b.cast(shifted, dtype=x.dtype)]


def _find_exclusive_or(model: TfliteFile, operator: Operator) -> bool:
    types = {one.dtype for one in model.operands(operator, 2)}
    return types in ({"uint16"}, {"uint32"})


def _lower_exclusive_or(b: Builder, given: Given, facts: bool) -> list[Value]:
    return [b.bitwise_xor(*_ranked_operands(b, given))]


def _find_unsigned_bits(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype in OFFSETS


def _lower_unsigned_bits(group: Group, facts: bool, write: Writer) -> None:
    """Correct the exclusive or of unsigned numbers.

    Their highest bit is inverted inside of the program.
    """
    group.the("BITWISE_XOR")
    bits = write.like(group.result)
    write.operators += group.returning(bits)
    if write.tensors[bits].dtype.name != "INT8":
        raise OtherFormError
    write.emit("BITWISE_XOR", [bits, write.number(-128, bits)], results=[group.result])


def _find_elu(model: TfliteFile, operator: Operator) -> list[int] | None:
    """Find ELU of int8, with TFLite's values."""
    (given,), result = model.operands(operator), model.result(operator)
    if {given.dtype, result.dtype} != {"int8"} or not given.scale or not result.scale:
        return None
    inverse = single(1 / result.scale)
    table = []
    for element in _elements("int8"):
        number = single(given.scale * (element - given.zero_point))
        value = single(math.expm1(number)) if number < 0 else number
        table.append(max(-128, min(127, rounded(single(value * inverse)) + result.zero_point)))
    return table


def _lower_elu(b: Builder, given: Given, table: list[int]) -> list[Value]:
    return [b.table(given.operands[0], b.const(table, "int8"))]


def _find_abs(model: TfliteFile, operator: Operator) -> tuple[int, int] | None:
    """Find the multiplier and shift of ABS of int16, if the result has another scale."""
    (given,), result = model.operands(operator), model.result(operator)
    if result.dtype != "int16" or not given.scale or given.scale == result.scale:
        return None
    scale = single(given.scale / result.scale) if result.scale else 0.0
    return multiplier_and_shift(scale, 1.0)


def _lower_abs(b: Builder, given: Given, facts: tuple[int, int]) -> list[Value]:
    """Round to 31 bits, and then to integers."""
    size = b.abs(b.cast(given.operands[0], dtype="int32"))
    multiplier = b.const([facts[0]], "int32")
    shift = b.const([facts[1]], "int8")
    return [
        b.rescale(
            size, multiplier, shift, scale32=True, rounding_mode="DOUBLE_ROUND", dtype="int16"
        )
    ]


@dataclass(frozen=True, slots=True)
class _Steps:
    """low, high: the range that integers represent. scale, inverse: from an integer to the next."""

    low: float
    high: float
    scale: float
    inverse: float


def _find_fake_quant(model: TfliteFile, operator: Operator) -> _Steps | None:
    """Find the range that integers of some bits represent, as TFLite moves it to have a zero."""
    options = operator.options
    if options is None or model.result(operator).dtype != "float32":
        return None
    low, high = options.real(0), options.real(1)
    bits = options.number(2, "i")
    if bits in _LOWERED_BITS or options.number(3, "b") or not 2 <= bits <= 16 or low >= high:
        return None  # TFLite does not run the narrow range.
    most = (1 << bits) - 1
    scale = single((high - low) / most)
    zero = rounded(max(0, min(most, single(-low / scale))))
    least, largest = (single((limit - zero) * scale) for limit in (0, most))
    return _Steps(least, largest, scale, single(1 / scale))


def _lower_fake_quant(b: Builder, given: Given, facts: _Steps) -> list[Value]:
    """Round to the nearest of the values that integers represent."""
    clamped = b.minimum(b.maximum(given.operands[0], facts.low), facts.high)
    steps = b.floor(b.add(b.mul(b.sub(clamped, facts.low), facts.inverse), 0.5))
    return [b.add(b.mul(steps, facts.scale), facts.low)]


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "EQUAL": _comparison(lambda b, x, y: b.equal(x, y)),
    "NOT_EQUAL": _comparison(lambda b, x, y: b.logical_not(b.equal(x, y))),
    "GREATER": _comparison(lambda b, x, y: b.greater(x, y)),
    "GREATER_EQUAL": _comparison(lambda b, x, y: b.greater_equal(x, y)),
    "LESS": _comparison(lambda b, x, y: b.greater(y, x)),
    "LESS_EQUAL": _comparison(lambda b, x, y: b.greater_equal(y, x)),
    "ADD": _bounded(lambda b, x, y: b.add(x, y)),
    "SUB": _bounded(lambda b, x, y: b.sub(x, y)),
    "MUL": _bounded(lambda b, x, y: b.mul(x, y)),
    "DIV": _bounded(lambda b, x, y: b.intdiv(x, y)),
    "RIGHT_SHIFT": Decomposition(_find_right_shift, _lower_right_shift),
    "BITWISE_XOR": Decomposition(_find_exclusive_or, _lower_exclusive_or),
    "ELU": Decomposition(_find_elu, _lower_elu),
    "ABS": Decomposition(_find_abs, _lower_abs),
    "FAKE_QUANT": Decomposition(_find_fake_quant, _lower_fake_quant),
}
CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "BITWISE_XOR",
        "the highest bit of unsigned numbers is inverted, and 16 bits saturate",
        _find_unsigned_bits,
        _lower_unsigned_bits,
    ),
)
