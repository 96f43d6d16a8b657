from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rewrites.programs import kinds, rewritten, run, single

import tosa_convert as tc
from tosa_convert.graph.dtypes import NanPropagationMode

NAME = "narrow-integers"

Numbers = npt.NDArray[Any]

BINARY: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}


def operands(element: str) -> tuple[Numbers, Numbers]:
    """Every pair of the ends of the range, the numbers around 0, and some others."""
    limits = np.iinfo(element)
    row = np.array([limits.min, limits.min + 1, -7, -1, 0, 1, 3, 100, limits.max - 1, limits.max])
    return row.astype(element).reshape(1, -1), row.astype(element).reshape(-1, 1)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["int8", "int16"])
@pytest.mark.parametrize("kind", BINARY)
def test_operators_of_two_operands_wrap_around_as_in_numpy(kind: str, element: str) -> None:
    a, b = operands(element)
    with np.errstate(over="ignore"):
        expected = BINARY[kind](a, b)
    nan = {"nan_mode": NanPropagationMode.PROPAGATE}
    attributes = nan if kind in ("MAXIMUM", "MINIMUM") else {}
    graph = single(
        kind,
        [(element, a.shape), (element, b.shape)],
        (expected.dtype.name, expected.shape),
        **attributes,
    )
    assert tc.validate(graph)
    made, report = rewritten(graph, NAME)
    assert tc.validate(made) == []
    assert report.count(NAME) == 1
    assert {op.location for op in made.main.operators if op.inputs} == {'loc("model.py":1:1)'}
    found = run(made, x0=a, x1=b)["y"]
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["int8", "int16"])
def test_division_truncates_and_wraps_around(element: str) -> None:
    low = np.iinfo(element).min
    a, b = np.array([low, 7, -7, 7, -7], element), np.array([-1, 2, 2, -2, -2], element)
    made, _ = rewritten(single("INTDIV", [(element, a.shape)] * 2, (element, a.shape)), NAME)
    assert tc.validate(made) == []
    assert run(made, x0=a, x1=b)["y"].tolist() == [low, 3, -3, -3, 3]


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["int8", "int16"])
def test_absolute_values_and_sums_wrap_around(element: str) -> None:
    a, _ = operands(element)
    made, _ = rewritten(single("ABS", [(element, a.shape)], (element, a.shape)), NAME)
    assert tc.validate(made) == []
    assert run(made, x0=a)["y"].tolist() == np.abs(a).tolist()
    made, _ = rewritten(single("REDUCE_SUM", [(element, a.shape)], (element, (1, 1)), axis=1), NAME)
    assert tc.validate(made) == []
    assert run(made, x0=a)["y"].tolist() == [[int(np.sum(a, dtype=element))]]


def test_an_operand_that_is_used_twice_is_cast_once() -> None:
    graph = single("ADD", [("int8", (2,)), ("int8", (2,))], ("int8", (2,)))
    graph.main.operators[-1].inputs = ("x0", "x0")
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["CAST", "ADD", "CAST"]


@pytest.mark.parametrize(
    ("kind", "element", "result"),
    [("ADD", "int32", "int32"), ("MUL", "int8", "int32"), ("ADD", "fp32", "fp32")],
)
def test_what_tosa_has_stays(kind: str, element: str, result: str) -> None:
    graph = single(kind, [(element, (2,))] * 2, (result, (2,)))
    assert rewritten(graph, NAME)[0] is graph


def test_operands_of_different_types_stay() -> None:
    graph = single("ADD", [("int8", (2,)), ("int16", (2,))], ("int8", (2,)))
    assert rewritten(graph, NAME)[0] is graph
