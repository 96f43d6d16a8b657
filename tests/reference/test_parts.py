"""Large tensors are computed a part at a time: the same numbers, and little memory besides them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tosa_convert import golden
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.graph import OPERATORS
from tosa_convert.reference import call as reference_call
from tosa_convert.reference import (
    conversion,
    convolutions,
    parts,
    products,
    reductions,
    resizing,
    windows,
)
from tosa_convert.reference.evaluate import OPERATIONS, Machine

#: Operators that are computed in parts, and those whose parts are blocks of rows.
IN_PARTS = sorted({spec.name for spec in OPERATORS if spec.elementwise} | {"RESCALE"})
IN_ROWS = ["CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MAX_POOL2D", "AVG_POOL2D"]
IN_ROWS += ["RESIZE", "FFT2D", "RFFT2D", "AVG_POOL2D_ADAPTIVE", "MAX_POOL2D_ADAPTIVE"]
IN_ROWS += ["MATMUL", "MATMUL_T", "MATMUL_T_BLOCK_SCALED", "CONV2D_BLOCK_SCALED"]
REDUCED = ["REDUCE_SUM", "REDUCE_PRODUCT", "REDUCE_MAX", "REDUCE_ALL", "ARGMAX"]


@pytest.mark.parametrize("kind", [*IN_PARTS, *IN_ROWS, *REDUCED])
def test_parts_have_the_numbers_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "SELECT":
        pytest.skip("a shape that follows from nothing has no operands that could be drawn")
    for seed in range(6):
        graph = golden.generate(seed=seed, operators=1, kinds=[kind])
        inputs = input_arrays(graph, None, seed)
        whole = Machine(graph).run(inputs)
        with monkeypatch.context() as changed:
            for module in (parts, conversion, resizing, windows, products, convolutions):
                few = lambda call, each, most, seed=seed, **_: max(1, min(most, 1 + seed % 3))  # noqa: E731
                changed.setattr(module, "affordable", few)
            for module, name in (
                (parts, "PART"),
                (parts, "_TURNED_BYTES"),
                (conversion, "PART"),
                (reductions, "PART"),
                (windows, "PART"),
                (resizing, "PART"),
                (convolutions, "_COPIED_BYTES"),
                (convolutions, "_SUMMED_BYTES"),
                (convolutions, "_WEIGHTS"),
            ):
                changed.setattr(module, name, 3)
            found = Machine(graph).run(inputs)
        for name, expected in whole.items():
            if expected.dtype.kind == "f" and kind in (*IN_ROWS, "REDUCE_SUM"):
                np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(found[name], expected)


def test_a_value_that_is_not_there_is_not_refused() -> None:
    """The table of INT16 has a jump, which no element of the input meets."""
    entries = np.zeros(513, np.int16)
    entries[0], entries[1] = -32768, 32767
    b = Builder("main")
    b.output(b.table(b.input("x", "INT16", (1 << 19,)), b.const(entries)), name="y")
    x = np.full(1 << 19, 100, np.int16)
    assert not Machine(b.graph()).run({"x": x})["y"].any()
    x[-1] = -32768
    with pytest.raises(TosaConvertError, match="16 bits"):
        Machine(b.graph()).run({"x": x})


def conv(b: Any, x: Any) -> Any:
    weight = np.ones((x.shape[-1], 3, 3, x.shape[-1]))
    zeros = np.zeros(x.shape[-1])
    if x.dtype.name == "INT8":
        integers = b.const(weight, "INT8"), b.const(zeros, "INT32"), 3, 0
        return b.conv2d(x, *integers, pad=(1, 1, 1, 1))
    floats = b.const(weight, "FP16"), b.const(zeros, "FP16")
    return b.conv2d(x, *floats, pad=(1, 1, 1, 1), acc_type="FP32")


def depthwise(b: Any, x: Any) -> Any:
    weight = b.const(np.ones((3, 3, x.shape[-1], 1), np.int8))
    bias = b.const(np.zeros(x.shape[-1], np.int32))
    return b.depthwise_conv2d(x, weight, bias, 3, 0, pad=(1, 1, 1, 1))


def rescale(b: Any, x: Any) -> Any:
    count = x.shape[-1]
    scale = b.const(np.full(count, 1 << 30, np.int32)), b.const(np.full(count, 38, np.int8))
    return b.rescale(x, *scale, per_channel=True, rounding_mode="SINGLE_ROUND", dtype="INT8")


def connected(b: Any, x: Any) -> Any:
    """Return a convolution whose weights are most of what is live."""
    weight = b.reshape(x, (512, 1, 1, 2048))
    line = b.const(np.ones((1, 1, 1, 2048), weight.dtype.numpy))
    is_int = weight.dtype.name == "INT8"
    bias = b.const(np.zeros(512, np.int32 if is_int else weight.dtype.numpy))
    if is_int:
        return b.conv2d(line, weight, bias, 3, 1)
    return b.conv2d(line, weight, bias, acc_type="FP32")


def transposed(b: Any, x: Any) -> Any:
    outputs = x.shape[-1]
    weight = np.ones((outputs, 4, 4, outputs))
    zeros, sizes = np.zeros(outputs), {"out_pad": (0, 0, 0, 0), "stride": (2, 2)}
    if x.dtype.name == "INT8":
        return b.transpose_conv2d(
            x, b.const(weight, "INT8"), b.const(zeros, "INT32"), 3, 0, **sizes
        )
    floats = b.const(weight, "FP16"), b.const(zeros, "FP16")
    return b.transpose_conv2d(x, *floats, **sizes, acc_type="FP32")


SHAPE = (1, 256, 128, 32)
IMAGES, IMAGE = (64, 128, 128), (1, 1024, 1024)
EYE = np.eye(1024, dtype=np.int8)[None]
LARGE: dict[str, tuple[DTypeName, Callable[[Any, Any], Any]]] = {
    "INT32 ADD": ("INT32", lambda b, x: b.add(x, x)),
    "FP16 EXP": ("FP16", lambda b, x: b.exp(x)),
    "FP32 ERF": ("FP32", lambda b, x: b.erf(x)),
    "INT8 RESCALE": ("INT8", rescale),
    "FP32 CAST": ("FP32", lambda b, x: b.cast(x, dtype="INT8")),
    "INT8 CONV2D": ("INT8", conv),
    "FP16 CONV2D": ("FP16", conv),
    "INT8 CONV2D of large weights": ("INT8", connected),
    "FP16 CONV2D of large weights": ("FP16", connected),
    "INT8 DEPTHWISE_CONV2D": ("INT8", depthwise),
    "INT8 TRANSPOSE_CONV2D": ("INT8", transposed),
    "FP16 TRANSPOSE_CONV2D": ("FP16", transposed),
    "FP32 FFT2D": ("FP32", lambda b, x: b.fft2d(*2 * [b.reshape(x, IMAGES)])[0]),
    "FP32 RFFT2D": ("FP32", lambda b, x: b.rfft2d(b.reshape(x, IMAGES))[0]),
    "FP32 FFT2D of one image": ("FP32", lambda b, x: b.fft2d(*2 * [b.reshape(x, IMAGE)])[0]),
    "FP32 RFFT2D of one image": ("FP32", lambda b, x: b.rfft2d(b.reshape(x, IMAGE))[0]),
    "INT8 MAX_POOL2D": ("INT8", lambda b, x: b.max_pool2d(x, kernel=(3, 3), stride=(1, 1))),
    "INT8 AVG_POOL2D": ("INT8", lambda b, x: b.avg_pool2d(x, kernel=(3, 3), stride=(1, 1))),
    "INT8 RESIZE": (
        "INT8",
        lambda b, x: b.resize(x, (4, 2, 4, 2), (0, 0), (2, 2), mode="BILINEAR", dtype="INT32"),
    ),
    "INT8 REDUCE_MAX": ("INT8", lambda b, x: b.reduce_max(x, axis=1)),
    "INT8 MATMUL": ("INT8", lambda b, x: b.matmul(b.reshape(x, IMAGE), b.const(EYE))),
    "INT8 MATMUL of few rows": (
        "INT8",
        lambda b, x: b.matmul(b.const(EYE[:, :8]), b.reshape(x, IMAGE)),
    ),
    "a chain": ("FP32", lambda b, x: b.abs(b.exp(b.negate(b.add(x, x))))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_memory_is_at_most_three_times_the_live_tensors(name: str) -> None:
    dtype, make = LARGE[name]
    b = Builder("main")
    b.output(make(b, b.input("x", dtype, SHAPE)), name="y")
    graph = b.graph()
    inputs = input_arrays(graph, None, 1)
    live = max(_live_bytes(graph))
    assert live > 1 << 20
    # The input was there before.
    assert _peak(graph, inputs) + inputs["x"].nbytes <= 3 * live


def line(b: Any, x: Any) -> Any:
    """Return a convolution of a signal: one line, and long windows."""
    weight = np.ones((16, 1, 9, x.shape[-1]), np.int8)
    bias = b.const(np.zeros(16), "INT32")
    return b.conv2d(x, b.const(weight), bias, 3, 0, pad=(0, 0, 4, 4))


def planes(b: Any, x: Any) -> Any:
    """Return a convolution of few large planes."""
    channels = x.shape[-1]
    weight = b.const(np.ones((channels, 3, 3, 3, channels), np.float32))
    return b.conv3d(x, weight, b.const(np.zeros(channels, np.float32)), pad=(1,) * 6)


def signal_depthwise(b: Any, x: Any) -> Any:
    channels = x.shape[-1]
    weight = b.const(np.ones((5, 5, channels, 1), np.int8))
    bias = b.const(np.zeros(channels, np.int32))
    return b.depthwise_conv2d(x, weight, bias, 3, 2, pad=(2,) * 4)


def weighted(b: Any, x: Any) -> Any:
    """Return a convolution of a small image, whose weights are most of what is live."""
    weight = b.const(np.ones((256, 3, 3, 256), np.int8))
    return b.conv2d(x, weight, b.const(np.zeros(256, np.int32)), 3, 2, pad=(1,) * 4)


def pooled(b: Any, x: Any) -> Any:
    return b.avg_pool2d(x, kernel=(32, 32), stride=(1, 1), pad=(0,) * 4)


def interpolated(b: Any, x: Any) -> Any:
    return b.resize(x, (2, 2, 4, 2), (0, 0), (0, 2), mode="BILINEAR", dtype="INT32")


def matmul_of_blocks(b: Any, x: Any) -> Any:
    data, scale = b.cast_to_block_scaled(x, dtype="FP8E4M3")
    return b.matmul_t_block_scaled(data, scale, data, scale)


#: Tensors from 64 KiB to 2 MiB: what is computed, its type and shape.
SMALL: dict[str, tuple[DTypeName, tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "INT8 CONV2D": ("INT8", (1, 64, 64, 32), conv),
    "FP16 CONV2D": ("FP16", (1, 32, 32, 64), conv),
    "CONV2D of a line": ("INT8", (1, 1, 8000, 64), line),
    "CONV2D of large weights": ("INT8", (1, 8, 8, 256), weighted),
    "CONV3D of planes": ("FP32", (1, 3, 64, 64, 16), planes),
    "DEPTHWISE_CONV2D": ("INT8", (1, 64, 64, 64), depthwise),
    "DEPTHWISE_CONV2D of a line": ("INT8", (1, 1, 8000, 32), signal_depthwise),
    "DEPTHWISE_CONV2D of many channels": ("INT8", (1, 3, 3, 20000), signal_depthwise),
    "INT8 TRANSPOSE_CONV2D": ("INT8", (1, 32, 32, 32), transposed),
    "FP16 TRANSPOSE_CONV2D": ("FP16", (1, 32, 32, 32), transposed),
    "AVG_POOL2D of large windows": ("INT8", (1, 32, 32, 128), pooled),
    "MAX_POOL2D": ("FP16", (1, 32, 32, 64), LARGE["INT8 MAX_POOL2D"][1]),
    "RESIZE of a line": ("INT8", (1, 1, 8000, 32), interpolated),
    "INT8 RESCALE of channels": ("INT8", (1, 64, 64, 32), rescale),
    "INT8 RESCALE of many channels": ("INT8", (1, 200000), rescale),
    "shift": ("INT8", (1, 512, 512), lambda b, x: b.arithmetic_right_shift(x, x, round=True)),
    "INT32 MUL": ("INT32", (128, 256), lambda b, x: b.mul(x, x, shift=7)),
    "FP16 ERF": ("FP16", (256, 256), lambda b, x: b.erf(x)),
    "FP16 ERF, looked up": ("FP16", (512, 512), lambda b, x: b.erf(x)),
    "FP32 ERF": ("FP32", (512, 512), lambda b, x: b.erf(x)),
    "FP32 REDUCE_PRODUCT": ("FP32", (64, 64, 64), lambda b, x: b.reduce_product(x, axis=2)),
    "INT32 REDUCE_SUM": ("INT32", (100000, 2), lambda b, x: b.reduce_sum(x, axis=0)),
    "INT8 ARGMAX": ("INT8", (100000, 2), lambda b, x: b.argmax(x, axis=0, dtype="INT32")),
    "RFFT2D": ("FP32", (32, 32, 32), lambda b, x: b.rfft2d(x)[0]),
    "MATMUL of vectors": (
        "INT8",
        (1, 512, 1),
        lambda b, x: b.matmul(x, b.const(np.ones((1, 1, 512), np.int8))),
    ),
    "MATMUL_T of blocks": ("FP32", (1, 64, 2048), matmul_of_blocks),
}


@pytest.mark.parametrize("name", SMALL)
def test_parts_of_small_tensors_are_small(name: str) -> None:
    dtype, shape, make = SMALL[name]
    b = Builder("main")
    b.output(make(b, b.input("x", dtype, shape)), name="y")
    graph = b.graph()
    inputs = input_arrays(graph, None, 1)
    if name == "INT32 REDUCE_SUM":  # some sums on the way are so large that all are looked at
        inputs["x"] = np.full(shape, 1 << 30, np.int32)
        inputs["x"][::2] *= -1
    Machine(graph).run(inputs)  # tables that are made once
    live = max(_live_bytes(graph))
    assert live > 1 << 16
    # Inputs and constants were there before, and Python's objects take some bytes.
    assert _peak(graph, inputs) + _given_bytes(graph) <= 3 * live + (1 << 14)


def _peak(graph: Any, inputs: Any) -> int:
    """Return the bytes that a run allocates at most at a time."""
    gc.collect()
    tracemalloc.start()
    try:
        Machine(graph).run(inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _given_bytes(graph: Any) -> int:
    """Return the bytes of inputs and constants."""
    main = graph.main
    names = {*main.inputs, *(op.outputs[0] for op in main.operators if op.spec.name == "CONST")}
    tensors = [main.tensors[name] for name in names]
    return sum(t.dtype.numpy.itemsize * int(np.prod(t.shape)) for t in tensors)


def _live_bytes(graph: Any) -> list[int]:
    """Return the bytes of operands and results of each operator that computes something."""
    tensors = graph.main.tensors
    found = []
    for op in graph.main.operators:
        if op.spec.name in OPERATIONS:
            names = {name for name in (*op.inputs, *op.outputs) if name in tensors}
            sizes = [
                tensors[n].dtype.numpy.itemsize * int(np.prod(tensors[n].shape)) for n in names
            ]
            found.append(sum(sizes))
    return found


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_convolutions_are_exact_in_parts(
    stride: tuple[int, int],
    dilation: tuple[int, int],
    multiplier: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Lines of several columns, but not of all, and blocks of some rows.
    monkeypatch.setattr(convolutions, "_LINE", 16)
    monkeypatch.setattr(convolutions, "_SUMMED_BYTES", 600)
    draw = np.random.default_rng(1)
    channels, point, size, rows, columns = 3, 5, 3, 10, 7
    axes = zip((rows, columns), stride, dilation, strict=True)
    extent = [(count - 1) * step + (size - 1) * gap + 1 for count, step, gap in axes]
    image = draw.integers(-128, 128, (2, extent[0] - 2, extent[1] - 3, channels)).astype(np.int8)
    weight = draw.integers(-127, 128, (size, size, channels, multiplier)).astype(np.int8)
    bias = draw.integers(-(1 << 31), 1 << 31, channels * multiplier).astype(np.int32)
    b = Builder("main")
    x = b.input("x", "INT8", image.shape)
    options: Any = {"pad": (1, 1, 1, 2), "stride": stride, "dilation": dilation}
    b.output(b.depthwise_conv2d(x, b.const(weight), b.const(bias), point, 0, **options), name="y")
    padded = np.pad(image.astype(np.int64) - point, ((0, 0), (1, 1), (1, 2), (0, 0)))
    expected = np.zeros((2, rows, columns, channels, multiplier), np.int64)
    for ky in range(size):
        for kx in range(size):
            part = padded[:, ky * dilation[0] :: stride[0], kx * dilation[1] :: stride[1]]
            expected += part[:, :rows, :columns, :, None] * weight[ky, kx].astype(np.int64)
    found = Machine(b.graph()).run({"x": image})["y"]
    expected = (expected.reshape(found.shape) + bias).astype(np.int32)  # the bias wraps around
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("codes", [range(1 << 16), [*range(0x7C00), *range(0x8000, 0xFC00)]])
def test_fp16_becomes_fp32_as_numpy_converts_it(codes: Sequence[int]) -> None:
    every = np.array(codes, np.uint16).view(np.float16).reshape(2, -1).T
    found = reference_call._widened_half(every)
    assert found.tobytes() == every.astype(np.float32).tobytes()
