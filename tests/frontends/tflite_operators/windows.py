"""Convolutions, pooling, products of matrices, and resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from frontends.tflite_operators.elementwise import OTHER
from frontends.tflite_operators.programs import Program, Programs, Value, one
from frontends.tflite_operators.values import ACTIVATION, Quantized, Result, Shape
from frontends.tflite_schema import ACTIVATIONS, SAME, VALID

_INTEGERS: Final = ("int8", "uint8", "int16")
_ZERO: Final = Quantized((0.01,), 0)


def _size(size: int, window: int, stride: int, dilation: int, padding: int) -> int:
    """Return the size of the result along an axis."""
    if padding == SAME:
        return math.ceil(size / stride)
    return math.ceil((size - (window - 1) * dilation) / stride)


def _scales(dtype: str, channels: int, is_each: bool, axis: int) -> Quantized | None:
    """Return the quantisation of weights: a scale for each channel, or one."""
    if dtype == "float32":
        return None
    if dtype == "uint8":
        return Quantized((0.02,), 117)
    count = channels if is_each else 1
    return Quantized(tuple(0.01 + 0.003 * index for index in range(count)), 0, axis)


def _weights(
    program: Program, dtype: str, shape: Shape, channels: int, is_each: bool, axis: int
) -> tuple[Value, Quantized | None]:
    scales = _scales(dtype, channels, is_each, axis)
    if dtype == "float32":
        return program.random("float32", shape, (-1, 1)), None
    kind = "uint8" if dtype == "uint8" else "int8"
    between = None if kind == "uint8" else (-127, 127)
    return program.random(kind, shape, between, quantized=scales), scales


def _bias(program: Program, dtype: str, channels: int, weights: Quantized | None) -> Value:
    if dtype == "float32":
        return program.random("float32", (channels,), (-1, 1))
    assert weights is not None
    given = ACTIVATION[dtype].scales[0]
    scales = Quantized(tuple(given * scale for scale in weights.scales))
    kind = "int64" if dtype == "int16" else "int32"
    return program.random(kind, (channels,), (-500, 500), quantized=scales)


def _result(dtype: str, shape: Shape, scale: float = 0.4) -> Result:
    if dtype == "float32":
        return dtype, shape
    return dtype, shape, Quantized((scale / (100 if dtype == "int16" else 1),), OTHER[dtype].zero)


#: Name -> stride, dilation (both of height and width), padding, height and width of the filter.
_WINDOWS: Final = {
    "same": ((1, 1), (1, 1), SAME, (3, 3)),
    "valid": ((1, 1), (1, 1), VALID, (3, 2)),
    "stride": ((2, 2), (1, 1), SAME, (3, 3)),
    "stride_valid": ((2, 3), (1, 1), VALID, (2, 3)),
    "dilation": ((1, 1), (2, 2), SAME, (3, 3)),
    "pointwise": ((1, 1), (1, 1), VALID, (1, 1)),
}
_IMAGE: Final = (1, 7, 8, 3)


def _spatial(name: str, image: Shape = _IMAGE) -> Shape:
    stride, dilation, padding, window = _WINDOWS[name]
    return tuple(
        _size(image[axis + 1], window[axis], stride[axis], dilation[axis], padding)
        for axis in range(2)
    )


def _options(name: str) -> dict[str, int]:
    stride, dilation, padding, _ = _WINDOWS[name]
    return {
        "padding": padding,
        "stride_h": stride[0],
        "stride_w": stride[1],
        "dilation_h": dilation[0],
        "dilation_w": dilation[1],
    }


def _convolution(operator: str, name: str, dtype: str, window: str, **more: Any) -> Program:
    """CONV_2D or DEPTHWISE_CONV_2D. more: `each` scale of a channel, `activation`, `batch`."""
    program = Program(operator, f"{dtype}_{name}")
    image = (more.get("batch", 1), *_IMAGE[1:])
    x = program.input(dtype, image)
    size = _WINDOWS[window][3]
    is_depthwise = operator == "DEPTHWISE_CONV_2D"
    channels = 6 if is_depthwise else 4
    shape = (1, *size, channels) if is_depthwise else (channels, *size, image[3])
    axis = 3 if is_depthwise else 0
    weights, scales = _weights(program, dtype, shape, channels, more.get("each", True), axis)
    values: list[Value | None] = [x, weights]
    values.append(_bias(program, dtype, channels, scales))
    options = {**_options(window), "activation": more.get("activation", 0)}
    if is_depthwise:
        options["depth_multiplier"] = 2
    result = _result(dtype, (image[0], *_spatial(window, image), channels))
    return program.returns(program.apply(operator, values, result, **options))


def convolutions() -> Programs:
    """CONV_2D and DEPTHWISE_CONV_2D."""
    for operator in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        for dtype, window in product(("float32", *_INTEGERS), _WINDOWS):
            is_strange = operator == "DEPTHWISE_CONV_2D" and window == "stride_valid"
            if not is_strange:  # Its strides must be equal.
                yield _convolution(operator, window, dtype, window)
        for dtype in ("float32", "int8"):
            yield _convolution(operator, "batch", dtype, "same", batch=2)
            for activation in ("relu", "relu6", "relu_n1_to_1"):
                code = ACTIVATIONS[activation]
                yield _convolution(operator, activation, dtype, "valid", activation=code)
        yield _convolution(operator, "one_scale", "int8", "same", each=False)


def transposed_convolutions() -> Programs:
    """TRANSPOSE_CONV, and convolutions in three dimensions."""
    for dtype, padding, stride in product(("float32", "int8", "int16"), (SAME, VALID), (1, 2)):
        name = f"{dtype}_{('same', 'valid')[padding]}_stride_{stride}"
        for has_bias in (False, True):
            program = Program("TRANSPOSE_CONV", name + ("_bias" if has_bias else ""))
            sizes = [
                size * stride + (2 if padding == VALID and stride == 1 else 0) for size in (4, 5)
            ]
            if padding == VALID and stride == 2:
                sizes = [(size - 1) * 2 + 3 for size in (4, 5)]
            x = program.input(dtype, (1, 4, 5, 3))
            weights, scales = _weights(program, dtype, (2, 3, 3, 3), 2, True, 0)
            shape = program.constant([1, *sizes, 2], "int32")
            values = [shape, weights, x]
            if has_bias:
                values.append(_bias(program, dtype, 2, scales))
            result = _result(dtype, (1, *sizes, 2))
            options = {"padding": padding, "stride_h": stride, "stride_w": stride}
            yield program.returns(program.apply("TRANSPOSE_CONV", values, result, **options))
    for padding, stride, dilation in ((SAME, 1, 1), (VALID, 1, 1), (SAME, 2, 1), (VALID, 1, 2)):
        name = f"float32_{('same', 'valid')[padding]}_stride_{stride}_dilation_{dilation}"
        program = Program("CONV_3D", name)
        x = program.input("float32", (1, 5, 6, 7, 2))
        weights = program.random("float32", (2, 3, 2, 2, 3), (-1, 1))
        bias = program.random("float32", (3,))
        sizes = [
            _size(size, window, stride, dilation, padding)
            for size, window in zip((5, 6, 7), (2, 3, 2), strict=True)
        ]
        options = {f"stride_{axis}": stride for axis in "dhw"}
        options |= {f"dilation_{axis}": dilation for axis in "dhw"}
        result3 = ("float32", (1, *sizes, 3))
        yield program.returns(
            program.apply("CONV_3D", [x, weights, bias], result3, padding=padding, **options)
        )


def pooling() -> Programs:
    """AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""
    cases = {
        "same": (SAME, 1, (3, 3)),
        "valid": (VALID, 1, (2, 3)),
        "stride_same": (SAME, 2, (3, 2)),
        "stride_valid": (VALID, 2, (2, 2)),
        "whole": (VALID, 1, (7, 8)),
    }
    for operator, dtypes in (
        ("AVERAGE_POOL_2D", ("float32", *_INTEGERS)),
        ("MAX_POOL_2D", ("float32", *_INTEGERS)),
        ("L2_POOL_2D", ("float32",)),
    ):
        for dtype, (name, (padding, stride, window)) in product(dtypes, cases.items()):
            sizes = [
                _size(size, extent, stride, 1, padding)
                for size, extent in zip((7, 8), window, strict=True)
            ]
            options: dict[str, Any] = {"padding": padding, "stride_h": stride, "stride_w": stride}
            options |= {"filter_height": window[0], "filter_width": window[1]}
            result = (dtype, (2, *sizes, 3))
            yield one(operator, f"{dtype}_{name}", [(dtype, (2, 7, 8, 3))], result, **options)
        for dtype in ("float32", "int8"):
            if dtype in dtypes:
                options = {"padding": VALID, "stride_h": 2, "stride_w": 2, "filter_height": 2}
                options |= {"filter_width": 2, "activation": ACTIVATIONS["relu6"]}
                result = (dtype, (2, 3, 4, 3))
                yield one(operator, f"{dtype}_relu6", [(dtype, (2, 7, 8, 3))], result, **options)


