"""Test what TOSA leaves open: integers of NaN, and the sign of the larger one of two zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import builder, golden
from tosa_convert.golden.backends.runners import Record
from tosa_convert.graph import dtype
from tosa_convert.graph.dtypes import BlockSize


def test_nan_in_a_block_is_no_integer_that_is_open(tmp_path: Path) -> None:
    block = "tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:!tosa.mxint8>>"
    path = tmp_path / "m.mlir"
    path.write_text(
        f"func.func @main(%x: tensor<1x32xf8E4M3FN>) -> {block} {{"
        f"%0 = tosa.cast %x : (tensor<1x32xf8E4M3FN>) -> {block} return %0 : {block} }}"
    )
    graph = tc.load(path)
    x = np.ones((1, 32), dtype("FP8E4M3").numpy)
    x[0, 3] = np.nan
    assert golden.check(graph, "numpy", {graph.main.inputs[0]: x}, engine="reference-model").ok


@pytest.mark.parametrize(
    ("numbers", "result", "ok"),
    [
        ((0.0, -0.0), np.inf, True),
        ((0.0, -0.0), -np.inf, True),
        ((0.0, -0.0), 1.0, False),
        ((0.0, 0.0), -np.inf, False),
        ((-0.0, -1.0), np.inf, False),
    ],
)
def test_the_larger_of_two_zeros_has_any_sign(
    numbers: tuple[float, float], result: float, ok: bool
) -> None:
    b = builder.Builder()
    x = b.input("x", "FP32", (2,))
    b.output(b.reciprocal(b.reduce_max(x, axis=0)), name="y")
    record = Record("found", {"y": np.array([result], np.float32)})
    given = {"x": np.array(numbers, np.float32)}
    assert golden.check(b.graph(), record, given, engine="numpy").ok == ok


@pytest.mark.parametrize(("number", "ok"), [(-0.0, True), (0.0, False)])
def test_zero_clamped_to_zero_has_any_sign(number: float, ok: bool) -> None:
    b = builder.Builder()
    x = b.clamp(b.input("x", "FP32", (1,)), min_val=0.0, max_val=9.0)
    b.output(b.reciprocal(x), name="y")
    given = {"x": np.array([number], np.float32)}
    record = Record("found", {"y": np.array([-np.inf], np.float32)})
    assert golden.check(b.graph(), record, given, engine="numpy").ok == ok


def test_scales_are_not_moved_where_an_operator_decides() -> None:
    b = builder.Builder()
    x = b.input("x", "FP32", (1, 2, 32))
    size = BlockSize.BLOCK_SIZE_32
    data, scale = b.cast_to_block_scaled(x, dtype="MXINT8", block_size=size)
    indices = b.const(np.array([[1, 0, 1]], np.int32))
    rows = b.row_gather_block_scaled(data, indices, 1, values_scale=scale, block_size=size)
    assert isinstance(rows, tuple)
    b.output(*rows)
    graph = b.graph()
    array = np.ones((1, 2, 32), np.float32)
    array[0, 0] = 1e-40  # Implementations may read it as 0.
    assert golden.check(graph, "numpy", {"x": array}, engine="reference-model").ok
