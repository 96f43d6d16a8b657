"""One program with each function of the builder: its result, TOSA's rules, and the reference model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.builder.calls import FUNCTIONS
from tosa_convert.graph.opset import OPERATORS

Call = Callable[[Any], Any]
Calls = list[tuple[Call, str]]


def fp(b: Builder, *shape: int) -> Value:
    return b.input("x", "fp32", shape or (2, 3))


def i8(b: Builder, *shape: int) -> Value:
    return b.input("x", "int8", shape or (2, 3))


def i16(b: Builder) -> Value:
    return b.input("x", "int16", (2, 3))


def i32(b: Builder) -> Value:
    return b.input("x", "int32", (2, 3))


def boolean(b: Builder) -> Value:
    return b.input("x", "bool", (2, 3))


def scaled(b: Builder, *shape: int, kind: DTypeName = "fp8e4m3") -> Value:
    """Block-scaled data."""
    scales = np.ones((*shape[:-1], shape[-1] // 32))
    return b.const(np.ones(shape), kind, scales=scales)


def parts(b: Builder, *shape: int) -> tuple[Value, Value]:
    """Return data and scales in tensors of their own."""
    scales = np.ones((*shape[:-1], shape[-1] // 32))
    return b.const(np.ones(shape), "fp8e4m3"), b.const(scales, "fp8ue8m0")


def reshaped_blocks(b: Builder) -> object:
    data, scale = parts(b, 2, 64)
    return b.reshape_block_scaled(data, (4, 32), input_scale=scale)


def gathered_blocks(b: Builder) -> object:
    data, scale = parts(b, 1, 4, 32)
    return b.row_gather_block_scaled(data, [[1]], 1, values_scale=scale)


def each(names: str, call: Callable[[Any, Any], Any], expected: str) -> dict[str, Calls]:
    """Return the same call of several functions."""

    def made(name: str) -> Calls:
        return [(lambda b: call(getattr(b, name), b), expected)]

    return {name: made(name) for name in names.split()}


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


KEEP = "FP32 [2, 3]"
TRUTH = "BOOL [2, 3]"
POOL = {"kernel": (2, 2), "stride": (2, 2)}
ADAPTIVE = ((2, 2), (2, 2), (0, 0, 0, 0))

#: Operators that only take one tensor of floating-point numbers, such as CEIL.
FLOAT_FUNCTIONS = " ".join(
    row.name.lower() for row in OPERATORS if row.elementwise and row.types == "T -> T; FP | float"
)

#: Operators along an axis of floating-point numbers, by what becomes of its size.
ALONG_AXIS = {
    shape: " ".join(
        row.name.lower()
        for row in OPERATORS
        if row.traits.shape == shape and "FP" in row.types.replace("INT/FP", "")
    )
    for shape in ("one_at_axis", "without_axis")
}

#: Function -> calls of it, and the types of the results.
CALLS: dict[str, Calls] = {
    **each(ALONG_AXIS["without_axis"], lambda f, b: f(fp(b), axis=1, dtype="int32"), "INT32 [2]"),
    "avg_pool2d": [
        (lambda b: b.avg_pool2d(i8(b, 1, 4, 4, 2), 3, -4, **POOL), "INT8 [1, 2, 2, 2]"),
        (lambda b: b.avg_pool2d(fp(b, 1, 4, 4, 2), **POOL), "FP32 [1, 2, 2, 2]"),
    ],
    "conv2d": [
        (lambda b: b.conv2d(fp(b, 1, 4, 4, 2), ones(3, 3, 3, 2), 0.0), "FP32 [1, 2, 2, 3]"),
        (
            lambda b: b.conv2d(
                i8(b, 1, 4, 4, 2), np.ones((3, 3, 3, 2), np.int8), [1, 2, 3], 5, pad=(1, 1, 1, 1)
            ),
            "INT32 [1, 4, 4, 3]",
        ),
    ],
    "conv3d": [
        (
            lambda b: b.conv3d(fp(b, 1, 2, 4, 4, 2), ones(3, 1, 1, 1, 2), [0] * 3),
            "FP32 [1, 2, 4, 4, 3]",
        )
    ],
    "depthwise_conv2d": [
        (lambda b: b.depthwise_conv2d(fp(b, 1, 4, 4, 2), ones(2, 2, 2, 3), 0), "FP32 [1, 3, 3, 6]")
    ],
    "fft2d": [(lambda b: b.fft2d(fp(b, 1, 2, 4), ones(1, 2, 4)), "FP32 [1, 2, 4], FP32 [1, 2, 4]")],
    "matmul": [
        (lambda b: b.matmul(fp(b, 1, 2, 3), ones(1, 3, 4)), "FP32 [1, 2, 4]"),
        (lambda b: b.matmul(i8(b, 1, 2, 3), np.ones((1, 3, 4), np.int8), 5), "INT32 [1, 2, 4]"),
    ],
    "max_pool2d": [
        (lambda b: b.max_pool2d(fp(b, 1, 4, 4, 2), **POOL, nan_mode="ignore"), "FP32 [1, 2, 2, 2]")
    ],
    "rfft2d": [(lambda b: b.rfft2d(fp(b, 1, 2, 4)), "FP32 [1, 2, 3], FP32 [1, 2, 3]")],
    "transpose_conv2d": [
        (
            lambda b: b.transpose_conv2d(fp(b, 1, 2, 2, 2), ones(3, 3, 3, 2), 0, stride=(2, 2)),
            "FP32 [1, 5, 5, 3]",
        )
    ],
    "clamp": [
        (lambda b: b.clamp(fp(b), min_val=0, max_val=6.5), KEEP),
        (lambda b: b.clamp(fp(b), min_val=-np.inf, max_val=6), KEEP),
        (lambda b: b.clamp(i8(b), min_val=-128, max_val=127), "INT8 [2, 3]"),
    ],
    **each(f"abs identity {FLOAT_FUNCTIONS}", lambda f, b: f(fp(b)), KEEP),
    "negate": [
        (lambda b: b.negate(fp(b)), KEEP),
        (lambda b: b.negate(i8(b), 3, -4), "INT8 [2, 3]"),
    ],
    "bitwise_not": [(lambda b: b.bitwise_not(i8(b)), "INT8 [2, 3]")],
    "clz": [(lambda b: b.clz(i32(b)), "INT32 [2, 3]")],
    "logical_not": [(lambda b: b.logical_not(boolean(b)), TRUTH)],
    **each("add maximum minimum sub", lambda f, b: f(fp(b), 0.5), KEEP),
    "pow": [(lambda b: b.pow(2.0, fp(b)), KEEP)],
    "mul": [
        (lambda b: b.mul(fp(b), 0.5), KEEP),
        (lambda b: b.mul(i32(b), 3, 2), "INT32 [2, 3]"),
        (lambda b: b.mul(i8(b), [[1, 2, 3]]), "INT32 [2, 3]"),
    ],
    **each("bitwise_and bitwise_or bitwise_xor", lambda f, b: f(i8(b), [[1], [2]]), "INT8 [2, 3]"),
    **each("logical_left_shift logical_right_shift", lambda f, b: f(i16(b), 3), "INT16 [2, 3]"),
    "arithmetic_right_shift": [
        (lambda b: b.arithmetic_right_shift(i32(b), 3, round=True), "INT32 [2, 3]")
    ],
    "intdiv": [(lambda b: b.intdiv(i32(b), 3), "INT32 [2, 3]")],
    **each("logical_and logical_or logical_xor", lambda f, b: f(boolean(b), True), TRUTH),
    **each("equal greater greater_equal", lambda f, b: f(fp(b), [[0.5]]), TRUTH),
    "select": [
        (lambda b: b.select(boolean(b), ones(2, 3), 0.0), KEEP),
        (lambda b: b.select(True, fp(b), 0.0), KEEP),
    ],
    "table": [
        (lambda b: b.table(i8(b), list(range(-128, 128))), "INT8 [2, 3]"),
        (lambda b: b.table(i16(b), list(range(513))), "INT32 [2, 3]"),
    ],
    **each(ALONG_AXIS["one_at_axis"], lambda f, b: f(fp(b), axis=1), "FP32 [2, 1]"),
    **each("reduce_all reduce_any", lambda f, b: f(boolean(b), axis=0), "BOOL [1, 3]"),
    "concat": [
        (lambda b: b.concat([fp(b), ones(2, 1), [[1.0], [2.0]]], axis=1), "FP32 [2, 5]"),
        (
            lambda b: b.concat([scaled(b, 1, 64), scaled(b, 1, 32)], axis=1),
            "FP8E4M3 [1, 96] in blocks of 32",
        ),
    ],
    "pad": [
        (lambda b: b.pad(fp(b), (0, 1, 2, 0)), "FP32 [3, 5]"),
        (lambda b: b.pad(i8(b), (0, 1, 2, 0), -7), "INT8 [3, 5]"),
    ],
    "reshape": [
        (lambda b: b.reshape(fp(b), (6,)), "FP32 [6]"),
        (lambda b: b.reshape(fp(b, 1), ()), "FP32 []"),
        (lambda b: b.reshape(fp(b), b.mul_shape((3, 1), (1, 2))), "FP32 [3, 2]"),
    ],
    "reverse": [(lambda b: b.reverse(fp(b), axis=1), KEEP)],
    "slice": [(lambda b: b.slice(fp(b), (0, 1), (2, 2)), "FP32 [2, 2]")],
    "tile": [(lambda b: b.tile(fp(b), (2, 1)), "FP32 [4, 3]")],
    "transpose": [(lambda b: b.transpose(fp(b), perms=(1, 0)), "FP32 [3, 2]")],
    "gather": [(lambda b: b.gather(fp(b, 1, 4, 2), [[3, 0, 1]]), "FP32 [1, 3, 2]")],
    "scatter": [
        (lambda b: b.scatter(fp(b, 1, 4, 2), [[3, 0]], [[[1, 2], [3, 4]]]), "FP32 [1, 4, 2]")
    ],
    "row_gather": [(lambda b: b.row_gather(fp(b, 1, 4, 2), [[0, 1]], 2), "FP32 [1, 4, 2]")],
    "resize": [
        (
            lambda b: b.resize(i8(b, 1, 2, 2, 1), (2, 1, 2, 1), (0, 0), (0, 0), mode="NEAREST"),
            "INT8 [1, 3, 3, 1]",
        ),
        (
            lambda b: b.resize(i8(b, 1, 2, 2, 1), (2, 1, 2, 1), (0, 0), (0, 0), mode="BILINEAR"),
            "INT32 [1, 3, 3, 1]",
        ),
    ],
    "cast": [
        (lambda b: b.cast(i8(b), dtype="fp32"), KEEP),
        (lambda b: b.cast(fp(b, 2, 32), dtype="fp8e4m3"), "FP8E4M3 [2, 32]"),
        (
            lambda b: b.cast(fp(b, 2, 32), dtype="fp8e4m3", scaled=True),
            "FP8E4M3 [2, 32] in blocks of 32",
        ),
    ],
    "rescale": [
        (lambda b: b.rescale(i32(b), 1 << 30, 30, 0, -5, dtype="int8"), "INT8 [2, 3]"),
        (
            lambda b: b.rescale(i32(b), [1 << 30] * 3, [30] * 3, per_channel=True, dtype="int16"),
            "INT16 [2, 3]",
        ),
        (lambda b: b.rescale(i8(b), 1 << 14, 14, scale32=False, dtype="int32"), "INT32 [2, 3]"),
        (
            lambda b: b.rescale(i8(b), 1 << 30, 30, 200, input_unsigned=True, dtype="int8"),
            "INT8 [2, 3]",
        ),
        (
            lambda b: b.rescale(
                i8(b), 1 << 30, 30, np.int8(-128), input_unsigned=True, dtype="int8"
            ),
            "INT8 [2, 3]",
        ),
    ],
    "matmul_t": [
        (lambda b: b.matmul_t(fp(b, 1, 2, 3), ones(1, 4, 3)), "FP32 [1, 2, 4]"),
        (
            lambda b: b.matmul_t(scaled(b, 1, 2, 32), scaled(b, 1, 4, 32), dtype="fp32"),
            "FP32 [1, 2, 4]",
        ),
    ],
    "matmul_t_block_scaled": [
        (
            lambda b: b.matmul_t_block_scaled(*parts(b, 1, 2, 32), *parts(b, 1, 4, 32)),
            "FP32 [1, 2, 4]",
        )
    ],
    "cast_from_block_scaled": [
        (lambda b: b.cast_from_block_scaled(*parts(b, 2, 64), dtype="bf16"), "BF16 [2, 64]")
    ],
    "cast_to_block_scaled": [
        (
            lambda b: b.cast_to_block_scaled(fp(b, 2, 64), dtype="mxint8"),
            "MXINT8 [2, 64], FP8UE8M0 [2, 2]",
        )
    ],
    "conv2d_block_scaled": [
        (
            lambda b: b.conv2d_block_scaled(
                *parts(b, 1, 4, 4, 32), *parts(b, 2, 1, 1, 32), [0.5, 1], (0,) * 4, (1, 1), (1, 1)
            ),
            "FP32 [1, 4, 4, 2]",
        )
    ],
    "max_pool2d_adaptive": [
        (lambda b: b.max_pool2d_adaptive(i8(b, 1, 4, 4, 1), *ADAPTIVE), "INT8 [1, 2, 2, 1]")
    ],
    "avg_pool2d_adaptive": [
        (
            lambda b: b.avg_pool2d_adaptive(i8(b, 1, 4, 4, 1), *ADAPTIVE, output_zp=3),
            "INT8 [1, 2, 2, 1]",
        )
    ],
    "reshape_block_scaled": [
        (lambda b: b.reshape_block_scaled(fp(b), (6,)), "FP32 [6]"),
        (reshaped_blocks, "FP8E4M3 [4, 32], FP8UE8M0 [4, 1]"),
    ],
    "row_gather_block_scaled": [
        (lambda b: b.row_gather_block_scaled(fp(b, 1, 4, 2), [[0, 1]], 2), "FP32 [1, 4, 2]"),
        (gathered_blocks, "FP8E4M3 [1, 1, 32], FP8UE8M0 [1, 1, 1]"),
    ],
    "dim": [(lambda b: b.dim(fp(b), axis=1), "shape [3]")],
    "concat_shape": [(lambda b: b.concat_shape([(1, 2), b.dim(fp(b), axis=0)]), "shape [1, 2, 2]")],
    "add_shape": [(lambda b: b.add_shape((1, 2), (3, 4)), "shape [4, 6]")],
    "sub_shape": [(lambda b: b.sub_shape((5, 2), (3, 2)), "shape [2, 0]")],
    "mul_shape": [(lambda b: b.mul_shape((5, 2), (3, 2)), "shape [15, 4]")],
    "slice_shape": [(lambda b: b.slice_shape((5, 6, 7), 1, 2), "shape [6, 7]")],
    "exp2_shape": [(lambda b: b.exp2_shape((3, 0)), "shape [8, 1]")],
    "log2_ceil_shape": [(lambda b: b.log2_ceil_shape((9, 8)), "shape [4, 3]")],
    "log2_floor_shape": [(lambda b: b.log2_floor_shape((9, 8)), "shape [3, 3]")],
    "max_shape": [(lambda b: b.max_shape((1, 8), (4, 3)), "shape [4, 8]")],
    "min_shape": [(lambda b: b.min_shape((1, 8), (4, 3)), "shape [1, 3]")],
    "mod_shape": [(lambda b: b.mod_shape((7, 8), (4, 3)), "shape [3, 2]")],
    "div_ceil_shape": [(lambda b: b.div_ceil_shape((7, 8), (4, 4)), "shape [2, 2]")],
    "div_floor_shape": [(lambda b: b.div_floor_shape((7, 8), (4, 4)), "shape [1, 2]")],
    "assert_equal_shape": [
        (lambda b: b.assert_equal_shape((2, 3), (2, 3)), ""),
        (lambda b: b.assert_equal_shape((2, 3), (2, 1), allow_broadcast=True), ""),
    ],
}
EXAMPLES = [
    pytest.param(name, call, expected, id=f"{name}-{index}")
    for name, calls in CALLS.items()
    for index, (call, expected) in enumerate(calls)
]


def built(call: Call) -> tuple[Builder, tuple[Value, ...]]:
    b = Builder()
    made = call(b)
    return b, () if made is None else made if isinstance(made, tuple) else (made,)


def program(call: Call) -> tc.Graph:
    """Return the program.

    An input that returns to the caller if the operator has no tensors as results.
    """
    b, results = built(call)
    tensors = [value for value in results if "shape" not in str(value.type)]
    b.output(*(tensors or [b.identity(b.input("returned", "fp32", (1,)))]))
    return b.graph()


def test_there_is_an_example_of_each_function() -> None:
    assert CALLS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize(("name", "call", "expected"), EXAMPLES)
def test_an_operator_is_built_with_its_results(name: str, call: Call, expected: str) -> None:
    b, results = built(call)
    assert ", ".join(str(value.type) for value in results) == expected
    assert b._block.operators[-1].spec.name.lower() == name


@pytest.mark.parametrize(("name", "call", "expected"), EXAMPLES)
def test_what_is_built_is_a_program_that_tosa_allows(name: str, call: Call, expected: str) -> None:
    made = program(call)
    assert tc.validate(made) == []
    again = tc.load(tc.dumps(made))
    assert tc.compare(made, again, names=True) is None
