from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewrites.programs import (
    assert_same_bits,
    kinds,
    program,
    rewritten,
    run,
    single,
    special,
    with_constants,
)

from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Graph

NAME = "no-operations"

Step = Callable[[Builder, Value], Value]

WITHOUT_EFFECT: dict[str, Step] = {
    "IDENTITY": lambda b, x: b.identity(x),
    "RESHAPE": lambda b, x: b.reshape(x, (3, 4)),
    "SLICE": lambda b, x: b.slice(x, (0, 0), (3, 4)),
    "PAD": lambda b, x: b.pad(x, (0, 0, 0, 0), 0.0),
    "TILE": lambda b, x: b.tile(x, (1, 1)),
    "TRANSPOSE": lambda b, x: b.transpose(x, perms=(0, 1)),
    "CONCAT": lambda b, x: b.concat([x], axis=1),
    "ADD of -0.0": lambda b, x: b.add(x, -0.0),
    "-0.0 ADD": lambda b, x: b.add(b.const(np.full((1, 1), -0.0, np.float32)), x),
    "SUB of 0": lambda b, x: b.sub(x, 0.0),
    "MUL by 1": lambda b, x: b.mul(x, 1.0),
    "SELECT of equal values": lambda b, x: b.select(b.greater(x, 0.0), x, x),
    "SELECT by true": lambda b, x: b.select(b.const(np.ones((1, 1), bool)), x, b.exp(x)),
    "SELECT by false": lambda b, x: b.select(b.const(np.zeros((1, 1), bool)), b.exp(x), x),
}

#: The same on integers.
OF_INTEGERS: dict[str, Step] = {
    "CAST to a wider type and back": lambda b, x: b.cast(b.cast(x, dtype="int32"), dtype="int8"),
    "CAST of BOOL and back": lambda b, x: b.select(
        b.cast(b.cast(b.cast(x, dtype="bool"), dtype="int8"), dtype="bool"), x, b.negate(x)
    ),
    "GATHER of all rows": lambda b, x: b.reshape(
        b.gather(b.reshape(x, (1, 3, 4)), np.arange(3, dtype=np.int32).reshape(1, 3)), (3, 4)
    ),
    "LOGICAL_AND with true": lambda b, x: b.cast(
        b.logical_and(b.cast(x, dtype="bool"), b.const(np.ones((1, 1), bool))), dtype="int8"
    ),
    "LOGICAL_OR with false": lambda b, x: b.cast(
        b.logical_or(b.const(np.zeros((1, 4), bool)), b.cast(x, dtype="bool")), dtype="int8"
    ),
    "LOGICAL_XOR with false": lambda b, x: b.cast(
        b.logical_xor(b.cast(x, dtype="bool"), b.const(np.zeros((1, 1), bool))), dtype="int8"
    ),
}

OF_INTEGERS_WITH_EFFECT: dict[str, Step] = {
    "CAST to a narrower type and back": lambda b, x: b.cast(
        b.cast(b.mul(b.cast(x, dtype="int32"), 3), dtype="int8"), dtype="int32"
    ),
    "CAST to BOOL and back": lambda b, x: b.cast(b.cast(x, dtype="bool"), dtype="int8"),
    "CAST to FP32 and back": lambda b, x: b.cast(b.cast(x, dtype="fp32"), dtype="int8"),
    "GATHER of rows in another order": lambda b, x: b.gather(
        b.reshape(x, (1, 3, 4)), np.array([[0, 2, 1]], np.int32)
    ),
    "GATHER of some rows": lambda b, x: b.gather(
        b.reshape(x, (1, 3, 4)), np.array([[0, 1]], np.int32)
    ),
    "GATHER of each batch": lambda b, x: b.gather(
        b.reshape(x, (3, 1, 4)), np.zeros((3, 2), np.int32)
    ),
    "LOGICAL_AND with false": lambda b, x: b.cast(
        b.logical_and(b.cast(x, dtype="bool"), b.const(np.zeros((1, 1), bool))), dtype="int8"
    ),
    "LOGICAL_XOR with true": lambda b, x: b.cast(
        b.logical_xor(b.cast(x, dtype="bool"), b.const(np.ones((1, 1), bool))), dtype="int8"
    ),
}

WITH_EFFECT: dict[str, Step] = {
    "RESHAPE": lambda b, x: b.reshape(x, (4, 3)),
    "SLICE": lambda b, x: b.slice(x, (0, 1), (3, 2)),
    "PAD": lambda b, x: b.pad(x, (0, 0, 0, 1), 0.0),
    "TILE": lambda b, x: b.tile(x, (1, 2)),
    "TRANSPOSE": lambda b, x: b.transpose(x, perms=(1, 0)),
    "CONCAT": lambda b, x: b.concat([x, x], axis=1),
    "ADD of 0, because -0.0 becomes 0": lambda b, x: b.add(x, 0.0),
    "SUB of -0.0, because -0.0 becomes 0": lambda b, x: b.sub(x, -0.0),
    "SUB from 0": lambda b, x: b.sub(b.const(np.zeros((1, 1), np.float32)), x),
    "MUL by 2": lambda b, x: b.mul(x, 2.0),
    "SELECT of a condition": lambda b, x: b.select(b.greater(x, 0.0), x, b.exp(x)),
    "ADD to a larger shape": lambda b, x: b.add(
        b.reshape(x, (1, 12)), b.const(np.full((2, 1), -0.0, np.float32))
    ),
}


