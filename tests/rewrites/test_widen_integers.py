from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rewrites.programs import kinds, rewritten, run, single

import tosa_convert as tc
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import NanPropagationMode, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import CONST

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
    """Return every pair of the ends of the range, the numbers around 0, and some others."""
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
def test_a_constant_that_is_converted_twice_leaves_no_tensor_behind() -> None:
    """The second conversion becomes the first; the reference model refuses tensors of no operator."""
    graph = single("GREATER", [("int16", (3,)), ("int16", (1,))], ("bool", (3,)))
    main = graph.main
    (greater,) = (op for op in main.operators if op.inputs)
    zero = constant_of(np.zeros(1), dtype("INT16"))
    main.tensors["x1"] = replace(main.tensors["x1"], data=zero)
    main.operators.insert(0, Operator(CONST, (), ("x1",), {}))
    main.inputs.remove("x1")
    main.tensors["z"] = replace(main.tensors["y"], name="z")
    main.operators.append(replace(greater, outputs=("z",)))
    main.outputs.append("z")
    made, _ = tc.rewrites.apply(graph)
    used = {name for op in made.main.operators for name in (*op.inputs, *op.outputs)}
    assert set(made.main.tensors) == used
    found = run(made, x0=np.array([-1, 0, 1], np.int16))
    assert [row.tolist() for row in found.values()] == [[False, False, True]] * 2


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
