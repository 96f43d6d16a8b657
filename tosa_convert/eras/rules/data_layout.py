"""Operators that move data, and RESIZE: sizes, permutations and scales in the forms that they had."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tosa_convert.eras.dialect_states import RESIZE_SCALES, SHAPES
from tosa_convert.eras.editor import (
    DowngradeEditor,
    Editor,
    Floats,
    Integer,
    Integers,
    OldOperation,
    OldValue,
    Refused,
    WrittenValue,
    integer,
    integers,
    member,
    resolved,
)
from tosa_convert.eras.rules.convolution import zero_point_operand
from tosa_convert.graph.dtypes import INT32, INT64, ResizeMode
from tosa_convert.graph.model import DYNAMIC, INT32_MAX, Operator, Tensor, element_count
from tosa_convert.rules.families.resize import LARGEST_NUMERATOR, ResizeAxis


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
    _, start, size = op.inputs
    own = {"start": edit.sizes(start, "start"), "size": edit.sizes(size, "size")}
    edit.downgrade(op, {name: Integers(sizes, 64) for name, sizes in own.items()}, op.inputs[:1])


def tile(edit: Editor, old: OldOperation) -> None:
    """Turn the multiples into an operand."""
    edit.result(old)
    _with_shapes(edit, old, "TILE", multiples=integers(old, "multiples"))


def downgrade_tile(edit: DowngradeEditor, op: Operator) -> None:
    sizes = edit.sizes(op.inputs[1], "multiples")
    edit.downgrade(op, {"multiples": Integers(sizes, 64)}, op.inputs[:1])


def _with_shapes(edit: Editor, old: OldOperation, name: str, **shapes: tuple[int, ...]) -> None:
    stem = old.outputs[0]
    operands = [edit.const_shape(sizes, name=f"{stem}_{what}") for what, sizes in shapes.items()]
    edit.emit(name, [*old.inputs[:1], *operands], results=old.outputs)


# -- RESIZE: scales as attributes, and the form of 2022 with strides and a shift -------------------


def resize(edit: Editor, old: OldOperation) -> None:
    """Make scale, offset and border operands."""
    result, image = edit.result(old), edit.operand(old, 0)
    if "scale" in old.attributes:
        scale, offset, border = (
            integers(old, name, length)
            for name, length in (("scale", 4), ("offset", 2), ("border", 2))
        )
    else:
        edit.note("stride and shift became scale, offset and border")
        scale, offset, border = _from_stride(edit, old, image, result)
    stem = old.outputs[0]
    operands = [
        edit.const_shape(sizes, name=f"{stem}_{name}")
        for name, sizes in (("scale", scale), ("offset", offset), ("border", border))
    ]
    mode = member(old, "mode", ResizeMode)
    edit.emit("RESIZE", [old.inputs[0], *operands], {"mode": mode}, results=old.outputs)


def _from_stride(
    edit: Editor, old: OldOperation, image: Tensor, result: Tensor
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return scale, offset and border for the form of 2022."""
    before = edit.rank(image)
    if "output_size" in old.attributes and len(before) == 4:
        edit.settle(result, (before[0], *integers(old, "output_size", 2), before[3]))
    after = edit.rank(result)
    if len(before) != 4 or len(after) != 4:
        raise Refused("its input or result is not of rank 4")
    if DYNAMIC in (*before[1:3], *after[1:3]):
        raise Refused("the size of its input or result is not known, and the border needs it")
    scale: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    border: tuple[int, ...] = ()
    for axis in range(2):
        size, new_size = before[axis + 1], after[axis + 1]
        if image.dtype.is_float:
            upper, lower, start = _fraction(old, axis, size, new_size)
        else:
            # Not reduced: a bilinear result is multiplied by the numerators.
            shift = integer(old, "shift")
            if not 0 <= shift < 31:
                raise Refused(f"its shift is {shift}, expected 0 to 30")
            upper = 1 << shift
            lower, start = integers(old, "stride", 2)[axis], integers(old, "offset", 2)[axis]
        scale += upper, lower
        offset += (start,)
        border += (ResizeAxis.between(size, new_size, upper, lower, start).border,)
    return scale, offset, border


