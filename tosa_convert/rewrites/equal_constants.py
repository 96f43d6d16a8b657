"""Equal constants of a block become one.

Small constants are equal if their bits are, large ones only if they share memory, so that weights are
not read. A constant that is a result of the block keeps its name. Shapes stay apart beside an assertion:
the reference model aborts if a shape that it asserts has another use.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement, constant_key

OPERATORS: Final = (CONST, CONST_SHAPE)

_ASSERT: Final = operator("ASSERT_EQUAL_SHAPE")


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """Return an earlier constant with the same type and elements, or None."""
    (name,) = op.outputs
    if name in block.shapes:
        if _ASSERT in block.kinds:
            return None
        key: object = block.shapes[name].values()
    else:
        tensor = block.tensors[name]
        if tensor.data is None or tensor.scale is not None:
            return None
        key = constant_key(tensor)
    earlier = block.constants.setdefault(key, name)
    if earlier == name or not block.can_stand_for(earlier, name):
        return None
    return Replacement(f"{op.spec} equal to an earlier one", same={name: earlier})
