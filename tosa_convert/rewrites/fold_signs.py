"""Move the signs of parts of a row into the constants that multiply the row.

A rotary embedding negates one half of each row, joins the halves the other way round, and multiplies
with the sines, which are constants.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

_MUL: Final = operator("MUL")
_CONCAT: Final = operator("CONCAT")
_NEGATE: Final = operator("NEGATE")
OPERATORS: Final = (_MUL,)
#: The largest constant that gets other signs, in bytes: something else may need it as it was.
_MOST_BYTES: Final = 1 << 20


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Multiply a CONCAT without the NEGATEs of its operands with other constants, or return None."""
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        found = _without_signs(value, edit)
        data, shape = edit.data_of(constant), edit.tensors[constant].shape or ()
        if found is None or data is None or not data.dtype.is_float or data.nbytes > _MOST_BYTES:
            continue
        joined, operands, signs = found
        axis = joined.attributes["axis"]
        assert isinstance(axis, int)
        if len(shape) <= axis or shape[axis] != signs.size:
            continue
        key = constant, axis, signs.tobytes()
        if key not in edit.constants:
            sizes = [-1 if index == axis else 1 for index in range(len(shape))]
            array = data.numpy().reshape(shape)
            array = np.where(signs.reshape(sizes), np.negative(array), array)
            made = constant_of(array, data.dtype)
            edit.constants[key] = edit.constant_of(made, shape, name=f"{constant}_signed")
        row = edit.emit(_CONCAT, operands, joined.attributes)
        edit.emit(_MUL, [row, edit.constants[key]], results=op.outputs)
        return "NEGATE of a part of a row became signs of the constants that multiply it"
    return None


def _without_signs(
    value: str, edit: BlockEditor
) -> tuple[Operator, list[str], np.ndarray[tuple[int], np.dtype[np.bool_]]] | None:
    """Return a CONCAT, what its operands are before they are negated, and which elements of a row are.

    None if it has none that is negated for it alone, or if something else uses it.
    """
    joined = edit.producers.get(value)
    if joined is None or joined.spec is not _CONCAT or edit.uses[value] != 1:
        return None
    axis = joined.attributes["axis"]
    assert isinstance(axis, int)
    operands, signs = [], []
    for name in joined.inputs:
        negated = edit.producers.get(name)
        is_negated = negated is not None and negated.spec is _NEGATE and edit.uses[name] == 1
        operands.append(negated.inputs[0] if negated is not None and is_negated else name)
        size = (edit.tensors[name].shape or ())[axis : axis + 1]
        if not size or size[0] < 0:
            return None
        signs.append(np.full(size, is_negated))
    row = np.concatenate(signs)
    return (joined, operands, row) if row.any() else None
