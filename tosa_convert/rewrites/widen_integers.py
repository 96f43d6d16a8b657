"""Arithmetic on INT8 and INT16 that TOSA has only for INT32: CAST, the operator, CAST back.

Operands are extended with their sign. CAST back keeps the low bits, so that a sum, product or absolute
value that does not fit wraps around, as in C, numpy and torch: 127 + 1 is -128 in INT8.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import INT8, INT32, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

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


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put an operator of INT32 in place of one of INT8 or INT16, or return None."""
    (result,) = op.outputs
    element = edit.tensors[op.inputs[0]].dtype
    made = edit.tensors[result].dtype
    if element not in _NARROW or (op.spec is _MUL and made is INT32):
        return None
    # The second operand of REDUCE_SUM and the third of MUL are not numbers.
    numbers = op.inputs[:2]
    if any(edit.tensors[name].dtype is not element for name in numbers):
        return None
    wide = {
        name: edit.emit("CAST", [name], like=name, dtype=INT32) for name in dict.fromkeys(numbers)
    }
    operands = [*(wide[name] for name in numbers), *op.inputs[2:]]
    if made is element:
        name = edit.new_tensor(f"{result}_int32", INT32, edit.tensors[result].shape)
        edit.emit(op.spec, operands, op.attributes, results=[name])
        edit.emit("CAST", [name], results=op.outputs)
    else:
        edit.emit(op.spec, operands, op.attributes, results=op.outputs)
    return f"{op.spec} of {element} became one of INT32"
