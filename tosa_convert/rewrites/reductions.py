"""Reduce integers to their maximum or minimum before they are rescaled.

RESCALE by a multiplier of 0 or more keeps the order of integers, so that the result is the same, bit for
bit. A softmax of int8 from TFLite finds its maximum in INT32, which not all hardware has.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import INT8, INT16, INT32, RoundingMode
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

NAME: Final = "reduce-before-rescale"
OPERATORS: Final = (operator("REDUCE_MAX"), operator("REDUCE_MIN"))
_RESCALE: Final = operator("RESCALE")
#: Roundings that keep the order. An inexact one may be any of them at each element.
_ROUNDINGS: Final = (RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Reduce the operand of the RESCALE before a reduction, and rescale that."""
    rescale = edit.producers.get(op.inputs[0])
    if rescale is None or rescale.spec is not _RESCALE or not _keeps_order(rescale, edit):
        return None
    given = edit.tensors[rescale.inputs[0]]
    if given.dtype not in (INT8, INT16) or edit.tensors[op.outputs[0]].dtype is not INT32:
        return None
    reduced = edit.emit(op.spec, [rescale.inputs[0]], op.attributes)
    edit.emit(_RESCALE, [reduced, *rescale.inputs[1:]], rescale.attributes, results=op.outputs)
    return f"{op.spec} of INT32 became one of {given.dtype} before the RESCALE"


def _keeps_order(rescale: Operator, edit: BlockEditor) -> bool:
    """Return whether a RESCALE has one multiplier, of 0 or more, and signed integers."""
    flags = ("per_channel", "input_unsigned", "output_unsigned")
    if any(rescale.attributes[name] for name in flags):
        return False
    if rescale.attributes["rounding_mode"] not in _ROUNDINGS:
        return False
    multiplier = edit.tensors[rescale.inputs[1]]
    if multiplier.data is None or multiplier.variable:
        return False
    return min(multiplier.data.numpy().reshape(-1).tolist(), default=-1) >= 0