def between(step: Step) -> Graph:
    """Return a program whose operator lies between two others."""
    return program(lambda b: b.abs(step(b, b.negate(b.input("x", "fp32", (3, 4))))))


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_operator_without_an_effect_goes(name: str) -> None:
    step = WITHOUT_EFFECT[name]
    graph = program(lambda b: step(b, b.negate(b.input("x", "fp32", (3, 4)))))
    made, report = rewritten(graph, NAME, "unused-operators")
    assert kinds(made) == ["NEGATE"]
    assert report.count(NAME) == 1
    x = special().reshape(3, 4)
    assert_same_bits(run(made, x=x), run(graph, x=x))


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_an_operator_without_an_effect_on_integers_goes(name: str) -> None:
    step = OF_INTEGERS[name]
    graph = program(lambda b: step(b, b.input("x", "int8", (3, 4))))
    made, report = rewritten(graph, "clean-up")
    assert report.count(NAME)
    assert len(kinds(made)) < len(kinds(graph))
    x = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    assert_same_bits(run(made, x=x), run(graph, x=x))


@pytest.mark.parametrize("name", OF_INTEGERS_WITH_EFFECT)
def test_an_operator_with_an_effect_on_integers_stays(name: str) -> None:
    step = OF_INTEGERS_WITH_EFFECT[name]
    _, report = rewritten(program(lambda b: step(b, b.input("x", "int8", (3, 4)))), NAME)
    assert not report.count(NAME)


@pytest.mark.parametrize("shape", [(), (3,), (1, 3)])
def test_a_gather_from_what_is_no_table_stays(shape: tuple[int, ...]) -> None:
    graph = single("GATHER", [("fp32", shape), ("int32", shape[:2])], ("fp32", shape))
    rows = np.arange(max(shape, default=1), dtype=np.int32).reshape(shape)
    graph = with_constants(graph, {"x1": rows})
    assert rewritten(graph, NAME)[0] is graph


@pytest.mark.parametrize("name", WITH_EFFECT)
def test_an_operator_with_an_effect_stays(name: str) -> None:
    graph = between(WITH_EFFECT[name])
    assert rewritten(graph, NAME)[0] is graph


@pytest.mark.parametrize("element", ["int8", "int32"])
def test_integers_have_one_zero(element: str) -> None:
    def build(b: Builder) -> Any:
        x = b.input("x", "int32", (2,))
        return b.abs(b.sub(b.add(b.const(np.zeros(1, np.int32)), x), 0))

    made, _ = rewritten(program(build), NAME)
    assert kinds(made) == ["ABS"]


def test_an_input_that_is_an_output_keeps_both_names() -> None:
    graph = program(lambda b: b.reshape(b.input("x", "fp32", (2,)), (2,)))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["IDENTITY"]
    assert (made.main.inputs, made.main.outputs) == (["x"], ["y"])


def test_a_value_that_is_two_outputs_keeps_both_names() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x = b.abs(b.input("x", "fp32", (2,)))
        return x, b.reshape(x, (2,)), b.identity(x)

    graph = program(build)
    made, _ = rewritten(graph, NAME)
    assert made.main.outputs == ["y0", "y1", "y2"]
    assert kinds(made) == ["ABS", "IDENTITY", "IDENTITY"]


def test_users_of_a_value_that_takes_the_name_of_an_output_follow() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x = b.abs(b.input("x", "fp32", (2,)))
        before = b.exp(x)
        return b.identity(x), before, b.exp(x)

    made, _ = rewritten(program(build), NAME)
    assert [(op.inputs, op.outputs) for op in made.main.operators] == [
        (("x",), ("y0",)),
        (("y0",), ("y1",)),
        (("y0",), ("y2",)),
    ]


def test_variables_are_read_and_written_as_before() -> None:
    b = Builder("main")
    state = b.variable("state", "fp32", (2,), np.zeros(2, np.float32))
    value = b.identity(b.read(state))
    b.write(state, b.identity(b.add(value, b.input("x", "fp32", (2,)))))
    b.output(value, name="y")
    made, _ = rewritten(b.graph(), NAME)
    assert kinds(made) == ["VARIABLE_READ", "ADD", "VARIABLE_WRITE"]
    assert made.main.operators[0].outputs == ("y",)


def test_an_unknown_shape_stays() -> None:
    graph = program(lambda b: b.abs(b.tile(b.input("x", "fp32", (-1, 4)), (1, 1))))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["TILE", "ABS"]
