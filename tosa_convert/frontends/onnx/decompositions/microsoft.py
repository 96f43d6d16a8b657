"""Operators of onnxruntime's domain `com.microsoft`: fused ones, and quantised ones.

onnx does not infer the types of their results, so that those of operands come from their zero points.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions import integers, quantized
from tosa_convert.frontends.onnx.decompositions.node import Decomposition

DOMAIN: Final = "com.microsoft"
#: Operators that became ONNX's own, with the same definition.
_ADOPTED: Final = ("QuantizeLinear", "DequantizeLinear")


def adopt(model: Any) -> None:
    """Make ONNX's own operators of those that mean the same, in place."""
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type in _ADOPTED:
            node.domain = ""


def _activated(e: Decomposition, x: str, parameters: list[float]) -> str:
    """Apply the activation that is fused into an operator."""
    kind = e.attribute("activation", "")
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}
    if not kind:
        return x
    e.leave_if(kind not in (*names, "Relu", "Sigmoid", "Tanh"), f"its activation is {kind}")
    if kind == "Clip":
        low, high = (e.constant(value, np.float32) for value in parameters)
        return e.op("Max", e.op("Min", x, high), low)
    return e.op(kind, x, **dict(zip(names.get(kind, ()), parameters, strict=False)))


def _without(e: Decomposition, *names: str) -> dict[str, Any]:
    return {name: value for name, value in e.attributes.items() if name not in names}


def fused_conv(e: Decomposition) -> None:
    """Convolve, add the fourth operand, and activate."""
    given = _without(e, "activation", "activation_params")
    x = e.op("Conv", *e.inputs[:3], **given)
    if e.has(3):
        x = e.op("Add", x, e.inputs[3])
    e.result(_activated(e, x, e.attribute("activation_params", [])))


def fused_gemm(e: Decomposition) -> None:
    """Multiply, and activate."""
    own = ("activation", "activation_alpha", "activation_beta", "activation_gamma")
    x = e.op("Gemm", *e.inputs, **_without(e, *own))
    e.result(_activated(e, x, [e.attribute(name) for name in own[1:] if name in e.attributes]))


def fused_matmul(e: Decomposition) -> None:
    """Multiply matrices that are transposed, and scale the product.

    With a transposed batch, the rows are the first axis.
    """
    operands = list(e.inputs)
    for index, name in enumerate("AB"):
        whole, batch = (e.attribute(f"{kind}{name}", 0) for kind in ("trans", "transBatch"))
        if whole or batch:
            rank = len(e.shape(index))
            order = [*range(1, rank - 1), 0, rank - 1] if batch and rank > 2 else [*range(rank)]
            if whole:
                order[-2:] = order[-2:][::-1]
            operands[index] = e.transpose(operands[index], order)
    product = e.op("MatMul", *operands)
    alpha = e.attribute("alpha", 1.0)
    e.result(product if alpha == 1 else e.op("Mul", product, e.like(alpha)))


def gelu(e: Decomposition) -> None:
    """Gelu and BiasGelu: x * Phi(x) by the error function."""
    x = e.op("Add", *e.inputs) if e.has(1) else e.inputs[0]
    part = e.op("Erf", e.op("Mul", x, e.like(1 / sqrt(2))))
    half = e.op("Mul", x, e.like(0.5))
    e.result(e.op("Mul", half, e.op("Add", part, e.like(1))))


def fast_gelu(e: Decomposition) -> None:
    """Approximate x * Phi(x) by tanh."""
    x = e.op("Add", *e.inputs) if e.has(1) else e.inputs[0]
    cube = e.op("Mul", e.op("Mul", x, x), e.op("Mul", x, e.like(0.044715)))
    part = e.op("Tanh", e.op("Mul", e.op("Add", x, cube), e.like(sqrt(2 / pi))))
    half = e.op("Mul", x, e.like(0.5))
    e.result(e.op("Mul", half, e.op("Add", part, e.like(1))))


def quick_gelu(e: Decomposition) -> None:
    """Multiply x by its scaled sigmoid."""
    x = e.inputs[0]
    scaled = e.op("Mul", x, e.like(e.attribute("alpha", 1.702)))
    e.result(e.op("Mul", x, e.op("Sigmoid", scaled)))


def _rms(e: Decomposition, x: str, gamma: str, axis: int, epsilon: float) -> str:
    squares = e.reduce("ReduceMean", e.op("Mul", x, x), [axis])
    root = e.op("Sqrt", e.op("Add", squares, e.like(epsilon)))
    return e.op("Mul", e.op("Div", x, root), gamma)


def simplified_layer_normalization(e: Decomposition) -> None:
    """Divide by the root of the mean of squares over the last axis."""
    rank = len(e.shape(0))
    axis = int(e.attribute("axis", -1)) % rank
    e.leave_if(axis != rank - 1 or e.wants(1), "it is over several axes, or has two results")
    e.result(_rms(e, e.inputs[0], e.inputs[1], axis, e.attribute("epsilon", 1e-5)))


def skip_layer_normalization(e: Decomposition) -> None:
    """Add the skipped branch and the bias, and normalise the sum."""
    epsilon = e.attribute("epsilon", 1e-12)
    e.leave_if(e.wants(1) or e.wants(2), "its mean or its deviation is used")
    is_simple = e.node.op_type == "SkipSimplifiedLayerNormalization"
    x, bias = e.op("Add", *e.inputs[:2]), 3 if is_simple else 4
    if e.has(bias):
        x = e.op("Add", x, e.inputs[bias])
    if is_simple:
        e.result(_rms(e, x, e.inputs[2], -1, epsilon))
    else:
        centred = e.op("Sub", x, e.reduce("ReduceMean", x, [-1]))
        found = _rms(e, centred, e.inputs[2], -1, epsilon)
        e.result(e.op("Add", found, e.inputs[3]) if e.has(3) else found)
    if e.wants(3):
        e.result(x, 3)


