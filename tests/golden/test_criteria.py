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


def beside(first: float, others: float = 1.0) -> Any:
    """Return an array of 8 by 8 whose first element a test looks at."""
    made = np.full((8, 8), others)
    made[0, 0] = first
    return made


@pytest.mark.parametrize(
    ("kind", "exact", "sigma", "golden", "found", "is_right"),
    [
        # Six times its spread, on both sides.
        ("FP32", 1.0, U, 1.0, 1 + 6 * U, True),
        ("FP32", 1.0, U, 1.0, 1 - 6 * U, True),
        ("FP32", 1.0, U, 1.0, 1 + 6 * U + 2.0**-20, False),
        ("FP32", 1.0, U, 1.0, 1 - 6 * U - 2.0**-20, False),
        ("FP32", 1.0, 0.0, 1.0, 1 + 2.0**-23, False),
        # From the exact result, even if the reference model rounds it; from both if they are apart.
        ("FP32", 1.0, U, 1 + 3 * U, 1 + 7 * U, False),
        ("FP32", 1.0, U, 1 + 7 * U, 1 + 12 * U, True),
        ("FP32", 1.0, U, 1 + 7 * U, 1 + 13.5 * U, False),
        # What may be subnormal may be flushed.
        ("FP16", LEAST, 2.0**-20, LEAST, 0.0, True),
        ("FP16", -LEAST, 2.0**-20, -LEAST, 0.0, True),
        ("FP16", LEAST + 6 * 2.0**-20, 2.0**-20, LEAST, 0.0, False),
        ("FP16", 2 * LEAST, 2.0**-20, 2 * LEAST, 0.0, False),
        ("FP8E5M2", LEAST / 2, 2.0**-20, LEAST / 2, 0.0, False),
        # About zero of a type whose least number is tiny.
        ("FP32", 0.0, 0.0, 0.0, 2.0**-127, True),
        ("FP32", 0.0, 0.0, 0.0, 2.0**-126, False),
        ("FP16", 0.0, 0.0, 0.0, 2.0**-24, False),
        # What may overflow, on its side.
        ("FP16", MOST, 1.0, MOST, INF, True),
        ("FP16", -MOST, 1.0, -MOST, -INF, True),
        ("FP16", MOST, 1.0, MOST, -INF, False),
        ("FP16", 65472.0, 1.0, 65472.0, INF, False),
        ("FP16", MOST + 60, U, INF, MOST, True),
        ("FP16", MOST + 70, U, INF, MOST, False),
        ("FP16", -MOST - 60, U, -INF, -MOST, True),
        ("FP16", MOST + 60, U, INF, 65472.0, False),
        # NaN and infinities.
        ("FP32", NAN, U, NAN, NAN, True),
        ("FP32", NAN, U, NAN, 1.0, False),
        ("FP32", NAN, U, 1.0, NAN, True),
        ("FP32", NAN, U, 1.0, 5.0, True),
        ("FP32", INF, U, INF, 5.0, False),
        ("FP32", INF, U, INF, INF, True),
        ("FP32", INF, U, 5.0, INF, True),
        ("FP32", 1.0, U, 1.0, NAN, False),
        ("FP32", 1.0, U, NAN, NAN, True),
        ("FP32", 1.0, U, 1.0, INF, False),
    ],
)
def test_an_element_may_err_a_multiple_of_its_spread(
    kind: str, exact: float, sigma: float, golden: float, found: float, is_right: bool
) -> None:
    row = dtype(kind)
    check = NetworkCheck(row, Spread(beside(exact), sigma=beside(sigma, U)))
    expected, actual = (beside(value).astype(row.numpy) for value in (golden, found))
    result = judged(expected, actual, check)
    assert result.ok is is_right, result
    assert result.failing == (not is_right)


@pytest.mark.parametrize(
    ("kinds", "exact", "found", "is_right"),
    [
        (1 | 8, 1.0, NAN, True),
        (1 | 8, 1.0, INF, False),
        (1 | 2, 1.0, INF, True),
        (1 | 2, 1.0, -INF, False),
        (1 | 4, 1.0, -INF, True),
        (1 | 8, 1.0, 2.0, False),  # a finite number is judged by its size
        (1 | 8, NAN, 2.0, True),
        (8, NAN, 2.0, False),
    ],
)
def test_an_element_may_be_of_a_kind_that_the_spread_reaches(
    kinds: int, exact: float, found: float, is_right: bool
) -> None:
    flags = np.full((8, 8), 1, np.uint8)
    flags[0, 0] = kinds
    check = NetworkCheck(dtype("FP32"), Spread(beside(exact), sigma=beside(U, U), kinds=flags))
    expected, actual = (beside(value).astype(np.float32) for value in (exact, found))
    assert judged(expected, actual, check).ok is is_right


