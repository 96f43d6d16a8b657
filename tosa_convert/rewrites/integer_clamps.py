"""CLAMP of INT32, INT64 and BOOL becomes MAXIMUM and MINIMUM, or LOGICAL_OR and LOGICAL_AND."""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, INT64, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

OPERATORS: Final = (operator("CLAMP"),)

_BOOL: Final = dtype("BOOL")


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put MAXIMUM and MINIMUM in place of a CLAMP of a type that it does not have, or return None."""
    (operand,), (result,) = op.inputs, op.outputs
    element, shape = edit.tensors[operand].dtype, edit.tensors[result].shape
    if element not in (INT32, INT64, _BOOL) or shape is None:
        return None
    bounds = []
    for name in ("min_val", "max_val"):
        raw = op.attributes[name]
        assert isinstance(raw, bytes)
        data = Constant(element, 1, raw[: element.element_bytes])
        bounds.append(edit.constant_of(data, (1,) * len(shape), name=f"{result}_{name}"))
    if element is _BOOL:
        low = edit.emit("LOGICAL_OR", [operand, bounds[0]], like=operand)
        edit.emit("LOGICAL_AND", [low, bounds[1]], results=op.outputs)
        return "CLAMP of BOOL became LOGICAL_OR and LOGICAL_AND"
    nan_mode = {"nan_mode": op.attributes["nan_mode"]}
    low = edit.emit("MAXIMUM", [operand, bounds[0]], nan_mode, like=operand)
    edit.emit("MINIMUM", [low, bounds[1]], nan_mode, results=op.outputs)
    return f"CLAMP of {element} became MAXIMUM and MINIMUM"
