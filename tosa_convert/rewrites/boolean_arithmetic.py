"""Arithmetic and comparisons of BOOL become logical operators.

TOSA has no arithmetic on BOOL; frameworks compute with it as numpy does: a sum and a maximum are OR, a
product and a minimum AND, and a difference, which wraps around, is XOR.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import INT8, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.operator_pass import replace_by_value

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


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Logical operators in place of one that computes with BOOL."""
    (result,) = op.outputs
    kind = op.spec.name
    if edit.tensors[op.inputs[0]].dtype is not _BOOL:
        return None
    if kind == "ABS":
        return replace_by_value(edit, op, op.inputs[0], "ABS of BOOL became its operand")
    if kind == "ARGMAX":
        cast = edit.emit("CAST", op.inputs, like=op.inputs[0], dtype=INT8)
        edit.emit(op.spec, [cast], op.attributes, results=op.outputs)
        return "ARGMAX of BOOL became one of INT8"
    if edit.tensors[result].dtype is not _BOOL:
        return None
    if kind == "EQUAL":
        differ = edit.emit("LOGICAL_XOR", op.inputs, like=result)
        edit.emit("LOGICAL_NOT", [differ], results=op.outputs)
        return "EQUAL of BOOL became LOGICAL_NOT of LOGICAL_XOR"
    if kind in _NEGATED_OPERAND:
        made = _NEGATED_OPERAND[kind]
        negated = edit.emit("LOGICAL_NOT", op.inputs[1:], like=op.inputs[1])
        edit.emit(made, [op.inputs[0], negated], results=op.outputs)
        return f"{kind} of BOOL became {made} with LOGICAL_NOT"
    made = _SAME_OPERANDS[kind]
    attributes = {"axis": op.attributes["axis"]} if "axis" in op.attributes else {}
    # Without the shift of MUL.
    edit.emit(made, op.inputs[:2], attributes, results=op.outputs)
    return f"{kind} of BOOL became {made}"
