"""reciprocals: a division by a square root is one RSQRT."""

from __future__ import annotations

import numpy as np
import pytest
from rewrites.programs import kinds, program, rewritten, run

from tosa_convert.builder import Builder, DTypeName

NAME = "reciprocals"


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["fp32", "fp16", "bf16"])
def test_a_division_by_a_square_root_is_one_operator(element: DTypeName) -> None:
    """Numbers of all sizes, zeros and infinity give what the three operators give."""

    def build(b: Builder) -> object:
        root = b.reciprocal(b.rsqrt(b.input("x", element, (40,))))
        return b.reciprocal(root), root

    graph = program(build)  # type: ignore[arg-type]
    made, _ = rewritten(graph, NAME)
    assert kinds(made)[:2] == ["RSQRT", "RECIPROCAL"]
    assert len(kinds(made)) < 4
    given = np.geomspace(1e-7, 6e4, 40)
    if element != "fp16":
        given = np.geomspace(1e-37, 3e38, 40)
    given[:2] = 0, np.inf
    x = given.astype(graph.main.tensors["x"].dtype.numpy)
    one, other = (run(row, x=x)["y0"].astype(np.float32) for row in (made, graph))
    np.testing.assert_allclose(one, other, rtol={"fp32": 1e-6, "fp16": 4e-3, "bf16": 2e-2}[element])


def test_other_reciprocals_stay() -> None:
    """Keep a reciprocal that may overflow: that of a number near 0, whose reciprocal is 0."""
    graph = program(lambda b: b.reciprocal(b.reciprocal(b.exp(b.input("x", "fp32", (4,))))))
    assert rewritten(graph, NAME)[0] is graph
