"""Resizing of images, whose positions the converter rounds otherwise than TFLite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.lowering import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.records import replace
from tosa_convert.rules.resize_axis import ResizeAxis

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Operator as TosaOperator

#: Operator -> the positions of align_corners and half_pixel_centers among its options.
_FIELDS: Final = {"RESIZE_BILINEAR": (2, 3), "RESIZE_NEAREST_NEIGHBOR": (0, 1)}
#: Fractions of positions in TFLite's kernel of RESIZE_BILINEAR for integers; the bits of two of them.
_FRACTIONS: Final = 1 << 10
_FRACTION_BITS: Final = 20


def _find_resized(model: TfliteFile, operator: Operator) -> list[ResizeAxis] | None:
    """Find positions as TFLite rounds them: of a nearest neighbour down, of integers to fractions."""
    given, result = model.tensors[operator.inputs[0]], model.result(operator)
    name = operator_name(operator.code)
    aligned, half = (bool(operator.option(field, "b")) for field in _FIELDS[name])
    pairs = list(zip(given.shape[1:3], result.shape[1:3], strict=True))
    if len(given.shape) != 4 or min(*given.shape, *result.shape) < 1:
        return None
    if name == "RESIZE_NEAREST_NEIGHBOR":
        if aligned or half:
            return None
        axes = [_rounded_down(*pair) for pair in pairs]
    elif result.dtype in ("int8", "int16"):
        axes = [_in_fractions(*pair, aligned=aligned, half=half) for pair in pairs]
    else:
        return None
    return axes if all(axis.is_allowed() for axis in axes) else None


def _rounded_down(given: int, result: int) -> ResizeAxis:
    """Map each output position to the input position at or below it; RESIZE takes the nearest."""
    shared = math.gcd(given, result)
    numerator, denominator = 2 * result // shared, 2 * given // shared
    return ResizeAxis.between(given, result, numerator, denominator, -numerator // 2)


def _in_fractions(given: int, result: int, *, aligned: bool, half: bool) -> ResizeAxis:
    """Round the steps to fractions, as TFLite does for integers."""
    if aligned and result > 1:
        step = (_FRACTIONS * (given - 1) + (result - 1) // 2) // (result - 1)
    else:
        step = (_FRACTIONS * given + result // 2) // result
    offset = step // 2 - _FRACTIONS // 2 if half else 0
    return ResizeAxis.between(given, result, _FRACTIONS, step, offset)


def _lower_resized(group: Group, axes: list[ResizeAxis], write: Writer) -> None:
    """RESIZE with another scale, offset and border; of integers, with the rescaling after it."""
    resize = group.the("RESIZE")
    scale = [number for axis in axes for number in axis[:2]]
    parts = scale, [axis.offset for axis in axes], [axis.border for axis in axes]
    positions = tuple(write.const_shape(part) for part in parts)
    corrected = replace(resize, inputs=(resize.inputs[0], *positions))
    rescales = [one for one in group.operators if one.spec.name == "RESCALE"]
    if not rescales:
        write.operators += [corrected if one is resize else one for one in group.operators]
        return
    (rescale,) = rescales
    if rescale.inputs[0] != resize.outputs[0]:
        raise OtherFormError
    if write.tensors[rescale.inputs[0]].dtype.name != "INT32":
        _away_from_zero(group, corrected, rescale, write)
        return
    for one in group.operators:
        if one is resize:
            write.operators.append(corrected)
        elif one is rescale:
            write.operators.append(_rescaled(one, write))
        else:
            write.operators.append(one)


def _away_from_zero(
    group: Group, resize: TosaOperator, rescale: TosaOperator, write: Writer
) -> None:
    """Resize in 16 bits and round halves up, for negative results those of the negated input.

    -32768 has no negative number; 32767 is near enough to be one step off.
    """
    value = resize.inputs[0]
    result = rescale.outputs[0]
    zero = write.values([0], "INT16")

    def rescaled(source: str) -> str:
        wide, narrow = write.like(resize.outputs[0]), write.like(result)
        inputs = (source, *resize.inputs[1:])
        write.operators.append(replace(resize, inputs=inputs, outputs=(wide,)))
        moved = replace(rescale, inputs=(wide, *rescale.inputs[1:]), outputs=(narrow,))
        write.operators.append(_rescaled(moved, write))
        return narrow

    for one in group.operators:
        if one is not rescale and one.spec is not resize.spec:
            write.operators.append(one)
        elif one is rescale:
            up = rescaled(value)
            negated = rescaled(write.emit("NEGATE", [value, zero, zero]))
            down = write.emit("NEGATE", [negated, zero, zero])
            # TOSA compares integers of 32 bits and more.
            wide = write.emit("CAST", [up], dtype="INT32")
            is_positive = write.emit("GREATER", [wide, write.number(0, wide)])
            write.emit("SELECT", [is_positive, up, down], results=[result])


def _rescaled(rescale: TosaOperator, write: Writer) -> TosaOperator:
    """Divide by 2 ** 20, rounding halves away from zero for 8 bits, and up for 16 bits."""
    value, _, _, *zeros = rescale.inputs
    is_wide = write.tensors[value].dtype.name != "INT32"
    bits = 14 if is_wide else 30
    element = "INT16" if is_wide else "INT32"
    multiplier = write.values([1 << bits], element)
    shift = write.values([bits + _FRACTION_BITS], "INT8")
    if not is_wide:
        places = write.number(31, value)
        sign = write.emit("ARITHMETIC_RIGHT_SHIFT", [value, places])
        value = write.emit("ADD", [value, sign])
    return write.rounding(rescale, "SINGLE_ROUND", (value, multiplier, shift, *zeros))


CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "the resizing operator",
        "the converter rounds positions to the nearest, and interpolates more exactly than TFLite",
        _find_resized,
        _lower_resized,
        names=tuple(_FIELDS),
    ),
)
