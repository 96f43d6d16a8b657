"""Reductions, matrix products, convolutions, pooling and Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from tosa_convert.golden.random_graphs.builder import (
    FLOATS,
    INT32_BOUND,
    NoOperandsError,
    RandomBuilder,
    rule,
    types_of,
)
from tosa_convert.graph.opset import OPERATORS


@rule(*(row.name for row in OPERATORS if row.family == "reduction"))
def _reduce(g: RandomBuilder, name: str) -> None:
    types = (*FLOATS, "INT8") if name == "ARGMAX" else types_of(name)
    t = g.pick(types, (2, 3, 4), bound=INT32_BOUND // 8)
    axis = g.random.randrange(len(t.shape))
    size = t.shape[axis]
    bound = {"REDUCE_SUM": t.bound * size, "ARGMAX": size}.get(name, t.bound)
    if bound > INT32_BOUND:
        raise NoOperandsError
    keywords: dict[str, Any] = {"dtype": "INT32"} if name == "ARGMAX" else {}
    g.emit(name, t, axis=axis, bound=bound, **keywords)


@rule("MATMUL", "MATMUL_T")
def _matmul(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (3,))
    n, _, c = t.shape
    width = g.random.randint(1, 6)
    other = g.random_const(t.dtype, (n, c, width) if name == "MATMUL" else (n, width, c), 100)
    result = "INT32" if t.dtype == "INT8" else t.dtype
    g.emit(name, t, other, dtype=result, bound=128 * 100 * c)


@rule("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def _conv2d(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "INT8"), (4,))
    _, height, width, c = t.shape
    kernel = (min(g.random.randint(1, 3), height), min(g.random.randint(1, 3), width))
    out = g.random.randint(1, 4)
    depthwise = name == "DEPTHWISE_CONV2D"
    shape = (*kernel, c, out) if depthwise else (out, *kernel, c)
    bias = (c * out if depthwise else out,)
    keywords = {} if name == "TRANSPOSE_CONV2D" else {"pad": (0, kernel[0] - 1, 0, kernel[1] - 1)}
    g.emit(
        name,
        t,
        g.random_const(t.dtype, shape, 100),
        g.random_const(_accumulator(t.dtype), bias, 1000),
        bound=128 * 100 * math.prod(kernel) * c + 1000,
        **keywords,
    )


@rule("CONV3D")
def _conv3d(g: RandomBuilder, name: str) -> None:
    fitting = [t for t in g.tensors if t.dtype in ("FP32", "INT8") and len(t.shape) == 5]
    if fitting and g.random.random() < 0.8:
        t = g.recent(fitting)
    else:
        shape = tuple(g.random.randint(1, 3) for _ in range(5))
        t = g.input(g.random.choice(("FP32", "INT8")), shape)
    kernel = [g.random.randint(1, min(2, size)) for size in t.shape[1:4]]
    out, c = g.random.randint(1, 3), t.shape[4]
    g.emit(
        name,
        t,
        g.random_const(t.dtype, (out, *kernel, c), 100),
        g.random_const(_accumulator(t.dtype), (out,), 1000),
        local_bound=g.random.random() < 0.5,
        bound=128 * 100 * math.prod(kernel) * c + 1000,
    )


def _accumulator(element_type: str) -> str:
    return "INT32" if element_type == "INT8" else "FP32"


@rule("FFT2D", "RFFT2D")
def _fft(g: RandomBuilder, name: str) -> None:
    """Along dimensions whose sizes are powers of two."""
    fitting = [
        t
        for t in g.tensors
        if t.dtype == "FP32"
        and len(t.shape) == 3
        and t.shape[2] > 1
        and all(size & (size - 1) == 0 for size in t.shape[1:])
    ]
    if fitting and g.random.random() < 0.7:
        t = g.random.choice(fitting)
    else:
        sizes = [g.random.choice((2, 4, 8)) for _ in "hw"]
        t = g.input("FP32", (g.random.randint(1, 2), *sizes))
    local = g.random.random() < 0.5
    if name == "RFFT2D":
        g.emit(name, t, local_bound=local)
        return
    other, _ = g.broadcast_operand(t)
    if other.shape != t.shape:
        other = g.random_const("FP32", t.shape, 1)
    g.emit(name, t, other, inverse=g.random.random() < 0.5, local_bound=local)


@rule("AVG_POOL2D", "MAX_POOL2D", "AVG_POOL2D_ADAPTIVE", "MAX_POOL2D_ADAPTIVE")
def _pool(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (4,))
    kernel: Any = (min(2, t.shape[1]), min(2, t.shape[2]))
    keywords: dict[str, Any] = {}
    if name.startswith("AVG"):
        keywords["acc_type"] = _accumulator(t.dtype)
    if name.endswith("ADAPTIVE"):
        kernel = g.shape(kernel)
        keywords |= {"stride": g.shape((1, 1)), "pad": g.shape((0, 0, 0, 0))}
    g.emit(name, t, kernel=kernel, bound=t.bound, **keywords)


@rule("RESIZE")
def _resize(g: RandomBuilder, name: str) -> None:
    t = g.pick(("FP32", "FP16", "INT8"), (4,))
    zero = g.shape((0, 0))
    g.emit(name, t, g.shape((2, 1, 2, 1)), zero, zero, mode="NEAREST", bound=t.bound)
