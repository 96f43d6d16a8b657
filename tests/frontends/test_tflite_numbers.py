"""Operators with numbers of their own in TFLite, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, run_program
from frontends.recorded_tflite import in_process
from frontends.tflite_operators.programs import Program
from frontends.tflite_operators.values import Quantized
from frontends.tflite_operators.write import write

import tosa_convert as tc
from tosa_convert.graph.dtypes import RoundingMode

Array = npt.NDArray[Any]
pytestmark = NEEDS_TFLITE


def test_softmax_of_int16_takes_numbers_that_are_far_apart(tmp_path: Path) -> None:
    program = Program("SOFTMAX", "int16")
    x = program.input("int16", (4, 9), quantized=Quantized((0.0005,)))
    found = run_program(
        tmp_path, program, [x], ("int16", (4, 9), Quantized((1 / 32768,))), beta=1.0
    )
    numbers = program.arrays["x0"].astype(float) * 0.0005
    assert np.ptp(numbers) > 10
    powers = np.exp(numbers - numbers.max(-1, keepdims=True))
    expected = np.minimum(powers / powers.sum(-1, keepdims=True) * 32768, 32767)
    assert np.abs(found - expected).max() < 64


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size", [511, 512, 1000, 2048])
def test_softmax_of_8_bits_takes_many_equal_elements(tmp_path: Path, dtype: str, size: int) -> None:
    program = Program("SOFTMAX", dtype)
    zero_point = {"int8": -128, "uint8": 0}[dtype]
    x = program.input(dtype, (1, 3, size), quantized=Quantized((0.02,)))
    program.arrays["x0"][0, 0] = 7
    program.arrays["x0"][0, 1] = np.arange(size) == 5
    row = (dtype, (1, 3, size), Quantized((1 / 256,), zero_point))
    found = run_program(tmp_path, program, [x], row, beta=1.0)
    powers = np.exp(program.arrays["x0"] * 0.02)
    expected = np.rint(256 * powers / powers.sum(-1, keepdims=True)) + zero_point
    assert np.abs(found - expected).max() <= (size == 511)


def test_sums_of_bytes_are_rescaled_as_rarely_as_can_be(tmp_path: Path) -> None:
    program = Program("ADD", "int8")
    x, y = (program.input("int8", (3, 40), quantized=Quantized((one,), 3)) for one in (0.03, 0.05))
    program.returns(program.apply("ADD", [x, y], ("int8", (3, 40), Quantized((0.07,), -9))))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = [operator.spec.name for operator in graph.main.operators]
    assert sorted(set(names) - {"CONST"}) == ["ADD", "RESCALE"]
    assert names.count("RESCALE") == 3


def test_softmax_of_8_bits_has_no_operator_that_an_ethos_u55_lacks(tmp_path: Path) -> None:
    program = Program("SOFTMAX", "int8")
    x = program.input("int8", (3, 10), quantized=Quantized((0.02,)))
    row = ("int8", (3, 10), Quantized((1 / 256,), -128))
    program.returns(program.apply("SOFTMAX", [x], row, beta=1.0))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = {operator.spec.name for operator in graph.regions[0].blocks[0].operators}
    assert {"TABLE", "CLZ"} < names
    assert not names & {"LOGICAL_RIGHT_SHIFT", "GATHER"}


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_border_of_zero_points_is_the_convolutions(tmp_path: Path, dtype: str) -> None:
    """A convolution takes the place of PAD and itself, and leaves no element that it does not use."""
    given, weight = (Quantized((0.25,), 3), Quantized((0.5,))) if dtype == "int8" else (None, None)
    program = Program("CONV_2D", dtype)
    x = program.input(dtype, (1, 6, 6, 1), quantized=given, between=(-8, 8))
    borders = program.constant([[0, 0], [1, 1], [1, 1], [0, 0]], "int32")
    (padded,) = program.apply("PAD", [x, borders], (dtype, (1, 8, 8, 1), given))
    weights = program.constant(np.ones((1, 3, 3, 1)), dtype, quantized=weight)
    bias = program.constant([0], "int32" if given else dtype)
    options = {"padding": 1, "stride_h": 2, "stride_w": 2, "dilation_h": 1, "dilation_w": 1}
    row = (dtype, (1, 3, 3, 1), Quantized((0.125 * 9,)) if given else None)
    program.returns(program.apply("CONV_2D", [padded, weights, bias], row, **options))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = [operator.spec.name for operator in graph.regions[0].blocks[0].operators]
    assert "CONV2D" in names
    assert not {"PAD", "SLICE"} & set(names)
    (array,) = tc.run(graph, program.arrays).outputs.values()
    found = np.asarray(array)
    wide = np.pad(program.arrays["x0"][0, ..., 0] - (3.0 if given else 0.0), 1)
    sums = sum(wide[a : a + 5 : 2, b : b + 5 : 2] for a in range(3) for b in range(3))
    expected = np.floor(sums / 9 + 0.5) if given else sums
    np.testing.assert_allclose(found[0, ..., 0], expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("scale", "mode"), [(0.75, "SINGLE_ROUND"), (0.3, "DOUBLE_ROUND")])
def test_integers_are_rounded_twice_only_where_it_differs(scale: float, mode: str) -> None:
    program = Program("QUANTIZE", "int8")
    x = program.input("int8", (40,), quantized=Quantized((scale,)))
    program.returns(program.apply("QUANTIZE", [x], ("int8", (40,), Quantized((1.0,)))))
    (row,) = (
        one for one in in_process(program.data()).main.operators if one.spec.name == "RESCALE"
    )
    assert row.attributes["rounding_mode"] == RoundingMode[mode]
