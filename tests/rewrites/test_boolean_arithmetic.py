from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rewrites.programs import rewritten, run, single

import tosa_convert as tc
from tosa_convert.graph.dtypes import NanPropagationMode

NAME = "boolean-arithmetic"
NAN = {"nan_mode": NanPropagationMode.PROPAGATE}

Flags = npt.NDArray[Any]

#: numpy's arithmetic on bool; it has no difference, which here wraps around in one bit.
BINARY: dict[str, Callable[[Flags, Flags], Flags]] = {
    "ADD": np.add,
    "SUB": np.not_equal,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "BITWISE_AND": np.bitwise_and,
    "BITWISE_OR": np.bitwise_or,
    "BITWISE_XOR": np.bitwise_xor,
}


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("kind", BINARY)
def test_operators_of_two_operands_are_those_of_numpy(kind: str) -> None:
    a, b = np.array([[False, True]]), np.array([[False], [True]])
    attributes = NAN if kind in ("MAXIMUM", "MINIMUM") else {}
    graph = single(kind, [("bool", (1, 2)), ("bool", (2, 1))], ("bool", (2, 2)), **attributes)
    assert tc.validate(graph)
    made, report = rewritten(graph, NAME)
    assert tc.validate(made) == []
    assert report.count(NAME) == 1
    assert run(made, x0=a, x1=b)["y"].tolist() == BINARY[kind](a, b).tolist()


ROWS = np.array([[False, False], [False, True], [True, True]])


@pytest.mark.usefixtures("refmodel")
def test_not_and_abs_of_booleans_are_those_of_numpy() -> None:
    made, _ = rewritten(single("BITWISE_NOT", [("bool", (3, 2))], ("bool", (3, 2))), NAME)
    assert run(made, x0=ROWS)["y"].tolist() == (~ROWS).tolist()
    made, _ = rewritten(single("ABS", [("bool", (3, 2))], ("bool", (3, 2))), NAME)
    assert run(made, x0=ROWS)["y"].tolist() == ROWS.tolist()
    graph = single("ARGMAX", [("bool", (3, 2))], ("int32", (3,)), axis=1, **NAN)
    made, _ = rewritten(graph, NAME)
    assert tc.validate(made) == []
    assert run(made, x0=ROWS)["y"].tolist() == [0, 1, 0]
