"""Casts that TOSA does not have: between FP16 and BF16, between BOOL and both, and to the same type.

Each goes through a type that holds every value: FP32 between FP16 and BF16, INT8 from BOOL. A number
becomes a BOOL by comparison: everything but 0 is true, also NaN.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import INT8, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.operator_pass import replace_by_value

OPERATORS: Final = (operator("CAST"),)

_BOOL, _FP32 = dtype("BOOL"), dtype("FP32")
_HALVES: Final = frozenset({dtype("FP16"), dtype("BF16")})


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return what replaces a CAST that TOSA does not have, or None."""
    (operand,), (result,) = op.inputs, op.outputs
    source, target = edit.tensors[operand], edit.tensors[result]
    if source.scale is not None or target.scale is not None:
        return None
    what = f"CAST from {source.dtype} to {target.dtype}"
    if source.dtype is target.dtype:
        return replace_by_value(edit, op, operand, f"{what} became its operand")
    if source.dtype in _HALVES and target.dtype is _BOOL:
        if source.shape is None:
            return None
        zero = edit.number(0, like=operand, name=f"{result}_zero")
        equal = edit.emit("EQUAL", [operand, zero], like=operand, dtype=_BOOL)
        edit.emit("LOGICAL_NOT", [equal], results=op.outputs)
        return f"{what} became a comparison with 0"
    if source.dtype in _HALVES and target.dtype in _HALVES:
        between = _FP32
    elif source.dtype is _BOOL and target.dtype in _HALVES:
        between = INT8
    else:
        return None
    first = edit.emit("CAST", [operand], like=operand, dtype=between)
    edit.emit("CAST", [first], results=op.outputs)
    return f"{what} became two, by way of {between}"
