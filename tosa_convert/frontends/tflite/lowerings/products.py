"""Sums of products: of matrices, of rows with weights, and of windows of volumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    ACTIVATIONS,
    multiplier_and_shift,
    narrow_multiplier_and_shift,
    single,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    around,
    between,
    broadcast,
    sizes_of,
)
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile
from tosa_convert.graph.dtypes import INT16
from tosa_convert.records import dataclass, replace

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Operator


@dataclass(frozen=True, slots=True)
class _Transposed:
    """strides: of depth, height and width. before: their padding in front. bounds: of the activation."""

    strides: list[int]
    before: list[int]
    bounds: tuple[float | None, float | None]


def _find_transposed_convolution(model: TfliteFile, operator: TfliteOperator) -> _Transposed | None:
    sizes, weights, x = (model.tensors[one] for one in operator.inputs[:3])
    options = operator.options
    if options is None or not sizes.data or not weights.data or x.dtype != "float32":
        return None
    limits = ACTIVATIONS.get(options.number(4, "b"))
    dilation = [options.number(position, "i", 1) for position in (5, 6, 7)]
    if weights.dtype != "float32" or dilation != [1, 1, 1] or limits is None:
        return None
    # The fields are those of depth, width and height.
    strides = [options.number(position, "i") for position in (1, 3, 2)]
    result = model.tensors[operator.outputs[0]].shape[1:4]
    is_same = options.number(0, "b") == 0
    extents = zip(result, x.shape[1:4], strides, weights.shape[:3], strict=True)
    before = [
        max(0, (given - 1) * stride + kernel - size) // 2 if is_same else 0
        for size, given, stride, kernel in extents
    ]
    return _Transposed(strides, before, limits)


def _lower_transposed_convolution(b: Builder, given: Given, facts: _Transposed) -> list[Value]:
    """CONV3D of the elements with zeros between them, with the kernel reversed."""
    import numpy as np

    sizes, weights, x = given.constants[0], given.constants[1], given.operands[2]
    kernel = weights[::-1, ::-1, ::-1].transpose(3, 0, 1, 2, 4)
    pads: list[int] = []
    for axis, (stride, before) in enumerate(zip(facts.strides, facts.before, strict=True), 1):
        x = _spread(b, x, axis, stride)
        reach, size = kernel.shape[axis] - 1, (x.shape or ())[axis]
        pads += [reach - before, int(sizes[axis]) + before - size]
    outside = np.zeros((5, 2), np.int64)
    outside[1:4] = np.array(pads).reshape(3, 2)
    # CONV3D has no negative padding, and limits it to the kernel.
    x = b.pad(x, np.maximum(outside, 0).reshape(-1).tolist())
    if np.any(outside < 0):
        start = np.maximum(-outside[:, 0], 0)
        end = np.array(x.shape or ()) - np.maximum(-outside[:, 1], 0)
        x = b.slice(x, start.tolist(), (end - start).tolist())
    bias = (
        given.operands[3]
        if len(given.operands) > 3
        else b.const(np.zeros(kernel.shape[0], np.float32))
    )
    weight = b.const(np.ascontiguousarray(kernel))
    y = b.conv3d(x, weight, bias, pad=[0] * 6, stride=[1] * 3, dilation=[1] * 3)
    return [between(b, y, facts.bounds)]


@dataclass(frozen=True, slots=True)
class _Matrices:
    """adjoint: whether each operand is transposed.

    zero_points: of the operands and the result. sizes: RESCALE's multiplier and shift; None of FP32.
    """

    adjoint: tuple[bool, bool]
    zero_points: tuple[int, int, int] = (0, 0, 0)
    sizes: tuple[int, int] | None = None


def _find_batch_matmul(model: TfliteFile, operator: TfliteOperator) -> _Matrices | None:
    """Find batches of other sizes; and int16 of 4 axes, for which the converter reshapes INT48."""
    x, y = model.operands(operator)
    result = model.result(operator)
    if x.dtype != y.dtype or x.dtype != result.dtype:
        return None
    is_wide = x.dtype == "int16" and len(result.shape) > 3
    if x.shape[:-2] == y.shape[:-2] and not is_wide:
        return None
    adjoint = bool(operator.option(0, "b")), bool(operator.option(1, "b"))
    if x.dtype == "float32":
        return _Matrices(adjoint)
    if x.dtype not in ("int8", "int16") or not result.scale:
        return None
    find = narrow_multiplier_and_shift if x.dtype == "int16" else multiplier_and_shift
    sizes = find(single(x.scale * y.scale), result.scale)
    zero_points = x.zero_point, y.zero_point, result.zero_point
    return _Matrices(adjoint, zero_points, sizes) if sizes else None


def _lower_batch_matmul(b: Builder, given: Given, facts: _Matrices) -> list[Value]:
    """MATMUL of each pair of matrices, of which the smaller batch is repeated."""
    *batch, rows, columns = given.shape
    count = math.prod(batch)
    matrices = []
    for value, is_adjoint in zip(given.operands[:2], facts.adjoint, strict=True):
        sizes = sizes_of(value)[-2:]
        matrix = b.reshape(broadcast(b, value, (*batch, *sizes)), (count, *sizes))
        matrices.append(b.transpose(matrix, perms=[0, 2, 1]) if is_adjoint else matrix)
    if facts.sizes is None:
        return [b.reshape(b.matmul(*matrices), given.shape)]
    dtype = given.operands[0].dtype
    *zeros, result_zero = (b.const([zero], dtype) for zero in facts.zero_points)
    product = b.matmul(*matrices, *zeros)
    multiplier, shift = facts.sizes
    is_wide = dtype is INT16
    found = b.rescale(
        product,
        b.const([multiplier], "int16" if is_wide else "int32"),
        b.const([shift], "int8"),
        output_zp=result_zero,
        scale32=not is_wide,
        rounding_mode="SINGLE_ROUND" if is_wide else "DOUBLE_ROUND",
        dtype=dtype,
    )
    return [b.reshape(found, (*batch, rows, columns))]


def _spread(b: Builder, x: Value, axis: int, stride: int) -> Value:
    """Put zeros between the elements of an axis of the value."""
    if stride == 1:
        return x
    shape, (before, size, after) = sizes_of(x), around(x, axis)
    x = b.reshape(x, (before, size, 1, after))
    x = b.pad(x, [0, 0, 0, 0, 0, stride - 1, 0, 0])
    x = b.reshape(x, (before, size * stride, after))
    wanted = (size - 1) * stride + 1
    x = b.slice(x, (0, 0, 0), (before, wanted, after))
    return b.reshape(x, (*shape[:axis], wanted, *shape[axis + 1 :]))


# -- FULLY_CONNECTED -------------------------------------------------------------------------------


def _find_rounded_twice(model: TfliteFile, operator: TfliteOperator) -> bool:
    return model.result(operator).dtype in ("int8", "uint8")


def _round_once(one: Operator) -> Operator:
    from tosa_convert.graph.dtypes import RoundingMode

    if one.spec.name != "RESCALE":
        return one
    return replace(one, attributes={**one.attributes, "rounding_mode": RoundingMode.SINGLE_ROUND})


@dataclass(frozen=True, slots=True)
class _Rows:
    """multipliers, shifts: RESCALE's, one for each row of weights, or one for all."""

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]


