from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rewrites.programs import (
    program,
    rewritten,
)

from tosa_convert.builder import Builder, Value

NAME = "no-operations"

Step = Callable[[Builder, Value], Value]


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


@pytest.mark.parametrize("name", OF_INTEGERS_WITH_EFFECT)
def test_an_operator_with_an_effect_on_integers_stays(name: str) -> None:
    step = OF_INTEGERS_WITH_EFFECT[name]
    _, report = rewritten(program(lambda b: step(b, b.input("x", "int8", (3, 4)))), NAME)
    assert not report.count(NAME)
