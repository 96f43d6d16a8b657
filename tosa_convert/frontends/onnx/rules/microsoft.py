"""Operators of onnxruntime's domain `com.microsoft`: fused ones, and quantised ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from onnx import helper

from tosa_convert.frontends.lowering import activations, movement, normalization
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import FLOAT32
from tosa_convert.frontends.onnx.node import Item, Node, Rule
from tosa_convert.frontends.onnx.rules import quantised
from tosa_convert.frontends.onnx.rules.elementwise import added, ranked
from tosa_convert.frontends.onnx.rules.products import matmul

#: Activations that are fused, and the attributes that they take.
_FUSED: Final = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
_BITS: Final = (2, 4, 8)


def _onnx(n: Node, kind: str, *given: Item | None, **attributes: Any) -> Array:
    """Lower an operator of ONNX's own set."""
    names = ["" if item is None else f"x{index}" for index, item in enumerate(given)]
    node = helper.make_node(kind, names, ["y"], **attributes)
    found = n.walk.node(n.scope, node, given, n.names)[0]
    if not isinstance(found, Array):
        raise NotLowered(f"{kind} does not return a tensor")
    return found


def _sum(n: Node, a: Array, b: Array) -> Array:
    return added(n.scope, *ranked(n.scope, a, b))


def _activated(n: Node, x: Array, parameters: Sequence[float]) -> Array:
    kind = n.get("activation", "")
    if not kind:
        return x
    if kind == "Clip":
        return clip(n.scope, x, *parameters)
    if kind not in _FUSED:
        raise NotLowered(f"its activation is {kind}", f"use one of {', '.join(_FUSED)} or Clip")
    return _onnx(n, kind, x, **dict(zip(_FUSED[kind], parameters, strict=False)))


def _fused_conv(n: Node) -> Array:
    given = {name: n.attributes[name] for name in n.attributes if name[:10] != "activation"}
    x = _onnx(n, "Conv", *n.given[:3], **given)
    if n.has(3):
        x = _sum(n, x, n.array(3))
    return _activated(n, x, n.get("activation_params", []))


