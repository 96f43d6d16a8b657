from __future__ import annotations

import numpy as np
import pytest
from rewrites.programs import SPECIAL, kinds, program, rewritten, run, special

import tosa_convert as tc
from tosa_convert.builder import DTypeName
from tosa_convert.graph import Graph

NAME = "pow-by-constant"
EXPONENTS = (1, 2, 3, 4, 0.5, -0.5, -1, -2)


def power(exponent: float, dtype: DTypeName = "fp32") -> Graph:
    return program(lambda b: b.pow(b.input("x", dtype, (len(SPECIAL),)), exponent))


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (1, ["IDENTITY"]),
        (2, ["MUL"]),
        (3, ["MUL", "MUL"]),
        (4, ["MUL", "MUL"]),
        (0.5, ["RSQRT", "RECIPROCAL"]),
        (-0.5, ["RSQRT"]),
        (-1, ["RECIPROCAL"]),
        (-2, ["RECIPROCAL", "MUL"]),
    ],
)
def test_pow_becomes_operators_that_are_defined_for_every_base(
    exponent: float, expected: list[str]
) -> None:
    graph, report = rewritten(power(exponent), NAME)
    assert kinds(graph) == expected
    assert report.count(NAME) == 1
    assert tc.validate(graph) == []


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_the_result_is_the_one_of_frameworks(exponent: float, dtype: str) -> None:
    graph, _ = rewritten(power(exponent, "fp16" if dtype == "float16" else "fp32"), NAME)
    x = special(dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        # Frameworks compute a root as such: that of minus infinity is NaN, as of any negative number.
        root = {0.5: np.sqrt(wide), -0.5: 1 / np.sqrt(wide)}
        expected = root.get(exponent, np.power(wide, exponent)).astype(dtype)
    np.testing.assert_allclose(
        run(graph, x=x)["y"].astype(np.float64),
        expected.astype(np.float64),
        rtol=4 * float(np.finfo(dtype).eps),
        # Results below the normal numbers depend on the order of rounding.
        atol=float(np.finfo(dtype).tiny),
    )


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_products_equal_pow_where_tosa_defines_it(exponent: float) -> None:
    graph = program(lambda b: b.pow(b.input("x", "fp32", (64,)), exponent))
    x = np.random.default_rng(1).uniform(0.01, 100, 64).astype(np.float32)
    made, _ = rewritten(graph, NAME)
    np.testing.assert_allclose(run(made, x=x)["y"], run(graph, x=x)["y"], rtol=3e-6)


@pytest.mark.usefixtures("refmodel")
def test_a_base_that_is_broadcast_is_repeated() -> None:
    exponents = np.full((2, 1, 4), 2, np.float32)
    graph = program(lambda b: b.pow(b.input("x", "fp32", (1, 3, 1)), b.const(exponents)))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["MUL", "TILE"]
    assert tc.validate(made) == []
    x = np.array([[[-1], [2], [3]]], np.float32)
    assert run(made, x=x)["y"].tolist() == (x**exponents).tolist()


@pytest.mark.parametrize("exponent", [0, 5, 0.25, np.inf, np.nan])
def test_other_exponents_stay(exponent: float) -> None:
    graph = power(exponent)
    made, _ = rewritten(graph, NAME)
    assert made is graph


def test_an_exponent_of_several_numbers_or_a_computed_one_stays() -> None:
    graph = program(
        lambda b: b.pow(b.input("x", "fp32", (2,)), b.const(np.array([2, 3], np.float32)))
    )
    assert rewritten(graph, NAME)[0] is graph
    graph = program(lambda b: b.pow(b.input("x", "fp32", (2,)), b.input("e", "fp32", (2,))))
    assert rewritten(graph, NAME)[0] is graph


def test_products_share_one_shift_and_keep_locations() -> None:
    from tosa_convert.builder import Builder

    b = Builder("main")
    x = b.input("x", "fp32", (2,))
    b.location = 'loc("model.py":7:1)'
    b.output(b.pow(x, 3), name="a")
    b.output(b.pow(x, 2), name="b")
    made, report = rewritten(b.graph(), NAME)
    products = [op for op in made.main.operators if op.spec.name == "MUL"]
    assert len({op.inputs[2] for op in products}) == 1
    assert {op.location for op in products} == {'loc("model.py":7:1)'}
    assert 'loc("model.py":7:1)' in str(report)
    assert len(report.changes) == 2


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