def matmul_n_bits(e: Decomposition) -> None:
    """Multiply by weights of a few bits in blocks, which become f32."""
    bits, block = int(e.attribute("bits", 4)), int(e.attribute("block_size"))
    depth, width = int(e.attribute("K")), int(e.attribute("N"))
    e.leave_if(bits not in (2, 4, 8) or e.has(4), f"its weights have {bits} bits or another order")
    blocks = -(-depth // block)
    values = _unpacked(e.value(1).reshape(width, -1), bits)[:, : blocks * block]
    scales = e.value(2).astype(np.float32).reshape(width, blocks, 1)
    zeros = np.full((width, blocks), 1 << bits - 1, np.float32)
    if e.has(3):
        given = e.value(3).reshape(width, -1)
        packed = given.dtype == np.uint8
        zeros = (_unpacked(given, bits) if packed else given)[:, :blocks].astype(np.float32)
    weights = (values.reshape(width, blocks, block) - zeros[:, :, None]) * scales
    matrix = weights.reshape(width, -1)[:, :depth].T
    product = e.op("MatMul", e.inputs[0], e.like(matrix))
    e.result(e.op("Add", product, e.inputs[5]) if e.has(5) else product)


def _unpacked(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Return the values of rows of bytes, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = packed[:, :, None] >> shifts & (1 << bits) - 1
    return values.reshape(len(packed), -1).astype(np.float32)


def _real(e: Decomposition, index: int, axis: int = 0) -> str:
    """Dequantise the operand that its scale and its zero point follow.

    axis: that of scales of which there are several.
    """
    zero = index + 2
    kind = e.type(zero) if e.has(zero) else e.type(index)
    e.leave_if(kind not in integers.RANGES, "the type of an operand is not known")
    x = e.cast(integers.widened(e, e.inputs[index], kind), TensorProto.FLOAT)
    shape: list[int] = []
    if (count := int(np.prod(e.shape(index + 1)))) > 1:
        shape = [1] * len(e.shape(index))
        shape[axis] = count
    if e.has(zero):
        number = e.cast(integers.widened(e, e.inputs[zero], kind), TensorProto.FLOAT)
        x = e.op("Sub", x, e.reshape(number, shape))
    return e.op("Mul", x, e.reshape(e.inputs[index + 1], shape))


def _elementwise(kind: str, *names: str) -> Callable[[Decomposition], None]:
    """Return what computes an operator of one operand, with these attributes, in real numbers."""

    def decompose(e: Decomposition) -> None:
        e.leave_if(bool(e.attribute("channels_last", 0)), "its channels are the last axis")
        given = {name: e.attribute(name) for name in names if name in e.attributes}
        e.result(quantized.requantized(e, e.op(kind, _real(e, 0), **given), 3))

    return decompose


def qlinear_binary(e: Decomposition) -> None:
    """Add or multiply in real numbers."""
    kind = e.node.op_type.removeprefix("QLinear")
    e.result(quantized.requantized(e, e.op(kind, _real(e, 0), _real(e, 3)), 6))


def qlinear_concat(e: Decomposition) -> None:
    """Concatenate in real numbers."""
    parts = [_real(e, index) for index in range(2, len(e.inputs), 3)]
    joined = e.op("Concat", *parts, axis=int(e.attribute("axis")))
    e.result(quantized.requantized(e, joined, 0))


def qlinear_reduce_mean(e: Decomposition) -> None:
    """Compute the mean in real numbers."""
    axes, keepdims = e.attribute("axes"), int(e.attribute("keepdims", 1))
    e.leave_if(axes is None, "it has no axes")
    e.result(quantized.requantized(e, e.reduce("ReduceMean", _real(e, 0), axes, keepdims), 3))


def qgemm(e: Decomposition) -> None:
    """Multiply in real numbers; the bias has the scale of the product."""
    transposed = int(e.attribute("transB", 0))
    alpha = e.attribute("alpha", 1.0)
    operands = [_real(e, 0), _real(e, 3, axis=0 if transposed else 1)]
    if e.has(6):
        scale = e.op("Mul", *(e.reshape(e.inputs[i], [-1]) for i in (1, 4)))
        bias = e.op("Mul", e.cast(e.inputs[6], TensorProto.FLOAT), scale)
        operands.append(e.op("Mul", bias, e.constant(alpha, np.float32)))
    transposes = {"transA": int(e.attribute("transA", 0)), "transB": transposed}
    product = e.op("Gemm", *operands, alpha=alpha, **transposes)
    e.result(quantized.requantized(e, product, 7) if e.has(7) else product)


#: Operator -> what builds the nodes that replace it.
MICROSOFT: Final[dict[str, Callable[[Decomposition], None]]] = {
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu": gelu,
    "BiasGelu": gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_layer_normalization,
    "MatMulNBits": matmul_n_bits,
    "QLinearAdd": qlinear_binary,
    "QLinearMul": qlinear_binary,
    "QLinearSigmoid": _elementwise("Sigmoid"),
    "QLinearLeakyRelu": _elementwise("LeakyRelu", "alpha"),
    "QLinearSoftmax": _elementwise("Softmax", "axis"),
    "QLinearGlobalAveragePool": _elementwise("GlobalAveragePool"),
    "QLinearAveragePool": _elementwise(
        "AveragePool",
        *("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    ),
    "QLinearConcat": qlinear_concat,
    "QLinearReduceMean": qlinear_reduce_mean,
    "QGemm": qgemm,
}
