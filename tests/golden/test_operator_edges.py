"""Edges of single operators: those that are particular to each are met by edge inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs

Build = Callable[[Builder], Value]
TABLE = [(entry * 37) % 2000 - 1000 for entry in range(513)]


def x(b: Builder, dtype: DTypeName, *shape: int, name: str = "x") -> Value:
    return b.input(name, dtype, shape or (40,))


def pair(b: Builder, dtype: DTypeName) -> tuple[Value, Value]:
    return x(b, dtype), x(b, dtype, name="y")


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (
            lambda b: b.mul(*pair(b, "int32"), shift=5),
            {
                "product of more than 32 bits",
                "tie",
                "negative tie",
                "input1 least",
                "input2 greatest",
            },
        ),
        (lambda b: b.mul(*pair(b, "int8")), {"input1 least", "input2 least"}),
        (lambda b: b.add(*pair(b, "int32")), {"result of 32 bits"}),
        (
            lambda b: b.intdiv(*pair(b, "int32")),
            {"negative divisor", "negative with a remainder", "quotient 0"},
        ),
        (
            lambda b: b.arithmetic_right_shift(*pair(b, "int16"), round=True),
            {"shift 0", "greatest shift", "rounded bit", "rounded bit of a negative"},
        ),
        (
            lambda b: b.logical_left_shift(*pair(b, "int16")),
            {"greatest shift", "negative, shifted"},
        ),
        (
            lambda b: b.equal(*pair(b, "int64")),
            {"equal", "one step apart", "differ above 32 bits alone", "input1 more than 32 bits"},
        ),
        (
            lambda b: b.table(x(b, "int16"), TABLE),
            {
                "interpolated",
                "interpolated below 0",
                "first entry",
                "last entry",
                "before the last entry",
            },
        ),
        (
            lambda b: b.cast(x(b, "int32"), dtype="int8"),
            {"loses bits", "saturates below", "saturates above"},
        ),
        (
            lambda b: b.cast(x(b, "fp32"), dtype="fp8e4m3"),
            {"NaN", "infinite", "rounded", "tie", "result subnormal"},
        ),
        (lambda b: b.cast(x(b, "fp8e4m3"), dtype="fp32"), {"NaN", "-0", "subnormal"}),
        (
            lambda b: b.reduce_min(x(b, "int32", 4, 10), axis=1),
            {"equal extremes", "extreme at the end"},
        ),
        (
            lambda b: b.reduce_min(x(b, "fp32", 4, 10), axis=1),
            {"NaN", "infinite alone", "equal extremes", "all on one side"},
        ),
        (lambda b: b.argmax(x(b, "int8", 4, 10), axis=1, dtype="int32"), {"equal extremes"}),
        (
            lambda b: b.clamp(x(b, "int16"), min_val=-5, max_val=6),
            {"at the minimum", "beyond the minimum", "one step from the maximum"},
        ),
        (
            lambda b: b.gather(x(b, "fp32", 1, 5, 2), b.input("i", "int32", (1, 20))),
            {"first index", "last index"},
        ),
        (lambda b: b.negate(x(b, "int8")), {"least", "saturates above"}),
        (
            lambda b: b.pow(*pair(b, "fp32")),
            {"base 1", "exponent 0", "exponent with a fraction", "overflows"},
        ),
        (
            lambda b: b.select(b.input("c", "bool", (40,)), *pair(b, "fp32")),
            {"true", "false", "input2 NaN", "input3 infinite"},
        ),
    ],
)
def test_edges_of_an_operator_are_met(build: Build, wanted: set[str]) -> None:
    b = Builder()
    b.output(build(b))
    one, other = (find_edge_inputs(b.graph(), seed, {}).coverage for seed in (1, 1001))
    (row,) = one.joined(other).operators
    assert wanted - row.met.keys() == set()


def test_a_cast_of_booleans_and_a_reduction_of_one_element_have_few_edges() -> None:
    b = Builder()
    b.output(b.cast(x(b, "bool"), dtype="int8"))
    b.output(b.reduce_max(x(b, "fp32", 4, 1, name="y"), axis=1))
    (row,) = find_edge_inputs(b.graph(), 1, {}).coverage.operators
    labels = {*row.met, *row.missed}
    assert {"negative", "subnormal", "NaN"} <= labels
    assert not {"equal extremes", "all on one side"} & labels
