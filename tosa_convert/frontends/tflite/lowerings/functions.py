"""Functions that the converter writes as other functions, or with other numbers."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    fixed_point,
    single,
)
from tosa_convert.frontends.tflite.lowerings.lowering import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.graph.dtypes import FLOATS
from tosa_convert.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Operator as TosaOperator


#: The bits by which a TABLE of int16 is interpolated.
_TABLE_FRACTION: Final = 7
#: Indices of a TABLE of int16, and the number of its index 0.
_INDICES: Final = 513
_MIDDLE: Final = 256
#: The table's numbers without their lowest one, so that they fit into 16 bits.
_LOWEST: Final = 1 << 15
_SATURATED: Final = 255
#: Of TFLite's kernels: the bits of fractions of their inputs, the largest multiplier and shift, and how
#: close the logarithm of a scale is to an integer that is a power of 2.
_INPUT_BITS: Final = 12
_LARGEST_MULTIPLIER: Final = 32767
_LARGEST_SHIFT: Final = 30
_POWER_OF_TWO: Final = 1e-3
#: The logistic function in TFLite's kernels: 65,536 / (1 + exp(-i / 24)) for i from 0 to 255, rounded,
#: and one more at these places. By experiment, with TANH of LiteRT 2.3.0 at numbers that need no
#: interpolation.
_ABOVE: Final = """
4 8 12 14 15 16 17 19 20 21 22 25 27 28 29 30 31 33 34 35 37 39 40 41 43 44 45 46 49 50 54 62 63 64
66 82 86 93 100 103 112 116 135 255
"""
_ELEMENTS: Final = [
    round(65536 / (1 + math.exp(-place / 24))) + (str(place) in _ABOVE.split()) - _LOWEST
    for place in range(256)
]


def find_abs_table(model: TfliteFile, operator: Operator) -> list[int] | None:
    """Find the values of ABS; None if operand and result are not both of int8."""
    tensors = [model.tensors[number] for number in (*operator.inputs, *operator.outputs)]
    if len(tensors) != 2 or any(one.dtype != "int8" or not one.scale for one in tensors):
        return None
    given, result = tensors
    multiplier, exponent = fixed_point(single(given.scale / result.scale))
    values = []
    for element in range(-128, 128):
        value = abs(element - given.zero_point)
        if given.scale != result.scale:
            # Rounded to the integer of the product's upper half, then to that of the shift: twice.
            value = ((value << max(exponent, 0)) * multiplier + (1 << 30)) >> 31
            right = max(-exponent, 0)
            value = (value + (1 << right >> 1)) >> right
        values.append(max(-128, min(127, value + result.zero_point)))
    return values


def _find_exact_gelu(model: TfliteFile, operator: Operator) -> bool:
    """Find the exact function of floating-point numbers; that of 8 bits is a right table."""
    types = {model.tensors[operator.inputs[0]].dtype, model.result(operator).dtype}
    is_table = types in ({"int8"}, {"uint8"})
    return not is_table and not operator.option(0, "b")


def _lower_exact_gelu(group: Group, facts: bool, write: Writer) -> None:
    """x/2 * (1 + erf(x / sqrt 2))."""
    (value,) = group.inputs
    if write.tensors[value].dtype not in FLOATS:
        raise OtherFormError
    group.the("TANH")
    error = write.emit("ERF", [write.emit("MUL", [value, write.number(math.sqrt(0.5), value)])])
    factor = write.emit("ADD", [error, write.number(1, value)])
    half = write.emit("MUL", [value, write.number(0.5, value)])
    write.emit("MUL", [half, factor], results=[group.result])


def _lower_table(group: Group, values: list[int], write: Writer) -> None:
    """Look up a function of int8 in a table of its values for all elements."""
    (value,) = group.inputs
    table = group.the("TABLE")
    if len(group.operators) != 1 or write.tensors[table.inputs[1]].shape != (len(values),):
        raise OtherFormError
    numbers = write.values(values, "INT8")
    write.emit("TABLE", [value, numbers], results=[group.result])


def _find_exponential(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype == "int16"


def _lower_exponential(group: Group, facts: bool, write: Writer) -> None:
    """TABLE of int16, whose result has 7 bits more; TFLite rounds halves of them up."""
    table = group.the("TABLE")
    is_int16 = write.tensors[group.result].dtype.name == "INT16"
    if len(group.operators) != 1 or not is_int16:
        raise OtherFormError
    wide = write.emit("TABLE", table.inputs, dtype="INT32")
    shift = write.number(_TABLE_FRACTION, wide)
    rounded = write.emit("ARITHMETIC_RIGHT_SHIFT", [wide, shift], {"round": True})
    write.emit("CAST", [rounded], results=[group.result])


def _find_float(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype.startswith("float")


def _lower_round(group: Group, facts: bool, write: Writer) -> None:
    """Round to the nearest integer; of halves to the even one."""
    value = group.only_input("FLOOR")
    floor = write.emit("FLOOR", [value])
    rest = write.emit("SUB", [value, floor])
    half = write.by("MUL", floor, 0.5)
    is_even = write.emit("EQUAL", [half, write.emit("FLOOR", [half])])
    is_odd = write.emit("LOGICAL_NOT", [is_even])
    is_half, is_more = write.by("EQUAL", rest, 0.5), write.by("GREATER", rest, 0.5)
    is_up = write.emit("LOGICAL_OR", [is_more, write.emit("LOGICAL_AND", [is_half, is_odd])])
    write.emit("SELECT", [is_up, write.by("ADD", floor, 1), floor], results=[group.result])


def _lower_sign(group: Group, facts: bool, write: Writer) -> None:
    """Return NaN for NaN; the converter writes 0."""
    value = group.only_input("GREATER")
    sign = write.like(group.result)
    write.operators += group.returning(sign)
    is_number = write.emit("EQUAL", [value, value])
    write.emit("SELECT", [is_number, sign, value], results=[group.result])


def _find_no_maximum(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype == "float32"


def _lower_log_softmax(group: Group, facts: bool, write: Writer) -> None:
    """Subtract the largest element, so that no power overflows."""
    value = group.only_input("LOG")
    axis = {"axis": len(write.tensors[value].shape or ()) - 1}
    largest = write.emit("REDUCE_MAX", [value], axis)
    distance = write.emit("SUB", [value, largest])
    total = write.emit("REDUCE_SUM", [write.emit("EXP", [distance])], axis)
    write.emit("SUB", [distance, write.emit("LOG", [total])], results=[group.result])


def _find_open_relu(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype == "float32"


def _without_bound(one: TosaOperator) -> TosaOperator:
    if one.spec.name != "CLAMP":
        return one
    bound = one.attributes["max_val"]
    assert isinstance(bound, bytes)
    infinity = struct.pack("<f", math.inf).ljust(len(bound), b"\0")
    return replace(one, attributes={**one.attributes, "max_val": infinity})


def _find_integer(model: TfliteFile, operator: Operator) -> str | None:
    """Find ABS and NEG of integers that TOSA bounds, or does not define, at the lowest one."""
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    is_negated = operator_name(operator.code) == "NEG"
    types = ("int8", "int16", "int32") if is_negated else ("int16", "int32")
    if result.dtype not in types:
        return None
    # Of a scale, the absolute value saturates; all others keep their lower bits.
    return "saturated" if given.scale and not is_negated else "negated" if is_negated else "plain"


def _lower_integer(group: Group, kind: str, write: Writer) -> None:
    value = group.only_input("ABS", "NEGATE")
    dtype = write.tensors[value].dtype
    is_wide = dtype.name == "INT32"
    wide = value if is_wide else write.emit("CAST", [value], dtype="INT32")
    least = -(1 << 31)
    inner = write.by("MAXIMUM", wide, least + 1) if is_wide else wide
    if kind == "negated":
        found = write.emit("SUB", [write.number(0, inner), inner])
    else:
        found = write.emit("ABS", [inner])
    if is_wide:
        is_least = write.by("EQUAL", wide, least)
        write.emit("SELECT", [is_least, wide, found], results=[group.result])
        return
    if kind == "saturated":
        found = write.by("MINIMUM", found, (1 << 15) - 1)
    write.emit("CAST", [found], results=[group.result])


def _lower_angle(group: Group, facts: bool, write: Writer) -> None:
    """Divide the smaller by the larger size without 0/0 and infinity/infinity; the angle of 0 is 0."""
    inverse = group.the("RECIPROCAL")
    larger = group.making(inverse.inputs[0])
    (quotient,) = (one for one in group.operators if inverse.outputs[0] in one.inputs)
    smaller = [one for one in quotient.inputs[:2] if one != inverse.outputs[0]]
    if larger is None or len(smaller) != 1 or quotient.spec.name != "MUL":
        raise OtherFormError
    (large,), (small,) = larger.outputs, smaller
    casts = {one.outputs[0] for one in group.operators if one.spec.name == "CAST"}
    made = write.like(group.result)
    for one in group.returning(made):
        if one.spec.name == "MUL" and casts.intersection(one.inputs):
            angle = write.like(one.outputs[0])
            write.operators.append(replace(one, outputs=(angle,)))
            ratio = quotient.outputs[0]
            is_zero, zero = write.by("EQUAL", ratio, 0), write.number(0, ratio)
            write.emit("SELECT", [is_zero, zero, angle], results=one.outputs)
            continue
        if one.outputs != quotient.outputs:
            write.operators.append(one)
            continue
        usual = write.like(quotient.outputs[0])
        write.operators.append(replace(one, outputs=(usual,)))
        is_none, is_equal = write.by("EQUAL", large, 0), write.emit("EQUAL", [large, small])
        of_equal = write.emit("SELECT", [is_none, large, write.number(1, large)])
        write.emit("SELECT", [is_equal, of_equal, usual], results=quotient.outputs)
    is_number = write.emit("EQUAL", [large, large])
    write.emit("SELECT", [is_number, made, large], results=[group.result])


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


@dataclass(frozen=True, slots=True)
class _Scaled:
    """multiplier, shift: from an input to a position. function: the one that is interpolated."""

    multiplier: int
    shift: int
    function: _Function


def _find_interpolated(model: TfliteFile, operator: Operator) -> _Scaled | None:
    """Find LOGISTIC and TANH of int16, with the multiplier and the shift of their inputs."""
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    if result.dtype != "int16" or not given.scale:
        return None
    is_tanh = operator_name(operator.code) == "TANH"
    exact = math.log2(given.scale)
    left = round(exact) + _INPUT_BITS
    if abs(exact - round(exact)) < _POWER_OF_TWO and left in (0, int(is_tanh)):
        multiplier, shift = 3 << left, 0
    else:
        scaled, shift = given.scale * 3 * (1 << _INPUT_BITS), 0
        while scaled <= _LARGEST_MULTIPLIER / 2 and shift <= _LARGEST_SHIFT:
            scaled, shift = scaled * 2, shift + 1
        multiplier = int(scaled)
    if multiplier > _LARGEST_MULTIPLIER or shift > _LARGEST_SHIFT:
        return None
    # TANH is 2 * logistic(2 * x) - 1.
    return _Scaled(multiplier, shift, _TANH if is_tanh else _LOGISTIC)


def _lower_interpolated(group: Group, facts: _Scaled, write: Writer) -> None:
    group.the("TABLE")
    if len(group.inputs) != 1 or write.tensors[group.inputs[0]].dtype.name != "INT16":
        raise OtherFormError
    (value,) = group.inputs
    function, shift = facts.function, facts.shift

    def with_number(kind: str, operand: str, number: int) -> str:
        return write.emit(kind, [operand, write.number(number, operand)])

    position = with_number("MUL", write.emit("CAST", [value], dtype="INT32"), facts.multiplier)
    if shift:
        position = with_number("ADD", position, 1 << (shift - 1))
        position = with_number("ARITHMETIC_RIGHT_SHIFT", position, shift)
    size = write.emit("ABS", [position])
    whole = with_number("ARITHMETIC_RIGHT_SHIFT", size, function.bits)
    fraction = with_number("BITWISE_AND", size, (1 << function.bits) - 1)
    index = with_number("MINIMUM", whole, _SATURATED - 1)
    after = _INDICES - _MIDDLE - len(_ELEMENTS)
    table = write.values([*[0] * _MIDDLE, *_ELEMENTS, *[0] * after], "INT16")

    def looked_up(at: str) -> str:
        place = write.emit(
            "CAST", [with_number("LOGICAL_LEFT_SHIFT", at, _TABLE_FRACTION)], dtype="INT16"
        )
        found = write.emit("TABLE", [place, table], dtype="INT32")
        return with_number("ARITHMETIC_RIGHT_SHIFT", found, _TABLE_FRACTION)

    low, high = looked_up(index), looked_up(with_number("ADD", index, 1))
    step = write.emit("MUL", [fraction, write.emit("SUB", [high, low])])
    base = with_number("LOGICAL_LEFT_SHIFT", low, function.bits)
    between = with_number("ADD", write.emit("ADD", [base, step]), _LOWEST << function.bits)
    is_large = write.emit("GREATER_EQUAL", [whole, write.number(_SATURATED, whole)])
    result = write.emit("SELECT", [is_large, write.number(function.largest, between), between])
    is_positive = write.emit("GREATER_EQUAL", [position, write.number(0, position)])
    above = with_number("ADD", result, function.positive)
    below = write.emit("SUB", [write.number(function.negative, result), result])
    signed = write.emit("SELECT", [is_positive, above, below])
    last = with_number("ARITHMETIC_RIGHT_SHIFT", signed, function.shift)
    write.emit("CAST", [last], results=[group.result])


CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction("ROUND", "the converter rounds halves up", _find_float, _lower_round),
    Correction("SIGN", "the converter writes 0 for NaN", _find_float, _lower_sign),
    Correction(
        "RELU",
        "the converter bounds infinity by the largest number",
        _find_open_relu,
        change=_without_bound,
    ),
    Correction(
        "LOG_SOFTMAX",
        "the converter's powers overflow, since it does not subtract the largest element",
        _find_no_maximum,
        _lower_log_softmax,
    ),
    Correction(
        "ABS and NEG of integers",
        "TOSA bounds, or does not define, those of the lowest integer",
        _find_integer,
        _lower_integer,
        names=("ABS", "NEG"),
    ),
    Correction("ATAN2", "the converter divides 0 by 0", _find_float, _lower_angle),
    Correction(
        "ABS of int8",
        "the converter fails with it, so the model has a placeholder for it",
        find_abs_table,
        _lower_table,
        names=("ABS",),
    ),
    Correction(
        "the function of int16",
        "the converter's TABLE has 16 bits, without those that are interpolated",
        _find_exponential,
        _lower_exponential,
        names=("EXP", "LOG"),
    ),
    Correction(
        "GELU",
        "the converter writes the approximation by tanh",
        _find_exact_gelu,
        _lower_exact_gelu,
    ),
    *(
        Correction(
            f"{name} of int16",
            "the converter interpolates in other numbers",
            _find_interpolated,
            _lower_interpolated,
            names=(name,),
        )
        for name in ("LOGISTIC", "TANH")
    ),
)
