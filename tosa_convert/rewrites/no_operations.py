"""Operators whose result is one of their operands, bit for bit, are removed.

A sum with 0 is not the other operand if that can be -0.0, which 0 + -0.0 turns into 0. So only -0.0 is
added, and 0 subtracted, without a change. A product with 1 is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import IDENTITY, operator
from tosa_convert.rewrites.operator_pass import replace_by_value

_AND: Final = operator("LOGICAL_AND")
#: Which operand the result is; None if it is another value.
_Find = Callable[[Operator, BlockEditor], str | None]


def _first(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0]


def _of_equal_shape(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand if its shape is known and that of the result, else None."""
    shape = edit.tensors[op.inputs[0]].shape
    is_known = shape is not None and DYNAMIC not in shape
    return op.inputs[0] if is_known and shape == edit.tensors[op.outputs[0]].shape else None


def _cast(op: Operator, edit: BlockEditor) -> str | None:
    """Return what is cast to its own type, or to a type that holds all its integers, and back."""
    (value,), (result,) = op.inputs, op.outputs
    first = edit.producers.get(value)
    if _type(value, edit) != _type(result, edit) and first is not None and first.spec is op.spec:
        held, given = edit.tensors[value].dtype, edit.tensors[first.inputs[0]].dtype
        is_held = not (held.is_float or given.is_float) and _bits(held) > _bits(given)
        return first.inputs[0] if is_held else None
    return value


def _bits(element: DType) -> int:
    return 1 if element.name == "BOOL" else element.bits


def _gather(op: Operator, edit: BlockEditor) -> str | None:
    """Return the table whose rows are all taken, in their order."""
    shape, data = edit.tensors[op.inputs[0]].shape, edit.data_of(op.inputs[1])
    if shape is None or data is None or data.dtype.is_float:
        return None
    if len(shape) != 3 or edit.tensors[op.inputs[1]].shape != shape[:2]:
        return None
    rows = data.numpy().reshape(shape[:2])
    return op.inputs[0] if bool((rows == np.arange(shape[1])).all()) else None


def _logical(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand that is combined with the truth value that has no effect."""
    for number, value in (op.inputs[::-1], op.inputs):
        if edit.number_of(number) == (op.spec is _AND):
            return value
    return None


def _type(name: str, edit: BlockEditor) -> object:
    tensor = edit.tensors[name]
    return tensor.dtype, tensor.shape


def _transpose(op: Operator, edit: BlockEditor) -> str | None:
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return op.inputs[0] if perms == tuple(range(len(perms))) else None


def _concat(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0] if len(op.inputs) == 1 else None


def _add(op: Operator, edit: BlockEditor) -> str | None:
    for number, value in (op.inputs[::-1], op.inputs):
        bits = edit.bits_of(number)
        if bits is not None and bits in _NEGATIVE_ZEROS[edit.tensors[number].dtype.is_float]:
            return value
    return None


def _sub(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0] if edit.bits_of(op.inputs[1]) in _ZEROS else None


def _mul(op: Operator, edit: BlockEditor) -> str | None:
    for number, value in (op.inputs[1::-1], op.inputs[:2]):
        bits = edit.bits_of(number)
        if bits is not None and bits == _ones().get(edit.tensors[number].dtype):
            return value if edit.bits_of(op.inputs[2]) in _ZEROS else None
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


def _select(op: Operator, edit: BlockEditor) -> str | None:
    condition, one, other = op.inputs
    chosen = edit.number_of(condition)
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
    "CAST": _cast,
    "GATHER": _gather,
    "LOGICAL_AND": _logical,
    "LOGICAL_OR": _logical,
    "LOGICAL_XOR": _logical,
    "ADD": _add,
    "SUB": _sub,
    "MUL": _mul,
    "SELECT": _select,
}

OPERATORS: Final = tuple(map(operator, _RULES))


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand that an operator returns, if its type is that of the result, else None."""
    value = _RULES[op.spec.name](op, edit)
    if value is None or _type(value, edit) != _type(op.outputs[0], edit):
        return None
    effect = "" if op.spec is IDENTITY else " without an effect"
    return replace_by_value(edit, op, value, f"{op.spec}{effect} became its operand")
