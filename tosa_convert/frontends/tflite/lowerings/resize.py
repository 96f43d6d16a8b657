"""Resizing of images, whose positions the converter rounds otherwise than TFLite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import OFFSETS
from tosa_convert.frontends.tflite.lowerings.lowering import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.records import NamedTuple, replace
from tosa_convert.rules.families.images import ResizeAxis

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Operator as TosaOperator

#: Operator -> the positions of align_corners and half_pixel_centers among its options.
_FIELDS: Final = {"RESIZE_BILINEAR": (2, 3), "RESIZE_NEAREST_NEIGHBOR": (0, 1)}
#: Fractions of positions in TFLite's kernel of RESIZE_BILINEAR for integers; the bits of two of them.
_FRACTIONS: Final = 1 << 10
_FRACTION_BITS: Final = 20


class _Resized(NamedTuple):
    """axes: positions of height and width; none of UINT8, whose positions are exact."""

    axes: list[ResizeAxis]


def _find_resized(model: TfliteFile, operator: Operator) -> _Resized | None:
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
    elif result.dtype == "uint8":
        # By experiment: TFLite's kernel computes them in FP32, and rounds halves up.
        axes = []
    elif result.dtype in ("int8", "int16"):
        axes = [_in_fractions(*pair, aligned=aligned, half=half) for pair in pairs]
    else:
        return None
    return _Resized(axes) if all(axis.is_allowed() for axis in axes) else None


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
    # Of one row every position is the same, and RESIZE has no step of 0.
    step = max(step, 1)
    return ResizeAxis.between(given, result, _FRACTIONS, step, offset)


def _lower_resized(group: Group, facts: _Resized, write: Writer) -> None:
    """RESIZE with another scale, offset and border; of integers, with the rescaling after it."""
    resize = group.the("RESIZE")
    axes = facts.axes
    if not axes:
        _rounded_up(group, resize, write)
        return
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
    """Resize in 16 bits and round halves up, for negative results those of the inverted input.

    A number with inverted bits is the negated one less 1, before and after; -32768 has it, too.
    """
    value = resize.inputs[0]
    result = rescale.outputs[0]

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
            inverted = rescaled(write.emit("BITWISE_NOT", [value]))
            down = write.emit("BITWISE_NOT", [inverted])
            # TOSA compares integers of 32 bits and more.
            wide = write.emit("CAST", [up], dtype="INT32")
            is_positive = write.emit("GREATER", [wide, write.number(0, wide)])
            write.emit("SELECT", [is_positive, up, down], results=[result])


def _rounded_up(group: Group, resize: TosaOperator, write: Writer) -> None:
    """Round halves of positive numbers up, also if the count of fractions is no power of two."""
    rescale = group.the("RESCALE")
    scale = write.shapes[resize.inputs[1]].values()
    if scale is None or rescale.inputs[0] != resize.outputs[0]:
        raise OtherFormError
    fractions = scale[0] * scale[2]
    shift = 30 + (fractions - 1).bit_length()
    # A multiplier that is rounded up keeps halves at least halves.
    sizes = write.values([-(-(1 << shift) // fractions)], "INT32"), write.values([shift], "INT8")
    write.operators += [one for one in group.operators if one is not rescale]
    positive = write.by("ADD", resize.outputs[0], OFFSETS["uint8"] * fractions)
    zeros = write.values([0], "INT32"), write.values([-OFFSETS["uint8"]], "INT8")
    write.operators.append(
        write.rounding(rescale, "SINGLE_ROUND", (positive, *sizes, *zeros), scale32=True)
    )


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
