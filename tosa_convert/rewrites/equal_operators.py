"""Operators that compute the same from the same operands become one.

Operators with regions, variables or effects stay, and so do those that another program defines.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import OPERATORS as ALL_OPERATORS
from tosa_convert.rewrites.operator_pass import replace_by_value

#: Those whose results are functions of their operands.
OPERATORS: Final = tuple(
    spec
    for spec in ALL_OPERATORS
    if spec.family not in ("control", "constant", "shape") and len(spec.results) == 1
)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return an earlier operator that computes the same, or None."""
    (name,) = op.outputs
    value = edit.tensors.get(name) or edit.shapes.get(name)
    if value is None:
        return None
    key = op.spec, op.inputs, tuple(sorted(op.attributes.items())), value.type_text()
    earlier = edit.constants.setdefault(key, name)
    if earlier == name or earlier not in edit.producers:
        edit.constants[key] = name
        return None
    return replace_by_value(edit, op, earlier, f"{op.spec} equal to an earlier one")
