"""Corrected lowerings of TFLite operators: bounds, rounding, positions and bits as in TFLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.frontends.process.interface import Correction
from tosa_convert.frontends.tflite.lowering_group import Group, OtherFormError, Writer
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, DType, NanPropagationMode, RoundingMode, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import AttributeValue, operator

_BOOL: Final = dtype("BOOL")
_INT8: Final = dtype("INT8")
_INT16: Final = dtype("INT16")
_CLAMP: Final = operator("CLAMP")
_NAN_MODE: Final[dict[str, AttributeValue]] = {"nan_mode": NanPropagationMode.PROPAGATE}
#: The bits of fractions of a position in TFLite's kernel of RESIZE_BILINEAR for integers, twice.
_FRACTION_BITS: Final = 20
#: Multiplier and shift of a RESCALE that only adds the zero point.
_ONE: Final = (1 << 30, 30)


def activation(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Clamp to the bounds of the operator's own activation, as TFLite rounds them."""
    last = group.making(group.result)
    if last is None:
        raise OtherFormError
    if last.spec is _CLAMP:
        write.operators += [one for one in group.operators if one is not last]
        _clamp(block, row, write, last.inputs[0], group.result)
    else:
        write.operators += group.operators


def pool(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Add the activation that the converter leaves out, and round halves up for unsigned numbers."""
    value = group.result
    if row.bounds:
        value = write.like(group.result)
    for one in group.operators:
        if one.spec.name == "AVG_POOL2D" and row.is_unsigned:
            zero = write.constant(constant_of(np.array([-128]), _INT8), (1,))
            one = replace(one, inputs=(one.inputs[0], zero, zero))
        outputs = tuple(value if name == group.result else name for name in one.outputs)
        write.operators.append(replace(one, outputs=outputs))
    if row.bounds:
        _clamp(block, row, write, value, group.result)


def _clamp(block: Block, row: Correction, write: Writer, value: str, result: str) -> None:
    element = block.tensors[value].dtype
    low, high = (_raw(number, element) for number in row.bounds)
    attributes = {"min_val": low, "max_val": high, **_NAN_MODE}
    write.operator("CLAMP", value, result=result, attributes=attributes)


def _raw(number: float, element: DType) -> bytes:
    return bytes(constant_of(np.array([number]), element).buffer)


def truncated(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Convert to integers towards zero; CAST rounds to the nearest."""
    cast = group.the("CAST")
    (value,) = cast.inputs
    if len(group.operators) != 1 or not block.tensors[value].dtype.is_float:
        raise OtherFormError
    is_negative = write.operator("GREATER", write.number(0, value), value, element=_BOOL)
    ceiling, floor = write.operator("CEIL", value), write.operator("FLOOR", value)
    whole = write.operator("SELECT", is_negative, ceiling, floor)
    if not row.is_unsigned:
        write.operator("CAST", whole, result=group.result)
        return
    # Inside of the program unsigned numbers are 128 smaller.
    number = write.operator("CAST", whole, element=INT32)
    signed = write.operator("SUB", number, write.number(128, number))
    write.operator("CAST", signed, result=group.result)


def saturated(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Bounds before a conversion to fewer bits, which would wrap around."""
    last = group.making(group.result)
    if last is None or last.spec.name != "CAST":
        raise OtherFormError
    (value,) = last.inputs
    made = group.making(value)
    if block.tensors[value].dtype.is_float:
        # Without a zero point there is one conversion, and that saturates.
        write.operators += group.operators
        return
    if made is None or block.tensors[value].dtype is not INT32:
        raise OtherFormError
    write.operators += [one for one in group.operators if one is not last]
    write.operator("CAST", _between(write, value, row.bounds), result=group.result)


def _between(write: Writer, value: str, bounds: Sequence[float]) -> str:
    low, high = (write.number(number, value) for number in bounds)
    above = write.operator("MAXIMUM", value, low, attributes=dict(_NAN_MODE))
    return write.operator("MINIMUM", above, high, attributes=dict(_NAN_MODE))


def unsigned_bits(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Correct the exclusive or of unsigned numbers.

    Their highest bit is inverted inside of the program.
    """
    group.the("BITWISE_XOR")
    bits = write.like(group.result)
    for one in group.operators:
        outputs = tuple(bits if name == group.result else name for name in one.outputs)
        write.operators.append(replace(one, outputs=outputs))
    if block.tensors[bits].dtype is not _INT8:
        raise OtherFormError
    write.operator("BITWISE_XOR", bits, write.number(-128, bits), result=group.result)


def unsigned_zeros(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Correct the zeros among which unsigned numbers are scattered."""
    scatter = group.the("SCATTER")
    tensor = block.tensors[scatter.inputs[0]]
    if tensor.data is None or tensor.dtype is not _INT8 or tensor.data.numpy().any():
        raise OtherFormError
    zeros = Constant(_INT8, tensor.data.count, b"\x80", splat=True)
    values = write.constant(zeros, tensor.shape or ())
    inputs = (values, *scatter.inputs[1:])
    write.operators += [
        replace(one, inputs=inputs) if one is scatter else one for one in group.operators
    ]


def resized(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """RESIZE with another scale, offset and border; of integers, with the rescaling after it."""
    resize = group.the("RESIZE")
    parts = (row.sizes[:4], row.sizes[4:6], row.sizes[6:])
    positions = tuple(write.sizes(part) for part in parts)
    corrected = replace(resize, inputs=(resize.inputs[0], *positions))
    rescales = [one for one in group.operators if one.spec.name == "RESCALE"]
    if not rescales:
        write.operators += [corrected if one is resize else one for one in group.operators]
        return
    (rescale,) = rescales
    if rescale.inputs[0] != resize.outputs[0]:
        raise OtherFormError
    if block.tensors[rescale.inputs[0]].dtype is not INT32:
        _away_from_zero(group, corrected, rescale, write)
        return
    for one in group.operators:
        if one is resize:
            write.operators.append(corrected)
        elif one is rescale:
            write.operators.append(_rescaled(block, one, write))
        else:
            write.operators.append(one)


def _away_from_zero(group: Group, resize: Operator, rescale: Operator, write: Writer) -> None:
    """Resize in 16 bits and round halves up, for negative results those of the negated input.

    -32768 has no negative number; 32767 is near enough to be one step off.
    """
    block = write.block
    value = resize.inputs[0]
    result = rescale.outputs[0]
    zero = write.constant(constant_of(np.array([0]), _INT16), (1,))

    def rescaled(source: str) -> str:
        wide, narrow = write.like(resize.outputs[0]), write.like(result)
        inputs = (source, *resize.inputs[1:])
        write.operators.append(replace(resize, inputs=inputs, outputs=(wide,)))
        moved = replace(rescale, inputs=(wide, *rescale.inputs[1:]), outputs=(narrow,))
        write.operators.append(_rescaled(block, moved, write))
        return narrow

    for one in group.operators:
        if one is not rescale and one.spec is not resize.spec:
            write.operators.append(one)
        elif one is rescale:
            up = rescaled(value)
            negated = rescaled(write.operator("NEGATE", value, zero, zero))
            down = write.operator("NEGATE", negated, zero, zero)
            is_positive = write.operator("GREATER", up, write.number(0, up), element=_BOOL)
            write.operator("SELECT", is_positive, up, down, result=result)


def _rescaled(block: Block, rescale: Operator, write: Writer) -> Operator:
    """Divide by 2 ** 20, rounding halves away from zero for 8 bits, and up for 16 bits."""
    value, _, _, *zeros = rescale.inputs
    is_wide = block.tensors[value].dtype is not INT32
    bits = 14 if is_wide else 30
    element = _INT16 if is_wide else INT32
    multiplier = write.constant(constant_of(np.array([1 << bits]), element), (1,))
    shift = write.constant(constant_of(np.array([bits + _FRACTION_BITS]), _INT8), (1,))
    if not is_wide:
        places = write.number(31, value)
        sign = write.operator("ARITHMETIC_RIGHT_SHIFT", value, places, attributes={"round": False})
        value = write.operator("ADD", value, sign)
    changed = {**rescale.attributes, "rounding_mode": RoundingMode.SINGLE_ROUND}
    return replace(rescale, inputs=(value, multiplier, shift, *zeros), attributes=changed)


def saturated_difference(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Bounds for the distance to the largest element, which SOFTMAX of int16 looks up in a table."""
    casts = [
        (one, before)
        for one in group.operators
        if one.spec.name == "CAST" and (before := group.making(one.inputs[0])) is not None
    ]
    found = [one for one, before in casts if before.spec.name == "ADD"]
    if len(found) != 1 or block.tensors[found[0].inputs[0]].dtype is not INT32:
        raise OtherFormError
    for one in group.operators:
        if one is found[0]:
            (value,) = one.inputs
            one = replace(one, inputs=(_between(write, value, row.bounds),))
        write.operators.append(one)


def rescaled(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Rescale by the quotient of the scales in FP32, rounding twice.

    TFLite makes its multiplier of it.
    """
    rescale = group.the("RESCALE")
    corrected = _with_multiplier(rescale, row.sizes, write)
    write.operators += [corrected if one is rescale else one for one in group.operators]


def _with_multiplier(rescale: Operator, sizes: Sequence[int], write: Writer) -> Operator:
    """Return a RESCALE with another multiplier and another shift, rounded twice."""
    multiplier, shift = sizes
    scales = (
        write.constant(constant_of(np.array([multiplier]), INT32), (1,)),
        write.constant(constant_of(np.array([shift]), _INT8), (1,)),
    )
    attributes = {**rescale.attributes, "rounding_mode": RoundingMode.DOUBLE_ROUND}
    if not attributes["scale32"] or attributes["per_channel"]:
        raise OtherFormError
    return replace(
        rescale, inputs=(rescale.inputs[0], *scales, *rescale.inputs[3:]), attributes=attributes
    )


def rescaled_twice(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """LEAKY_RELU: the larger of two products, each with TFLite's multiplier to the result."""
    group.the("MAXIMUM")
    rescales = [one for one in group.operators if one.spec.name == "RESCALE"]
    if len(rescales) != 3 or rescales[2] is not group.making(group.result):
        raise OtherFormError
    sizes = iter((row.sizes[:2], row.sizes[2:], _ONE))
    for one in group.operators:
        is_rescale = one.spec.name == "RESCALE"
        write.operators.append(_with_multiplier(one, next(sizes), write) if is_rescale else one)


def accumulated(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Sums of 48 bits rescaled with a multiplier of 32 bits, which TOSA has for sums of 32 bits only."""
    rescale = group.the("RESCALE")
    value, *_ = rescale.inputs
    if block.tensors[value].dtype.name != "INT48":
        raise OtherFormError
    count = len(row.sizes) // 2
    multipliers, shifts = row.sizes[:count], row.sizes[count:]

    def numbers(element: DType, *values: int) -> str:
        return write.constant(constant_of(np.array(values), element), (len(values),))

    for one in group.operators:
        if one is not rescale:
            write.operators.append(one)
            continue
        zeros = numbers(block.tensors[value].dtype, 0), numbers(INT32, 0)
        factor = numbers(_INT16, 1 << 14), numbers(_INT8, 14)
        narrow = write.like(value)
        tensor = block.tensors[narrow]
        block.tensors[narrow] = replace(tensor, dtype=INT32)
        single = {**rescale.attributes, "rounding_mode": RoundingMode.SINGLE_ROUND}
        first = replace(rescale, inputs=(value, *factor, *zeros), outputs=(narrow,))
        one_factor = {**single, "scale32": False, "per_channel": False}
        write.operators.append(replace(first, attributes=one_factor))
        scales = numbers(INT32, *multipliers), numbers(_INT8, *shifts)
        inputs = (narrow, *scales, zeros[1], rescale.inputs[4])
        write.operators.append(
            replace(
                rescale,
                inputs=inputs,
                attributes={**single, "scale32": True, "per_channel": count > 1},
            )
        )
