"""Conversions to integers, whose rounding and saturation the converter leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import OFFSETS, RANGES
from tosa_convert.frontends.tflite.lowerings.correction import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.read import Operator, TfliteFile

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Block


def _find_truncated(model: TfliteFile, operator: Operator) -> bool | None:
    """Find conversions to integers, and whether the result is unsigned."""
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    is_integer = result.dtype in ("int8", "uint8", "int16", "int32")
    if not given.dtype.startswith("float") or not is_integer:
        return None
    return result.dtype == "uint8"


def _lower_truncated(block: Block, group: Group, is_unsigned: bool, write: Writer) -> None:
    """Convert to integers towards zero; CAST rounds to the nearest."""
    cast = group.the("CAST")
    (value,) = cast.inputs
    if len(group.operators) != 1 or not block.tensors[value].dtype.is_float:
        raise OtherFormError
    is_negative = write.emit("GREATER", [write.number(0, value), value])
    ceiling, floor = write.emit("CEIL", [value]), write.emit("FLOOR", [value])
    whole = write.emit("SELECT", [is_negative, ceiling, floor])
    if not is_unsigned:
        write.emit("CAST", [whole], results=[group.result])
        return
    # Inside of the program unsigned numbers are 128 smaller.
    number = write.emit("CAST", [whole], dtype="INT32")
    signed = write.emit("SUB", [number, write.number(128, number)])
    write.emit("CAST", [signed], results=[group.result])


def _find_saturated(model: TfliteFile, operator: Operator) -> tuple[int, int] | None:
    """Find the lowest and the highest element inside of the program."""
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    if given.dtype != "float32" or result.dtype not in ("int8", "uint8"):
        return None
    less = OFFSETS.get(result.dtype, 0)
    low, high = RANGES[result.dtype]
    return low - less, high - less


def _lower_saturated(block: Block, group: Group, bounds: tuple[int, int], write: Writer) -> None:
    """Bound the values before a conversion to fewer bits, which would wrap around."""
    last = group.making(group.result)
    if last is None or last.spec.name != "CAST":
        raise OtherFormError
    (value,) = last.inputs
    made = group.making(value)
    if block.tensors[value].dtype.is_float:
        # Without a zero point there is one conversion, and that saturates.
        write.operators += group.operators
        return
    if made is None or block.tensors[value].dtype.name != "INT32":
        raise OtherFormError
    write.operators += [one for one in group.operators if one is not last]
    write.emit("CAST", [write.between(value, *bounds)], results=[group.result])


CORRECTIONS: Final[Mapping[str, tuple[Correction[Any], ...]]] = {
    "CAST": (
        Correction(
            "CAST", "the converter rounds to the nearest", _find_truncated, _lower_truncated
        ),
    ),
    "QUANTIZE": (
        Correction(
            "QUANTIZE", "numbers out of the range wrap around", _find_saturated, _lower_saturated
        ),
    ),
}
