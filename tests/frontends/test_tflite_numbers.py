"""Operators with numbers of their own in TFLite, against numpy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, run_program
from frontends.tflite_operators.programs import Program
from frontends.tflite_operators.values import PLAIN, Quantized
from frontends.tflite_operators.write import write

import tosa_convert as tc

Array = npt.NDArray[Any]
pytestmark = NEEDS_TFLITE
SCALE = Quantized((0.25,), -8)


def test_a_pooling_operator_has_its_activation(tmp_path: Path) -> None:
    program = Program("MAX_POOL_2D", "relu6")
    x = program.input("float32", (1, 4, 4, 1), between=(-12, 12))
    options = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    found = run_program(tmp_path, program, [x], ("float32", (1, 2, 2, 1)), activation=3, **options)
    blocks = program.arrays["x0"].reshape(2, 2, 2, 2).max((1, 3)).reshape(1, 2, 2, 1)
    assert blocks.max() > 6 or blocks.min() < 0
    np.testing.assert_array_equal(found, np.clip(blocks, 0, 6))


def test_an_average_of_unsigned_numbers_rounds_halves_up(tmp_path: Path) -> None:
    program = Program("AVERAGE_POOL_2D", "uint8")
    x = program.input("uint8", (1, 8, 8, 2))
    options = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    found = run_program(tmp_path, program, [x], ("uint8", (1, 4, 4, 2)), **options)
    sums = program.arrays["x0"].reshape(4, 2, 4, 2, 2).astype(int).sum((1, 3))
    np.testing.assert_array_equal(found.view(np.uint8)[0], (sums + 2) // 4)


def test_the_bounds_of_an_activation_are_rounded_as_tflite_does(tmp_path: Path) -> None:
    """-1 is 2.5 steps of 0.4 below the zero."""
    program = Program("ADD", "int8")
    x, y = (program.input("int8", (3, 40), quantized=Quantized((0.4,), 3)) for _ in range(2))
    row = ("int8", (3, 40), Quantized((0.4,), 3))
    found = run_program(tmp_path, program, [x, y], row, activation=2)
    assert (found.min(), found.max()) == (0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_a_cast_to_integers_is_towards_zero(tmp_path: Path, dtype: str) -> None:
    program = Program("CAST", dtype)
    x = program.input("float32", (50,), between=(0, 250) if dtype == "uint8" else (-90, 90))
    codes = {"int8": 9, "uint8": 3, "int16": 7, "int32": 2}
    options = {"in_data_type": 0, "out_data_type": codes[dtype]}
    found = run_program(tmp_path, program, [x], (dtype, (50,), PLAIN), **options)
    np.testing.assert_array_equal(found.view(dtype), np.trunc(program.arrays["x0"]).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_numbers_out_of_the_range_saturate(tmp_path: Path, dtype: str) -> None:
    program = Program("QUANTIZE", dtype)
    x = program.input("float32", (50,), between=(-100, 100))
    zero = -8 if dtype == "int8" else 120
    found = run_program(tmp_path, program, [x], (dtype, (50,), Quantized((0.25,), zero)))
    info = np.iinfo(dtype)
    expected = np.clip(np.round(program.arrays["x0"] / 0.25) + zero, info.min, info.max)
    assert set(expected) >= {info.min, info.max}
    np.testing.assert_array_equal(found.view(dtype), expected.astype(dtype))


def test_bits_and_zeros_of_unsigned_numbers(tmp_path: Path) -> None:
    program = Program("BITWISE_XOR", "uint8")
    x, y = (program.input("uint8", (40,), quantized=PLAIN) for _ in range(2))
    found = run_program(tmp_path, program, [x, y], ("uint8", (40,), PLAIN))
    expected = program.arrays["x0"] ^ program.arrays["x1"]
    np.testing.assert_array_equal(found.view(np.uint8), expected)
    program = Program("SCATTER_ND", "uint8")
    rows, sizes = (program.constant(one, "int32") for one in ([[4], [1]], (6, 2)))
    updates = program.input("uint8", (2, 2), quantized=PLAIN)
    found = run_program(tmp_path, program, [rows, updates, sizes], ("uint8", (6, 2), PLAIN))
    whole = np.zeros((6, 2), np.uint8)
    whole[[4, 1]] = program.arrays["x0"]
    np.testing.assert_array_equal(found.view(np.uint8), whole)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(8, 12), (7, 11), (2, 3), (5, 4)])
def test_the_nearest_neighbour_is_the_one_before(tmp_path: Path, sizes: tuple[int, int]) -> None:
    program = Program("RESIZE_NEAREST_NEIGHBOR", "float32")
    x = program.input("float32", (1, 4, 6, 2))
    values = [x, program.constant(sizes, "int32")]
    found = run_program(tmp_path, program, values, ("float32", (1, *sizes, 2)))
    rows, columns = (
        [index * given // size for index in range(size)]
        for given, size in zip((4, 6), sizes, strict=True)
    )
    np.testing.assert_array_equal(found, program.arrays["x0"][:, rows][:, :, columns])


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("sizes", [(8, 12), (7, 11), (5, 4)])
def test_int8_is_interpolated_at_fractions_of_1024(
    tmp_path: Path, sizes: tuple[int, int], half: bool
) -> None:
    program = Program("RESIZE_BILINEAR", "int8")
    x = program.input("int8", (1, 4, 6, 2))
    values = [x, program.constant(sizes, "int32")]
    found = run_program(
        tmp_path, program, values, ("int8", (1, *sizes, 2)), half_pixel_centers=half
    )
    image = program.arrays["x0"][0].astype(int)
    across = [_fractions(given, size, half) for given, size in zip((4, 6), sizes, strict=True)]
    expected = np.zeros((*sizes, 2), int)
    for y, rows in enumerate(across[0]):
        for x_place, columns in enumerate(across[1]):
            for row, by_row in rows:
                for column, by_column in columns:
                    expected[y, x_place] += image[row, column] * by_row * by_column
    rounded = np.where(expected > 0, expected + 2**19, expected - 2**19)
    rounded = np.sign(rounded) * (np.abs(rounded) // 2**20)
    np.testing.assert_array_equal(found[0], rounded)


def _fractions(given: int, size: int, half: bool) -> list[list[tuple[int, int]]]:
    """For each position the two neighbours and their weights, as TFLite's kernel has them."""
    step = (1024 * given + size // 2) // size
    places = []
    for index in range(size):
        at = index * step + (step // 2 - 512 if half else 0)
        low, high = max(math.trunc(at / 1024), 0), min(math.trunc((at + 1023) / 1024), given - 1)
        places.append([(low, 1024 - (at - 1024 * low)), (high, at - 1024 * low)])
    return places


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
    x = program.input(dtype, (3, size), quantized=Quantized((0.02,)))
    program.arrays["x0"][0] = 7
    program.arrays["x0"][1] = np.arange(size) == 5
    row = (dtype, (3, size), Quantized((1 / 256,), zero_point))
    found = run_program(tmp_path, program, [x], row, beta=1.0)
    powers = np.exp(program.arrays["x0"] * 0.02)
    expected = np.rint(256 * powers / powers.sum(-1, keepdims=True)) + zero_point
    assert np.abs(found - expected).max() <= (size == 511)


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


@pytest.mark.parametrize("scales", [(0.01,), (0.01, 0.02, 0.003, 0.05, 0.007)])
def test_sums_of_int16_are_rescaled_with_32_bits(tmp_path: Path, scales: tuple[float, ...]) -> None:
    program = Program("FULLY_CONNECTED", "int16")
    x = program.input("int16", (40, 8), quantized=Quantized((0.0002,)))
    weights = program.random("int8", (5, 8), (-127, 127), quantized=Quantized(scales))
    row = ("int16", (40, 5), Quantized((0.001,)))
    found = run_program(tmp_path, program, [x, weights], row, activation=0)
    data = program.tensors[weights.number].data
    assert data is not None
    sums = program.arrays["x0"].astype(np.int64) @ data.T.astype(np.int64)
    factors = np.float32(0.0002).astype(float) * np.array(scales, np.float32) / np.float32(0.001)
    np.testing.assert_array_equal(found, np.clip(np.floor(sums * factors + 0.5), -32768, 32767))


def test_a_table_of_int16_is_interpolated(tmp_path: Path) -> None:
    program = Program("EXP", "int16")
    x = program.input("int16", (4000,), quantized=Quantized((0.0001,)))
    found = run_program(tmp_path, program, [x], ("int16", (4000,), Quantized((0.001,))))
    exact = np.exp(program.arrays["x0"] * 0.0001) / 0.001
    assert np.abs(found - exact).max() < 5
    assert len(set(found.tolist())) > 1500


def test_leaky_relu_divides_the_scales_in_fp32(tmp_path: Path) -> None:
    given, result = 0.0006469573127105832, 0.0002492013736627996
    program = Program("LEAKY_RELU", "int16")
    x = program.input("int16", (4000,), quantized=Quantized((given,)))
    row = ("int16", (4000,), Quantized((result,)))
    found = run_program(tmp_path, program, [x], row, alpha=0.1)
    numbers = program.arrays["x0"].astype(float)
    quotients = [
        float(np.float32(np.float32(given) * np.float32(slope)) / np.float32(result))
        for slope in (1, 0.1)
    ]
    positive, negative = (rescaled(np.abs(numbers), quotient) for quotient in quotients)
    expected = np.where(numbers < 0, -negative, positive)
    np.testing.assert_array_equal(found, np.clip(expected, -32768, 32767))


def rescaled(numbers: Array, quotient: float) -> Array:
    """Return numbers from 0 on times a quotient of 31 bits, rounded as TFLite does."""
    fraction, exponent = math.frexp(quotient)
    once = np.floor(numbers * 2.0 ** max(exponent, 0) * fraction + 0.5)
    return np.asarray(np.floor(once * 2.0 ** min(exponent, 0) + 0.5))


@pytest.mark.parametrize(("given", "result"), [(6 / 255, 8 / 255), (1 / 256, 4 / 255)])
def test_relu_divides_the_scales_in_fp32(tmp_path: Path, given: float, result: float) -> None:
    """3/4 exactly, in FP32: 2 becomes 2, where a slightly smaller quotient gives 1. Below 1/2 twice."""
    program = Program("RELU", "int8")
    x = program.input("int8", (200,), quantized=Quantized((given,), -128))
    found = run_program(tmp_path, program, [x], ("int8", (200,), Quantized((result,), -128)))
    quotient = float(np.float32(np.float32(given) / np.float32(result)))
    numbers = rescaled(program.arrays["x0"].astype(float) + 128, quotient)
    np.testing.assert_array_equal(found, np.minimum(numbers - 128, 127))


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("scale", [0.0002, 1 / 4096, 0.001])
def test_functions_of_int16_are_close_to_the_exact_ones(
    tmp_path: Path, operator: str, scale: float
) -> None:
    """Within a step or two; test_tflite_operators.py compares them with TFLite bit for bit."""
    program = Program(operator, "int16")
    x = program.input("int16", (4000,), quantized=Quantized((scale,)))
    found = run_program(tmp_path, program, [x], ("int16", (4000,), Quantized((1 / 32768,))))
    numbers = program.arrays["x0"].astype(float) * scale
    exact = np.tanh(numbers) if operator == "TANH" else 1 / (1 + np.exp(-numbers))
    assert np.abs(found - np.minimum(exact * 32768, 32767)).max() < 8
