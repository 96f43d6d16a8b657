"""Quantised operators in real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.integers import (
    FP8,
    RANGES,
    as_bits,
    to_fp8,
    widened,
)
from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError
from tosa_convert.records import NamedTuple

#: f32 holds every integer below this.
_EXACT: Final = 1 << 24


class _Layout(NamedTuple):
    """Where scales and zero points belong: the shape that they get, or blocks along an axis."""

    shape: Sequence[int]
    block: int = 0
    axis: int = 0
    size: int = 1


def _layout(e: Decomposition) -> _Layout:
    """Return the layout by the attributes of quantise and dequantise operators."""
    shape = e.shape(0)
    axis = int(e.attribute("axis", 1))
    axis = axis % len(shape) if shape else 0
    size = shape[axis] if shape else 1
    wanted = [1] * len(shape)
    if shape and int(np.prod(e.shape(1))) != 1:
        wanted[axis] = size
    return _Layout(wanted, int(e.attribute("block_size", 0)), axis, size)


def _real_number(e: Decomposition, index: int) -> str:
    """Return an input of integers as f32."""
    return e.cast(widened(e, e.inputs[index], e.type(index)), TensorProto.FLOAT)


def _zero_point(e: Decomposition, index: int, layout: _Layout) -> str:
    """Return the zero point as f32, where it is given; else ""."""
    if not e.has(index):
        return ""
    return _spread(e, _real_number(e, index), e.shape(index), layout)


def _scale(e: Decomposition, index: int, layout: _Layout) -> str:
    """Return the scale as f32."""
    return _spread(e, e.cast(e.inputs[index], TensorProto.FLOAT), e.shape(index), layout)


def _spread(e: Decomposition, x: str, given: tuple[int, ...], layout: _Layout) -> str:
    """Reshape or repeat a scale or zero point: one for all, one for each index, or one for a block."""
    if layout.block:
        repeated = np.repeat(np.arange(given[layout.axis]), layout.block)[: layout.size]
        return e.op("Gather", x, e.ints(*repeated.tolist()), axis=layout.axis)
    return e.reshape(x, [] if int(np.prod(given)) == 1 else layout.shape)


def dequantize(e: Decomposition) -> None:
    """(x - zero point) * scale, for the types and layouts that torch-mlir gets wrong."""
    block = int(e.attribute("block_size", 0))
    e.leave_if(
        e.type(0) == TensorProto.INT8 and not block and len(e.shape(1)) < 2, "torch-mlir lowers it"
    )
    e.leave_if(e.type(0) not in (*RANGES, TensorProto.INT32), "another type")
    layout = _layout(e)
    x = _real_number(e, 0)
    zero = _zero_point(e, 2, layout)
    if zero:
        x = e.op("Sub", x, zero)
    scale = _scale(e, 1, layout)
    e.result(e.cast(e.op("Mul", x, scale), e.output_type() or e.type(1)))


def quantize(e: Decomposition) -> None:
    """round(x / scale) + zero point, clamped, for the types and layouts that torch-mlir gets wrong."""
    kind = e.type(2) if e.has(2) else int(e.attribute("output_dtype", 0)) or TensorProto.UINT8
    block = int(e.attribute("block_size", 0))
    is_whole = not block and int(np.prod(e.shape(1))) == 1
    if (kind == TensorProto.INT8 and is_whole) or kind not in (*RANGES, *FP8):
        raise NotDecomposedError("torch-mlir lowers it, or it has another type")
    layout = _layout(e)
    scale = _scale(e, 1, layout)
    if kind in FP8:
        number = e.op("Div", e.cast(e.inputs[0], TensorProto.FLOAT), scale)
        return e.result(to_fp8(e, number, TensorProto.FLOAT, kind))
    zero = _zero_point(e, 2, layout)
    return e.result(_quantized(e, e.cast(e.inputs[0], TensorProto.FLOAT), scale, zero, kind))


def _quantized(e: Decomposition, x: str, scale: str, zero: str, kind: int) -> str:
    number = e.op("Round", e.op("Div", x, scale))
    if zero:
        number = e.op("Add", number, zero)
    low, high = (e.constant(limit, np.float32) for limit in RANGES[kind])
    number = e.op("Max", e.op("Min", number, high), low)
    number = e.cast(number, TensorProto.INT32)
    return as_bits(e, number, kind)


def qlinear_matmul(e: Decomposition) -> None:
    """Multiply the dequantised matrices, and quantise the product."""
    a, b = _real(e, 0, -2), _real(e, 3, -1)
    e.result(requantized(e, e.op("MatMul", a, b), 6))


def qlinear_conv(e: Decomposition) -> None:
    """Convolve the dequantised operands, and quantise the result.

    The bias has the scale of the products.
    """
    x, w = _real(e, 0, 1), _real(e, 3, 0)
    inputs = [x, w]
    if e.has(8):
        scales = [
            e.reshape(e.inputs[index], [-1] if int(np.prod(e.shape(index))) > 1 else [])
            for index in (1, 4)
        ]
        bias = e.cast(e.inputs[8], TensorProto.FLOAT)
        inputs.append(e.op("Mul", bias, e.op("Mul", *scales)))
    e.result(requantized(e, e.op("Conv", *inputs, **e.attributes), 6))


def _real(e: Decomposition, index: int, axis: int) -> str:
    """Dequantise an input with its scale and zero point in f32; those of an axis lie along it."""
    rank = len(e.shape(index))
    shape, given = [1] * rank, e.shape(index + 1)
    if int(np.prod(given)) > 1:
        e.leave_if(len(given) != 1, "its scales have several axes")
        shape[axis] = given[0]
    x = _real_number(e, index)
    zero = _zero_point(e, index + 2, _Layout(shape))
    scale = _scale(e, index + 1, _Layout(shape))
    return e.op("Mul", e.op("Sub", x, zero), scale)


def requantized(e: Decomposition, x: str, index: int) -> str:
    """f32 quantised by the scale and the zero point from this input on."""
    e.leave_if(int(np.prod(e.shape(index))) != 1, "the result has a scale for each index")
    scale = _scale(e, index, _Layout([]))
    zero = _zero_point(e, index + 1, _Layout([]))
    return _quantized(e, x, scale, zero, e.type(index + 1))


def matmul_integer(e: Decomposition) -> None:
    """Compute the product in f32, which is exact as long as the sums stay below 2**24."""
    inputs = _centred(e, e.shape(0)[-1], is_matrix=True)
    e.result(e.cast(e.op("MatMul", *inputs), TensorProto.INT32))


def conv_integer(e: Decomposition) -> None:
    """Compute the convolution in f32, which is exact as long as the sums stay below 2**24."""
    inputs = _centred(e, int(np.prod(e.shape(1)[1:])), is_matrix=False)
    e.result(e.cast(e.op("Conv", *inputs, **e.attributes), TensorProto.INT32))


def _centred(e: Decomposition, terms: int, is_matrix: bool) -> list[str]:
    """Both factors less their zero points, as f32."""
    e.leave_if(terms * 255 * 255 >= _EXACT, f"sums of {terms} products are not exact in f32")
    inputs = []
    for index in (0, 1):
        x = _real_number(e, index)
        if e.has(index + 2):
            shape = [1] * len(e.shape(index))
            count = int(np.prod(e.shape(index + 2)))
            if count > 1:
                e.leave_if(not is_matrix and index == 0, "it has several zero points")
                shape[(-2, -1)[index] if is_matrix else 0] = count
            x = e.op("Sub", x, _zero_point(e, index + 2, _Layout(shape)))
        inputs.append(x)
    return inputs


def dynamic_quantize(e: Decomposition) -> None:
    """Quantised to uint8 by its own range. Quotients are rounded once, so that ties are as in ONNX."""
    e.leave_if(e.type(0) != TensorProto.FLOAT, "it is not f32")
    axes = list(range(len(e.shape(0))))
    x, nothing = e.inputs[0], e.constant(0, np.float32)
    low = e.op("Min", e.reduce("ReduceMin", x, axes, 0), nothing)
    high = e.op("Max", e.reduce("ReduceMax", x, axes, 0), nothing)
    most = e.constant(255, np.float32)
    span = e.op("Sub", high, low)
    # onnxruntime gives zeros the scale 1.
    span = e.op("Where", e.op("Equal", span, nothing), most, span)
    scale = _rounded_once(e, span, most)
    initial = e.op("Sub", nothing, _rounded_once(e, low, scale))
    zero = e.op("Round", e.op("Max", e.op("Min", initial, most), nothing))
    shifted = e.op("Add", e.op("Round", _rounded_once(e, x, scale)), zero)
    clamped = e.op("Max", e.op("Min", shifted, most), nothing)
    e.result(as_bits(e, e.cast(clamped, TensorProto.INT32), TensorProto.UINT8))
    if e.wants(1):
        e.result(scale, 1)
    if e.wants(2):
        e.result(as_bits(e, e.cast(zero, TensorProto.INT32), TensorProto.UINT8), 2)


def _rounded_once(e: Decomposition, x: str, y: str) -> str:
    """Divide with IEEE 754 rounding; TOSA divides by a reciprocal, which rounds twice.

    The remainder of the first quotient is computed without an error, from the halves of both factors.
    """
    reciprocal = e.op("Div", e.constant(1, np.float32), y)
    q = e.op("Mul", x, reciprocal)
    product = e.op("Mul", q, y)
    (q_high, q_low), (y_high, y_low) = _halves(e, q), _halves(e, y)
    error = e.op("Sub", e.op("Mul", q_high, y_high), product)
    for left, right in ((q_high, y_low), (q_low, y_high), (q_low, y_low)):
        error = e.op("Add", error, e.op("Mul", left, right))
    remainder = e.op("Sub", e.op("Sub", x, product), error)
    return e.op("Add", q, e.op("Mul", remainder, reciprocal))


def _halves(e: Decomposition, x: str) -> tuple[str, str]:
    """Split x into two values of 12 bits whose sum is x (Veltkamp's splitting)."""
    scaled = e.op("Mul", x, e.constant(4097, np.float32))
    high = e.op("Sub", scaled, e.op("Sub", scaled, x))
    return high, e.op("Sub", x, high)
