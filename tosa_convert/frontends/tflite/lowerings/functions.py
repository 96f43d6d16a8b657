"""Functions that the converter writes as other functions, or with other numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    fixed_point,
    single,
)
from tosa_convert.frontends.tflite.lowerings.correction import Correction, Group, OtherFormError
from tosa_convert.frontends.tflite.lowerings.decomposition import NO_FACTS, NoFacts
from tosa_convert.frontends.tflite.read import Operator, TfliteFile

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Block

_FLOATS: Final = frozenset({"FP32", "FP16", "BF16"})
#: The bits by which a TABLE of int16 is interpolated.
_TABLE_FRACTION: Final = 7
#: Elements of a constant divisor of which the quotient is computed again.
_MOST_ELEMENTS: Final = 4096


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


def _find_exact_gelu(model: TfliteFile, operator: Operator) -> NoFacts | None:
    """Find the exact function of floating-point numbers; that of 8 bits is a right table."""
    types = {model.tensors[operator.inputs[0]].dtype, model.result(operator).dtype}
    is_table = types in ({"int8"}, {"uint8"})
    return None if is_table or operator.option(0, "b") else NO_FACTS


def _lower_exact_gelu(block: Block, group: Group, facts: NoFacts, write: Writer) -> None:
    """x/2 * (1 + erf(x / sqrt 2))."""
    (value,) = group.inputs
    if block.tensors[value].dtype.name not in _FLOATS:
        raise OtherFormError
    group.the("TANH")
    error = write.emit("ERF", [write.emit("MUL", [value, write.number(math.sqrt(0.5), value)])])
    factor = write.emit("ADD", [error, write.number(1, value)])
    half = write.emit("MUL", [value, write.number(0.5, value)])
    write.emit("MUL", [half, factor], results=[group.result])


def _lower_table(block: Block, group: Group, values: list[int], write: Writer) -> None:
    """Look up a function of int8 in a table of its values for all elements."""
    (value,) = group.inputs
    table = group.the("TABLE")
    if len(group.operators) != 1 or block.tensors[table.inputs[1]].shape != (len(values),):
        raise OtherFormError
    numbers = write.values(values, "INT8")
    write.emit("TABLE", [value, numbers], results=[group.result])


def _find_exponential(model: TfliteFile, operator: Operator) -> NoFacts | None:
    return NO_FACTS if model.result(operator).dtype == "int16" else None


def _lower_exponential(block: Block, group: Group, facts: NoFacts, write: Writer) -> None:
    """TABLE of int16, whose result has 7 bits more; TFLite rounds halves of them up."""
    table = group.the("TABLE")
    is_int16 = block.tensors[group.result].dtype.name == "INT16"
    if len(group.operators) != 1 or not is_int16:
        raise OtherFormError
    wide = write.emit("TABLE", table.inputs, dtype="INT32")
    shift = write.number(_TABLE_FRACTION, wide)
    rounded = write.emit("ARITHMETIC_RIGHT_SHIFT", [wide, shift], {"round": True})
    write.emit("CAST", [rounded], results=[group.result])


def _find_floor_mod(model: TfliteFile, operator: Operator) -> list[float]:
    """Find the elements of a constant divisor, if there are few."""
    if len(operator.inputs) < 2:
        return []
    tensor = model.tensors[operator.inputs[1]]
    form = {"float32": "f", "int32": "i"}.get(tensor.dtype)
    if form is None or len(tensor.data) > 4 * _MOST_ELEMENTS:
        return []
    return list(map(float, struct.unpack(f"<{len(tensor.data) // 4}{form}", tensor.data)))


def _lower_floor_mod(block: Block, group: Group, constant: list[float], write: Writer) -> None:
    """Compute the rest of x / y that has the sign of y."""
    product = group.making(group.the("FLOOR").inputs[0])
    if product is None or product.spec.name != "MUL":
        raise OtherFormError
    value, inverse = product.inputs[:2]
    keep = group.making(value)
    if keep is not None:  # A reshape for the broadcast.
        write.operators.append(keep)
    divisor = _divisor(block, group, constant, write, inverse)
    if block.tensors[value].dtype.is_float:
        quotient = write.emit("MUL", [value, write.emit("RECIPROCAL", [divisor])])
        whole = write.emit("FLOOR", [quotient])
    else:
        whole = write.emit("INTDIV", [value, divisor])
    rest = write.emit("SUB", [value, write.emit("MUL", [whole, divisor])])
    zero = write.number(0, rest)
    # Of the other sign: the quotient was rounded up, or towards zero.
    signs = [write.emit("GREATER", [zero, one]) for one in (rest, divisor)]
    differ = write.emit("LOGICAL_XOR", signs)
    is_rest = write.emit("LOGICAL_NOT", [write.emit("EQUAL", [rest, zero])])
    up = write.emit("LOGICAL_AND", [differ, is_rest])
    rest = write.emit("SELECT", [up, write.emit("ADD", [rest, divisor]), rest])
    sizes = [write.emit("ABS", [one]) for one in (rest, divisor)]
    too_large = write.emit("GREATER_EQUAL", sizes)
    less = write.emit("SUB", [rest, divisor])
    write.emit("SELECT", [too_large, less, rest], results=[group.result])


def _divisor(block: Block, group: Group, constant: list[float], write: Writer, inverse: str) -> str:
    """Find the value whose inverse the converter computed, in the shape of that inverse."""
    made = group.making(inverse)
    if made is None:  # It was folded: the divisor is a constant, which the model has.
        shape = block.tensors[inverse].shape or ()
        if len(constant) != math.prod(shape):
            raise OtherFormError
        return write.values(constant, block.tensors[inverse].dtype.name, shape)
    if made.spec.name == "RECIPROCAL":
        return made.inputs[0]
    before = group.making(made.inputs[0])
    if made.spec.name != "RESHAPE" or before is None or before.spec.name != "RECIPROCAL":
        raise OtherFormError
    name = write.fresh_name("divisor")
    block.tensors[name] = replace(block.tensors[inverse], name=name)
    write.operators.append(
        replace(made, inputs=(before.inputs[0], made.inputs[1]), outputs=(name,))
    )
    return name


CORRECTIONS: Final[Mapping[str, tuple[Correction[Any], ...]]] = {
    "ABS": (
        Correction(
            "ABS of int8",
            "the converter fails with it, so the model has a placeholder for it",
            find_abs_table,
            _lower_table,
        ),
    ),
    "EXP": (
        Correction(
            "the function of int16",
            "the converter's TABLE has 16 bits, without those that are interpolated",
            _find_exponential,
            _lower_exponential,
        ),
    ),
    "FLOOR_MOD": (
        Correction(
            "FLOOR_MOD",
            "the converter writes x/y - floor(x/y), which is not multiplied by y",
            _find_floor_mod,
            _lower_floor_mod,
        ),
    ),
    "GELU": (
        Correction(
            "GELU",
            "the converter writes the approximation by tanh",
            _find_exact_gelu,
            _lower_exact_gelu,
        ),
    ),
}
