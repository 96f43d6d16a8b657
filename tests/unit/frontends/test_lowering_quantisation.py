"""Quantised numbers, which are integers exactly."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from frontends.lowered_arrays import F32, names, program, results

from tosa_convert.frontends.lowering import quantisation
from tosa_convert.frontends.lowering.products import Window, conv_general_dilated, product
from tosa_convert.frontends.lowering.scope import NotLowered, constant
from tosa_convert.frontends.lowering.types import INT32

RNG = np.random.default_rng(9)
#: Numbers with ties, and beyond every range.
X = np.array([[0.25, -0.25, 0.75, -1.25, 3], [64, -64, 1e9, -1e9, 63.5]], F32)
SCALE = 0.5
BY_ROW = np.array([[0.5], [2]], F32)


def quantised(x: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    low, high = quantisation.limits(dtype)
    return np.clip(np.rint(x.astype(float) / scale) + np.asarray(zero, float), low, high)


#: A type, zero points, and the operators of the program.
ROWS: list[tuple[Any, Any, dict[str, int]]] = [
    (np.int8, 0, {"MUL": 1, "CAST": 1}),
    (np.int8, -7, {"MUL": 1, "CAST": 1, "RESCALE": 1}),
    (np.uint8, 0, {"MUL": 1, "CAST": 1, "RESCALE": 1}),
    (np.uint8, 200, {"MUL": 1, "CAST": 1, "RESCALE": 1}),
    (np.int16, 0, {"MUL": 1, "CAST": 1}),
    (np.int16, 300, {"MUL": 1, "CLAMP": 1, "CAST": 2, "ADD": 1}),
    (np.uint16, 300, {"MUL": 1, "CLAMP": 1, "CAST": 2, "ADD": 1}),
    (ml_dtypes.int4, 0, {"MUL": 1, "CLAMP": 1, "CAST": 1}),
    (ml_dtypes.uint4, 3, {"MUL": 1, "CLAMP": 1, "CAST": 2, "ADD": 1}),
    (
        np.uint8,
        [[3], [4]],
        {"MUL": 1, "CLAMP": 1, "CAST": 2, "ADD": 1, "MINIMUM": 1, "MAXIMUM": 1},
    ),
]


def _numbers(found: Any, dtype: Any) -> Any:
    return found.view(dtype) if np.dtype(dtype).kind == "u" else found


@pytest.mark.parametrize(("dtype", "zero", "operators"), ROWS)
@pytest.mark.parametrize("scale", [np.float32(SCALE), BY_ROW])
def test_numbers_are_quantised(dtype: Any, zero: Any, operators: Any, scale: Any) -> None:
    point = np.asarray(zero).astype(dtype)

    def lowered(s: Any, x: Any) -> Any:
        return quantisation.quantized(s, x, constant(scale), constant(point), dtype)

    (found,) = results(lowered, X)
    assert (
        _numbers(found, dtype).astype(float).tolist() == quantised(X, scale, zero, dtype).tolist()
    )
    assert names(program(lowered, X)) == operators


def test_a_scale_that_is_computed_divides_once() -> None:
    """Divide numbers for which a product with the reciprocal, rounded twice, differs."""
    x = RNG.uniform(-9, 9, size=(1, 4096)).astype(F32)
    scale = np.array([0.003], F32)
    x[0, ::2] = (np.rint(x[0, ::2] / scale) + F32(0.5)) * scale

    def lowered(s: Any, a: Any, b: Any) -> Any:
        return quantisation.quantized(s, a, b, None, np.int16)

    (found,) = results(lowered, x, scale)
    np.testing.assert_array_equal(found, np.rint(x / scale))


@pytest.mark.parametrize(
    ("dtype", "zero", "operators"),
    [
        (np.int8, 0, {"CAST": 1, "MUL": 1}),
        (np.int8, -3, {"CAST": 1, "SUB": 1, "MUL": 1}),
        (np.uint8, 0, {"RESCALE": 1, "CAST": 1, "MUL": 1}),
        (np.uint8, 200, {"RESCALE": 1, "CAST": 1, "MUL": 1}),
        (np.uint8, [[3], [4]], {"RESCALE": 1, "CAST": 1, "SUB": 1, "MUL": 1}),
        (np.int16, 5, {"CAST": 1, "SUB": 1, "MUL": 1}),
        (np.uint16, 5, {"CAST": 2, "BITWISE_AND": 1, "SUB": 1, "MUL": 1}),
        (np.int32, 0, {"CAST": 1, "MUL": 1}),
    ],
)
def test_integers_are_dequantised(dtype: Any, zero: Any, operators: Any) -> None:
    low, high = (quantisation.limits(dtype)[k] for k in (0, 1))
    x = np.array([[low, low + 1, 0], [7, high - 1, high]], dtype)
    point = constant(np.asarray(zero, dtype))

    def lowered(s: Any, a: Any) -> Any:
        return quantisation.dequantized(s, a, constant(BY_ROW), point)

    wide = (x.astype(np.int64) - np.asarray(zero)).astype(F32)
    np.testing.assert_array_equal(results(lowered, x)[0], wide * BY_ROW)
    assert names(program(lowered, x)) == operators


def test_fp8_saturates_unless_told_otherwise() -> None:
    x = np.array([1e9, -1e9, 447, 0.3], F32)

    def lowered(s: Any, a: Any, **given: Any) -> Any:
        return quantisation.quantized_fp8(s, a, ml_dtypes.float8_e4m3fn, **given)

    found = results(lowered, x)[0].astype(F32)
    assert found.tolist() == [448, -448, 448, 0.3125]
    with pytest.raises(NotLowered, match="infinity"):
        program(lambda s, a: quantisation.quantized_fp8(s, a, ml_dtypes.float8_e5m2, False), x)


#: The types of two factors of bytes, and their zero points.
FACTORS: list[tuple[Any, Any, tuple[int, int]]] = [
    (np.int8, np.int8, (0, 0)),
    (np.int8, np.int8, (-7, 5)),
    (np.uint8, np.int8, (130, -2)),
    (np.uint8, np.uint8, (0, 255)),
]


@pytest.mark.parametrize(("first", "second", "zeros"), FACTORS)
def test_bytes_are_multiplied_less_their_zero_points(
    first: Any, second: Any, zeros: tuple[int, int]
) -> None:
    a, b = (
        RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size).astype(kind)
        for kind, size in ((first, (1, 3, 4)), (second, (1, 4, 5)))
    )
    (found,) = results(lambda s, x: product(s, x, constant(b), INT32, zeros), a)
    want = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("first", "second", "zeros"), FACTORS)
def test_borders_and_gaps_of_bytes_hold_the_zero_point(
    first: Any, second: Any, zeros: tuple[int, int], step: int
) -> None:
    a = RNG.integers(0, 100, (1, 1, 3, 3)).astype(first)
    w = RNG.integers(0, 100, (2, 1, 3, 3)).astype(second)
    window = Window((1, 1), ((1, 1), (1, 1)), (step, step), (1, 1), zeros)
    spec = (0, 1, 2, 3)

    def lowered(s: Any, x: Any) -> Any:
        return conv_general_dilated(s, x, constant(w), window, (spec, spec, spec), INT32)

    (found,) = results(lowered, a)
    padded = np.zeros((2 * step + 3, 2 * step + 3), np.int64)
    padded[1:-1:step, 1:-1:step] = a[0, 0].astype(np.int64) - zeros[0]
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    want = np.einsum("hwij,oij->ohw", views, w[:, 0].astype(np.int64) - zeros[1])
    np.testing.assert_array_equal(found[0], want)
