"""CLAMP of INT32 and INT64, which TOSA does not have, becomes MAXIMUM and MINIMUM."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, INT64
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.edited_block import EditedBlock, Replacement

OPERATORS: Final = (operator("CLAMP"),)


def rewrite(op: Operator, block: EditedBlock) -> Replacement | None:
    """MAXIMUM and MINIMUM in place of a CLAMP of integers that are too wide for it."""
    (operand,), (result,) = op.inputs, op.outputs
    element, shape = block.tensors[operand].dtype, block.tensors[result].shape
    if element not in (INT32, INT64) or shape is None:
        return None
    bounds = []
    for name in ("min_val", "max_val"):
        raw = op.attributes[name]
        assert isinstance(raw, bytes)
        data = Constant(element, 1, raw[: element.element_bytes])
        bounds.append(block.new_constant(f"{result}_{name}", data, (1,) * len(shape), op.location))
    attributes = {"nan_mode": op.attributes["nan_mode"]}
    low = block.made(op, "MAXIMUM", (operand, bounds[0]), attributes=attributes)
    high = block.made(op, "MINIMUM", (*low.outputs, bounds[1]), result, attributes=attributes)
    return Replacement(f"CLAMP of {element} became MAXIMUM and MINIMUM", [low, high])
