"""Convolutions, matrix multiplications and pools: zero points, accumulators, `out_pad`."""

from __future__ import annotations

from tosa_convert.eras.dialect_states import (
    FOUR_OUT_PADS,
    OUT_PAD_ADDS,
    POOL_ACCUMULATORS,
    SHAPES,
)
from tosa_convert.eras.editor import (
    DowngradeEditor,
    Editor,
    Integers,
    OldOperation,
    Refused,
    WrittenValue,
    ZeroPoints,
    flag,
    integers,
    resolved,
    zero_point,
)
from tosa_convert.graph.dtypes import INT32, DType, dtype
from tosa_convert.graph.model import DYNAMIC, Operator, Tensor


def _own_accumulator(element: DType) -> str | None:
    """Return the accumulator of a convolution whose operation does not name one."""
    return "FP32" if element.is_float and element.bits > 8 else element.accumulator or None


def zero_point_operand(edit: Editor, old: OldOperation, name: str, tensor: Tensor) -> str:
    """Return a zero point as a constant of its tensor's type: 128 of ui8 becomes -128 of i8."""
    value, bits = zero_point(old, name), tensor.dtype.bits
    if tensor.name in edit.unsigned and 0 <= value < 1 << bits:
        value -= value >> bits - 1 << bits
    return edit.constant([value], tensor.dtype, name=f"{old.outputs[0]}_{name}")


def zero_points(edit: Editor, old: OldOperation, **tensors: Tensor) -> list[str]:
    return [zero_point_operand(edit, old, name, tensor) for name, tensor in tensors.items()]


def _accumulator(old: OldOperation, default: str | None) -> DType:
    found = old.attributes.get("acc_type")
    if isinstance(found, DType):
        return found
    if default is None:
        raise Refused("it has no acc_type, and its operands do not determine one")
    return dtype(default)


def _convolution(edit: Editor, old: OldOperation) -> tuple[list[str], DType]:
    image, weight = edit.operand(old, 0), edit.operand(old, 1)
    accumulator = _accumulator(old, _own_accumulator(image.dtype))
    points = zero_points(edit, old, input_zp=image, weight_zp=weight)
    return [*old.inputs, *points], accumulator


def _zero_points(
    edit: DowngradeEditor, op: Operator, kind: str, *names: str, always: bool = False
) -> dict[str, WrittenValue]:
    """Rename `quantization_info` of the last operands; always: with zero points of 0, too."""
    operands = op.inputs[-len(names) :]
    values = {
        name: edit.numbers(operand, name)[0]
        if not edit.tensors[operand].dtype.is_float
        else _float_zero(edit, operand, name)
        for name, operand in zip(names, operands, strict=True)
    }
    is_float = edit.tensors[operands[0]].dtype.is_float
    if is_float or not (always or any(values.values())):
        return {}
    return {"quantization_info": ZeroPoints(kind, values)}


def _float_zero(edit: DowngradeEditor, operand: str, name: str) -> int:
    """Return the zero point of floating-point values, which is zero."""
    data = edit.tensors[operand].data
    if data is None or data.numpy().any():
        raise Refused(f"its {name} is not a constant that is zero")
    edit.read.add(operand)
    return 0


def _written_accumulator(
    edit: DowngradeEditor, op: Operator, default: str | None, since: str
) -> dict[str, WrittenValue]:
    """Return `acc_type`, or nothing where it was not an attribute yet."""
    found = op.attributes["acc_type"]
    assert isinstance(found, DType)
    if edit.state < (first := found.sums_since or ""):
        raise Refused(f"acc_type can be {found} only since {edit.since(first)}")
    if edit.state >= since:
        return {"acc_type": found}
    if found.name != default:
        raise Refused(
            f"acc_type is an attribute only since {edit.since(since)}, and {found} is not its default"
        )
    return {}


def _written_convolution(edit: DowngradeEditor, op: Operator) -> dict[str, WrittenValue]:
    element = edit.tensors[op.inputs[0]].dtype
    own = edit.attributes(op, "acc_type")
    own |= _written_accumulator(edit, op, _own_accumulator(element), SHAPES)
    return own | _zero_points(edit, op, "conv", "input_zp", "weight_zp", always=True)


def downgrade_convolution(edit: DowngradeEditor, op: Operator) -> None:
    edit.downgrade(op, _written_convolution(edit, op), op.inputs[:3])


def convolution(edit: Editor, old: OldOperation) -> None:
    """Upgrade conv2d, conv3d and depthwise_conv2d."""
    edit.result(old)
    length = 3 if old.label == "conv3d" else 2
    operands, accumulator = _convolution(edit, old)
    edit.emit(
        old.label.upper(),
        operands,
        {
            "pad": integers(old, "pad", 2 * length),
            "stride": integers(old, "stride", length),
            "dilation": integers(old, "dilation", length),
            "local_bound": flag(old, "local_bound", False),
            "acc_type": accumulator,
        },
        results=old.outputs,
    )


def transpose_conv2d(edit: Editor, old: OldOperation) -> None:
    """Drop `out_shape`, which follows from the result; bring `out_pad` to today's length and sign."""
    result = edit.result(old)
    if "dilation" in old.attributes and set(integers(old, "dilation")) != {1}:
        raise Refused("its dilation is not 1, and TRANSPOSE_CONV2D has no dilation")
    stride = integers(old, "stride", 2)
    out_pad = _out_pad(edit, old, result, stride)
    operands, accumulator = _convolution(edit, old)
    edit.emit(
        "TRANSPOSE_CONV2D",
        operands,
        {
            "out_pad": out_pad,
            "stride": stride,
            "local_bound": flag(old, "local_bound", False),
            "acc_type": accumulator,
        },
        results=old.outputs,
    )


