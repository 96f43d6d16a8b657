"""Arithmetic and comparisons of BOOL become logical operators.

TOSA has no arithmetic on BOOL; frameworks compute with it as numpy does: a sum and a maximum are OR, a
product and a minimum AND, and a difference, which wraps around, is XOR.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.dtypes import INT8, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement

_BOOL: Final = dtype("BOOL")

#: Operator -> the logical operator with the same operands.
_SAME_OPERANDS: Final = {
    "ADD": "LOGICAL_OR",
    "BITWISE_AND": "LOGICAL_AND",
    "BITWISE_NOT": "LOGICAL_NOT",
    "BITWISE_OR": "LOGICAL_OR",
    "BITWISE_XOR": "LOGICAL_XOR",
    "MAXIMUM": "LOGICAL_OR",
    "MINIMUM": "LOGICAL_AND",
    "MUL": "LOGICAL_AND",
    "REDUCE_MAX": "REDUCE_ANY",
    "REDUCE_MIN": "REDUCE_ALL",
    "REDUCE_PRODUCT": "REDUCE_ALL",
    "SUB": "LOGICAL_XOR",
}
#: Comparison -> the logical operator of the first operand and the negated second one.
_NEGATED_OPERAND: Final = {"GREATER": "LOGICAL_AND", "GREATER_EQUAL": "LOGICAL_OR"}

OPERATORS: Final = tuple(
    map(operator, (*_SAME_OPERANDS, *_NEGATED_OPERAND, "ABS", "ARGMAX", "EQUAL"))
)


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """Logical operators in place of one that computes with BOOL."""
    (result,) = op.outputs
    kind = op.spec.name
    if block.tensors[op.inputs[0]].dtype is not _BOOL:
        return None
    if kind == "ABS":
        return Replacement("ABS of BOOL became its operand", same={result: op.inputs[0]})
    if kind == "ARGMAX":
        cast = block.made(op, "CAST", op.inputs, element=INT8)
        argmax = Operator(op.spec, cast.outputs, op.outputs, dict(op.attributes), op.location)
        return Replacement("ARGMAX of BOOL became one of INT8", [cast, argmax])
    if block.tensors[result].dtype is not _BOOL:
        return None
    shape = block.tensors[result].shape
    if kind == "EQUAL":
        differ = block.made(op, "LOGICAL_XOR", op.inputs, shape=shape)
        equal = block.made(op, "LOGICAL_NOT", differ.outputs, result)
        return Replacement("EQUAL of BOOL became LOGICAL_NOT of LOGICAL_XOR", [differ, equal])
    if kind in _NEGATED_OPERAND:
        made = _NEGATED_OPERAND[kind]
        negated = block.made(op, "LOGICAL_NOT", op.inputs[1:])
        compared = block.made(op, made, (op.inputs[0], *negated.outputs), result)
        return Replacement(f"{kind} of BOOL became {made} with LOGICAL_NOT", [negated, compared])
    made = _SAME_OPERANDS[kind]
    attributes = {"axis": op.attributes["axis"]} if "axis" in op.attributes else {}
    # Without the shift of MUL.
    logical = block.made(op, made, op.inputs[:2], result, attributes=attributes)
    return Replacement(f"{kind} of BOOL became {made}", [logical])
