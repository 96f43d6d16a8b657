"""A TRANSPOSE of a TRANSPOSE and a RESHAPE of a RESHAPE become one operator, or none.

Frontends change the layout before and after each operator, so that such pairs meet. The first of the two
stays if something else uses it. A TRANSPOSE that moves only dimensions of size 1 is a RESHAPE, which has
more neighbours to merge with.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.records import replace

_TRANSPOSE: Final = operator("TRANSPOSE")
_RESHAPE: Final = operator("RESHAPE")
OPERATORS: Final = (_TRANSPOSE, _RESHAPE)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put one operator in place of two, or a RESHAPE in place of a TRANSPOSE; None if neither fits."""
    found = _merged(op, edit)
    if found is None and op.spec is _TRANSPOSE:
        return _as_reshape(op, edit)
    return found


def _merged(op: Operator, edit: BlockEditor) -> str | None:
    """Put one operator in place of two, or return None."""
    first = edit.producers.get(op.inputs[0])
    if first is None or first.spec is not op.spec:
        return None
    (source,) = first.inputs[:1]
    what = f"{op.spec} of a {op.spec} became one"
    if op.spec is _TRANSPOSE:
        inner, outer = first.attributes["perms"], op.attributes["perms"]
        assert isinstance(inner, tuple)
        assert isinstance(outer, tuple)
        if len(inner) != len(outer):
            return None
        perms = tuple(inner[axis] for axis in outer)
        edit.add(replace(op, inputs=(source,), attributes={"perms": perms}))
        return what
    sizes = edit.sizes_of(op.inputs[1])
    if sizes is None or DYNAMIC in sizes:
        return None
    edit.add(replace(op, inputs=(source, op.inputs[1])))
    return what


def _as_reshape(op: Operator, edit: BlockEditor) -> str | None:
    """Put a RESHAPE in place of a TRANSPOSE that keeps the order of all elements, or return None."""
    (source,), (result,) = op.inputs, op.outputs
    tensor, made = edit.tensors[source], edit.tensors[result]
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    if tensor.scale is not None or tensor.shape is None or made.shape is None:
        return None
    if DYNAMIC in (*tensor.shape, *made.shape) or sorted(perms) != list(range(len(tensor.shape))):
        return None
    moved = [axis for axis in perms if tensor.shape[axis] != 1]
    if moved != sorted(moved) or list(perms) == sorted(perms):
        return None
    sizes = edit.const_shape(made.shape, name=f"{result}_shape")
    edit.emit(_RESHAPE, [source, sizes], results=op.outputs)
    return "TRANSPOSE of dimensions of size 1 became a RESHAPE"
