"""Casts that TOSA does not have: between FP16 and BF16, between BOOL and both, and to the same type.

Each goes through a type that holds every value: FP32 between FP16 and BF16, INT8 from BOOL. A number
becomes a BOOL by comparison: everything but 0 is true, also NaN.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.dtypes import INT8, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement

OPERATORS: Final = (operator("CAST"),)

_BOOL, _FP32 = dtype("BOOL"), dtype("FP32")
_HALVES: Final = frozenset({dtype("FP16"), dtype("BF16")})


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """Return what replaces a CAST that TOSA does not have, or None."""
    (operand,), (result,) = op.inputs, op.outputs
    source, target = block.tensors[operand], block.tensors[result]
    if source.scale is not None or target.scale is not None:
        return None
    what = f"CAST from {source.dtype} to {target.dtype}"
    if source.dtype is target.dtype:
        return Replacement(f"{what} became its operand", same={result: operand})
    if source.dtype in _HALVES and target.dtype is _BOOL:
        rank = None if source.shape is None else len(source.shape)
        if rank is None:
            return None
        zero = block.new_number(f"{result}_zero", 0, source.dtype, rank, op.location)
        equal = block.made(op, "EQUAL", (operand, zero), element=_BOOL)
        negated = block.made(op, "LOGICAL_NOT", equal.outputs, result)
        return Replacement(f"{what} became a comparison with 0", [equal, negated])
    if source.dtype in _HALVES and target.dtype in _HALVES:
        between = _FP32
    elif source.dtype is _BOOL and target.dtype in _HALVES:
        between = INT8
    else:
        return None
    first = block.made(op, "CAST", (operand,), element=between)
    second = block.made(op, "CAST", first.outputs, result)
    return Replacement(f"{what} became two, by way of {between}", [first, second])
