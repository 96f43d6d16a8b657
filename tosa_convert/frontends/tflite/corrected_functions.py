"""Corrected lowerings of TFLite's functions that its converter writes as other functions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.frontends.process.interface import Correction
from tosa_convert.frontends.tflite.lowering_group import Group, OtherFormError, Writer
from tosa_convert.graph.dtypes import INT32, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block
from tosa_convert.graph.names import unused_name

_FLOATS: Final = frozenset({"FP32", "FP16", "BF16"})
_BOOL: Final = dtype("BOOL")
_INT8: Final = dtype("INT8")
_INT16: Final = dtype("INT16")
#: The bits by which a TABLE of int16 is interpolated.
_TABLE_FRACTION: Final = 7


def exact_gelu(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """x/2 * (1 + erf(x / sqrt 2))."""
    (value,) = group.inputs
    if block.tensors[value].dtype.name not in _FLOATS:
        raise OtherFormError
    group.the("TANH")
    error = write.operator("ERF", write.operator("MUL", value, write.number(math.sqrt(0.5), value)))
    factor = write.operator("ADD", error, write.number(1, value))
    half = write.operator("MUL", value, write.number(0.5, value))
    write.operator("MUL", half, factor, result=group.result)


def table_of_int8(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Look up a function of int8 in a table of its values for all elements."""
    (value,) = group.inputs
    table = group.the("TABLE")
    if len(group.operators) != 1 or block.tensors[table.inputs[1]].shape != (len(row.table),):
        raise OtherFormError
    values = write.constant(constant_of(np.array(row.table), _INT8), (len(row.table),))
    write.operator("TABLE", value, values, result=group.result)


def table_of_int16(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """TABLE of int16, whose result has 7 bits more; TFLite rounds halves of them up."""
    table = group.the("TABLE")
    element = block.tensors[group.result].dtype
    if len(group.operators) != 1 or element is not _INT16:
        raise OtherFormError
    wide = write.operator("TABLE", *table.inputs, element=INT32)
    shift = write.number(_TABLE_FRACTION, wide)
    rounded = write.operator("ARITHMETIC_RIGHT_SHIFT", wide, shift, attributes={"round": True})
    write.operator("CAST", rounded, result=group.result)


def floor_mod(block: Block, group: Group, row: Correction, write: Writer) -> None:
    """Compute the rest of x / y that has the sign of y."""
    product = group.making(group.the("FLOOR").inputs[0])
    if product is None or product.spec.name != "MUL":
        raise OtherFormError
    value, inverse = product.inputs[:2]
    keep = group.making(value)
    if keep is not None:  # A reshape for the broadcast.
        write.operators.append(keep)
    divisor = _divisor(block, group, row, write, inverse)
    if block.tensors[value].dtype.is_float:
        quotient = write.operator("MUL", value, write.operator("RECIPROCAL", divisor))
        whole = write.operator("FLOOR", quotient)
    else:
        whole = write.operator("INTDIV", value, divisor)
    rest = write.operator("SUB", value, write.operator("MUL", whole, divisor))
    zero = write.number(0, rest)
    # Of the other sign: the quotient was rounded up, or towards zero.
    signs = (write.operator("GREATER", zero, one, element=_BOOL) for one in (rest, divisor))
    differ = write.operator("LOGICAL_XOR", *signs)
    is_rest = write.operator("LOGICAL_NOT", write.operator("EQUAL", rest, zero, element=_BOOL))
    up = write.operator("LOGICAL_AND", differ, is_rest)
    rest = write.operator("SELECT", up, write.operator("ADD", rest, divisor), rest)
    sizes = [write.operator("ABS", one) for one in (rest, divisor)]
    too_large = write.operator("GREATER_EQUAL", *sizes, element=_BOOL)
    less = write.operator("SUB", rest, divisor)
    write.operator("SELECT", too_large, less, rest, result=group.result)


def _divisor(block: Block, group: Group, row: Correction, write: Writer, inverse: str) -> str:
    """Find the value whose inverse the converter computed, in the shape of that inverse."""
    made = group.making(inverse)
    if made is None:  # It was folded: the divisor is a constant, which the model has.
        shape = block.tensors[inverse].shape or ()
        if len(row.divisor) != math.prod(shape):
            raise OtherFormError
        values = np.array(row.divisor, np.float64)
        return write.constant(constant_of(values, block.tensors[inverse].dtype), shape)
    if made.spec.name == "RECIPROCAL":
        return made.inputs[0]
    before = group.making(made.inputs[0])
    if made.spec.name != "RESHAPE" or before is None or before.spec.name != "RECIPROCAL":
        raise OtherFormError
    name = unused_name("corrected_divisor", {*block.tensors, *block.shapes})
    block.tensors[name] = replace(block.tensors[inverse], name=name)
    write.operators.append(
        replace(made, inputs=(before.inputs[0], made.inputs[1]), outputs=(name,))
    )
    return name
