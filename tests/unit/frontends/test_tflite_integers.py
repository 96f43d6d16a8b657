"""The integers of TFLite's kernels: scales as multipliers, what RESCALE makes of them, and tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder.rescale import fixed_point
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.tflite.integer_functions import (
    exponentials,
    logistic_table,
    quotients,
    tanh_table,
)
from tosa_convert.frontends.tflite.rescale import every, is_near_sum, multiplied
from tosa_convert.frontends.tflite.rules.tables import inverse_root_of
from tosa_convert.frontends.tflite.scales import (
    narrow_rescale_of,
    rescale_of,
    rounded,
    single,
)


@pytest.mark.parametrize(
    ("function", "scale", "expected"),
    [
        (rescale_of, 0.75, (3 << 29, 31)),
        (rescale_of, 2.0**28, (1 << 30, 2)),
        (rescale_of, 2.0**-32, (1 << 30, 62)),
        (rescale_of, 2.0**-33, (0, 31)),
        (rescale_of, 0.0, (0, 31)),
        (narrow_rescale_of, 2.0**12, (1 << 14, 2)),
        (narrow_rescale_of, 0x40008000 * 2.0**-31, (0x4001, 15)),
        (narrow_rescale_of, 0x40007FFF * 2.0**-31, (0x4000, 15)),
        (narrow_rescale_of, 0x7FFEFFFF * 2.0**-31, (0x7FFF, 15)),
        (narrow_rescale_of, 0x7FFF8000 * 2.0**-31, (0x7FFF, 15)),
        (fixed_point, 1 - 2.0**-33, (1 << 30, 1)),
        (rounded, -2.5, -3),
        (rounded, 2.49, 2),
        (single, 0.1, 0.10000000149011612),
    ],
)
def test_numbers_are_those_of_the_kernels(
    function: Callable[[float], Any], scale: float, expected: Any
) -> None:
    assert function(scale) == expected


@pytest.mark.parametrize(
    ("function", "scale"),
    [
        (rescale_of, 2.0**29),
        (rescale_of, math.inf),
        (rescale_of, -1.0),
        (narrow_rescale_of, 2.0**13),
    ],
)
def test_scales_that_rescale_does_not_have_are_refused(
    function: Callable[[float], Any], scale: float
) -> None:
    with pytest.raises(NotLowered):
        function(scale)


@pytest.mark.parametrize("scale", [0.3, 0.0123, 0.9999, 1.7, 40.0, 2.0**-9])
def test_products_are_rounded_to_31_bits_and_then_away_from_zero(scale: float) -> None:
    multiplier, exponent = fixed_point(scale)
    x = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, 4000)
    once = ((x << max(exponent, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-exponent, 0)
    rest, half = once & ((1 << right) - 1), ((1 << right) - 1) // 2 + (once < 0)
    expected = (once >> right) + (rest > half)
    np.testing.assert_array_equal(multiplied(x, *rescale_of(scale)), expected)
    exact = multiplied(x, *rescale_of(scale), is_once=True) - x * scale
    assert np.abs(exact).max() <= 0.5 + 1e-3


def test_sums_of_bytes_are_tried_for_all_pairs() -> None:
    result = rescale_of(2.0**-17)
    assert is_near_sum(np.int8, (0, 0), 20, (0.5, 0.5), result, 1)
    # So large a result shows the operands' rounding.
    for shares in ((0.5, 0.3), (0.3, 0.5)):
        assert not is_near_sum(np.int8, (0, 0), 20, shares, rescale_of(0.75), 1)
    assert not is_near_sum(np.int16, (0, 0), 15, (0.5, 0.5), result, 1)


def test_exponentials_and_quotients_are_close_to_the_exact_ones() -> None:
    found = exponentials(0.03) / 2.0**31
    np.testing.assert_allclose(found, np.exp(np.arange(-255, 1) * 0.03), atol=1e-6)
    assert exponentials(1.0)[0] == 0
    x = every(np.uint8)
    for by, scale in itertools.product((1, 3, -7, 200), (0.9, 5.7, 0.03)):
        assert np.abs(quotients(x, by, fixed_point(scale)) - x * scale / by).max() <= 0.5 + 1e-6
    assert not quotients(x, 0, fixed_point(0.9)).any()


@pytest.mark.parametrize("bits", range(7))
def test_functions_of_gates_are_close(bits: int) -> None:
    x = np.arange(-(1 << 15), 1 << 15)
    exact = np.tanh(x * 2.0 ** (bits - 15)) * (1 << 15)
    assert np.abs(tanh_table(bits) - exact).max() < 16
    shares = (1 << 15) / (1 + np.exp(-x * 2.0**-12))
    assert np.abs(logistic_table() - shares).max() < 16


def test_inverse_roots_have_31_bits() -> None:
    for value in (2, 3, 1000, (1 << 28) + 1, (1 << 29) - 1):
        multiplier, shift = inverse_root_of(value)
        assert multiplier * 2.0 ** -(31 + shift) == pytest.approx(value**-0.5, rel=2e-6)
    for value in range(2, 300):  # Rounded, they are hardly too large.
        multiplier, shift = inverse_root_of(value)
        assert multiplier * 2.0**-shift * value**0.5 < (1 << 31) + 160
    assert [inverse_root_of(value) for value in (0, 1)] == [((1 << 31) - 1, 0)] * 2
