"""Operators on shapes whose operands are known become CONST_SHAPE; assertions that hold go.

TOSA's rules for shapes say what each computes. An operator that they forbid stays, for `validate`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import OPERATORS as ALL_OPERATORS
from tosa_convert.rules.validate import judge_shapes
from tosa_convert.rules.values import OperatorView, ShapeType, TensorType, ValueType

OPERATORS: Final = tuple(spec for spec in ALL_OPERATORS if spec.family == "shape")


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return the constant that an operator on shapes computes, or None."""
    inputs = []
    for name in op.inputs:
        known = _known(name, edit)
        if known is None:
            return None
        inputs.append(known)
    verdict = judge_shapes(OperatorView(op, tuple(inputs), ()))
    if verdict.results is None:
        return None  # it breaks a rule
    if not op.outputs:
        edit.remove(op)
        return f"{op.spec} holds"
    (sizes,) = verdict.results
    rank = edit.shapes[op.outputs[0]].rank
    if sizes is None or len(sizes) != rank or any(size is None for size in sizes):
        return None
    data = constant_of(np.array(sizes, np.int64), INT64)
    edit.replace_by_constant(op, data)
    return f"{op.spec} became a constant"


def _known(name: str, edit: BlockEditor) -> ValueType | None:
    """Return the type of an operand with its values; None if it is a shape that is not known."""
    if name in edit.shapes:
        sizes = edit.sizes_of(name)
        return None if sizes is None else ShapeType(len(sizes), sizes)
    tensor = edit.tensors[name]
    return TensorType(tensor.dtype, tensor.shape, None, edit.data_of(name))