def _find_accumulated(model: TfliteFile, operator: TfliteOperator) -> _Rows | None:
    """Find the multipliers of a product's rows; None if TOSA does not have them."""
    given, weights = (model.tensors[one] for one in operator.inputs[:2])
    result = model.result(operator)
    if result.dtype != "int16":
        return None
    products = [given.scale * scale for scale in weights.scales]
    if len(products) == 1:
        products = [single(products[0])]
    rows = [multiplier_and_shift(product, result.scale) for product in products]
    found = [row for row in rows if row is not None]
    if not found or len(found) < len(rows):
        return None
    multipliers, shifts = zip(*found, strict=True)
    return _Rows(multipliers, shifts)


def _lower_accumulated(group: Group, facts: _Rows, write: Writer) -> None:
    """Rescale sums of 48 bits with a multiplier of 32 bits, which TOSA has for sums of 32 bits only."""
    rescale = group.the("RESCALE")
    value, *_ = rescale.inputs
    if write.tensors[value].dtype.name != "INT48":
        raise OtherFormError
    for one in group.operators:
        if one is not rescale:
            write.operators.append(one)
            continue
        zeros = write.values([0], "INT48"), write.values([0], "INT32")
        factor = write.values([1 << 14], "INT16"), write.values([14], "INT8")
        narrow = write.like(value, "INT32")
        first = write.rounding(
            rescale, "SINGLE_ROUND", (value, *factor, *zeros), scale32=False, per_channel=False
        )
        write.operators.append(replace(first, outputs=(narrow,)))
        scales = write.values(facts.multipliers, "INT32"), write.values(facts.shifts, "INT8")
        inputs = (narrow, *scales, zeros[1], rescale.inputs[4])
        is_per_channel = len(facts.shifts) > 1
        write.operators.append(
            write.rounding(
                rescale, "SINGLE_ROUND", inputs, scale32=True, per_channel=is_per_channel
            )
        )


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "BATCH_MATMUL": Decomposition(_find_batch_matmul, _lower_batch_matmul),
    "CONV_3D_TRANSPOSE": Decomposition(_find_transposed_convolution, _lower_transposed_convolution),
}
CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "FULLY_CONNECTED",
        # By experiment: TFLite's reference kernel, unlike those of convolutions, rounds once.
        "the converter's RESCALE rounds twice",
        _find_rounded_twice,
        change=_round_once,
    ),
    Correction(
        "FULLY_CONNECTED of int16",
        "the converter's multiplier has 16 bits",
        _find_accumulated,
        _lower_accumulated,
        names=("FULLY_CONNECTED",),
    ),
)
