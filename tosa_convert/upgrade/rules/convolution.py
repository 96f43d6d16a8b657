"""Convolutions, matrix multiplications and pools: zero points, accumulators, `out_pad`."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.dtypes import INT32, DType, dtype
from tosa_convert.graph.model import DYNAMIC, Tensor
from tosa_convert.upgrade.editor import (
    Editor,
    Refused,
    flag,
    integers,
    resolved,
    zero_point,
)
from tosa_convert.upgrade.old_operation import OldOperation

#: The accumulator of a convolution whose operation does not name one, by the type of the input.
_ACCUMULATORS: Final = {
    "INT8": "INT32",
    "INT16": "INT48",
    "FP32": "FP32",
    "BF16": "FP32",
    "FP16": "FP32",
    "FP8E4M3": "FP16",
    "FP8E5M2": "FP16",
}


def zero_point_operand(edit: Editor, old: OldOperation, name: str, tensor: Tensor) -> str:
    """A zero point as a constant of the type of the tensor that it belongs to.

    One of an unsigned tensor keeps its bits: 128 of ui8 becomes -128 of i8.
    """
    value, bits = zero_point(old, name), tensor.dtype.bits
    if tensor.name in edit.values.unsigned and 0 <= value < 1 << bits:
        value -= value >> bits - 1 << bits
    return edit.constant(f"{old.outputs[0]}_{name}", tensor.dtype, (value,), (1,))


def _accumulator(old: OldOperation, default: str | None) -> DType:
    found = old.attributes.get("acc_type")
    if isinstance(found, DType):
        return found
    if default is None:
        raise Refused("it has no acc_type, and its operands do not determine one")
    return dtype(default)


def _convolution(edit: Editor, old: OldOperation) -> tuple[list[str], DType]:
    """The operands of a convolution, and its accumulator."""
    image, weight = edit.operand(old, 0), edit.operand(old, 1)
    accumulator = _accumulator(old, _ACCUMULATORS.get(image.dtype.name))
    zero_points = [
        zero_point_operand(edit, old, "input_zp", image),
        zero_point_operand(edit, old, "weight_zp", weight),
    ]
    return [*old.inputs, *zero_points], accumulator


def convolution(edit: Editor, old: OldOperation) -> None:
    """conv2d, conv3d and depthwise_conv2d."""
    edit.result(old)
    length = 3 if old.label == "conv3d" else 2
    operands, accumulator = _convolution(edit, old)
    edit.emit(
        old.label.upper(),
        operands,
        old.outputs,
        pad=integers(old, "pad", 2 * length),
        stride=integers(old, "stride", length),
        dilation=integers(old, "dilation", length),
        local_bound=flag(old, "local_bound", False),
        acc_type=accumulator,
    )


def transpose_conv2d(edit: Editor, old: OldOperation) -> None:
    """`out_shape` follows from the result; `out_pad` has had another length and another sign."""
    result = edit.result(old)
    if "dilation" in old.attributes and set(integers(old, "dilation")) != {1}:
        raise Refused("its dilation is not 1, and TRANSPOSE_CONV2D has no dilation")
    stride = integers(old, "stride", 2)
    out_pad = _out_pad(edit, old, result, stride)
    operands, accumulator = _convolution(edit, old)
    edit.emit(
        "TRANSPOSE_CONV2D",
        operands,
        old.outputs,
        out_pad=out_pad,
        stride=stride,
        local_bound=flag(old, "local_bound", False),
        acc_type=accumulator,
    )


def _out_pad(
    edit: Editor, old: OldOperation, result: Tensor, stride: tuple[int, ...]
) -> tuple[int, ...]:
    """`out_pad` in the sign of today, where positive values add to the size of the result.

    Up to 2022 positive values took away. Which of the two is meant is told by the size of the result,
    and if both fit by the kind of the attribute, which changed in the same months.
    """
    given = integers(old, "out_pad")
    image, weight = edit.rank(edit.operand(old, 0)), edit.rank(edit.operand(old, 1))
    shape = edit.rank(result)
    if "out_shape" in old.attributes:
        shape = resolved(shape, integers(old, "out_shape"))
    if {len(image), len(weight), len(shape)} != {4}:
        raise Refused("its input, weight or result is not of rank 4")
    sizes = [
        None
        if DYNAMIC in (image[axis], weight[axis], shape[axis])
        else shape[axis] - (image[axis] - 1) * stride[axis - 1] - weight[axis]
        for axis in (1, 2)
    ]
    if len(given) == 2:
        if None in sizes:
            raise Refused("out_pad has two values, and the others need the size of the result")
        edit.note("out_pad has four values, with the sign of today")
        (top, left), (height, width) = given, (size or 0 for size in sizes)
        return -top, height + top, -left, width + left
    if len(given) != 4:
        raise Refused(f"its attribute out_pad has {len(given)} values, expected 4")
    sums = given[0] + given[1], given[2] + given[3]
    adds = all(size in (None, total) for size, total in zip(sizes, sums, strict=True))
    crops = all(size in (None, -total) for size, total in zip(sizes, sums, strict=True))
    if not adds and not crops:
        raise Refused(f"out_pad {list(given)} does not fit the size of the result, in either sign")
    if not any(given) or (adds and not (crops and isinstance(old.attributes["out_pad"], list))):
        return given
    edit.note("the sign of out_pad is that of today")
    return tuple(-value for value in given)


def fully_connected(edit: Editor, old: OldOperation) -> None:
    """A convolution of an image of one pixel for each row."""
    result = edit.result(old)
    image, weight = edit.operand(old, 0), edit.operand(old, 1)
    rows, kernels, shape = edit.rank(image), edit.rank(weight), edit.rank(result)
    if {len(rows), len(kernels), len(shape)} != {2}:
        raise Refused("its input, weight or result is not of rank 2")
    stem = old.outputs[0]
    inputs = [
        edit.reshape(f"{stem}_input", image.name, (rows[0], 1, 1, rows[1])),
        edit.reshape(f"{stem}_weight", weight.name, (kernels[0], 1, 1, kernels[1])),
        old.inputs[2],
    ]
    for name, operand in (("input_zp", image), ("weight_zp", weight)):
        inputs.append(zero_point_operand(edit, old, name, operand))
    product = edit.temporary(f"{stem}_conv2d", result.dtype, (shape[0], 1, 1, shape[1]))
    edit.emit(
        "CONV2D",
        inputs,
        (product,),
        pad=(0, 0, 0, 0),
        stride=(1, 1),
        dilation=(1, 1),
        local_bound=False,
        acc_type=_accumulator(old, _ACCUMULATORS.get(image.dtype.name)),
    )
    edit.emit("RESHAPE", (product, edit.shape(f"{stem}_shape", shape)), old.outputs)


def matmul(edit: Editor, old: OldOperation) -> None:
    """Zero points become operands."""
    edit.result(old)
    zero_points = [
        zero_point_operand(edit, old, "a_zp", edit.operand(old, 0)),
        zero_point_operand(edit, old, "b_zp", edit.operand(old, 1)),
    ]
    edit.emit("MATMUL", [*old.inputs[:2], *zero_points], old.outputs)


def negate(edit: Editor, old: OldOperation) -> None:
    """Zero points become operands."""
    result = edit.result(old)
    # In releases of early 2025 the attribute has the name of today's operand.
    name = "input1_zp" if "input1_zp" in old.attributes else "input_zp"
    zero_points = [
        zero_point_operand(edit, old, name, edit.operand(old, 0)),
        zero_point_operand(edit, old, "output_zp", result),
    ]
    edit.emit("NEGATE", [old.inputs[0], *zero_points], old.outputs)


def avg_pool2d(edit: Editor, old: OldOperation) -> None:
    """Zero points become operands."""
    result, image = edit.result(old), edit.operand(old, 0)
    zero_points = [
        zero_point_operand(edit, old, "input_zp", image),
        zero_point_operand(edit, old, "output_zp", result),
    ]
    default = dtype("FP32") if image.dtype.is_float else INT32
    edit.emit(
        "AVG_POOL2D",
        [old.inputs[0], *zero_points],
        old.outputs,
        kernel=integers(old, "kernel", 2),
        stride=integers(old, "stride", 2),
        pad=integers(old, "pad", 4),
        acc_type=_accumulator(old, default.name),
    )
