"""Shapes that are inferred are the declared ones, and those that MLIR's pass infers.

For all of the official tests: `python tests/oracle/compare_inference.py DIR`.
"""

from __future__ import annotations

from random import Random

import pytest
from oracle import compare_inference, official_suite
from oracle.compare_inference import Comparison, Tally, without_shapes

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph.model import DYNAMIC

pytestmark = pytest.mark.oracle

#: A branch, whose region's argument has a shape of its own.
PROGRAM = b"""
func.func @f(%x: tensor<2x3xf32>, %c: tensor<i1>) -> tensor<3x2xf32> {
  %t = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = tosa.cond_if %c (%a = %t) : tensor<i1> (tensor<3x2xf32>) -> tensor<3x2xf32> {
  ^bb0(%a: tensor<3x2xf32>):
    tosa.yield %a : tensor<3x2xf32>
  } else {
  ^bb0(%a: tensor<3x2xf32>):
    %e = tosa.exp %a : (tensor<3x2xf32>) -> tensor<3x2xf32>
    tosa.yield %e : tensor<3x2xf32>
  }
  return %y : tensor<3x2xf32>
}
"""


@pytest.mark.slow
def test_shapes_of_a_sample_of_the_official_tests_are_derived(
    official_cases: list[official_suite.Case],
    torch_mlir: Bindings,
) -> None:
    files = [case.tosa for case in official_cases]
    tally = Tally()
    for found in compare_inference.compare_files(Random(13).sample(files, 40)):
        tally.add(found)
    assert tally.passed, "\n".join(tally.lines())
    assert tally.mlir_infers.total() >= 20


def test_shapes_are_removed_before_they_are_derived(torch_mlir: Bindings) -> None:
    bare = without_shapes(tc.load(PROGRAM))
    shapes = [
        tensor.shape
        for region in bare.regions
        for name, tensor in region.blocks[0].tensors.items()
        if region is not bare.regions[0] or name not in bare.main.inputs
    ]
    assert len(shapes) >= 5
    assert set(shapes) == {(DYNAMIC, DYNAMIC)}


@pytest.mark.parametrize(
    ("ours", "mlir"),
    [((2, 4), None), (None, None), ((2, DYNAMIC), None), ((2, 3), (2, 4)), ((2, 3), (2,))],
)
def test_a_difference_is_found(ours: tuple[int, ...] | None, mlir: tuple[int, ...] | None) -> None:
    tally = Tally()
    tally.add(Comparison("f", "ADD", (2, 3), (2, 3), (2, 3)))
    assert tally.passed
    tally.add(Comparison("f", "ADD", (2, 3), ours, mlir))
    assert not tally.passed


def test_a_comparison_without_results_fails() -> None:
    assert not Tally().passed
