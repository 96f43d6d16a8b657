"""Replace the reciprocal of a reciprocal of RSQRT by that RSQRT.

Frontends write a square root as the reciprocal of RSQRT, and divide by it. No RSQRT of a number is so
large or so small that its reciprocal would overflow or lose digits.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.operator_pass import replace_by_value

_RECIPROCAL: Final = operator("RECIPROCAL")
_RSQRT: Final = operator("RSQRT")
OPERATORS: Final = (_RECIPROCAL,)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Use the RSQRT of which this is the reciprocal of the reciprocal, or return None."""
    root = edit.producers.get(op.inputs[0])
    if root is None or root.spec is not _RECIPROCAL:
        return None
    inverse = edit.producers.get(root.inputs[0])
    if inverse is None or inverse.spec is not _RSQRT:
        return None
    return replace_by_value(
        edit, op, inverse.outputs[0], "RECIPROCAL of a square root became RSQRT"
    )