def matrices() -> Programs:
    """FULLY_CONNECTED and BATCH_MATMUL."""
    for dtype, (rows, keep) in product(
        ("float32", *_INTEGERS), (((1, 8), False), ((4, 8), False), ((2, 3, 8), True))
    ):
        for has_bias in (True, False):
            name = f"{dtype}_rank_{len(rows)}_rows_{rows[0]}" + ("" if has_bias else "_no_bias")
            yield _dense(name, dtype, rows, has_bias, keep)
    for dtype in ("float32", "int8"):
        for activation in ("relu", "relu6", "relu_n1_to_1"):
            yield _dense(f"{dtype}_{activation}", dtype, (4, 8), True, False, activation)
    for dtype in ("int8", "int16"):
        yield _dense(f"{dtype}_scales", dtype, (4, 8), True, False, is_each=True)
    shapes: Sequence[tuple[str, Shape, Shape, Shape]] = (
        ("rank_2", (3, 4), (4, 5), (3, 5)),
        ("rank_3", (2, 3, 4), (2, 4, 5), (2, 3, 5)),
        ("rank_4", (2, 2, 3, 4), (2, 2, 4, 5), (2, 2, 3, 5)),
        ("broadcast", (2, 3, 4), (1, 4, 5), (2, 3, 5)),
    )
    for dtype, (name, left, right, result) in product(("float32", "int8", "int16"), shapes):
        if name == "rank_2" and dtype == "int16":
            continue
        program = Program("BATCH_MATMUL", f"{dtype}_{name}")
        x, y = program.input(dtype, left), program.input(dtype, right)
        scale = 0.001 if dtype == "int16" else 0.1
        values = program.apply("BATCH_MATMUL", [x, y], _result(dtype, result, scale))
        yield program.returns(values)
    for dtype, (adj_x, adj_y) in product(
        ("float32", "int8"), ((True, False), (False, True), (True, True))
    ):
        program = Program("BATCH_MATMUL", f"{dtype}_adjoint_{adj_x:d}{adj_y:d}")
        x = program.input(dtype, (2, 4, 3) if adj_x else (2, 3, 4))
        y = program.input(dtype, (2, 5, 4) if adj_y else (2, 4, 5))
        result4 = _result(dtype, (2, 3, 5), 0.1)
        options = {"adj_x": adj_x, "adj_y": adj_y}
        yield program.returns(program.apply("BATCH_MATMUL", [x, y], result4, **options))
    for dtype in ("float32", "int8"):
        program = Program("BATCH_MATMUL", f"{dtype}_constant")
        x = program.input(dtype, (2, 3, 4))
        y = program.random(dtype, (2, 4, 5), quantized=ACTIVATION.get(dtype))
        yield program.returns(program.apply("BATCH_MATMUL", [x, y], _result(dtype, (2, 3, 5), 0.1)))


