"""Small programs, one for each property that readers of files differ in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.graph import Graph
from tosa_convert.graph.versions import V1_1_DRAFT

#: Element types of TOSA 1.0, and INT64.
TYPES: tuple[DTypeName, ...] = (
    *("bool", "int4", "int8", "int16", "int32", "int48", "int64"),
    *("fp32", "fp16", "bf16", "fp8e4m3", "fp8e5m2"),
)


def programs() -> Iterator[tuple[str, Graph]]:
    """Iterate over each program with its name."""
    yield "convolution", convolution()
    yield "version", replace(convolution(), version=V1_1_DRAFT)
    yield from ((f"type-{kind}", identity(kind)) for kind in TYPES)
    yield "unknown-size", total((1, -1))
    yield from unknown_sizes()
    yield "unranked", total(None)
    yield "rank-0", total(())
    yield "rank-7", total((1, 1, 1, 1, 1, 1, 2))
    yield "names", total((1, 8), "a b/c:0", "\N{LATIN SMALL LETTER E WITH ACUTE}")
    yield "branch", branch()
    yield "variable", variable()
    yield "new-operator", new_operator()
    yield "no-operator", no_operator()
    yield "no-input", constant()
    yield from operands()


def convolution() -> Graph:
    """Return a quantised convolution with weights, which every program reads."""
    b = Builder("main")
    rng = np.random.default_rng(0)
    x = b.input("x", "int8", (1, 8, 8, 4))
    weight = b.const(rng.integers(-9, 9, (4, 3, 3, 4)).astype(np.int8))
    bias = b.const(np.arange(4, dtype=np.int32))
    y = b.conv2d(x, weight, bias, 0, 0, pad=(1, 1, 1, 1), acc_type="int32")
    factors = np.full(4, 1 << 30, np.int32), np.full(4, 38, np.int8)
    y = b.rescale(
        y,
        *factors,
        0,
        0,
        dtype="int8",
        rounding_mode="SINGLE_ROUND",
        per_channel=True,
        scale32=True,
    )
    b.output(y, name="y")
    return b.graph()


def identity(kind: DTypeName) -> Graph:
    b = Builder("main")
    b.output(b.identity(b.input("x", kind, (1, 8))), name="y")
    return b.graph()


def total(shape: tuple[int, ...] | None, x: str = "x", y: str = "y") -> Graph:
    b = Builder("main")
    value = b.input(x, "int32", shape)
    b.output(b.add(value, value), name=y)
    return b.graph()


def unknown_sizes() -> Iterator[tuple[str, Graph]]:
    """Iterate over operators that move elements of which it is not known how many there are."""
    b = Builder("main")
    b.output(b.reshape(b.input("x", "int8", (-1, 4)), (-1, 2, 2)), name="y")
    yield "unknown-reshape", b.graph()
    b = Builder("main")
    b.output(b.reshape(b.input("x", "int8", (-1, 4)), (-1, 4)), name="y")
    yield "unknown-unchanged", b.graph()
    b = Builder("main")
    b.output(b.transpose(b.input("x", "int8", (-1, 4)), perms=(1, 0)), name="y")
    yield "unknown-transpose", b.graph()


def branch() -> Graph:
    def twice(b: Builder, x: Value) -> Value:
        return b.add(x, x)

    def less(b: Builder, x: Value) -> Value:
        return b.sub(x, 1)

    b = Builder("main")
    condition = b.input("c", "bool", ())
    (y,) = b.cond_if(condition, [b.input("x", "int32", (1, 8))], twice, less)
    b.output(y, name="y")
    return b.graph()


def variable() -> Graph:
    b = Builder("main")
    x = b.input("x", "int32", (1, 8))
    state = b.variable("state", "int32", (1, 8), initial=0)
    y = b.add(x, b.read(state))
    b.write(state, y)
    b.output(y, name="y")
    return b.graph()


def new_operator() -> Graph:
    b = Builder("main")
    x = b.input("x", "int8", (1, 8, 8))
    b.output(b.matmul_t(x, x, 0, 0), name="y")
    return b.graph()


def no_operator() -> Graph:
    b = Builder("main")
    x = b.input("x", "int32", (1, 8))
    b.output(b.add(x, x), name="y")
    made = b.graph()
    made.main.operators.clear()
    made.main.tensors.pop("y")
    made.main.outputs = ["x"]
    return made


def constant() -> Graph:
    b = Builder("main")
    b.output(b.const(np.arange(8, dtype=np.int32)), name="y")
    return b.graph()


def operands() -> Iterator[tuple[str, Graph]]:
    """Operands that are inputs where most programs have constants."""
    b = Builder("main")
    point = b.input("p", "int8", (1,))
    b.output(b.negate(b.input("x", "int8", (1, 8)), point, point), name="y")
    yield "operand-zero-point", b.graph()
    b = Builder("main")
    x = b.input("x", "int32", (1, 8))
    b.output(b.mul(x, x, b.input("s", "int8", (1,))), name="y")
    yield "operand-shift", b.graph()
    b = Builder("main")
    value = b.input("v", "int8", (1,))
    b.output(b.pad(b.input("x", "int8", (1, 8)), (0, 0, 1, 1), value), name="y")
    yield "operand-padding", b.graph()
    b = Builder("main")
    table = b.input("t", "int16", (513,))
    b.output(b.table(b.input("x", "int16", (1, 8)), table), name="y")
    yield "operand-table", b.graph()
    b = Builder("main")
    x, weight = b.input("x", "int8", (1, 4, 4, 4, 4)), b.input("w", "int8", (4, 1, 1, 1, 4))
    bias = b.input("b", "int32", (4,))
    y = b.conv3d(x, weight, bias, 0, 0, pad=(0, 0, 0, 0, 0, 0), acc_type="int32")
    b.output(y, name="y")
    yield "operand-weight-3d", b.graph()
    b = Builder("main")
    x, weight = b.input("x", "int8", (1, 8, 8, 4)), b.input("w", "int8", (4, 1, 1, 4))
    bias = b.input("b", "int32", (4,))
    y = b.conv2d(x, weight, bias, 0, 0, pad=(0, 0, 0, 0), acc_type="int32")
    b.output(y, name="y")
    yield "operand-weight", b.graph()
