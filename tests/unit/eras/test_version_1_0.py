"""What TOSA 1.1 added, in the forms of 1.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.api import stamp

FLOATS = np.array([[0.0, -0.0, 1e-40], [np.nan, np.inf, -2.5]])
GATHER = """func.func @f(%v: tensor<1x4x2xi1>, %i: tensor<1x3xi32>) -> tensor<1x3x2xi1> {
  %0 = tosa.gather %v, %i : (tensor<1x4x2xi1>, tensor<1x3xi32>) -> tensor<1x3x2xi1>
  return %0 : tensor<1x3x2xi1>
}"""
SCATTER = """func.func @f(%v: tensor<1x4x2xi1>, %i: tensor<1x3xi32>, %x: tensor<1x3x2xi1>)
    -> tensor<1x4x2xi1> {
  %0 = tosa.scatter %v, %i, %x
    : (tensor<1x4x2xi1>, tensor<1x3xi32>, tensor<1x3x2xi1>) -> tensor<1x4x2xi1>
  return %0 : tensor<1x4x2xi1>
}"""
PRODUCT = """func.func @f(%a: tensor<2x2x3xf32>, %b: tensor<BATCHx4x3xf32>) -> tensor<2x2x4xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.matmul_t %a, %b, %z, %z : (tensor<2x2x3xf32>, tensor<BATCHx4x3xf32>, tensor<1xf32>,
    tensor<1xf32>) -> tensor<2x2x4xf32>
  return %0 : tensor<2x2x4xf32>
}"""
CASTS = """func.func @f(%x: tensor<2x3xFROM>) -> tensor<2x3xTO> {
  %0 = tosa.cast %x : (tensor<2x3xFROM>) -> tensor<2x3xTO>
  return %0 : tensor<2x3xTO>
}"""
MASK = np.array([1, 0, 0, 1, 1, 1, 0, 1], bool)
ROWS = np.array([[3, 0, 2]], np.int32)
NUMBERS = np.arange(24, dtype=np.float32)


def cast(source: str, target: str) -> str:
    return CASTS.replace("FROM", source).replace("TO", target)


@pytest.mark.parametrize(
    ("text", "inputs", "kinds"),
    [
        (cast("f32", "i1"), [FLOATS.astype(np.float32)], "EQUAL LOGICAL_NOT"),
        (cast("f16", "i1"), [FLOATS.astype(np.float16)], "EQUAL LOGICAL_NOT"),
        (cast("i1", "f32"), [MASK[:6].reshape(2, 3)], "CAST CAST"),
        (GATHER, [MASK.reshape(1, 4, 2), ROWS], "CAST GATHER CAST"),
        (
            SCATTER,
            [MASK.reshape(1, 4, 2), ROWS, MASK[:6].reshape(1, 3, 2)],
            "CAST CAST SCATTER CAST",
        ),
        (
            PRODUCT.replace("BATCH", "2"),
            [NUMBERS[:12].reshape(2, 2, 3), NUMBERS.reshape(2, 4, 3)],
            "TRANSPOSE MATMUL",
        ),
        (
            PRODUCT.replace("BATCH", "1"),
            [NUMBERS[:12].reshape(2, 2, 3), NUMBERS[:12].reshape(1, 4, 3)],
            "TILE TRANSPOSE MATMUL",
        ),
    ],
)
def test_what_1_1_added_is_written_in_forms_of_1_0(
    text: str, inputs: list[Any], kinds: str
) -> None:
    newer = tc.load(text.encode())
    assert str(newer.version) == "1.1.0 draft"
    older = tc.load(tc.dumps(stamp(newer, "1.0")))
    assert str(older.version) == "1.0.0"
    assert not list(tc.validate(older, spec_version="1.0"))
    found = [op.spec.name for op in older.main.operators]
    assert " ".join(name for name in found if not name.startswith("CONST")) == kinds
    arrays = dict(zip(newer.main.inputs, inputs, strict=True))
    one, other = (
        tc.golden.run(graph, arrays, engine="numpy").outputs["TosaOutput_0"]
        for graph in (newer, older)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", [cast("f8E4M3FN", "i1"), cast("i1", "f8E5M2")])
def test_what_has_no_form_in_1_0_is_refused(text: str) -> None:
    with refused("version-too-low"):
        stamp(tc.load(text.encode()), "1.0")
