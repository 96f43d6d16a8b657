"""Sizes, strides and ranks with which a reader does not run an operator, each with some that it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.consumers.doctor import StoredProgram, diagnose
from tosa_convert.consumers.readers import reader_named
from tosa_convert.consumers.unread import program_findings

Build = Callable[[Builder], Value]


def x(b: Builder, *shape: int, dtype: DTypeName = "int8") -> Value:
    return b.input("x", dtype, shape)


def argmax(*shape: int, axis: int) -> Build:
    return lambda b: b.argmax(x(b, *shape), axis=axis, dtype="int32")


def reverse(*shape: int, axis: int, dtype: DTypeName = "int8") -> Build:
    return lambda b: b.reverse(x(b, *shape, dtype=dtype), axis=axis)


def pool(kernel: int, pad: int) -> Build:
    row: Any = {"kernel": (kernel, kernel), "pad": (pad,) * 4, "stride": (1, 1)}
    return lambda b: b.avg_pool2d(x(b, 1, 16, 16, 2), **row, acc_type="int32")


def convolution(kind: str, shape: tuple[int, ...], weight: tuple[int, ...], **row: Any) -> Build:
    """Return a convolution with constant weights."""
    channels = weight[2] * weight[3] if kind == "depthwise_conv2d" else weight[0]
    return lambda b: getattr(b, kind)(
        x(b, *shape),
        b.const(np.zeros(weight, np.int8)),
        b.const(np.zeros(channels, np.int32)),
        **row,
    )


def transposed(rows: int, columns: int, *stride: int) -> Build:
    return convolution("transpose_conv2d", (1, rows, columns, 2), (3, 1, 1, 2), stride=stride)


def resize(
    scale: tuple[int, ...],
    ends: int = 0,
    shape: tuple[int, ...] = (1, 4, 4, 2),
    mode: str = "NEAREST",
) -> Build:
    """ends: the border of both axes, and what is subtracted from their offsets."""
    row: Any = {"scale": scale, "offset": (-ends, -ends), "border": (ends, ends), "mode": mode}
    return lambda b: b.resize(x(b, *shape), **row)


def wide(b: Builder) -> Value:
    weight, bias = b.const(np.zeros((3, 1, 1, 2), np.int8)), b.const([0, 0, 0], dtype="int48")
    return b.conv2d(x(b, 1, 4, 4, 2, dtype="int16"), weight, bias, pad=(0,) * 4)


def narrowed(b: Builder, value: Value) -> Value:
    return b.rescale(value, multiplier=[1], shift=[30], dtype="int16", scale32=False)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (argmax(2, 4, 4, 8, axis=3), "ARGMAX of more than 4 dimensions, or of several batches"),
        (argmax(1, 4, 4, 8, axis=1), "ARGMAX over another axis than the last"),
        (argmax(1, 4, 4, 128, axis=3), "ARGMAX over more than 127 elements"),
        (argmax(1, 4, 4, 127, axis=3), ""),
        (reverse(1, 4, 4, 8, axis=3), "REVERSE over the last axis of one batch"),
        (reverse(2, 1, 4, 4, 8, axis=4), ""),
        (reverse(1, 4, 4, 8, axis=0), ""),
        (reverse(1, 4, 4, 8, axis=1, dtype="int32"), "REVERSE of INT32"),
        (pool(9, 1), "AVG_POOL2D with padding and a kernel of more than 8"),
        (pool(9, 0), ""),
        (pool(8, 1), ""),
        (
            convolution("conv3d", (1, 4, 4, 4, 2), (3, 2, 1, 1, 2), pad=(0,) * 6),
            "CONV3D with a weight of more than one in depth",
        ),
        (convolution("conv3d", (1, 4, 4, 4, 2), (3, 1, 1, 1, 2), pad=(0,) * 6), ""),
        (
            convolution(
                "depthwise_conv2d", (1, 9, 9, 2), (1, 1, 2, 1), stride=(4, 4), pad=(0,) * 4
            ),
            "DEPTHWISE_CONV2D with a stride of more than 3",
        ),
        (
            convolution(
                "depthwise_conv2d", (1, 10, 10, 2), (1, 1, 2, 1), stride=(3, 3), pad=(0,) * 4
            ),
            "",
        ),
        (transposed(4, 4, 3, 3), "TRANSPOSE_CONV2D with a stride of 3 by 3"),
        (transposed(4, 4, 2, 1), "TRANSPOSE_CONV2D with a stride of 2 by 1"),
        (transposed(4, 4, 2, 2), ""),
        (transposed(1, 4, 1, 2), ""),
        (transposed(4, 1, 2, 1), ""),
        (resize((4, 2, 4, 2), 2, mode="BILINEAR"), "RESIZE in mode BILINEAR"),
        (resize((1, 1, 1, 1), mode="BILINEAR"), ""),
        (
            resize((3, 1, 3, 1)),
            "RESIZE unless it is by 2, 4 or 8, with corners or with half pixels aligned",
        ),
        (resize((2, 1, 2, 1)), ""),
        (resize((4, 2, 4, 2), 1), ""),
        (resize((2, 2, 2, 1)), ""),
        (resize((3, 1, 2, 1), shape=(1, 1, 4, 2)), ""),
        (resize((2, 1, 2, 1), shape=(2, 4, 4, 2)), "RESIZE of several batches"),
        (wide, "CONV2D to INT48 unless its only use is a RESCALE"),
        (lambda b: narrowed(b, wide(b)), ""),
        (
            lambda b: narrowed(b, x(b, 1, 2, dtype="int48")),
            "RESCALE from INT48 unless the operand is the result of a convolution",
        ),
    ],
)
def test_what_an_accelerator_does_not_run_is_named(build: Build, expected: str) -> None:
    b = Builder("main")
    b.output(build(b), name="y")
    stored = StoredProgram("m.tosa", "tosa", frozenset({"embedded"}))
    (row,) = diagnose(b.graph(), stored, ["vela:ethos-u55"])
    messages = [finding.message.partition(" read ")[2] for finding in row.findings]
    assert messages == ([expected] if expected else [])
    assert diagnose(b.graph(), stored, ["vela:ethos-u85"])[0].reads


def depthwise(bias: int, kernel: int = 1, dtype: DTypeName = "int8") -> Build:
    def build(b: Builder) -> Value:
        weight = b.const(np.zeros((kernel, kernel, 2, 3), np.int8), dtype=dtype)
        return b.depthwise_conv2d(x(b, 1, 4, 4, 2), weight, b.const(np.zeros(bias, np.int32)))

    return build


def of_bf16(mode: str) -> Build:
    row: Any = {"scale": (2, 1, 2, 1), "offset": (0, 0), "border": (0, 0), "mode": mode}
    return lambda b: b.resize(x(b, 1, 4, 4, 2, dtype="bf16"), **row)


def branch(*shape: int) -> Build:
    def build(b: Builder) -> Value:
        image = b.input("image", "int32", (2,))
        row = (
            b.input("c", "bool", shape),
            [image],
            lambda b, x: b.add(x, x),
            lambda b, x: b.abs(x),
        )
        return b.cond_if(*row)[0]

    return build


@pytest.mark.parametrize(
    ("reader", "build", "expected"),
    [
        ("soda-opt", lambda b: b.tile(x(b, 2, 3), (2, 1)), "TILE unless it changes nothing"),
        ("soda-opt", lambda b: b.tile(x(b, 2, 3), (1, 1)), ""),
        ("soda-opt", depthwise(1), "DEPTHWISE_CONV2D with one bias for all channels"),
        ("soda-opt", depthwise(6), ""),
        ("soda-opt", of_bf16("BILINEAR"), "RESIZE of BF16 in mode BILINEAR"),
        ("soda-opt", of_bf16("NEAREST"), ""),
        (
            "torq",
            lambda b: b.reshape(x(b, 2, 3), b.mul_shape((3, 1), (1, 2))),
            "RESHAPE to sizes that are computed",
        ),
        ("torq", lambda b: b.reshape(x(b, 2, 3), (3, 2)), ""),
        ("torq", depthwise(6, dtype="int4"), "DEPTHWISE_CONV2D with a kernel of 1 by 1 of INT4"),
        ("torq", depthwise(6, kernel=2, dtype="int4"), ""),
        ("torq", depthwise(1), ""),
        ("iree", branch(1), "COND_IF with a condition that has dimensions"),
        ("iree", branch(), ""),
    ],
)
def test_what_a_program_of_mlir_does_not_lower_is_named(
    reader: str, build: Build, expected: str
) -> None:
    b = Builder("main")
    b.output(build(b), name="y")
    found = program_findings(b.graph(), reader_named(reader), mlir=True)
    messages = [finding.message.partition(" read ")[2] for finding in found]
    assert messages == ([expected] if expected else [])
