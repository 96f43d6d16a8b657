"""CLAMP of INT32 and INT64, which TOSA does not have, becomes MAXIMUM and MINIMUM."""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, INT64
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

OPERATORS: Final = (operator("CLAMP"),)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """MAXIMUM and MINIMUM in place of a CLAMP of integers that are too wide for it."""
    (operand,), (result,) = op.inputs, op.outputs
    element, shape = edit.tensors[operand].dtype, edit.tensors[result].shape
    if element not in (INT32, INT64) or shape is None:
        return None
    bounds = []
    for name in ("min_val", "max_val"):
        raw = op.attributes[name]
        assert isinstance(raw, bytes)
        data = Constant(element, 1, raw[: element.element_bytes])
        bounds.append(edit.constant_of(data, (1,) * len(shape), name=f"{result}_{name}"))
    nan_mode = {"nan_mode": op.attributes["nan_mode"]}
    low = edit.emit("MAXIMUM", [operand, bounds[0]], nan_mode, like=operand)
    edit.emit("MINIMUM", [low, bounds[1]], nan_mode, results=op.outputs)
    return f"CLAMP of {element} became MAXIMUM and MINIMUM"