def _fused_gemm(n: Node) -> Array:
    given = {name: n.attributes[name] for name in n.attributes if name[:10] != "activation"}
    numbers = (n.get(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    return _activated(
        n, _onnx(n, "Gemm", *n.given, **given), [one for one in numbers if one is not None]
    )


def _fused_matmul(n: Node) -> Array:
    """Multiply transposed matrices, and scale; with a transposed batch, rows are the first axis."""
    operands = n.arrays
    for index, name in enumerate("AB"):
        whole, batch = (n.get(f"{kind}{name}", 0) for kind in ("trans", "transBatch"))
        rank = operands[index].rank
        order = [*range(1, rank - 1), 0, rank - 1] if batch and rank > 2 else [*range(rank)]
        if whole:
            order[-2:] = order[-2:][::-1]
        operands[index] = movement.transpose(n.scope, operands[index], order)
    made = matmul(n.scope, operands[0], operands[1])
    return activations.scaled(n.scope, made, n.get("alpha", 1.0))


def _biased(n: Node) -> Array:
    return _sum(n, n.array(0), n.array(1)) if n.has(1) else n.array(0)


def _simplified_layer_normalization(n: Node) -> Array:
    """Divide by the root of the mean of squares over the last axis."""
    x = n.array(0)
    if n.axis(x.rank, -1) != x.rank - 1 or (len(n.wanted) > 1 and n.wanted[1]):
        raise NotLowered("it is over several axes, or has two results")
    epsilon = n.get("epsilon", 1e-5)
    return normalization.rms_norm(n.scope, x, [-1], n.array(1), epsilon)


def _skip_layer_normalization(n: Node) -> Sequence[Array]:
    """Add the skipped branch and the bias, and normalise the sum."""
    s, epsilon = n.scope, n.get("epsilon", 1e-12)
    if any(n.wanted[1:3]):
        raise NotLowered("its mean or its deviation is used")
    is_simple = n.kind == "SkipSimplifiedLayerNormalization"
    x, bias = _sum(n, n.array(0), n.array(1)), 3 if is_simple else 4
    if n.has(bias):
        x = _sum(n, x, n.array(bias))
    if is_simple:
        made = normalization.rms_norm(s, x, [-1], n.array(2), epsilon)
    else:
        made = normalization.layer_norm(s, x, [-1], n.array(2), n.optional(3), epsilon)
    return [made, made, made, x]


# -- weights of few bits ---------------------------------------------------------------------------


def _matmul_n_bits(n: Node) -> Array:
    """Multiply by weights of a few bits in blocks, which become floating point."""
    bits, block = int(n.get("bits", 4)), int(n.get("block_size"))
    depth, width = int(n.get("K")), int(n.get("N"))
    if bits not in _BITS or n.has(4):
        raise NotLowered(f"its weights have {bits} bits or another order")
    blocks = -(-depth // block)
    values = _unpacked(n.known(1).reshape(width, -1), bits)[:, : blocks * block]
    scales = n.known(2).astype(np.float32).reshape(width, blocks, 1)
    zeros = np.full((width, blocks), 1 << bits - 1, np.float32)
    if n.has(3):
        given = n.known(3).reshape(width, -1)
        packed = given.dtype == np.uint8
        zeros = (_unpacked(given, bits) if packed else given)[:, :blocks].astype(np.float32)
    weights = (values.reshape(width, blocks, block) - zeros[:, :, None]) * scales
    matrix = weights.reshape(width, -1)[:, :depth].T.astype(n.array(0).dtype)
    made = matmul(n.scope, n.array(0), constant(matrix))
    return _sum(n, made, n.array(5)) if n.has(5) else made


def _unpacked(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Return the values of rows of bytes, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = packed[:, :, None] >> shifts & (1 << bits) - 1
    return values.reshape(len(packed), -1).astype(np.float32)


# -- quantised operators, in real numbers ----------------------------------------------------------


def _real(n: Node, index: int, axis: int = 0) -> Array:
    """Dequantise the operand that its scale and its zero point follow."""
    return quantised.real(n, quantised.operand(n, index), axis)


def _in_real_numbers(kind: str, *names: str) -> Rule:
    """Return the rule of an operator of one operand, with these attributes."""

    def lower(n: Node) -> Array:
        if n.get("channels_last", 0):
            raise NotLowered("its channels are the last axis", "transpose around it")
        given = {name: n.get(name) for name in names if name in n.attributes}
        return quantised.requantised(n, _onnx(n, kind, _real(n, 0), **given), 3)

    return lower


def _qlinear_binary(n: Node) -> Array:
    kind = n.kind.removeprefix("QLinear")
    return quantised.requantised(n, _onnx(n, kind, _real(n, 0), _real(n, 3)), 6)


def _qlinear_concat(n: Node) -> Array:
    parts = [_real(n, index) for index in range(2, len(n.given), 3)]
    joined = _onnx(n, "Concat", *parts, axis=int(n.get("axis")))
    return quantised.requantised(n, joined, 0)


def _qlinear_reduce_mean(n: Node) -> Array:
    axes, keep = n.get("axes"), bool(n.get("keepdims", 1))
    if axes is None:
        raise NotLowered("it has no axes", "name the axes")
    made = normalization.mean(n.scope, _real(n, 0), axes, keep)
    return quantised.requantised(n, made, 3)


def _qgemm(n: Node) -> Array:
    """Multiply bytes to sums of INT32; the bias has the scale of the product."""
    s, a, b = n.scope, quantised.operand(n, 0), quantised.operand(n, 3)
    left, right = (
        replace(one, x=movement.transpose(s, one.x, (1, 0))) if n.get(name, 0) else one
        for one, name in ((a, "transA"), (b, "transB"))
    )
    sums = quantised.multiplied(n, left, right)
    if n.has(6):
        sums = _sum(n, sums, n.array(6))
    alpha = constant(np.array([n.get("alpha", 1.0)], np.float32))
    if n.has(7):
        return quantised.scaled_sums(n, sums, (a.scale, b.scale, alpha), 7, 1)
    factor = quantised.factor_of(s, (a.scale, b.scale, alpha))
    return s.mul(s.cast(sums, FLOAT32), movement.reshape(s, factor, (1, factor.size)))


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("BiasGelu", "Gelu"), lambda n: activations.gelu(n.scope, _biased(n))),
    "DequantizeLinear": quantised.RULES["DequantizeLinear"],
    "FastGelu": lambda n: activations.gelu_tanh(n.scope, _biased(n)),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "MatMulNBits": _matmul_n_bits,
    "QGemm": _qgemm,
    "QLinearAdd": _qlinear_binary,
    "QLinearAveragePool": _in_real_numbers(
        "AveragePool",
        *("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    ),
    "QLinearConcat": _qlinear_concat,
    "QLinearGlobalAveragePool": _in_real_numbers("GlobalAveragePool"),
    "QLinearLeakyRelu": _in_real_numbers("LeakyRelu", "alpha"),
    "QLinearMul": _qlinear_binary,
    "QLinearReduceMean": _qlinear_reduce_mean,
    "QLinearSigmoid": _in_real_numbers("Sigmoid"),
    "QLinearSoftmax": _in_real_numbers("Softmax", "axis"),
    "QuantizeLinear": quantised.RULES["QuantizeLinear"],
    "QuickGelu": lambda n: activations.swish(n.scope, n.array(0), n.get("alpha", 1.702)),
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_layer_normalization,
}
#: Those that onnxruntime's tools write in ONNX's own set.
OWN_DOMAIN: Final[dict[str, Rule]] = {
    "SimplifiedLayerNormalization": _simplified_layer_normalization
}
