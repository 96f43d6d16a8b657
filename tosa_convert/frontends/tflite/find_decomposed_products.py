"""Which reductions, products and windows of a TFLite model are decomposed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tosa_convert.frontends.tflite.facts import (
    Facts,
    Find,
    bounds,
    integers,
    operands_of,
    result_of,
)
from tosa_convert.frontends.tflite.file import Operator, TfliteFile
from tosa_convert.frontends.tflite.numbers import (
    multiplier_and_shift,
    narrow_multiplier_and_shift,
    option,
    single,
)

#: Most pairs of elements that are compared to find the order of rows.
_MOST_PAIRS: Final = 1 << 22
#: The largest matrix of channels by channels that sums near ones.
_MOST_CHANNELS: Final = 2048
#: Squares of numbers of 9 bits whose sum has 29 bits.
_MOST_SQUARES: Final = 8192
#: The scale that the kernels of LOG_SOFTMAX want.
_LOG_SCALE: Final = 16 / 256


def _cumulative_sum(model: TfliteFile, operator: Operator) -> Facts | None:
    x, axis = (model.tensors[one] for one in operator.inputs)
    given = integers(axis)
    if x.dtype not in ("float32", "int32") or len(given) != 1 or axis.dtype != "int32":
        return None
    options = operator.options
    return {
        "axis": given[0] % len(x.shape),
        "exclusive": options is not None and bool(options.number(0, "b")),
        "reverse": options is not None and bool(options.number(1, "b")),
    }


def _largest(model: TfliteFile, operator: Operator) -> Facts | None:
    x, count = (model.tensors[one] for one in operator.inputs)
    types = [model.tensors[one].dtype for one in operator.outputs]
    given = integers(count)
    if x.dtype not in ("float32", "int32", "int16", "int8") or types != [x.dtype, "int32"]:
        return None
    if len(given) != 1 or count.dtype != "int32":
        return None
    if math.prod(x.shape) * x.shape[-1] > _MOST_PAIRS:
        return None
    return {"count": given[0]}


def _transposed_convolution(model: TfliteFile, operator: Operator) -> Facts | None:
    sizes, weights, x = (model.tensors[one] for one in operator.inputs[:3])
    options = operator.options
    if options is None or not sizes.data or not weights.data or x.dtype != "float32":
        return None
    limits = bounds(options.number(4, "b"))
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
    return {"strides": strides, "before": before, "bounds": limits}


def _place(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find the ARG_MAX or ARG_MIN of int32, which ARGMAX does not have."""
    x, axis = operands_of(model, operator)
    given = integers(axis)
    if x.dtype != "int32" or len(given) != 1 or result_of(model, operator).dtype != "int32":
        return None
    return {"axis": given[0] % len(x.shape)}


def _product(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find REDUCE_PROD of int32, which TOSA's REDUCE_PRODUCT does not have."""
    x, axes = operands_of(model, operator)
    given = integers(axes)
    if x.dtype != "int32" or not given:
        return None
    return {"axes": sorted({axis % len(x.shape) for axis in given})}


def _softmax(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find SOFTMAX of floating point with a factor."""
    operands_of(model, operator, 1)
    beta = 0.0 if operator.options is None else operator.options.real(0)
    is_float = result_of(model, operator).dtype == "float32"
    return {"beta": beta} if is_float and beta not in (0.0, 1.0) else None


def _batch_matmul(model: TfliteFile, operator: Operator) -> Facts | None:
    """Batches of other sizes; and int16 of 4 axes, for which the converter reshapes INT48."""
    x, y = operands_of(model, operator)
    result = result_of(model, operator)
    if x.dtype != y.dtype or x.dtype != result.dtype:
        return None
    is_wide = x.dtype == "int16" and len(result.shape) > 3
    if x.shape[:-2] == y.shape[:-2] and not is_wide:
        return None
    facts = {"adjoint": [bool(option(operator, place, "b")) for place in (0, 1)]}
    if x.dtype == "float32":
        return facts
    if x.dtype not in ("int8", "int16") or not result.scale:
        return None
    find = narrow_multiplier_and_shift if x.dtype == "int16" else multiplier_and_shift
    sizes = find(single(x.scale * y.scale), result.scale)
    zeros = {"zero_points": [x.zero_point, y.zero_point], "zero_point": result.zero_point}
    return {**facts, **zeros, "sizes": sizes} if sizes else None


def _root_of_mean_square(model: TfliteFile, operator: Operator) -> Facts | None:
    (x,), result = operands_of(model, operator), result_of(model, operator)
    limits = bounds(option(operator, 5, "b"))
    if x.dtype != "float32" or limits is None:
        return None
    strides, kernel = ([option(operator, place) for place in pair] for pair in ((2, 1), (4, 3)))
    is_same = option(operator, 0, "b") == 0
    pads: list[int] = []
    for axis in (0, 1):
        reach = (result.shape[1 + axis] - 1) * strides[axis] + kernel[axis] - x.shape[1 + axis]
        before = max(0, reach) // 2 if is_same else 0
        pads += [before, reach - before]
    return {"strides": strides, "kernel": kernel, "pads": pads, "bounds": limits}


def _local_response(model: TfliteFile, operator: Operator) -> Facts | None:
    operands_of(model, operator, 1)
    result, options = result_of(model, operator), operator.options
    if options is None or result.dtype != "float32" or result.shape[-1] > _MOST_CHANNELS:
        return None
    names = ("bias", "alpha", "beta")
    numbers = {name: options.real(place) for place, name in enumerate(names, 1)}
    return {"radius": options.number(0, "i"), **numbers}


def _normalization(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find normalizations of 8 bits.

    Inside of the program the zero point of unsigned numbers is 128 smaller.
    """
    (x,), result = operands_of(model, operator, 1), result_of(model, operator)
    if x.dtype != result.dtype or x.dtype not in ("int8", "uint8") or option(operator, 0, "b"):
        return None
    # Of more, the sum of squares may have more than 29 bits.
    if x.shape[-1] > _MOST_SQUARES or result.zero_point != (128 if x.dtype == "uint8" else 0):
        return None
    return {"zero_point": x.zero_point - (128 if x.dtype == "uint8" else 0)}


def _log_softmax(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find LOG_SOFTMAX of 8 bits, whose result always has the same scale."""
    (x,), result = operands_of(model, operator, 1), result_of(model, operator)
    zero = {"int8": 127, "uint8": 255}.get(result.dtype)
    if x.dtype != result.dtype or zero is None or not x.scale:
        return None
    if result.zero_point != zero or result.scale != _LOG_SCALE:
        return None
    return {"scale": x.scale}


FINDERS: Final[Mapping[str, Find]] = {
    "CUMSUM": _cumulative_sum,
    "TOPK_V2": _largest,
    "CONV_3D_TRANSPOSE": _transposed_convolution,
    "ARG_MAX": _place,
    "ARG_MIN": _place,
    "REDUCE_PROD": _product,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
    "L2_NORMALIZATION": _normalization,
    "BATCH_MATMUL": _batch_matmul,
    "L2_POOL_2D": _root_of_mean_square,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
}
