"""Reductions, matrix products, convolutions, pooling and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tosa_convert.golden.random_graphs.builder import (
    FLOATS,
    INT32_BOUND,
    INTEGERS,
    MOST_ELEMENTS,
    GraphBuilder,
    rule,
)
from tosa_convert.graph.dtypes import NanPropagationMode, ResizeMode, dtype
from tosa_convert.graph.opset import AttributeValue


@rule(
    "REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_ALL", "REDUCE_ANY", "ARGMAX"
)
def _reduce(builder: GraphBuilder, name: str) -> bool:
    kinds: Sequence[str] = {
        "REDUCE_SUM": (*FLOATS, "INT32"),
        "REDUCE_MAX": (*FLOATS, *INTEGERS),
        "REDUCE_MIN": (*FLOATS, *INTEGERS),
        "REDUCE_PRODUCT": FLOATS,
        "REDUCE_ALL": ("BOOL",),
        "REDUCE_ANY": ("BOOL",),
        "ARGMAX": (*FLOATS, "INT8"),
    }[name]
    v = builder.pick(kinds, (2, 3, 4), bound=INT32_BOUND // 8)
    if v is None:
        return False
    axis = builder.random.randrange(len(v.shape))
    attributes: dict[str, AttributeValue] = {"axis": axis}
    if name in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX"):
        attributes["nan_mode"] = NanPropagationMode.PROPAGATE
    if name == "ARGMAX":
        shape = v.shape[:axis] + v.shape[axis + 1 :]
        return builder.emit(name, [v.name], [("INT32", shape)], v.shape[axis], **attributes)
    shape = (*v.shape[:axis], 1, *v.shape[axis + 1 :])
    bound = v.bound * v.shape[axis] if name == "REDUCE_SUM" else v.bound
    return bound <= INT32_BOUND and builder.emit(
        name, [v.name], [(v.dtype, shape)], bound, **attributes
    )


@rule("MATMUL", "MATMUL_T")
def _matmul(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("FP32", "FP16", "INT8"), (3,))
    if v is None:
        return False
    n, _, c = v.shape
    width = builder.random.randint(1, 6)
    other = builder.random_const(v.dtype, (n, c, width) if name == "MATMUL" else (n, width, c), 100)
    result = "INT32" if v.dtype == "INT8" else v.dtype
    zeros = [builder.zero(v.dtype), builder.zero(v.dtype)]
    shape = (n, v.shape[1], width)
    return builder.emit(name, [v.name, other, *zeros], [(result, shape)], 128 * 100 * c)


@rule("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def _conv2d(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("FP32", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    kernel = (min(builder.random.randint(1, 3), height), min(builder.random.randint(1, 3), width))
    out = builder.random.randint(1, 4)
    result = "INT32" if v.dtype == "INT8" else "FP32"
    shape = (out, *kernel, c)
    channels = out
    if name == "DEPTHWISE_CONV2D":
        shape, channels = (*kernel, c, out), c * out
    weight = builder.random_const(v.dtype, shape, 100)
    bias = builder.random_const(result, (channels,), 1000)
    operands = [v.name, weight, bias, builder.zero(v.dtype), builder.zero(v.dtype)]
    attributes: dict[str, AttributeValue] = {
        "stride": (1, 1),
        "acc_type": dtype(result),
        "local_bound": False,
    }
    if name == "TRANSPOSE_CONV2D":
        attributes["out_pad"] = (0, 0, 0, 0)
        sizes = (height + kernel[0] - 1, width + kernel[1] - 1)
    else:
        attributes["pad"] = (0, kernel[0] - 1, 0, kernel[1] - 1)
        attributes["dilation"] = (1, 1)
        sizes = (height, width)
    if n * sizes[0] * sizes[1] * channels > MOST_ELEMENTS:
        return False
    bound = 128 * 100 * math.prod(kernel) * c + 1000
    return builder.emit(name, operands, [(result, (n, *sizes, channels))], bound, **attributes)


@rule("CONV3D")
def _conv3d(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("FP32", "INT8"), (5,))
    if v is None or builder.random.random() < 0.2:
        shape = tuple(builder.random.randint(1, 3) for _ in range(5))
        v = builder.input(builder.random.choice(("FP32", "INT8")), shape)
    n, *sizes, c = v.shape
    kernel = [builder.random.randint(1, min(2, size)) for size in sizes]
    out = builder.random.randint(1, 3)
    result = "INT32" if v.dtype == "INT8" else "FP32"
    operands = [v.name, builder.random_const(v.dtype, (out, *kernel, c), 100)]
    operands += [
        builder.random_const(result, (out,), 1000),
        builder.zero(v.dtype),
        builder.zero(v.dtype),
    ]
    return builder.emit(
        name,
        operands,
        [(result, (n, *(a - b + 1 for a, b in zip(sizes, kernel, strict=True)), out))],
        128 * 100 * math.prod(kernel) * c + 1000,
        pad=(0, 0, 0, 0, 0, 0),
        stride=(1, 1, 1),
        dilation=(1, 1, 1),
        local_bound=builder.random.random() < 0.5,
        acc_type=dtype(result),
    )


@rule("FFT2D", "RFFT2D")
def _fft(builder: GraphBuilder, name: str) -> bool:
    """Along dimensions whose sizes are powers of two."""
    fitting = [
        v
        for v in builder.values
        if v.dtype == "FP32"
        and len(v.shape) == 3
        and v.shape[2] > 1
        and all(size & (size - 1) == 0 for size in v.shape[1:])
    ]
    if fitting and builder.random.random() < 0.7:
        v = builder.random.choice(fitting)
    else:
        v = builder.input(
            "FP32",
            (builder.random.randint(1, 2), *(builder.random.choice((2, 4, 8)) for _ in "hw")),
        )
    local = builder.random.random() < 0.5
    if name == "RFFT2D":
        half = ("FP32", (*v.shape[:2], v.shape[2] // 2 + 1))
        return builder.emit(name, [v.name], [half, half], local_bound=local)
    other = builder.broadcast_operand(v)[0]
    if builder.block.tensors[other].shape != v.shape:
        other = builder.random_const("FP32", v.shape, 1)
    results = [("FP32", v.shape)] * 2
    inverse = builder.random.random() < 0.5
    return builder.emit(name, [v.name, other], results, inverse=inverse, local_bound=local)


@rule("AVG_POOL2D", "MAX_POOL2D", "AVG_POOL2D_ADAPTIVE", "MAX_POOL2D_ADAPTIVE")
def _pool(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("FP32", "FP16", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    kernel = (min(2, height), min(2, width))
    shape = (n, height - kernel[0] + 1, width - kernel[1] + 1, c)
    attributes: dict[str, AttributeValue] = {
        "kernel": kernel,
        "stride": (1, 1),
        "pad": (0, 0, 0, 0),
    }
    operands = [v.name]
    if name.startswith("AVG"):
        operands += [builder.zero(v.dtype), builder.zero(v.dtype)]
        attributes["acc_type"] = dtype("INT32" if v.dtype == "INT8" else "FP32")
    else:
        attributes["nan_mode"] = NanPropagationMode.PROPAGATE
    if name.endswith("ADAPTIVE"):
        operands += [builder.shape(kernel), builder.shape((1, 1)), builder.shape((0, 0, 0, 0))]
        for attribute in ("kernel", "stride", "pad"):
            del attributes[attribute]
    return builder.emit(name, operands, [(v.dtype, shape)], v.bound, **attributes)


@rule("RESIZE")
def _resize(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("FP32", "FP16", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    shape = (n, (height - 1) * 2 + 1, (width - 1) * 2 + 1, c)
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    operands = [v.name, builder.shape((2, 1, 2, 1)), builder.shape((0, 0)), builder.shape((0, 0))]
    return builder.emit(name, operands, [(v.dtype, shape)], v.bound, mode=ResizeMode.NEAREST)
