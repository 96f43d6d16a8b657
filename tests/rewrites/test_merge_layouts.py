from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rewrites.programs import assert_same_bits, kinds, program, rewritten, run

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph

NAME = "merge-layouts"
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def layouts(*perms: tuple[int, ...]) -> Graph:
    """Return a program of one TRANSPOSE after the other."""

    def build(b: Builder) -> Value:
        value = b.input("x", "fp32", (2, 3, 4, 5))
        for row in perms:
            value = b.transpose(value, perms=row)
        return value

    return program(build)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    "perms", [(NHWC, NHWC), (NCHW, (3, 2, 1, 0)), (NHWC, NCHW), (NHWC, (1, 0, 2, 3), NCHW)]
)
def test_transposes_become_one(perms: tuple[tuple[int, ...], ...]) -> None:
    graph = layouts(*perms)
    made, _ = rewritten(graph, NAME, "unused-operators")
    assert kinds(made) == ["TRANSPOSE"]
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    assert_same_bits(run(made, x=x), run(graph, x=x))


def _linear(b: Builder, x: Value) -> Value:
    """Return a product with a bias as torch writes it: its operands have two axes."""
    product = b.matmul(x, b.const(np.ones((1, 6, 5), np.float32)))
    bias = b.const(np.arange(5, dtype=np.float32).reshape(1, 5))
    return b.reshape(b.add(b.reshape(product, (12, 5)), bias), (1, 12, 5))


def _other_shape(b: Builder, x: Value) -> Value:
    scaled = b.mul(b.exp(b.reshape(x, (12, 6))), b.const(np.full((1, 1), 3, np.float32)))
    return b.reshape(scaled, (4, 3, 6))


def _two_operands(b: Builder, x: Value) -> Value:
    one, other = (b.reshape(row, (3, 4, 6)) for row in (b.tanh(x), b.exp(x)))
    plane = b.const(np.arange(24, dtype=np.float32).reshape(1, 4, 6))
    return b.reshape(b.abs(b.sub(one, b.mul(other, b.reshape(plane, (1, 4, 6))))), (3, 24))


def _one_axis(b: Builder, x: Value) -> Value:
    one, two = (b.const(np.full(1, number, np.float32)) for number in (1, 2))
    chosen = b.select(b.greater(b.reshape(x, (72,)), one), one, two)
    return b.reshape(chosen, (1, 72))


def _of_one_reshape(b: Builder, x: Value) -> Value:
    """Use a RESHAPE three times, as a remainder of a division does."""
    row = b.reshape(x, (72,))
    chosen = b.select(b.greater(0.0, row), b.add(row, 2.0), row)
    return b.reshape(chosen, (1, 72))


def _square(b: Builder, x: Value) -> Value:
    row = b.exp(b.reshape(x, (72,)))
    return b.reshape(b.mul(row, row), (1, 12, 6))


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (_of_one_reshape, ["GREATER", "ADD", "SELECT", "RESHAPE"]),
        (_square, ["EXP", "MUL"]),
        (_linear, ["MATMUL", "ADD"]),
        (_other_shape, ["EXP", "MUL", "RESHAPE"]),
        (_one_axis, ["GREATER", "SELECT", "RESHAPE"]),
    ],
)
def test_elementwise_operators_between_reshapes_are_computed_in_the_shape_before(
    build: Callable[[Builder, Value], Value], expected: list[str]
) -> None:
    graph = program(lambda b: build(b, b.input("x", "fp32", (1, 12, 6))))
    made, _ = rewritten(graph, "clean-up")
    assert kinds(made) == expected
    assert tc.validate(made) == []
    x = np.random.default_rng(0).standard_normal((1, 12, 6)).astype(np.float32)
    assert_same_bits(run(made, x=x), run(graph, x=x))


@pytest.mark.parametrize("build", [_two_operands])
def test_reshapes_stay_where_a_constant_does_not_fit_the_shape_before(
    build: Callable[[Builder, Value], Value],
) -> None:
    graph = program(lambda b: build(b, b.input("x", "fp32", (1, 12, 6))))
    assert kinds(rewritten(graph, "clean-up")[0]).count("RESHAPE") == 3


def test_a_layout_that_is_changed_back_takes_no_operator() -> None:
    graph = program(
        lambda b: b.exp(
            b.transpose(
                b.transpose(b.abs(b.input("x", "fp32", (2, 3, 4, 5))), perms=NHWC), perms=NCHW
            )
        )
    )
    assert kinds(rewritten(graph, "clean-up")[0]) == ["ABS", "EXP"]


def test_layouts_of_one_channel_need_no_operator() -> None:
    graph = program(
        lambda b: b.exp(
            b.reshape(
                b.transpose(b.abs(b.input("x", "fp32", (1, 1, 4, 5))), perms=NHWC), (1, 1, 4, 5)
            )
        )
    )
    assert kinds(rewritten(graph)[0]) == ["ABS", "EXP"]


def test_a_transpose_of_an_unknown_size_stays() -> None:
    graph = program(lambda b: b.transpose(b.input("x", "fp32", (-1, 1, 4)), perms=(1, 0, 2)))
    assert rewritten(graph, NAME)[0] is graph