@pytest.mark.parametrize(
    ("shape", "place", "errors", "is_right"),
    [
        # Five times for a row or a channel of at least 8, four times for the whole.
        ((8, 8), (0,), 4.9, True),
        ((8, 8), (0,), 5.1, False),
        ((8, 8), (7,), 5.1, False),
        ((8, 8), (slice(None), 3), 4.9, True),
        ((8, 8), (slice(None), 3), 5.1, False),
        ((8, 8), (), 3.9, True),
        ((8, 8), (), 4.1, False),
        ((2, 4, 8), (1, 3), 5.1, False),
        ((100, 7), (0,), 5.9, True),
        ((100, 7), (slice(None), 6), 5.1, False),
        ((7, 100), (slice(None), 0), 5.9, True),
        ((7, 100), (2,), 5.1, False),
        ((1,), (), 3.9, True),
        ((1,), (), 4.1, False),
        ((), (), 3.9, True),
        ((), (), 4.1, False),
    ],
)
def test_rows_channels_and_the_whole_may_err_less(
    shape: tuple[int, ...], place: tuple[Any, ...], errors: float, is_right: bool
) -> None:
    exact, sigma = np.ones(shape), np.full(shape, U)
    found = np.ones(shape)
    found[place] += errors * U
    check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=sigma))
    result = judged(exact.astype(np.float32), found.astype(np.float32), check)
    assert (result.ok, result.failing) == (is_right, 0)
    assert ("together too much" in str(result)) is not is_right
    # Elements that are judged alone do not count.
    alone = NetworkCheck(dtype("FP32"), Spread(exact, sigma=sigma, alone=np.ones(shape, np.bool_)))
    assert judged(exact.astype(np.float32), found.astype(np.float32), alone).ok


def test_parts_of_a_tensor_are_added_to_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 5, 8, 13, 64):
        monkeypatch.setattr("tosa_convert.golden.accuracy.comparison.BLOCK", size)
        test_rows_channels_and_the_whole_may_err_less((8, 8), (7,), 5.1, False)
        test_rows_channels_and_the_whole_may_err_less((8, 8), (slice(None), 3), 5.1, False)
        test_rows_channels_and_the_whole_may_err_less((8, 8), (7,), 4.9, True)


@pytest.mark.parametrize(
    ("found", "is_right"), [(3, True), (7, True), (2, False), (8, False), (5, True)]
)
def test_an_integer_may_be_what_runs_gave(found: int, is_right: bool) -> None:
    low, exact, high = (np.full(4, value, np.int32) for value in (3, 5, 7))
    check = NetworkCheck(dtype("INT32"), Spread(exact, low=low, high=high))
    actual = exact.copy()
    actual[2] = found
    result = judged(exact, actual, check)
    assert (result.ok, result.margin) == (is_right, 0 if found == 5 else 1 if is_right else INF)
    flags = (np.zeros(4), np.ones(4))
    switch = Spread(flags[0] > 0, low=flags[0] > 0, high=flags[1] > 0)
    assert judged(flags[0] > 0, flags[1] > 0, NetworkCheck(dtype("BOOL"), switch)).ok


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


@pytest.mark.parametrize(
    ("sigma", "said"),
    [
        # Four times the spread of the whole is a hundredth of it; five times that of a channel.
        (np.full((8, 8), 0.0019), ""),
        (
            np.where(np.arange(8) == 3, 0.0021, 1e-4) * np.ones((8, 1)),
            "low precision in 1 of 8 channels: channel [3] may err by 1.05% of its values, and "
            "smaller faults are not seen",
        ),
        (
            np.where(np.arange(8) == 5, 0.0022, 1e-4)[:, None] * np.ones(8),
            "low precision in 1 of 8 rows: row [5] may err by 1.10% of its values, and "
            "smaller faults are not seen",
        ),
        (
            np.full((8, 8), 0.0026),
            "low precision: it may err by 1.04% of its values, and smaller faults are not seen",
        ),
    ],
)
def test_a_spread_that_hides_faults_is_called_low_precision(sigma: Any, said: str) -> None:
    exact = np.ones((8, 8))
    check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=sigma))
    right = exact.astype(np.float32)
    result = judged(right, right, check)
    assert (result.ok, result.low_precision) == (True, said)
    result = judged(right, right, check, strict=True)
    assert (result.ok, result.problem) == (not said, said)


def test_what_is_equal_has_no_share_of_the_bound() -> None:
    exact = np.ones((8, 8))
    check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=exact * U))
    assert judged(exact.astype(np.float32), exact.astype(np.float32), check).margin == 0


def test_values_that_overflow_or_are_not_known_do_not_hide_the_precision_of_others() -> None:
    exact, sigma = np.ones((8, 8)), np.full((8, 8), 1e-4)
    exact[0], sigma[1] = 1e39, INF
    check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=sigma))
    with np.errstate(over="ignore"):
        right = exact.astype(np.float32)
    result = judged(right, right, check)
    assert result.low_precision == ""
    assert result.allowed_share == pytest.approx(4e-4)


def test_the_smaller_one_of_a_rule_and_a_spread_decides() -> None:
    exact = np.ones(16)
    golden = exact.astype(np.float32)
    for amount, sigma, share in ((1.0, U, 2.0**-23), (1e6, U, 4 * U)):
        network = NetworkCheck(dtype("FP32"), Spread(exact, sigma=np.full(16, sigma)))
        rule = ToleranceCheck(Rule("ulp", amount), dtype("FP32"), exact, network=network)
        assert judged(golden, golden, rule).allowed_share == pytest.approx(share)
        for error, is_right in (
            (0.9 * min(6 * sigma, amount * 2.0**-23), True),
            (7 * sigma, False),
        ):
            found = golden.copy()
            found[3] += np.float32(error)
            assert judged(golden, found, rule).ok is is_right
    # What keeps the rule, and errs more than implementations do, is said.
    found = golden.copy()
    found[3] += np.float32(9 * U)
    said = "within TOSA's rule, but 9 times the error of ordinary implementations"
    assert judged(golden, found, rule).note.endswith(said)


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
