from __future__ import annotations

import numpy as np
from rewrites.programs import program, rewritten

from tosa_convert.builder import Builder

NAME = "unused-operators"


def test_a_large_chain_of_unused_operators_takes_one_pass() -> None:
    def build(b: Builder) -> object:
        x = b.input("x", "fp32", (2,))
        value = x
        for _ in range(50):
            value = b.abs(value)
        return b.const(np.zeros(2, np.float32))

    made, report = rewritten(program(build), NAME)  # type: ignore[arg-type]
    assert [op.spec.name for op in made.main.operators] == ["CONST"]
    assert report.count(NAME) == 50
