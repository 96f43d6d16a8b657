"""Operators that move data: their sizes are values of shapes today, and permutations attributes."""

from __future__ import annotations

import numpy as np

from tosa_convert.eras.current_to_older.editor import DowngradeEditor
from tosa_convert.eras.dialect_states import SHAPES
from tosa_convert.eras.older_to_current.editor import (
    Editor,
    Refused,
    integers,
    resolved,
)
from tosa_convert.eras.older_to_current.old_operation import Integers, OldOperation
from tosa_convert.eras.rules.convolution import zero_point_operand
from tosa_convert.graph.dtypes import INT32, INT64
from tosa_convert.graph.model import DYNAMIC, INT32_MAX, Operator, element_count


def pad(edit: Editor, old: OldOperation) -> None:
    """Turn the padding into a shape, and the value into an operand of one element."""
    edit.result(old)
    image, stem = edit.operand(old, 0), old.outputs[0]
    inputs = [old.inputs[0]]
    if "padding" in old.attributes:  # a file of TOSA 0.80
        inputs.append(edit.const_shape(integers(old, "padding"), name=f"{stem}_padding"))
        constants = old.inputs[1:2]
    elif len(old.inputs) > 1 and old.inputs[1] in edit.shapes:
        inputs.append(old.inputs[1])
        constants = old.inputs[2:3]
    else:
        tensor = edit.operand(old, 1)
        # Row by row: before and after the first dimension, before and after the second.
        sizes = edit.numbers(tensor.name, "the padding")
        inputs.append(edit.const_shape(sizes, name=f"{stem}_padding"))
        constants = old.inputs[2:3]
    if constants:
        inputs.append(_one_element(edit, f"{stem}_pad_const", constants[0]))
    elif "pad_const" in old.attributes:
        value = old.attributes["pad_const"]
        assert isinstance(value, (int, float))
        inputs.append(edit.constant([value], image.dtype, name=f"{stem}_pad_const"))
    else:
        inputs.append(zero_point_operand(edit, old, "input_zp", image))
    edit.emit("PAD", inputs, results=old.outputs)


def _one_element(edit: Editor, stem: str, name: str) -> str:
    """Return a tensor of rank 0 as one of one element."""
    tensor = edit.tensor(name)
    if tensor.shape == (1,):
        return name
    if tensor.data is not None and tensor.data.count == 1:
        edit.consumed.add(name)
        return edit.constant_of(tensor.data.first(1), (1,), name=stem)
    return edit.reshape(name, (1,), wanted=stem)


def downgrade_pad(edit: DowngradeEditor, op: Operator) -> None:
    """Invert `pad`: a value of rank 0, and until 2025 a row of the padding for each axis."""
    image, padding, value = op.inputs
    if edit.state < SHAPES:
        sizes = edit.sizes(padding, "padding")
        dtype = INT32 if max(sizes, default=0) <= INT32_MAX else INT64
        shape = len(sizes) // 2, 2
        elements = np.array(sizes, np.int64).reshape(shape)
        padding = edit.constant(elements, dtype, name=f"{op.outputs[0]}_padding")
    edit.downgrade(op, {}, (image, padding, edit.scalar(value, f"{op.outputs[0]}_pad_const")))


def transpose(edit: Editor, old: OldOperation) -> None:
    """Turn the permutation into an attribute."""
    edit.result(old)
    perms = edit.numbers(edit.operand(old, 1).name, "the permutation")
    edit.emit("TRANSPOSE", old.inputs[:1], {"perms": perms}, results=old.outputs)


def downgrade_transpose(edit: DowngradeEditor, op: Operator) -> None:
    """Convert to the older form: the inverse of `transpose`."""
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    operand = edit.constant(perms, INT32, name=f"{op.outputs[0]}_perms")
    edit.downgrade(op, {}, (op.inputs[0], operand))


def reshape(edit: Editor, old: OldOperation) -> None:
    """Turn the new shape into an operand. A size that is -1 is that of the result."""
    result, image = edit.result(old), edit.operand(old, 0)
    sizes = resolved(integers(old, "new_shape"), result.shape)
    if sizes.count(DYNAMIC) == 1 and (count := element_count(image.shape)) is not None:
        others = element_count(tuple(size for size in sizes if size != DYNAMIC)) or 0
        if others:
            sizes = tuple(count // others if size == DYNAMIC else size for size in sizes)
    _with_shapes(edit, old, "RESHAPE", shape=sizes)


def downgrade_reshape(edit: DowngradeEditor, op: Operator) -> None:
    """Convert to the older form: the inverse of `reshape`."""
    sizes = edit.sizes(op.inputs[1], "shape")
    edit.downgrade(op, {"new_shape": Integers(sizes, 64)}, op.inputs[:1])


def slice_(edit: Editor, old: OldOperation) -> None:
    """Start and size become operands."""
    result, image = edit.result(old), edit.operand(old, 0)
    size, start = integers(old, "size"), integers(old, "start")
    if DYNAMIC in size and image.shape is not None and len(image.shape) == len(size) == len(start):
        # What remains behind the start.
        rest = zip(size, image.shape, start, strict=True)
        known = (n if n != DYNAMIC or all_ == DYNAMIC else all_ - first for n, all_, first in rest)
        edit.settle(result, tuple(known))
    size = resolved(size, result.shape)
    if DYNAMIC in size:
        raise Refused("a size is -1, and the result does not say what it is")
    _with_shapes(edit, old, "SLICE", start=integers(old, "start"), size=size)


def downgrade_slice(edit: DowngradeEditor, op: Operator) -> None:
    """Convert to the older form: the inverse of `slice_`."""
    _, start, size = op.inputs
    own = {"start": edit.sizes(start, "start"), "size": edit.sizes(size, "size")}
    edit.downgrade(op, {name: Integers(sizes, 64) for name, sizes in own.items()}, op.inputs[:1])


def tile(edit: Editor, old: OldOperation) -> None:
    """Turn the multiples into an operand."""
    edit.result(old)
    _with_shapes(edit, old, "TILE", multiples=integers(old, "multiples"))


def downgrade_tile(edit: DowngradeEditor, op: Operator) -> None:
    """Convert to the older form: the inverse of `tile`."""
    sizes = edit.sizes(op.inputs[1], "multiples")
    edit.downgrade(op, {"multiples": Integers(sizes, 64)}, op.inputs[:1])


def _with_shapes(edit: Editor, old: OldOperation, name: str, **shapes: tuple[int, ...]) -> None:
    stem = old.outputs[0]
    operands = [edit.const_shape(sizes, name=f"{stem}_{what}") for what, sizes in shapes.items()]
    edit.emit(name, [*old.inputs[:1], *operands], results=old.outputs)
