"""Programs of one operator, with seeded types, sizes, scales and options.

What they vary: element types, scales and zero points with their extremes, broadcasting, ranks, axes,
paddings, strides, dilations, activations, operands that are constants, computed or left out, and numbers
at the ends of their types. Shapes of results are not given: nothing reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from frontends.tflite_operators import varied_movement as movement
from frontends.tflite_operators.draw import SCALED, Draw, scale_of
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import PLAIN, Quantized, Result, Shape
from frontends.tflite_schema import ELEMENT_TYPES

# -- elements --------------------------------------------------------------------------------------

#: Operator -> the types of its operands, and the lowest and the highest number of FP32.
_UNARY: Final[dict[str, tuple[str, float, float]]] = {
    "ABS": ("float32 int32 int8 int16", -9, 9),
    "CEIL": ("float32", -9, 9),
    "COS": ("float32", -9, 9),
    "ELU": ("float32 int8", -9, 9),
    "EXP": ("float32 int8 int16", -9, 9),
    "FLOOR": ("float32", -9, 9),
    "GELU": ("float32 int8 uint8", -5, 5),
    "HARD_SWISH": ("float32 int8 uint8", -5, 5),
    "LEAKY_RELU": ("float32 int8 uint8 int16", -9, 9),
    "LOG": ("float32 int8 int16", 0.01, 9),
    "LOGICAL_NOT": ("bool", 0, 1),
    "LOGISTIC": ("float32 int8 uint8 int16", -9, 9),
    "NEG": ("float32 int32 int8 int16", -9, 9),
    "RELU": ("float32 int8 uint8 int16", -9, 9),
    "RELU6": ("float32 int8 uint8 int16", -9, 9),
    "RELU_0_TO_1": ("float32 int8 uint8", -2, 2),
    "RELU_N1_TO_1": ("float32 int8 uint8", -2, 2),
    "ROUND": ("float32", -9, 9),
    "RSQRT": ("float32 int8", 0.01, 9),
    "SIGN": ("float32 int32", -9, 9),
    "SIN": ("float32", -9, 9),
    "SQRT": ("float32 int8", 0, 9),
    "SQUARE": ("float32", -9, 9),
    "TANH": ("float32 int8 uint8 int16", -9, 9),
    "ZEROS_LIKE": ("float32 int32 int64", -9, 9),
}
#: The quantisation of the results of LOGISTIC and TANH.
_UNITS: Final = {
    ("LOGISTIC", "int8"): Quantized((1 / 256,), -128),
    ("LOGISTIC", "uint8"): Quantized((1 / 256,)),
    ("LOGISTIC", "int16"): Quantized((1 / 32768,)),
    ("TANH", "int8"): Quantized((1 / 128,)),
    ("TANH", "uint8"): Quantized((1 / 128,), 128),
    ("TANH", "int16"): Quantized((1 / 32768,)),
}


#: Scales of LOGISTIC and TANH: powers of two and near them, of which two have kernels of their own.
_INTERPOLATED: Final = (
    *(2.0**-10, 2.0**-11, 2.0**-12, 2.0**-13, 2.0**-12 * 1.0005, 2.0**-12 * 1.01),
    *(0.0003, 0.0011, 1e-6, 2e-9, 1.3),
)


def unary(d: Draw) -> None:
    """Functions of one element."""
    types, low, high = _UNARY[d.operator]
    dtype = d.turn(*types.split())
    options: dict[str, Any] = {}
    if d.operator == "LEAKY_RELU":
        options["alpha"] = d.pick(0.1, 0.5, 1.5, -0.5, 0.0)
    if d.operator == "GELU":
        options["approximate"] = d.chance(0.5)
    if dtype not in SCALED:
        x = d.given(dtype, d.shape(0, 4), *((low, high) if dtype == "float32" else ()))
        d.apply([x], x, **options)
        return
    held = d.quantized(dtype)
    assert held is not None
    if d.operator in ("LOGISTIC", "TANH") and dtype == "int16":
        held = Quantized(
            (d.pick(*_INTERPOLATED, *(10 ** d.random.uniform(-5, -3) for _ in "four")),)
        )
    # TFLite refuses negative numbers of these when it runs.
    is_positive = d.operator in ("LOG", "RSQRT", "SQRT") and dtype == "int8"
    x = d.every(dtype, held, held.zero if is_positive else None)
    near = scale_of(x)
    if d.operator == "GELU":
        near *= d.pick(1, 0.03)  # So that its two forms differ.
    if d.operator == "RSQRT":
        near = 1 / math.sqrt(near * 60) / 100
    row = (dtype, (1,), _UNITS.get((d.operator, dtype)) or d.quantized(dtype, near))
    d.apply([x], x if d.operator == "NEG" else row, **options)


#: Operator -> the types of its operands.
_BINARY: Final = {
    "ADD": "float32 int32 int8 uint8 int16",
    "ATAN2": "float32",
    "BITWISE_XOR": "int8 uint8 int16 uint16 int32 uint32",
    "DIV": "float32 int32 uint8 int8",
    "EQUAL": "float32 int32 int8 uint8 bool",
    "FLOOR_DIV": "float32 int32 int8 int16",
    "FLOOR_MOD": "float32 int32 int8 int16",
    "GREATER": "float32 int32 int8 uint8 int16",
    "GREATER_EQUAL": "float32 int32 int8 uint8 int16",
    "LESS": "float32 int32 int8 uint8 int16",
    "LESS_EQUAL": "float32 int32 int8 uint8 int16",
    "LOGICAL_AND": "bool",
    "LOGICAL_OR": "bool",
    "MAXIMUM": "float32 int32 int8 uint8 int16",
    "MINIMUM": "float32 int32 int8 uint8 int16",
    "MUL": "float32 int32 int8 uint8 int16",
    "NOT_EQUAL": "float32 int32 int8 uint8 bool",
    "POW": "float32 int32",
    "PRELU": "float32 int8 uint8",
    "RIGHT_SHIFT": "int8 uint8 int16 uint16 int32 uint32",
    "SQUARED_DIFFERENCE": "float32 int32 int8",
    "SUB": "float32 int32 int8 uint8 int16",
}
_COMPARED: Final = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_ACTIVATED: Final = ("ADD", "SUB", "MUL", "DIV")
_PLAIN_INTEGERS: Final = ("BITWISE_XOR", "RIGHT_SHIFT", "FLOOR_DIV", "FLOOR_MOD")


def _operand(
    d: Draw,
    dtype: str,
    shape: Shape,
    limits: Sequence[float],
    held: Quantized | None,
    constant: float,
) -> Value:
    """Return an operand: with each byte, if there are as many elements, or seeded numbers."""
    if 256 in shape and held is not None:
        return d.every(dtype, held, shape=[-1 if size > 1 else 1 for size in shape])
    return d.given(dtype, shape, *limits, quantized=held, constant=constant)


def binary(d: Draw) -> None:
    """Functions of two elements."""
    dtype = d.turn(*_BINARY[d.operator].split())
    shapes = d.broadcast() if d.operator != "ATAN2" else (d.shape(1, 4),) * 2
    is_scaled = dtype in SCALED and d.operator not in _PLAIN_INTEGERS
    if d.operator != "ATAN2" and d.chance(0.7 if is_scaled else 0.5):
        shapes = (3, 20), d.pick((3, 20), (20,), (3, 1), (1,))
    limits: Any = (0, 40) if d.operator == "RIGHT_SHIFT" else ()
    if d.operator in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        # The negated lowest number of a type is not defined.
        limits = d.pick((1, 9), (-9, -1 if dtype == "float32" else -2))
    is_whole = dtype in ("int8", "uint8") and is_scaled and d.chance(0.4)
    if is_whole and d.operator not in ("DIV", "PRELU"):
        shapes = (256, 1), (1, 256)
    bases: Any = (0.1, 4) if d.operator == "POW" else ()
    if d.operator == "POW":
        limits = (0, 4)
        if dtype == "int32" and d.chance(0.6):
            bases, limits = (-1, 1), (0, 100)
    if d.operator == "PRELU":
        shapes = d.shape(3, 4), ()
        shapes = shapes[0], (*d.pick((1,), shapes[0][1:2]), 1, shapes[0][-1])[-len(shapes[0]) + 1 :]
    held = d.quantized(dtype) if is_scaled else PLAIN if dtype in SCALED else None
    if d.operator in _COMPARED and is_scaled and dtype != "int16":
        held = d.quantized(dtype, d.pick(0.002, 0.1))
    x = _operand(d, dtype, shapes[0], bases, held, 0.15)
    near = scale_of(x)
    if d.operator == "DIV" and held is not None and is_scaled:
        # TFLite does not define quotients of small numbers at large quotients of scales.
        array = d.program.tensors[x.number].data
        array = next(iter(d.program.arrays.values())) if array is None else array
        middle = held.zero + (100 if held.zero < 60 else -100)
        array[abs(array.astype(int) - held.zero) < 40] = middle
    other = d.quantized(dtype, near) if is_scaled else held
    if d.operator == "DIV" and other is not None and is_scaled:
        zero = other.zero
        limits = (zero + 4, zero + 60) if zero < 60 else (zero - 60, zero - 4)
    if d.operator in ("MAXIMUM", "MINIMUM") or (d.operator in _COMPARED and dtype == "int16"):
        other = held
    y = _operand(d, dtype, shapes[1], limits, other, 0.3 * bool(d.program.inputs))
    row: Result = d.like(x)
    if d.operator in _COMPARED:
        row = ("bool", (1,))
    elif is_scaled and d.operator not in ("MAXIMUM", "MINIMUM"):
        if d.operator in ("MUL", "PRELU"):
            near *= scale_of(y) * d.pick(3, 50)
        elif d.operator == "SQUARED_DIFFERENCE":
            near = max(near, scale_of(y)) ** 2 * 60
        elif d.operator == "DIV":
            near /= scale_of(y) * d.pick(8, 20)
        elif dtype == "int16":
            near = 2 * max(near, scale_of(y))
        row = d.result(dtype, near)
    options = {"activation": d.pick(0, 1, 2, 3)} if d.operator in _ACTIVATED else {}
    if dtype == "int16" and d.operator == "MUL":
        options = {}
    d.apply([x, y], row, **options)


def sums_of_powers(d: Draw) -> None:
    """ADD and SUB of int16 with scales that are powers of two."""
    power = d.between(-14, 2)
    down = d.pick(0, 1, 2, 9)
    powers = [power, power - down][:: d.pick(1, -1)]
    values = [d.given("int16", (30,), quantized=Quantized((2.0**one,))) for one in powers]
    row = "int16", (1,), Quantized((2.0**power,))
    d.apply(values, row, activation=d.pick(0, 1, 3), pot_scale_int16=d.chance(0.8))


def add_n(d: Draw) -> None:
    dtype = d.turn("float32", "int32")
    shape = d.shape(1, 4)
    d.apply([d.given(dtype, shape) for _ in range(d.between(2, 4))], dtype)


def select(d: Draw) -> None:
    """SELECT and SELECT_V2, with a condition for each row or with broadcasting."""
    dtype = d.turn("float32", "int32", "int8", "uint8", "int16", "bool")
    held = d.quantized(dtype)
    whole = d.shape(1, 4)
    shapes = [whole] * 3
    if d.operator == "SELECT" and d.chance(0.6):
        shapes[0] = whole[:1]
    elif d.operator == "SELECT_V2":
        shapes = [tuple(1 if d.chance(0.25) else size for size in whole) for _ in range(3)]
        at = d.between(0, 2)
        shapes[at] = shapes[at][d.between(0, len(whole) - 1) :]
    condition = d.given("bool", shapes[0])
    yes, no = (d.given(dtype, one, quantized=held, constant=0.2) for one in shapes[1:])
    d.apply([condition, yes, no], (dtype, whole, held))


def quantize(d: Draw) -> None:
    """QUANTIZE of floats with halves, and from one scale to another."""
    source = d.turn("float32", "int8", "uint8", "int16", "float32")
    target = d.pick(*SCALED)
    if source == "int16" and target == "uint8":
        target = "int8"
    if source == "float32":
        row = d.result(target)
        assert row[2:]
        assert row[2] is not None  # type: ignore[misc]
        scale = row[2].scales[0]  # type: ignore[misc]
        steps = np.round(d.numbers("float32", (60,), -200, 200)) * d.pick(1, 200)
        # Near halves, which are exact where the scale is a power of two: TOSA has no division.
        steps = steps + (0.5 if math.log2(scale).is_integer() else d.pick(0.49, 0.51, 0))
        whole = np.float32(scale) * steps.astype(np.float32)
        d.apply([d.given("float32", array=whole.astype(np.float32))], row)
        return
    x = d.given(source, (60,))
    near = scale_of(x) * {"int16": 200, "int8": 1, "uint8": 1}[source]
    d.apply([x], d.result(target, near / (200 if target == "int16" else 1)))


def dequantize(d: Draw) -> None:
    dtype = d.turn("int8", "uint8", "int16", "float16")
    if dtype == "float16":
        d.apply([d.program.constant(d.numbers(dtype, d.shape(1, 3)), dtype)], "float32")
        return
    d.apply([d.given(dtype, d.shape(0, 4))], "float32")


def casts(d: Draw) -> None:
    types = ("float32", "int32", "int8", "uint8", "int16", "bool", "uint16", "uint32")
    source, target = d.pick(*types), d.pick(*types)
    if source == target:
        target = "float32" if source != "float32" else "int16"
    top = {"int8": 120, "uint8": 250, "int16": 32000, "uint16": 65000}.get(target, 1000)
    low = 0 if target.startswith("u") or source == "bool" else -top
    limits = (low, top) if source == "float32" else ()
    x = d.given(source, d.shape(0, 4), *limits, quantized=PLAIN)
    codes = {"in_data_type": ELEMENT_TYPES[source], "out_data_type": ELEMENT_TYPES[target]}
    d.apply([x], (target, (1,), PLAIN), **codes)


def fake_quant(d: Draw) -> None:
    low, high = -d.random.uniform(0, 3), d.random.uniform(0.1, 5)
    low, high = d.pick((low, high), (low - 3, -0.1), (0.5, high + 1))
    x = d.given("float32", (60,), -6, 6)
    d.apply([x], x, min=low, max=high, num_bits=d.pick(2, 4, 8, 16))


def bucketize(d: Draw) -> None:
    x = d.given(d.turn("float32", "int32"), d.shape(1, 3), -9, 9)
    bounds = sorted(d.pick(-5.0, -2.5, 0.0) + step for step in range(d.turn(0, 1, 5, 3)))
    d.apply([x], "int32", boundaries=bounds)


# -- windows and products --------------------------------------------------------------------------

_PRODUCTS: Final = ("float32", "int8", "uint8", "int16")


def _weights(d: Draw, dtype: str, shape: Shape, axis: int | None, constant: float = 1.0) -> Value:
    """Return weights for operands of a type. axis: along it there may be several scales."""
    if dtype == "float32":
        return d.given("float32", shape, -2, 2, constant=constant)
    if dtype == "uint8":
        held = Quantized((float(np.float32(d.random.uniform(0.005, 0.05))),), d.between(0, 255))
        return d.given("uint8", shape, quantized=held, constant=constant)
    is_each = axis is not None and d.chance(0.6)
    count = shape[axis] if is_each and axis is not None else 1
    scales = tuple(float(np.float32(d.random.uniform(0.002, 0.05))) for _ in range(count))
    held = Quantized(scales, 0, axis if is_each and axis is not None else 0)
    return d.given("int8", shape, -127, 127, quantized=held, constant=constant)


def _bias(d: Draw, x: Value, weights: Value, count: int) -> list[Value]:
    """Return a bias: none, a constant, or computed."""
    kind = d.pick("none", "constant", "constant", "computed")
    if kind == "none" and d.operator != "CONV_2D":
        return []
    share = 1.0 if kind == "constant" else 0.0
    if x.dtype == "float32":
        return [d.given("float32", (count,), constant=share)]
    assert weights.quantized is not None
    scales = tuple(scale_of(x) * one for one in weights.quantized.scales)
    dtype = d.pick("int64", "int64", "int32") if x.dtype == "int16" else "int32"
    if d.operator == "DEPTHWISE_CONV_2D" and x.dtype == "int16":
        dtype = "int64"
    if dtype == "int64":
        share = 1.0
    most = d.pick(500, 500, 40000)
    held = Quantized(scales)
    return [d.given(dtype, (count,), -most, most, quantized=held, constant=share)]


def _bias_type(x: Value, bias: Sequence[Value]) -> dict[str, int]:
    """Return the option that says of which type the bias of int16 is."""
    is_short = x.dtype == "int16" and bias and bias[0].dtype == "int32"
    return {"quantized_bias_type": ELEMENT_TYPES["int32"]} if is_short else {}


def _of_products(d: Draw, x: Value, weights: Value, count: int) -> Result:
    """Return a result that holds sums of so many products."""
    if x.dtype == "float32":
        return "float32", (1,)
    near = scale_of(x) * scale_of(weights) * 60 * math.sqrt(count) * d.pick(1, 1, 0.1, 4)
    return d.result(x.dtype, near)


def _window(d: Draw, sizes: Sequence[int], own: Sequence[int], gaps: Sequence[int]) -> int:
    """Return a padding with which there is a window."""
    reaches = [(one - 1) * gap + 1 for one, gap in zip(own, gaps, strict=True)]
    fits = all(reach <= size for reach, size in zip(reaches, sizes, strict=True))
    return d.pick(0, 1) if fits else 0


def convolution(d: Draw) -> None:
    """CONV_2D with groups and DEPTHWISE_CONV_2D."""
    dtype = d.turn(*_PRODUCTS)
    is_depthwise = d.operator == "DEPTHWISE_CONV_2D"
    sizes, own = (d.between(2, 7), d.between(2, 7)), (d.between(1, 3), d.between(1, 3))
    strides = d.pick((1, 1), (2, 2), (3, 3), (1, 2), (3, 1))
    strides = (strides[0], strides[0]) if is_depthwise else strides
    gaps = d.pick((1, 1), (1, 1), (2, 2), (1, 2), (2, 1))
    padding = _window(d, sizes, own, gaps)
    channels, groups = d.between(1, 4), 1
    if not is_depthwise and d.chance(0.25) and dtype in ("float32", "int8"):
        groups = d.between(2, 3)
    if is_depthwise:
        outputs = channels * d.pick(1, 2, 3)
        shape = (1, *own, outputs)
    else:
        outputs = d.between(1, 3) * groups
        shape = (outputs, *own, channels)
    x = d.given(dtype, (d.pick(1, 1, 2), *sizes, channels * groups))
    share = 1.0 if d.chance(0.8) else 0.0
    weights = _weights(d, dtype, shape, 3 if is_depthwise else 0, share)
    names = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    options = dict(zip(names, (*strides, *gaps), strict=True))
    options = {name: size for name, size in options.items() if name[0] == "s" or size > 1}
    if is_depthwise:
        options["depth_multiplier"] = outputs // channels
    bias = _bias(d, x, weights, outputs)
    options |= _bias_type(x, bias) if not is_depthwise else {}
    row = _of_products(d, x, weights, math.prod(own) * (1 if is_depthwise else channels))
    d.apply([x, weights, *bias], row, padding=padding, activation=d.pick(0, 1, 2, 3), **options)


def transposed(d: Draw) -> None:
    """TRANSPOSE_CONV, of all sizes that its padding may give."""
    dtype = d.turn(*_PRODUCTS)
    sizes, own = (d.between(1, 5), d.between(1, 5)), (d.between(1, 4), d.between(1, 4))
    strides = d.pick((1, 1), (2, 2), (3, 3), (1, 2), (2, 1))
    padding = d.pick(0, 1)
    wanted = [
        size * stride - d.between(0, stride - 1) + (one - 1) * padding
        for size, stride, one in zip(sizes, strides, own, strict=True)
    ]
    channels, outputs = d.between(1, 3), d.between(1, 3)
    x = d.given(dtype, (d.pick(1, 2), *sizes, channels))
    weights = _weights(d, dtype, (outputs, *own, channels), 0)
    shape = d.ints([x.shape[0], *wanted, outputs])
    row = _of_products(d, x, weights, channels * 2)
    bias = _bias(d, x, weights, outputs)
    options = {"stride_h": strides[0], "stride_w": strides[1], "padding": padding}
    options |= _bias_type(x, bias)
    d.apply([shape, weights, x, *bias], row, activation=d.pick(0, 0, 1, 3), **options)


def volumes(d: Draw) -> None:
    """CONV_3D and CONV_3D_TRANSPOSE."""
    is_transposed = d.operator == "CONV_3D_TRANSPOSE"
    sizes, own = (tuple(d.between(low, high) for _ in range(3)) for low, high in ((2, 5), (1, 3)))
    strides = tuple(d.between(1, 3) for _ in range(3))
    gaps = (1, 1, 1) if is_transposed else tuple(d.pick(1, 1, 2) for _ in range(3))
    padding = d.pick(0, 1) if is_transposed else _window(d, sizes, own, gaps)
    channels, outputs = d.between(1, 3), d.between(1, 3)
    x = d.given("float32", (d.pick(1, 2), *sizes, channels))
    ends = (outputs, channels) if is_transposed else (channels, outputs)
    values = [d.given("float32", (*own, *ends), -2, 2, constant=0.8), x]
    if is_transposed:
        wanted = [
            size * stride - d.between(0, stride - 1) + (one - 1) * padding
            for size, stride, one in zip(sizes, strides, own, strict=True)
        ]
        values.insert(0, d.ints([x.shape[0], *wanted, outputs]))
    else:
        values.reverse()
    if d.chance(0.6):
        values.append(d.given("float32", (outputs,), constant=0.6))
    names = (*("stride_d", "stride_h", "stride_w"), *("dilation_d", "dilation_h", "dilation_w"))
    options = dict(zip(names, (*strides, *gaps), strict=True))
    options = {name: size for name, size in options.items() if name[0] == "s" or size > 1}
    d.apply(values, "float32", padding=padding, activation=d.pick(0, 1, 2, 3), **options)


def fully_connected(d: Draw) -> None:
    dtype = d.turn(*_PRODUCTS)
    shape = d.shape(2, 4)
    size, outputs = shape[-1], d.between(1, 4)
    keep = d.chance(0.5)
    if not keep and d.chance(0.3) and len(shape) > 2:
        size *= shape[-2]
    x = d.given(dtype, shape)
    is_each = dtype in ("int8", "int16")
    weights = _weights(d, dtype, (outputs, size), 0 if is_each else None, 0.8)
    bias = _bias(d, x, weights, outputs)
    row = _of_products(d, x, weights, size)
    options = {"activation": d.pick(0, 1, 2, 3), "keep_num_dims": keep} | _bias_type(x, bias)
    d.apply([x, weights, *bias], row, **options)


def batch_matmul(d: Draw) -> None:
    dtype = d.turn("float32", "int8", "int16")
    first, second = d.broadcast()
    first, second = first[-3:], second[-3:]
    rows, inner, columns = (d.between(1, 4) for _ in range(3))
    adj_x, adj_y = d.chance(0.4), d.chance(0.4)
    left, right = (rows, inner), (inner, columns)
    x = d.given(dtype, (*first, *left[:: -1 if adj_x else 1]))
    y = d.given(dtype, (*second, *right[:: -1 if adj_y else 1]), constant=0.2)
    row = _of_products(d, x, y, inner)
    if dtype == "int16":
        row = d.result(dtype, scale_of(x) * scale_of(y) * 20000)
    elif dtype == "int8" and d.chance(0.25):
        row = "int32", (1,)
    d.apply([x, y], row, adj_x=adj_x, adj_y=adj_y)


def pool(d: Draw) -> None:
    types = ("float32",) if d.operator == "L2_POOL_2D" else _PRODUCTS
    sizes, own = (d.between(2, 7), d.between(2, 7)), (d.between(1, 4), d.between(1, 4))
    x = d.given(d.turn(*types), (d.pick(1, 2), *sizes, d.between(1, 3)))
    padding = _window(d, sizes, own, (1, 1))
    options = {"filter_height": own[0], "filter_width": own[1], "padding": padding}
    options |= {"stride_h": d.between(1, 3), "stride_w": d.between(1, 3)}
    d.apply([x], x, activation=d.pick(0, 1, 2, 3), **options)


def resize(d: Draw) -> None:
    is_nearest = d.operator == "RESIZE_NEAREST_NEIGHBOR"
    types = ("float32", "int8", "uint8", "int16", *(("int32",) if is_nearest else ()))
    sizes = d.pick(1, 2), d.between(1, 6), d.between(1, 6), d.pick(1, 2, 40)
    x = d.given(d.turn(*types), sizes)
    wanted = [d.pick(1, 2, size, 2 * size, 3 * size - 2, d.between(1, 9)) for size in x.shape[1:3]]
    options = d.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    if d.number == 6:
        # Many fractions, of which none is a half: TFLite computes bytes in FP32.
        d.program = Program(d.operator, "odd")
        x, wanted, options = d.given("uint8", (1, 13, 11, 40)), [37, 35], {}
    d.apply([x, d.ints(wanted)], x, **options)


def border_of_convolution(d: Draw) -> None:
    """PAD before a convolution, which takes its place."""
    dtype = d.turn("float32", "int8", "int16", "uint8")
    x = d.given(dtype, (1, d.between(2, 5), d.between(2, 5), d.between(1, 2)))
    edges = [[0, 0], [d.between(0, 2), d.between(0, 2)], [d.between(0, 2), d.between(0, 2)], [0, 0]]
    if d.turn(False, False, True):  # A convolution has no borders of batches or of channels.
        edges[1] = [0, 0]
        edges[d.pick(0, 3)] = [1, 0]
    shape = tuple(size + sum(pair) for size, pair in zip(x.shape, edges, strict=True))
    (wide,) = d.program.apply("PAD", [x, d.ints(edges)], (dtype, shape, x.quantized))
    weights = _weights(d, dtype, (2, 2, 2, shape[3]), 0)
    names = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    options = dict.fromkeys(names, 1) | {"padding": _window(d, shape[1:3], (2, 2), (1, 1))}
    row, bias = _of_products(d, x, weights, 4), _bias(d, x, weights, 2)
    d.apply([wide, weights, *bias], row, **options, **_bias_type(x, bias))


# -- reductions and norms --------------------------------------------------------------------------

#: Operator -> the types of its operand.
_REDUCED: Final = {
    "MEAN": "float32 int32 int8 uint8 int16",
    "REDUCE_ALL": "bool",
    "REDUCE_ANY": "bool",
    "REDUCE_MAX": "float32 int32 int8 uint8 int16",
    "REDUCE_MIN": "float32 int32 int8 uint8 int16",
    "REDUCE_PROD": "float32 int32",
    "SUM": "float32 int32",  # LiteRT's kernels of quantised types read what they have not written.
}


def reduction(d: Draw) -> None:
    dtype = d.turn(*_REDUCED[d.operator].split())
    shape = d.shape(1, 4)
    x = d.given(dtype, shape, *((-5, 5) if dtype == "int32" else ()))
    axes = [d.axis(len(shape)) for _ in range(d.pick(1, 1, 2, 3, 0))]
    row = d.like(x)
    if dtype in SCALED and d.operator in ("MEAN", "SUM"):
        row = d.result(dtype, scale_of(x) * d.pick(1, 1, 1, 1e-3, 1e3, 2.0**30))
    d.apply([x, d.ints(np.array(axes, np.int32))], row, keep_dims=d.chance(0.5))


def position(d: Draw) -> None:
    dtype = d.turn("float32", "int8", "uint8", "int32")
    x = d.given(dtype, d.shape(1, 4))
    wide = d.pick("int32", "int64")
    axis = d.ints(d.pick(d.axis(len(x.shape)), [d.axis(len(x.shape))]))
    d.apply([x, axis], wide, output_type=ELEMENT_TYPES[wide])


def cumsum(d: Draw) -> None:
    x = d.given(d.turn("float32", "int32"), d.shape(1, 4), -5, 5)
    axis = d.ints(d.axis(len(x.shape)))
    d.apply([x, axis], x, exclusive=d.chance(0.5), reverse=d.chance(0.5))


def top_k(d: Draw) -> None:
    x = d.given(d.turn("float32", "int8", "uint8", "int32", "int16"), (*d.shape(0, 2), 6))
    d.apply([x, d.ints(d.between(1, 6))], x, "int32")


def segments(d: Draw) -> None:
    """SEGMENT_SUM of known segments, and UNSORTED_SEGMENT of computed ones."""
    shape = d.shape(1, 3)
    x = d.given(d.turn("float32", "int32"), shape, -5, 5)
    if d.operator == "SEGMENT_SUM":
        numbers = np.cumsum(d.numbers("bool", shape[:1])).astype(np.int32)
        numbers -= numbers[0]
        d.apply([x, d.ints(numbers)], x)
        return
    count = d.between(1, 4)
    places = d.given("int32", shape[: d.between(1, len(shape))], 0, count - 1, constant=0.3)
    d.apply([x, places, d.ints(count)], x)


def softmax(d: Draw) -> None:
    dtype = d.turn("float32", "int8", "uint8", "int16")
    held = d.quantized(dtype)
    if dtype in ("int8", "uint8") and d.chance(0.4):
        held = Quantized((d.pick(40.0, 2.0, 1e-3, 1.5 * 2.0**-25),), d.zero(dtype))
    x = d.given(dtype, (*d.shape(1, 3), d.pick(1, 2, 5, 30)), quantized=held)
    if d.operator == "LOG_SOFTMAX":
        if dtype == "int16":
            x = d.given("float32", (2, 5), -90, 90)
        zero = {"int8": 127, "uint8": 255}.get(dtype, 0)
        d.apply([x], (x.dtype, (1,), Quantized((16 / 256,), zero)))
        return
    units = {"int8": Quantized((1 / 256,), -128), "uint8": Quantized((1 / 256,))}
    row = (dtype, (1,), units.get(dtype, Quantized((1 / 32768,))))
    d.apply([x], row, beta=d.pick(1.0, 1.0, 0.5, 2.0))


def l2_normalization(d: Draw) -> None:
    dtype = d.turn("float32", "int8", "uint8")
    shape = (2, 700) if d.chance(0.3) else (*d.shape(1, 3), d.pick(1, 2, 5, 30))
    x = d.given(dtype, shape)
    if x.quantized is not None and x.shape[-1] < 700 and d.chance(0.7):
        # Rows of nearly nothing.
        (array,) = d.program.arrays.values()
        near = np.clip(array, x.quantized.zero - 1, x.quantized.zero + d.pick(0, 1, 3))
        array[:] = np.where(d.numbers("bool", array.shape), near, x.quantized.zero)
    elif dtype == "float32" and d.chance(0.5):
        (array,) = d.program.arrays.values()
        array *= np.float32(d.pick(0.01, 1e-5, 1e-8))
    units = {"int8": Quantized((1 / 128,), 0), "uint8": Quantized((1 / 128,), 128)}
    d.apply([x], (dtype, (1,), units.get(dtype)))


def local_response(d: Draw) -> None:
    x = d.given("float32", (d.pick(1, 2), 2, d.between(1, 3), d.between(1, 9)))
    # LiteRT's reference kernel leaves the last channel of a window out.
    options = {"radius": d.between(x.shape[3], 12), "bias": d.pick(1.0, 0.5)}
    d.apply([x], x, alpha=d.pick(1.0, 0.1), beta=d.pick(0.5, 0.75, 1.0), **options)


#: How many programs of each operator there are, and what makes them.
_FAMILIES: Final[Sequence[tuple[int, Callable[[Draw], None], Sequence[str]]]] = (
    (8, unary, tuple(_UNARY)),
    (20, unary, ("LOGISTIC", "TANH")),
    (9, unary, ("RSQRT", "GELU", "HARD_SWISH")),
    (20, binary, tuple(_BINARY)),
    (12, sums_of_powers, ("ADD", "SUB")),
    (4, add_n, ("ADD_N",)),
    (18, select, ("SELECT", "SELECT_V2")),
    (20, quantize, ("QUANTIZE",)),
    (8, dequantize, ("DEQUANTIZE",)),
    (24, casts, ("CAST",)),
    (8, fake_quant, ("FAKE_QUANT",)),
    (4, bucketize, ("BUCKETIZE",)),
    (40, convolution, ("CONV_2D", "DEPTHWISE_CONV_2D")),
    (36, transposed, ("TRANSPOSE_CONV",)),
    (18, volumes, ("CONV_3D", "CONV_3D_TRANSPOSE")),
    (26, fully_connected, ("FULLY_CONNECTED",)),
    (24, batch_matmul, ("BATCH_MATMUL",)),
    (20, pool, ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")),
    (32, resize, ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")),
    (16, reduction, tuple(_REDUCED)),
    (12, position, ("ARG_MAX", "ARG_MIN")),
    (10, cumsum, ("CUMSUM",)),
    (10, top_k, ("TOPK_V2",)),
    (
        *(6, segments),
        ("SEGMENT_SUM", *(f"UNSORTED_SEGMENT_{one}" for one in ("SUM", "PROD", "MAX", "MIN"))),
    ),
    (24, softmax, ("SOFTMAX", "LOG_SOFTMAX")),
    (18, l2_normalization, ("L2_NORMALIZATION",)),
    (10, local_response, ("LOCAL_RESPONSE_NORMALIZATION",)),
    (12, movement.reshaped, ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SHAPE", "RANK")),
    (12, movement.laid_out, ("TRANSPOSE", "REVERSE_V2", "TILE", "BROADCAST_TO")),
    (
        *(12, movement.blocks),
        ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"),
    ),
    (12, movement.reverse_sequence, ("REVERSE_SEQUENCE",)),
    (12, movement.joined, ("CONCATENATION", "PACK")),
    (12, movement.parted, ("UNPACK", "SPLIT", "SPLIT_V")),
    (24, movement.sliced, ("SLICE", "STRIDED_SLICE")),
    (12, movement.padded, ("PAD", "PADV2", "MIRROR_PAD")),
    (16, border_of_convolution, ("CONV_2D",)),
    (8, movement.filled, ("FILL", "RANGE", "ONE_HOT", "BROADCAST_ARGS")),
    (8, movement.diagonals, ("MATRIX_DIAG", "MATRIX_SET_DIAG")),
    (24, movement.gathered, ("GATHER", "GATHER_ND", "EMBEDDING_LOOKUP")),
    (16, movement.scattered, ("SCATTER_ND", "SPARSE_TO_DENSE", "DYNAMIC_UPDATE_SLICE")),
    (4, movement.spectrum, ("REAL", "IMAG", "COMPLEX_ABS")),
)


#: Operators that have programs.
OPERATORS: Final = tuple(sorted({one for _, _, operators in _FAMILIES for one in operators}))


def programs(operator: str) -> Iterator[Program]:
    """Iterate over the programs of an operator."""
    for family, (count, make, operators) in enumerate(_FAMILIES):
        if operator in operators:
            for number in range(count):
                draw = Draw(operator, number + 100 * family)
                draw.number = number
                make(draw)
                yield draw.program
