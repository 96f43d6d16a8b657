from __future__ import annotations

import numpy as np
import pytest
from rewrites.programs import kinds, program, rewritten, run

import tosa_convert as tc

NAME = "pow-by-constant"


@pytest.mark.usefixtures("refmodel")
def test_a_base_that_is_broadcast_is_repeated() -> None:
    exponents = np.full((2, 1, 4), 2, np.float32)
    graph = program(lambda b: b.pow(b.input("x", "fp32", (1, 3, 1)), b.const(exponents)))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["MUL", "TILE"]
    assert tc.validate(made) == []
    x = np.array([[[-1], [2], [3]]], np.float32)
    assert run(made, x=x)["y"].tolist() == (x**exponents).tolist()


def test_a_power_that_is_its_base_takes_no_operator_unless_it_is_an_output() -> None:
    graph = program(lambda b: b.abs(b.pow(b.input("x", "fp32", (2,)), 1)))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["ABS"]
    assert made.main.operators[-1].inputs == ("x",)


def test_a_base_that_an_operator_computes_takes_the_name_of_the_output() -> None:
    graph = program(lambda b: b.pow(b.abs(b.input("x", "fp32", (2,))), 1))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["ABS"]
    (absolute,) = [op for op in made.main.operators if op.spec.name == "ABS"]
    assert absolute.outputs == ("y",)
