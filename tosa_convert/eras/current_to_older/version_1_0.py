"""Operators and types that TOSA 1.1 added, in the forms of 1.0 that compute the same."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import rewrite
from tosa_convert.graph.dtypes import INT8, dtype
from tosa_convert.graph.model import DYNAMIC, Graph, Operator

_BOOL: Final = dtype("BOOL")
_FLOATS: Final = frozenset(map(dtype, ("FP32", "FP16", "BF16")))


def in_forms_of_1_0(graph: Graph) -> tuple[Graph, str]:
    """Return a sound program with forms of 1.0 where there are some, and what changed, by operator."""
    changed: Counter[str] = Counter()

    def rule(op: Operator, edit: BlockEditor) -> None:
        function = _FORMS.get(op.spec.name)
        if function is not None and function(op, edit):
            changed[op.spec.name] += 1

    result = rewrite(graph, rule)
    return result, ", ".join(f"{name} {count}" for name, count in sorted(changed.items()))


def _cast(op: Operator, edit: BlockEditor) -> bool:
    """Write a CAST to BOOL as a comparison with 0, so that NaN is true, and from BOOL by way of INT8."""
    (operand,), (result,) = op.inputs, op.outputs
    source, target = edit.tensors[operand], edit.tensors[result]
    if source.dtype is _BOOL and target.dtype in _FLOATS:
        number = edit.emit("CAST", [operand], like=operand, dtype=INT8)
        edit.emit("CAST", [number], results=op.outputs)
        return True
    if source.dtype not in _FLOATS or target.dtype is not _BOOL or source.shape is None:
        return False
    zero = edit.number(0, like=operand, name=f"{result}_zero")
    equal = edit.emit("EQUAL", [operand, zero], like=operand, dtype=_BOOL)
    edit.emit("LOGICAL_NOT", [equal], results=op.outputs)
    return True


def _rows(op: Operator, edit: BlockEditor) -> bool:
    """Write a GATHER or SCATTER of BOOL by way of INT8."""
    (result,) = op.outputs
    if edit.tensors[result].dtype is not _BOOL:
        return False
    inputs = [
        edit.emit("CAST", [name], like=name, dtype=INT8)
        if edit.tensors[name].dtype is _BOOL
        else name
        for name in op.inputs
    ]
    number = edit.emit(op.spec, inputs, op.attributes, like=result, dtype=INT8)
    edit.emit("CAST", [number], results=op.outputs)
    return True


def _transposed_product(op: Operator, edit: BlockEditor) -> bool:
    """Write MATMUL_T as MATMUL of a TRANSPOSE, which TILE repeats for each product of a batch."""
    a, b, *zero_points = op.inputs
    shapes = edit.tensors[a].shape, edit.tensors[b].shape
    if any(edit.tensors[name].scale for name in (a, b)) or None in shapes:
        return False
    batches = [shape[0] for shape in shapes if shape is not None]
    if batches[0] != batches[1]:
        if batches[1] != 1 or batches[0] == DYNAMIC:
            return False
        b = edit.emit("TILE", [b, edit.const_shape((batches[0], 1, 1), name=f"{b}_multiples")])
    turned = edit.emit("TRANSPOSE", [b], {"perms": (0, 2, 1)})
    edit.emit("MATMUL", [a, turned, *zero_points], results=op.outputs)
    return True


_FORMS: Final = {
    "CAST": _cast,
    "GATHER": _rows,
    "MATMUL_T": _transposed_product,
    "SCATTER": _rows,
}