def _dense(
    name: str,
    dtype: str,
    rows: Shape,
    has_bias: bool,
    keep: bool,
    activation: str = "none",
    is_each: bool = False,
) -> Program:
    """FULLY_CONNECTED; if `is_each`, each row of the weights has a scale."""
    program = Program("FULLY_CONNECTED", name)
    x = program.input(dtype, rows)
    weights, scales = _weights(program, dtype, (5, rows[-1]), 5, is_each, 0)
    values: list[Value | None] = [x, weights]
    values.append(_bias(program, dtype, 5, scales) if has_bias else None)
    result = _result(dtype, (*rows[:-1], 5), 0.1)
    options = {"activation": ACTIVATIONS[activation], "keep_num_dims": keep}
    return program.returns(program.apply("FULLY_CONNECTED", values, result, **options))


def resizing() -> Programs:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""
    modes = {"": (False, False), "_aligned": (True, False), "_half_pixel": (False, True)}
    for operator in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        for dtype, sizes, (mode, (aligned, half)) in product(
            ("float32", *_INTEGERS), ((8, 12), (7, 11), (2, 3), (5, 4)), modes.items()
        ):
            result = (dtype, (1, *sizes, 2))
            yield one(
                operator,
                f"{dtype}_{sizes[0]}x{sizes[1]}{mode}",
                [(dtype, (1, 4, 6, 2))],
                result,
                constants=[sizes],
                align_corners=aligned,
                half_pixel_centers=half,
            )