def _out_pad(
    edit: Editor, old: OldOperation, result: Tensor, stride: tuple[int, ...]
) -> tuple[int, ...]:
    """Return `out_pad` in the sign of today, where positive values add to the size of the result.

    Up to 2022 positive values took away. Which of the two is meant is told by the size of the result,
    and if both fit by the kind of the attribute, which changed in the same months.
    """
    given = integers(old, "out_pad")
    image, weight = edit.rank(edit.operand(old, 0)), edit.rank(edit.operand(old, 1))
    if "out_shape" in old.attributes:
        edit.settle(result, integers(old, "out_shape"))
    shape = edit.rank(result)
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
    state = edit.upgrade.state
    was_old = state < OUT_PAD_ADDS if state else isinstance(old.attributes["out_pad"], list)
    if not any(given) or (adds and not (crops and was_old)):
        return given
    edit.note("the sign of out_pad is that of today")
    return tuple(-value for value in given)


def downgrade_transpose_conv2d(edit: DowngradeEditor, op: Operator) -> None:
    own = _written_convolution(edit, op)
    given = op.attributes["out_pad"]
    assert isinstance(given, tuple)
    if edit.state < OUT_PAD_ADDS:
        given = tuple(-value for value in given)
    if edit.state < FOUR_OUT_PADS:
        if DYNAMIC in edit.rank(op.outputs[0]):
            raise Refused("the size of its result is not known, and two values of out_pad need it")
        given = given[0], given[2]
        own["dilation"] = Integers((1, 1), 64)
    own["out_pad"] = Integers(given, 64)
    own["out_shape"] = Integers(edit.rank(op.outputs[0]), 64)
    edit.downgrade(op, own, op.inputs[:3])


def fully_connected(edit: Editor, old: OldOperation) -> None:
    """Convert to a convolution of an image of one pixel for each row."""
    result = edit.result(old)
    image, weight = edit.operand(old, 0), edit.operand(old, 1)
    rows, kernels = edit.rank(image), edit.rank(weight)
    edit.settle(result, (*rows[:1], *kernels[:1]))
    shape = edit.rank(result)
    if {len(rows), len(kernels), len(shape)} != {2}:
        raise Refused("its input, weight or result is not of rank 2")
    stem = old.outputs[0]
    count, results = sizes = resolved((rows[0], kernels[0]), shape)
    of_rows, of_kernels = resolved(rows[1:], kernels[1:]), resolved(kernels[1:], rows[1:])
    inputs = [
        edit.reshape(image.name, (count, 1, 1, *of_rows), wanted=f"{stem}_input"),
        edit.reshape(weight.name, (results, 1, 1, *of_kernels), wanted=f"{stem}_weight"),
        old.inputs[2],
    ]
    inputs += zero_points(edit, old, input_zp=image, weight_zp=weight)
    product = edit.new_tensor(f"{stem}_conv2d", result.dtype, (count, 1, 1, results))
    edit.emit(
        "CONV2D",
        inputs,
        {
            "pad": (0, 0, 0, 0),
            "stride": (1, 1),
            "dilation": (1, 1),
            "local_bound": False,
            "acc_type": _accumulator(old, _own_accumulator(image.dtype)),
        },
        results=[product],
    )
    edit.reshape(product, sizes, result=stem)


def matmul(edit: Editor, old: OldOperation) -> None:
    edit.result(old)
    points = zero_points(edit, old, a_zp=edit.operand(old, 0), b_zp=edit.operand(old, 1))
    edit.emit("MATMUL", [*old.inputs[:2], *points], results=old.outputs)


def downgrade_matmul(edit: DowngradeEditor, op: Operator) -> None:
    edit.downgrade(op, _zero_points(edit, op, "matmul", "a_zp", "b_zp"), op.inputs[:2])


def negate(edit: Editor, old: OldOperation) -> None:
    result = edit.result(old)
    # In releases of early 2025 the attribute has the name of today's operand.
    name = "input1_zp" if "input1_zp" in old.attributes else "input_zp"
    points = zero_points(edit, old, **{name: edit.operand(old, 0)}, output_zp=result)
    edit.emit("NEGATE", [old.inputs[0], *points], results=old.outputs)


def downgrade_negate(edit: DowngradeEditor, op: Operator) -> None:
    edit.downgrade(op, _zero_points(edit, op, "unary", "input_zp", "output_zp"), op.inputs[:1])


def avg_pool2d(edit: Editor, old: OldOperation) -> None:
    result, image = edit.result(old), edit.operand(old, 0)
    points = zero_points(edit, old, input_zp=image, output_zp=result)
    default = dtype("FP32") if image.dtype.is_float else INT32
    edit.emit(
        "AVG_POOL2D",
        [old.inputs[0], *points],
        {
            "kernel": integers(old, "kernel", 2),
            "stride": integers(old, "stride", 2),
            "pad": integers(old, "pad", 4),
            "acc_type": _accumulator(old, default.name),
        },
        results=old.outputs,
    )


def downgrade_avg_pool2d(edit: DowngradeEditor, op: Operator) -> None:
    is_float = edit.tensors[op.inputs[0]].dtype.is_float
    own = edit.attributes(op, "acc_type")
    own |= _written_accumulator(edit, op, "FP32" if is_float else "INT32", POOL_ACCUMULATORS)
    own |= _zero_points(edit, op, "unary", "input_zp", "output_zp")
    edit.downgrade(op, own, op.inputs[:1])
