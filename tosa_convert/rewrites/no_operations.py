"""Operators whose result is one of their operands, bit for bit, are removed.

A sum with 0 is not the other operand if that can be -0.0, which 0 + -0.0 turns into 0. So only -0.0 is
added, and 0 subtracted, without a change. A product with 1 is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import IDENTITY, operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement

#: Which operand the result is; None if it is another value.
_Find = Callable[[Operator, EditedBlock], str | None]


def _first(op: Operator, block: EditedBlock) -> str | None:
    return op.inputs[0]


def _of_equal_shape(op: Operator, block: EditedBlock) -> str | None:
    """Return the operand if its shape is known and that of the result, else None."""
    shape = block.tensors[op.inputs[0]].shape
    is_known = shape is not None and DYNAMIC not in shape
    return op.inputs[0] if is_known and shape == block.tensors[op.outputs[0]].shape else None


def _of_equal_type(op: Operator, block: EditedBlock) -> str | None:
    return op.inputs[0] if _type(op.inputs[0], block) == _type(op.outputs[0], block) else None


def _type(name: str, block: EditedBlock) -> object:
    tensor = block.tensors[name]
    return tensor.dtype, tensor.shape


def _transpose(op: Operator, block: EditedBlock) -> str | None:
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return op.inputs[0] if perms == tuple(range(len(perms))) else None


def _concat(op: Operator, block: EditedBlock) -> str | None:
    return op.inputs[0] if len(op.inputs) == 1 else None


def _add(op: Operator, block: EditedBlock) -> str | None:
    for number, value in (op.inputs[::-1], op.inputs):
        if block.uniform_bits(number) in _NEGATIVE_ZEROS[block.tensors[number].dtype.is_float]:
            return value
    return None


def _sub(op: Operator, block: EditedBlock) -> str | None:
    return op.inputs[0] if block.uniform_bits(op.inputs[1]) in _ZEROS else None


def _mul(op: Operator, block: EditedBlock) -> str | None:
    for number, value in (op.inputs[1::-1], op.inputs[:2]):
        bits = block.uniform_bits(number)
        if bits is not None and bits == _ones().get(block.tensors[number].dtype):
            return value if block.uniform_bits(op.inputs[2]) in _ZEROS else None
    return None


#: Bits of a number that is 0, of each width.
_ZEROS: Final = frozenset(bytes(width) for width in (1, 2, 4, 8))
#: Whether a type has floating-point numbers -> bits of the number whose sum with another is that.
_NEGATIVE_ZEROS: Final = {
    False: _ZEROS,
    True: frozenset(bytes(width - 1) + b"\x80" for width in (2, 4)),
}


@cache
def _ones() -> dict[DType, bytes]:
    """Return the bits of the number 1 of types that MUL has."""
    types = map(dtype, ("INT32", "INT64", "FP32", "FP16", "BF16"))
    return {row: bytes(constant_of(np.ones(1), row).buffer) for row in types}


def _select(op: Operator, block: EditedBlock) -> str | None:
    condition, one, other = op.inputs
    chosen = block.uniform(condition)
    if chosen is None:
        return one if one == other else None
    return one if chosen else other


_RULES: Final[dict[str, _Find]] = {
    "IDENTITY": _first,
    "RESHAPE": _of_equal_shape,
    "SLICE": _of_equal_shape,
    "PAD": _of_equal_shape,
    "TILE": _of_equal_shape,
    "TRANSPOSE": _transpose,
    "CONCAT": _concat,
    "CAST": _of_equal_type,
    "ADD": _add,
    "SUB": _sub,
    "MUL": _mul,
    "SELECT": _select,
}

OPERATORS: Final = tuple(map(operator, _RULES))


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """Return the operand that an operator returns, if its type is that of the result, else None."""
    value = _RULES[op.spec.name](op, block)
    if value is None or _type(value, block) != _type(op.outputs[0], block):
        return None
    if op.spec is IDENTITY:
        return Replacement("IDENTITY became its operand", same={op.outputs[0]: value})
    return Replacement(
        f"{op.spec} without an effect became its operand", same={op.outputs[0]: value}
    )
