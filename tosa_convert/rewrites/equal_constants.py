"""Equal constants of a block become one.

Small constants are equal if their bits are, large ones only if they share memory, so that weights are
not read. A constant that is a result of the block keeps its name. Shapes stay apart beside an assertion:
the reference model aborts if a shape that it asserts has another use.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor, constant_key
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

OPERATORS: Final = (CONST, CONST_SHAPE)

_ASSERT: Final = operator("ASSERT_EQUAL_SHAPE")


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return an earlier constant with the same type and elements, or None."""
    (name,) = op.outputs
    if name in edit.shapes:
        if _ASSERT in edit.kinds:
            return None
        key: object = edit.shapes[name].values()
    else:
        tensor = edit.tensors[name]
        if tensor.data is None or tensor.scale is not None:
            return None
        key = constant_key(tensor)
    earlier = edit.constants.setdefault(key, name)
    if earlier == name or not edit.can_stand_for(earlier, name):
        return None
    edit.substitute(earlier, name)
    return f"{op.spec} equal to an earlier one"
