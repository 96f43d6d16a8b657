"""Normalisations."""

from __future__ import annotations

import numpy as np

from tosa_convert.frontends.onnx.decompositions.integers import FLOATS
from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
)


def local_response(e: Decomposition) -> None:
    """LRN: squares summed over neighbouring channels, as slices."""
    shape, x = e.shape(0), e.inputs[0]
    size = int(e.attribute("size"))
    before = (size - 1) // 2
    squares = e.op("Mul", x, x)
    pads = [0] * (2 * len(shape))
    pads[1], pads[1 + len(shape)] = before, size - 1 - before
    if e.opset < 11:
        padded = e.op("Pad", squares, pads=pads)
    else:
        padded = e.op("Pad", squares, e.ints(*pads), e.like(0))
    total = e.slice(padded, 1, 0, shape[1])
    for offset in range(1, size):
        total = e.op("Add", total, e.slice(padded, 1, offset, offset + shape[1]))
    scaled = e.op("Mul", total, e.like(e.attribute("alpha", 1e-4) / size))
    base = e.op("Add", scaled, e.like(e.attribute("bias", 1.0)))
    e.result(e.op("Div", x, e.op("Pow", base, e.like(e.attribute("beta", 0.75)))))


def layer_normalization(e: Decomposition) -> None:
    """Centre the elements, then scale them; torch-mlir's difference of squares loses digits."""
    e.leave_if(e.numpy_type() != np.float32, "it is not FP32")
    rank = len(e.shape(0))
    axes = range(int(e.attribute("axis", -1)) % rank, rank)
    mean = e.reduce("ReduceMean", e.inputs[0], axes)
    centred = e.op("Sub", e.inputs[0], mean)
    variance = e.reduce("ReduceMean", e.op("Mul", centred, centred), axes)
    deviation = e.op("Sqrt", e.op("Add", variance, e.like(e.attribute("epsilon", 1e-5))))
    inverse = e.op("Reciprocal", deviation)
    found = e.op("Mul", e.op("Mul", centred, inverse), e.inputs[1])
    e.result(e.op("Add", found, e.inputs[2]) if e.has(2) else found)
    for index, name in enumerate((mean, inverse), 1):
        if e.wants(index):
            e.result(name, index)


def attention(e: Decomposition) -> None:
    """Refuse what ONNX defines in another order than onnxruntime computes it."""
    if e.attribute("softcap", 0.0) and (e.has(3) or e.attribute("is_causal", 0)):
        raise RefusedError(
            "onnxruntime caps the scores before the mask is added, and ONNX's definition after it: "
            "write it with MatMul, Tanh and Softmax in the order that is meant"
        )
    raise NotDecomposedError("it is expanded")


def lp_normalization(e: Decomposition) -> None:
    """Zeros stay zeros, as onnx computes it; torch-mlir gives NaN."""
    axis, p = int(e.attribute("axis", -1)), int(e.attribute("p", 2))
    x = e.inputs[0]
    axis %= len(e.shape(0))
    # By sums: torch-mlir does not lower the norms of these shapes.
    terms = e.op("Abs", x) if p == 1 else e.op("Mul", x, x)
    total = e.reduce("ReduceSum", terms, [axis])
    norm = total if p == 1 else e.op("Sqrt", total)
    zero = e.op("Equal", norm, e.like(0))
    e.result(e.op("Div", x, e.op("Add", norm, e.cast(zero, e.type(0)))))


def of_nothing(e: Decomposition) -> None:
    """Replace a reduction over no elements by a constant, such as 0 for sums and 1 for products."""
    lowest = dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp", "ReduceMax"), -np.inf)
    neutral = {**lowest, "ReduceMin": np.inf, "ReduceProd": 1.0}
    e.leave_if(0 not in e.shape(0), "it has elements")
    kind = e.numpy_type()
    value = neutral.get(e.node.op_type, 0.0)
    if np.isinf(value) and not np.issubdtype(kind, np.floating):
        limits = np.iinfo(kind) if np.issubdtype(kind, np.integer) else None
        value = (limits.min if value < 0 else limits.max) if limits else value < 0
    e.result(e.constant(np.full(e.output_shape(), value, kind)))


def composed_reduction(e: Decomposition) -> None:
    """Norms and logarithms of sums; torch-mlir computes some in f64, and does not finish."""
    kind = e.node.op_type
    given = e.value(1).reshape(-1).tolist() if e.has(1) else e.attribute("axes", [])
    x, keepdims = e.inputs[0], int(e.attribute("keepdims", 1))
    if not given and e.attribute("noop_with_empty_axes", 0):
        # The function of each element alone.
        alone = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log"}.get(kind)
        square = e.op("Mul", x, x) if kind == "ReduceSumSquare" else x
        e.result(square if alone is None else e.op(alone, x))
        return
    axes = given or list(range(len(e.shape(0))))
    is_float = e.numpy_type().kind not in "iub"
    if kind not in ("ReduceL1", "ReduceSumSquare") and not is_float:
        raise RefusedError("TOSA has no roots and logarithms of integers")
    if kind == "ReduceL1":
        e.result(e.reduce("ReduceSum", e.op("Abs", x), axes, keepdims))
    elif kind in ("ReduceL2", "ReduceSumSquare"):
        total = e.reduce("ReduceSum", e.op("Mul", x, x), axes, keepdims)
        e.result(e.op("Sqrt", total) if kind == "ReduceL2" else total)
    elif kind == "ReduceLogSum":
        e.result(e.op("Log", e.reduce("ReduceSum", x, axes, keepdims)))
    else:
        # Without the largest element, no exponential overflows. One that is infinite stays: their
        # difference would be NaN.
        most = e.reduce("ReduceMax", x, axes)
        size = e.like(FLOATS[e.type(0)])
        finite = e.op("LessOrEqual", e.op("Abs", most), size)
        most = e.op("Where", finite, most, e.like(0))
        total = e.reduce("ReduceSum", e.op("Exp", e.op("Sub", x, most)), axes)
        found = e.op("Add", e.op("Log", total), most)
        e.result(found if keepdims else e.reshape(found, _without(e.shape(0), axes)))


def _without(shape: tuple[int, ...], axes: list[int]) -> list[int]:
    gone = {axis % len(shape) for axis in axes}
    return [size for axis, size in enumerate(shape) if axis not in gone]
