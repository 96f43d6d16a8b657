from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from rewrites.programs import kinds, rewritten, run, single, special

import tosa_convert as tc

NAME = "casts"
NUMPY = {"fp16": np.dtype("float16"), "bf16": np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(("source", "target"), [("fp16", "bf16"), ("bf16", "fp16")])
def test_halves_are_converted_by_way_of_fp32(source: str, target: str) -> None:
    x = np.concatenate([special(NUMPY[source]), np.linspace(-3, 65000, 50).astype(NUMPY[source])])
    graph = single("CAST", [(source, x.shape)], (target, x.shape))
    assert tc.validate(graph)
    made, _ = rewritten(graph, NAME)
    assert tc.validate(made) == []
    with np.errstate(over="ignore"):
        expected = x.astype(np.float32).astype(NUMPY[target])
    found = run(made, x0=x)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_a_cast_to_the_same_type_goes() -> None:
    graph = single("CAST", [("fp32", (2,))], ("fp32", (2,)))
    assert tc.validate(graph)
    made, report = rewritten(graph, NAME)
    assert kinds(made) == ["IDENTITY"]
    assert tc.validate(made) == []
    assert "CAST from FP32 to FP32 became its operand" in str(report)
