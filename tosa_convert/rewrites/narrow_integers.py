"""Arithmetic on INT8 and INT16 that TOSA has only for INT32: CAST, the operator, CAST back.

Operands are extended with their sign. CAST back keeps the low bits, so that a sum, product or absolute
value that does not fit wraps around, as in C, numpy and torch: 127 + 1 is -128 in INT8.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.dtypes import INT8, INT32, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement

_NARROW: Final = frozenset({INT8, dtype("INT16")})
_MUL: Final = operator("MUL")

OPERATORS: Final = tuple(
    map(
        operator,
        (
            *("ABS", "ADD", "INTDIV", "MAXIMUM", "MINIMUM", "MUL", "REDUCE_SUM", "SUB"),
            *("EQUAL", "GREATER", "GREATER_EQUAL"),
        ),
    )
)


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """Put an operator of INT32 in place of one of INT8 or INT16, or return None."""
    (result,) = op.outputs
    element = block.tensors[op.inputs[0]].dtype
    made = block.tensors[result].dtype
    if element not in _NARROW or (op.spec is _MUL and made is INT32):
        return None
    # The second operand of REDUCE_SUM and the third of MUL are not numbers.
    numbers = op.inputs[:2]
    if any(block.tensors[name].dtype is not element for name in numbers):
        return None
    replacement = Replacement(f"{op.spec} of {element} became one of INT32")
    wide: dict[str, str] = {}
    for name in numbers:
        if name not in wide:
            cast = block.made(op, "CAST", (name,), element=INT32)
            replacement.operators.append(cast)
            (wide[name],) = cast.outputs
    operands = tuple(wide.get(name, name) for name in numbers) + op.inputs[2:]
    is_number = made is element
    name = (
        block.new_tensor(f"{result}_int32", INT32, block.tensors[result].shape)
        if is_number
        else result
    )
    replacement.operators.append(
        Operator(op.spec, operands, (name,), dict(op.attributes), op.location)
    )
    if is_number:
        replacement.operators.append(block.made(op, "CAST", (name,), result))
    return replacement
