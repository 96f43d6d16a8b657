"""Test what a measured spread and TOSA's rules allow, up to their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tosa_convert.golden.accuracy.comparison import TensorComparison, compare, compare_tensor
from tosa_convert.golden.accuracy.criteria import (
    Criterion,
    NetworkCheck,
    Spread,
    ToleranceCheck,
    Tolerances,
    half_units,
)
from tosa_convert.golden.accuracy.error_bounds import EXACT, Rule
from tosa_convert.graph import dtype

INF, NAN = math.inf, math.nan
U, LEAST, MOST = 2.0**-10, 2.0**-14, 65504.0


def judged(expected: Any, found: Any, check: Any, **options: Any) -> TensorComparison:
    tolerances = Tolerances(**options)
    return compare(
        {"t": expected}, {"t": found}, checks={"t": check}, tolerances=tolerances
    ).tensors[0]


@pytest.mark.parametrize(
    ("found", "is_right"), [(0, True), (2, True), (1, False), (-1, False), (3, False)]
)
def test_an_index_may_be_one_of_those_that_are_possible(found: int, is_right: bool) -> None:
    exact = np.zeros(2, np.int32)
    possible = np.array([[True, False, True], [True, False, False]])
    check = NetworkCheck(
        dtype("INT32"), Spread(exact, low=exact, high=exact + 2, possible=possible)
    )
    assert judged(exact, np.array([found, 0], np.int32), check).ok is is_right


def test_elements_that_no_inexact_operator_computes_are_equal() -> None:
    exact = np.array([1.0, 1.0, LEAST / 2, LEAST, NAN])
    sure = np.array([True, False, True, True, True])
    check = ToleranceCheck(Rule("ulp", 4.0), dtype("FP16"), exact, is_exact=sure)
    golden = exact.astype(np.float16)

    def is_right(place: int, value: float) -> bool:
        found = golden.copy()
        found[place] = value
        return judged(golden, found, check).ok

    assert [is_right(0, 1 + U), is_right(1, 1 + 4 * U), is_right(1, 1 + 5 * U)] == [
        False,
        True,
        False,
    ]
    assert [is_right(2, 0.0), is_right(3, 0.0), is_right(4, NAN), is_right(4, 1.0)] == [
        *(True, False, True, False)
    ]


def test_a_result_of_flushed_operands_is_right() -> None:
    exact, flushed = np.array([1.0, 2.0]), np.array([3.0, INF])
    golden = exact.astype(np.float32)
    unit = 2.0**-22
    for check, right in (
        (ToleranceCheck(EXACT, dtype("FP32"), flushed=flushed), {3.0}),
        (ToleranceCheck(Rule("ulp", 1.0), dtype("FP32"), exact, flushed=flushed), {3.0, 3 + unit}),
    ):
        for value in (3.0, 3 + unit, 3 + 2 * unit, 2.0):
            found = golden.copy()
            found[0] = value
            assert judged(golden, found, check).ok is (value in right), (check, value)
        found = golden.copy()
        found[1] = INF
        assert judged(golden, found, check).ok
        found[1] = 1e30
        assert not judged(golden, found, check).ok


def test_a_wrong_tensor_is_measured_again_before_it_fails() -> None:
    """Up to 5 measurements for any error, and up to 20 for one that is at most twice too large."""
    exact = np.ones((8, 8))
    golden = exact.astype(np.float32)
    asked: list[int] = []

    def fails(error: float, later: dict[int, float], places: int = 1) -> bool:
        def more(batches: int) -> Spread | None:
            asked.append(batches)
            size = later.get(batches, U)
            return None if size == 0 else Spread(exact, sigma=np.full((8, 8), size))

        asked.clear()
        check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=np.full((8, 8), U)), more)
        found = golden.copy()
        found.reshape(-1)[:places] += np.float32(error * U)
        return not compare_tensor("t", golden, found, Criterion("", network=check)).ok

    assert (fails(5.9, {}), asked) == (False, [])
    assert (fails(7, {}), asked) == (True, [5, 20])
    assert (fails(11.9, {}), asked) == (True, [5, 20])
    assert (fails(12.1, {}), asked) == (True, [5])
    assert (fails(1000, {}), asked) == (True, [5])
    assert (fails(7, {5: 2 * U}), asked) == (False, [5])
    assert (fails(7, {20: 2 * U}), asked) == (False, [5, 20])
    assert (fails(7, {5: 0.0}), asked) == (True, [5])
    # More than half of the elements beyond five times what is allowed, here of a row, is clear at once.
    assert (fails(26, {}, places=33), asked) == (True, [])
    assert (fails(26, {}, places=32), asked) == (True, [5])
    assert (fails(24, {}, places=33), asked) == (True, [5])


def test_half_units_are_those_of_the_power_below() -> None:
    values = np.array([1.0, 1.99, -2.0, 0.0, LEAST / 4, LEAST, INF, NAN])
    found = half_units(values, dtype("FP16"))
    least = LEAST * U / 2
    assert found.tolist() == [U / 2, U / 2, U, least, least, least, least, least]
    assert half_units(values, dtype("INT8")).tolist() == [0.0] * 8