def _fraction(old: OldOperation, axis: int, size: int, new_size: int) -> tuple[int, int, int]:
    """Return the scale of one axis, of which a stride is the rounded reciprocal, and the offset."""
    stride, start = (_floats(old, name)[axis] for name in ("stride_fp", "offset_fp"))
    if not (math.isfinite(stride) and math.isfinite(start)) or stride <= 0:
        raise Refused(f"its stride is {stride} and its offset {start}")
    exact, exact_start = Fraction(stride), Fraction(start)
    upper = math.lcm(exact.denominator, exact_start.denominator)
    if upper <= LARGEST_NUMERATOR:
        return upper, int(exact * upper), int(exact_start * upper)
    candidates = [Fraction(size, new_size)]
    if size > 1 and new_size > 1:
        candidates.append(Fraction(size - 1, new_size - 1))
    for candidate in candidates:
        upper = candidate.denominator
        if np.float32(float(candidate)) != np.float32(stride) or upper > LARGEST_NUMERATOR:
            continue
        if (exact_start * upper).denominator != 1:
            upper = math.lcm(upper, exact_start.denominator)
        if upper <= LARGEST_NUMERATOR:
            return upper, int(candidate * upper), int(exact_start * upper)
    raise Refused(f"its stride {stride} is not a fraction of small numbers")


def _floats(old: OldOperation, name: str) -> list[float]:
    value = old.attributes.get(name)
    if not isinstance(value, list) or len(value) != 2:
        raise Refused(f"its attribute {name} is not a list of two numbers")
    if not all(isinstance(item, float) for item in value):
        raise Refused(f"its attribute {name} is not a list of two numbers")
    return [item for item in value if isinstance(item, float)]


def downgrade_resize(edit: DowngradeEditor, op: Operator) -> None:
    scale, offset, border = (
        edit.sizes(name, what)
        for name, what in zip(op.inputs[1:], ("scale", "offset", "border"), strict=True)
    )
    own = edit.attributes(op)
    if edit.state >= RESIZE_SCALES:
        lists = {"scale": scale, "offset": offset, "border": border}
        own |= {name: Integers(values, 64) for name, values in lists.items()}
    else:
        own |= _as_strides(edit, op, scale, offset)
    edit.downgrade(op, own, op.inputs[:1])


def _as_strides(
    edit: DowngradeEditor, op: Operator, scale: tuple[int, ...], offset: tuple[int, ...]
) -> dict[str, WrittenValue]:
    """Return the form of 2022. The border follows from the sizes."""
    image, result = (edit.rank(name) for name in (op.inputs[0], op.outputs[0]))
    if DYNAMIC in (*image[1:3], *result[1:3]):
        raise Refused("the size of its input or result is not known, and output_size is one")
    upper, lower = scale[::2], scale[1::2]
    is_float = edit.tensors[op.inputs[0]].dtype.is_float
    shift, strides, starts = 0, (0, 0), (0, 0)
    fractions = [(0.0, 0.0), (0.0, 0.0)]
    if is_float:
        fractions = [
            (float(np.float32(down / up)), float(np.float32(start / up)))
            for up, down, start in zip(upper, lower, offset, strict=True)
        ]
    else:
        shift = upper[0].bit_length() - 1
        if upper != (1 << shift,) * 2:
            raise Refused(f"the numerators of its scale are {upper}, expected equal powers of two")
        strides, starts = (lower[0], lower[1]), (offset[0], offset[1])
    (stride_y, start_y), (stride_x, start_x) = fractions
    if is_float:
        listed: dict[str, OldValue] = {
            "stride_fp": [stride_y, stride_x],
            "offset_fp": [start_y, start_x],
        }
        old = OldOperation("tosa.resize", (), (), listed)
        for axis in range(2):
            read = _fraction(old, axis, image[axis + 1], result[axis + 1])
            if read[1] * upper[axis] != lower[axis] * read[0]:
                raise Refused("its scale is not the same as a number of FP32")
            if read[2] * upper[axis] != offset[axis] * read[0]:
                raise Refused("its offset is not the same as a number of FP32")
    return {
        "output_size": Integers(result[1:3], 64),
        "stride": Integers(strides, 64),
        "offset": Integers(starts, 64),
        "shift": Integer(shift, 32),
        "stride_fp": Floats((stride_y, stride_x)),
        "offset_fp": Floats((start_y, start_x)),
    }
