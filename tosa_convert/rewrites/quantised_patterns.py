"""Recognises what quantises and dequantises in a program of FP32.

As torch-mlir writes it, to quantise is MUL by the reciprocal of a scale, a rounding of twelve operators
to the nearest integer, ADD of a zero point, CLAMP and CAST to INT8. To dequantise is CAST, SUB of the
zero point, CAST and MUL by the scale. Of a TFLite model, CAST to INT32 rounds, and the zero point is
subtracted in FP32. Of an ONNX model, CAST rounds, and RESCALE adds the zero point and saturates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.edit import BlockValues
from tosa_convert.graph.dtypes import FP32, INT8, INT16, INT32
from tosa_convert.graph.model import Block, Operator, element_value

Array = npt.NDArray[Any]

#: Operators whose results move at most as far as all elements of their operand do.
_KEEPERS: Final = frozenset(
    (
        *("AVG_POOL2D", "CLAMP", "MAX_POOL2D", "REDUCE_MAX", "REDUCE_MIN"),
        *("RESHAPE", "REVERSE", "SLICE", "TRANSPOSE"),
    )
)
#: The least and the greatest INT8.
LOW: Final = -128
HIGH: Final = 127


class Dequantised(NamedTuple):
    """Hold a scale and a zero point: an integer i means scale * (i - zero).

    value: the tensor of INT8. scales: in FP32, with the rank of the tensor; only the size of the axis of
    channels may not be 1.
    """

    value: str
    scales: Array
    zero: int

    def numbers(self, integers: Array) -> Array:
        """Dequantise integers as the operators do; there has to be one scale."""
        wide = (integers.astype(np.int32) - self.zero).astype(np.float32)
        result: Array = wide * self.scales.reshape(-1)[0]
        return result


class Quantised(NamedTuple):
    """Describe the nearest integer to `value * inverse`, plus `zero`, saturated.

    is_literal: the framework computes in FP32, too, so that nothing may be rounded in another way.
    is_short: CAST rounds already, so that no fewer operators do.
    """

    value: str
    inverse: float
    zero: int
    is_literal: bool = False
    is_short: bool = False

    def integers(self, numbers: Array) -> Array:
        """Quantise numbers of FP32 as the operators do."""
        with np.errstate(over="ignore"):
            rounded = np.rint(numbers.astype(np.float32) * np.float32(self.inverse))
        result: Array = np.clip(rounded + np.float32(self.zero), LOW, HIGH).astype(np.int8)
        return result

    def is_scale_of(self, given: Dequantised) -> bool:
        """Return whether it gives the integers back that were dequantised."""
        if given.scales.size != 1 or given.zero != self.zero:
            return False
        scale = float(given.scales.reshape(-1)[0])
        return abs(scale * self.inverse - 1) < 2.0**-21


def made_by(edit: BlockValues, name: str, kind: str) -> Operator | None:
    op = edit.producers.get(name)
    return op if op is not None and op.spec.name == kind else None


def sides(op: Operator) -> Iterator[tuple[str, str]]:
    """Iterate over the first two operands of an operator in both orders."""
    yield op.inputs[0], op.inputs[1]
    yield op.inputs[1], op.inputs[0]


def array_of(edit: BlockValues, name: str) -> Array | None:
    """Return the elements of a constant in its shape; None for any other value."""
    data, shape = edit.data_of(name), edit.tensors[name].shape
    if data is None or shape is None:
        return None
    number = edit.number_of(name)
    if number is not None:
        return np.full((1,) * len(shape), number, data.dtype.numpy)
    return data.numpy().reshape(shape)


def dequantised(edit: BlockValues, name: str) -> Dequantised | None:
    """Return what a tensor of FP32 is dequantised from, or None."""
    product = made_by(edit, name, "MUL")
    if product is None or edit.tensors[name].dtype is not FP32:
        return None
    for real, constant in sides(product):
        scales = array_of(edit, constant)
        integers, zero = _shifted(edit, real, "SUB")
        cast = made_by(edit, integers, "CAST")
        if scales is None or cast is None:
            continue
        if edit.tensors[real].shape != edit.tensors[name].shape:
            return None
        value = cast.inputs[0]
        if edit.tensors[value].dtype is INT32 and not zero:
            value, zero = _shifted(edit, value, "SUB")
            widened = made_by(edit, value, "CAST")
            if widened is None:
                return None
            value = widened.inputs[0]
        is_scale = np.isfinite(scales).all() and (scales > 0).all()
        is_by_channel = sum(size > 1 for size in scales.shape) <= 1
        if edit.tensors[value].dtype is INT8 and is_scale and is_by_channel:
            return Dequantised(value, scales, zero)
    return None


def steps_of_outputs(block: Block) -> dict[str, float]:
    """Return how far outputs move, by name, if all integers that they are dequantised from do by one."""
    values = BlockValues(block)
    for op in block.operators:
        values.add(op)
    found = {}
    for name in block.outputs:
        value, times = name, 1.0
        while value in block.tensors:
            row = dequantised(values, value)
            if row is not None:
                if row.scales.size == 1:
                    found[name] = float(row.scales.flat[0]) * times
                break
            value, factor = _linear(value, values)
            times *= factor
    return found


def _linear(name: str, values: BlockValues) -> tuple[str, float]:
    """Return the value from which a value follows, and how far it moves if that does by 1; else ""."""
    op = values.producers.get(name)
    if op is None or values.tensors[name].dtype is not FP32:
        return "", 0.0
    if op.spec.name in _KEEPERS:
        return op.inputs[0], 1.0
    if op.spec.name == "REDUCE_SUM":
        axis, shape = op.attributes["axis"], values.tensors[op.inputs[0]].shape
        assert isinstance(axis, int)
        return (op.inputs[0], float(abs(shape[axis]))) if shape is not None else ("", 0.0)
    if op.spec.name in ("ADD", "MUL", "SUB"):
        for value, constant in sides(op):
            if values.data_of(constant) is not None:
                number = values.number_of(constant) if op.spec.name == "MUL" else 1.0
                return (value, abs(float(number))) if number is not None else ("", 0.0)
    return "", 0.0


def quantised(edit: BlockValues, op: Operator) -> Quantised | None:
    """Return what a CAST or a RESCALE to INT8 quantises, or None."""
    if edit.tensors[op.outputs[0]].dtype is not INT8:
        return None
    if op.spec.name == "RESCALE":
        return _moved(edit, op)
    if op.spec.name != "CAST":
        return None
    clamp = made_by(edit, op.inputs[0], "CLAMP")
    is_literal, is_short = clamp is None, False
    if clamp is None and edit.tensors[op.inputs[0]].dtype is FP32:
        scaled, zero, is_literal, is_short = op.inputs[0], 0, False, True
    elif clamp is None:
        value, zero = _shifted(edit, _saturated(edit, op.inputs[0]), "ADD")
        cast = made_by(edit, value, "CAST")
        scaled = cast.inputs[0] if cast is not None else ""
    elif edit.tensors[clamp.inputs[0]].dtype is FP32 and clamp_bounds(clamp) == (LOW, HIGH):
        value, zero = _shifted(edit, clamp.inputs[0], "ADD")
        scaled = _rounded(edit, value)
    else:
        return None
    return _scaled(edit, op, scaled, Quantised("", 0.0, zero, is_literal, is_short))


def _moved(edit: BlockValues, op: Operator) -> Quantised | None:
    """Return what a RESCALE quantises that adds a zero point to what CAST rounded."""
    multiplier, shift, given, zero = (edit.number_of(name) for name in op.inputs[1:])
    cast = made_by(edit, op.inputs[0], "CAST")
    is_plain = not (op.attributes["input_unsigned"] or op.attributes["output_unsigned"])
    if cast is None or not is_plain or given != 0 or not isinstance(zero, int):
        return None
    if (multiplier, shift) != (1 << 30, 30):
        return None
    if edit.tensors[cast.outputs[0]].dtype not in (INT16, INT32):
        return None
    scaled = cast.inputs[0]
    clamp = made_by(edit, scaled, "CLAMP")
    if clamp is not None and edit.tensors[scaled].dtype is FP32:
        if clamp_bounds(clamp) != (LOW - zero, HIGH - zero):
            return None
        scaled = clamp.inputs[0]
    return _scaled(edit, op, scaled, Quantised("", 0.0, zero, is_short=True))


def _scaled(edit: BlockValues, op: Operator, scaled: str, found: Quantised) -> Quantised | None:
    """Return what is found of a value that an inverse scale multiplies; None if none does."""
    product = made_by(edit, scaled, "MUL") if scaled else None
    if product is None or edit.tensors[scaled].dtype is not FP32:
        return None
    for real, constant in sides(product):
        inverse = edit.number_of(constant)
        is_whole = edit.tensors[real].shape == edit.tensors[op.outputs[0]].shape
        if isinstance(inverse, float) and 0 < inverse < np.inf and is_whole:
            return found._replace(value=real, inverse=inverse)
    return None


def _shifted(edit: BlockValues, name: str, kind: str) -> tuple[str, int]:
    """Return what a zero point is added to or subtracted from, and that; the value without one."""
    op = made_by(edit, name, kind)
    number = edit.number_of(op.inputs[1]) if op is not None else None
    if op is None or not isinstance(number, (int, float)) or not LOW <= number <= HIGH:
        return name, 0
    return (op.inputs[0], int(number)) if number == int(number) else (name, 0)


def _saturated(edit: BlockValues, name: str) -> str:
    """Return what the bounds of INT8 are applied to by MAXIMUM and MINIMUM; "" if they are not."""
    for kind, bound in (("MINIMUM", HIGH), ("MAXIMUM", LOW)):
        op = made_by(edit, name, kind) if name else None
        name = op.inputs[0] if op is not None and edit.number_of(op.inputs[1]) == bound else ""
    return name


def clamp_bounds(clamp: Operator) -> tuple[float, float]:
    """Return the bounds of a CLAMP of FP32."""
    low, high = clamp.attributes["min_val"], clamp.attributes["max_val"]
    assert isinstance(low, bytes)
    assert isinstance(high, bytes)
    return float(element_value(low, FP32)), float(element_value(high, FP32))


def _rounded(edit: BlockValues, name: str) -> str:
    """Return what a value is the nearest even integer of, as twelve operators compute it; or ""."""
    chosen = made_by(edit, name, "SELECT")
    if chosen is None:
        return ""
    condition, below, above = chosen.inputs
    floor, ceil = made_by(edit, below, "FLOOR"), made_by(edit, above, "CEIL")
    either = made_by(edit, condition, "LOGICAL_OR")
    if floor is None or ceil is None or either is None or floor.inputs != ceil.inputs:
        return ""
    for less, tie in sides(either):
        greater, both = made_by(edit, less, "GREATER"), made_by(edit, tie, "LOGICAL_AND")
        if greater is None or both is None or edit.number_of(greater.inputs[0]) != 0.5:
            continue
        rest = made_by(edit, greater.inputs[1], "SUB")
        if rest is None or rest.inputs != (floor.inputs[0], below):
            continue
        for half, even in sides(both):
            is_half = _is_equal_to(edit, half, rest.outputs[0], 0.5)
            if is_half and _is_even(edit, even, below):
                return floor.inputs[0]
    return ""


def _is_equal_to(edit: BlockValues, name: str, value: str, number: float) -> bool:
    equal = made_by(edit, name, "EQUAL")
    return equal is not None and any(
        one == value and edit.number_of(other) == number for one, other in sides(equal)
    )


def _is_even(edit: BlockValues, name: str, integer: str) -> bool:
    """Return whether a value says that an integer is twice the integer below its half."""
    equal = made_by(edit, name, "EQUAL")
    for one, other in sides(equal) if equal is not None else ():
        twice = made_by(edit, other, "MUL")
        if one != integer or twice is None or edit.number_of(twice.inputs[1]) != 2:
            continue
        floor = made_by(edit, twice.inputs[0], "FLOOR")
        half = made_by(edit, floor.inputs[0], "MUL") if floor is not None else None
        if half is not None and half.inputs[0] == integer:
            return edit.number_of(half.inputs[1]) == 0.5
    return False
