"""Conversions between element types, which the converter rounds, bounds or shifts otherwise.

Inside of the program UINT8 is INT8 with numbers that are 128 smaller; UINT16 and UINT32 are signed
integers with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import OFFSETS, RANGES, single
from tosa_convert.frontends.tflite.lowerings.lowering import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.read import Operator, TfliteFile
from tosa_convert.graph.dtypes import dtype
from tosa_convert.records import NamedTuple

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer

#: Integer type -> the type of the program, and the largest number.
_INTEGERS: Final = {
    "int8": ("INT8", (1 << 7) - 1),
    "uint8": ("INT8", (1 << 8) - 1),
    "int16": ("INT16", (1 << 15) - 1),
    "uint16": ("INT16", (1 << 16) - 1),
    "int32": ("INT32", (1 << 31) - 1),
    "uint32": ("INT32", (1 << 32) - 1),
    "int64": ("INT64", (1 << 63) - 1),
}
_WIDE_UNSIGNED: Final = ("uint16", "uint32")
#: Types that CAST does not convert to INT64, nor from it.
_NARROW: Final = frozenset({"int8", "int16", "uint16"})
#: The largest number of FP32 below 1/2: the sum with it is rounded to an integer from each half on.
_BELOW_HALF: Final = 0.5 - 2.0**-25


class _Types(NamedTuple):
    """The types of operand and result in TFLite."""

    given: str
    result: str


def _find_cast(model: TfliteFile, operator: Operator) -> _Types | None:
    """Find those of floats to integers, to UINT8, from wide unsigned integers, and over 32 bits."""
    types = _Types(model.tensors[operator.inputs[0]].dtype, model.result(operator).dtype)
    is_truncated = "float" in types.given and types.result in _INTEGERS
    is_shifted = types.result == "uint8" and types.given != "uint8"
    is_wide = types.given in _WIDE_UNSIGNED and types.result != "bool"
    is_over = "int64" in types and bool(_NARROW.intersection(types))
    return types if is_truncated or is_shifted or is_wide or is_over else None


def _lower_cast(group: Group, types: _Types, write: Writer) -> None:
    value = group.only_input("CAST", "RESCALE", "IDENTITY")
    given, element = write.tensors[value].dtype, write.tensors[group.result].dtype.name
    if types.result in _INTEGERS and element not in (_INTEGERS[types.result][0], "INT32"):
        raise OtherFormError
    if "float" in types.given:
        if element == "INT64":  # TOSA has no such CAST, whatever it rounds to.
            write.operators += group.operators
            return
        if not given.is_float:
            raise OtherFormError
        made = _truncated(value, types.result, element, write)
    elif types.given == "uint32" and "float" in types.result:
        made = _float_of_bits(value, element, write)
    else:
        made = _converted(value, types, element, write)
    write.emit("IDENTITY", [made], results=[group.result])


def _truncated(value: str, result: str, element: str, write: Writer) -> str:
    """Convert floats towards zero, bounded by the type's limits; NaN is the largest number.

    CAST rounds to the nearest.
    """
    _, most = _INTEGERS[result]
    if element == "INT32" and result == "int64":
        most = (1 << 31) - 1
    if result.startswith("uint") and write.tensors[value].dtype.name != "FP32":
        value = write.emit("CAST", [value], dtype="FP32")
    is_negative = write.emit("GREATER", [write.number(0, value), value])
    ceiling, floor = write.emit("CEIL", [value]), write.emit("FLOOR", [value])
    whole = write.emit("SELECT", [is_negative, ceiling, floor])
    if result in ("uint8", "uint16"):
        wide = write.emit("CAST", [write.between(whole, 0, most)], dtype="INT32")
    elif result == "uint32":
        half = 1 << 31
        upper = write.emit("CAST", [write.by("SUB", whole, half)], dtype="INT32")
        lower = write.emit("CAST", [write.by("MAXIMUM", whole, 0)], dtype="INT32")
        is_upper = write.by("GREATER_EQUAL", whole, half)
        wide = write.emit("SELECT", [is_upper, write.by("BITWISE_XOR", upper, -half), lower])
        most = -1
    else:
        wide = write.emit("CAST", [whole], dtype=dtype(element))
    is_number = write.emit("EQUAL", [value, value])
    wide = write.emit("SELECT", [is_number, wide, write.number(most, wide)])
    return _narrowed(wide, result, element, write)


def _narrowed(wide: str, result: str, element: str, write: Writer) -> str:
    """Convert INT32 to the lower bits of an integer type, as they are inside of the program."""
    if result == "uint8":
        wide = write.by("BITWISE_XOR", wide, -128)
    same = write.tensors[wide].dtype.name == element
    return wide if same else write.emit("CAST", [wide], dtype=dtype(element))


def _converted(value: str, types: _Types, element: str, write: Writer) -> str:
    """Convert integers and truth values by their numbers."""
    is_wide = write.tensors[value].dtype.name in ("INT32", "INT64")
    wide = value if is_wide else write.emit("CAST", [value], dtype="INT32")
    if types.given == "uint16":
        wide = write.by("BITWISE_AND", wide, 0xFFFF)
    if element in ("INT8", "INT16") and write.tensors[wide].dtype.name == "INT64":
        wide = write.emit("CAST", [wide], dtype="INT32")
    if types.given == "uint32" and element == "INT64":
        wide = write.emit("CAST", [wide], dtype="INT64")
        return write.by("BITWISE_AND", wide, 0xFFFFFFFF)
    return _narrowed(wide, types.result, element, write)


def _float_of_bits(value: str, element: str, write: Writer) -> str:
    """Convert the upper and the lower 16 bits; only their sum is rounded."""
    upper = write.by("LOGICAL_RIGHT_SHIFT", value, 16)
    lower = write.by("BITWISE_AND", value, 0xFFFF)
    parts = [write.emit("CAST", [one], dtype="FP32") for one in (upper, lower)]
    total = write.emit("ADD", [write.by("MUL", parts[0], 1 << 16), parts[1]])
    return total if element == "FP32" else write.emit("CAST", [total], dtype=dtype(element))


class _Scaled(NamedTuple):
    """inverse: of the scale. zero_point, low, high: of the elements inside of the program."""

    inverse: float
    zero_point: int
    low: int
    high: int


def _find_quantized(model: TfliteFile, operator: Operator) -> _Scaled | None:
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    if given.dtype != "float32" or result.dtype not in RANGES or not result.scale:
        return None
    less = OFFSETS.get(result.dtype, 0)
    low, high = RANGES[result.dtype]
    return _Scaled(single(1 / result.scale), result.zero_point - less, low - less, high - less)


def _lower_quantized(group: Group, facts: _Scaled, write: Writer) -> None:
    """Bound the values before they become integers, and round halves away from zero."""
    value = group.only_input("CAST")
    if not write.tensors[value].dtype.is_float:
        raise OtherFormError
    steps = write.by("MUL", value, facts.inverse)
    bounded = write.between(steps, facts.low - facts.zero_point, facts.high - facts.zero_point)
    is_negative = write.emit("GREATER", [write.number(0, bounded), bounded])
    up = write.emit("FLOOR", [write.by("ADD", bounded, _BELOW_HALF)])
    down = write.emit("CEIL", [write.by("SUB", bounded, _BELOW_HALF)])
    whole = write.emit("CAST", [write.emit("SELECT", [is_negative, down, up])], dtype="INT32")
    if facts.zero_point:
        whole = write.by("ADD", whole, facts.zero_point)
    write.emit("CAST", [whole], results=[group.result])


CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "CAST",
        "the converter rounds to the nearest, and takes unsigned integers for others",
        _find_cast,
        _lower_cast,
    ),
    Correction(
        "QUANTIZE",
        "numbers out of the range wrap around, and halves are rounded to the even number",
        _find_quantized,
        _lower_quantized,
    ),
)
