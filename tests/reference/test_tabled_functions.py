"""Functions of FP32 that are taken from tables equal those in FP64, but for a few last bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tosa_convert.reference import parts
from tosa_convert.reference.elementwise import TABLED

#: The largest error in units in the last place of FP32, of which the rounding alone is 0.5.
LARGEST = {"ERF": 0.75, "EXP": 0.501, "LOG": 0.82, "SIGMOID": 0.501, "TANH": 0.52}
#: One of at least so many results is not the nearest number.
RARE = {"ERF": 50, "EXP": 5000, "LOG": 800, "SIGMOID": 5000, "TANH": 500}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def code(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def numbers(first: int, last: int, step: int = 1) -> Any:
    """Return FP32 numbers by their codes."""
    return np.arange(first, last, step, dtype=np.uint32).view(np.float32)


def everywhere(name: str) -> Any:
    """Return some of all numbers, and all numbers near those where a formula or a result changes."""
    turns = [0.0, 2.0**-13, 0.5, 1.0, 9.0, 10.0, 88.72284, 103.97208, 2048.0, 8192.0]
    turns += [2.0**-126, 2.0**127, 3.4e38, 1 + 2.0**-12, 1 - 2.0**-13, 1 + 2.0**-11, 4.0, 17.33]
    near = [numbers(max(code(turn) - 500, 0), code(turn) + 500) for turn in turns]
    found = np.concatenate([numbers(0, code(np.inf) + 1, 9973), *near])
    return found if name == "LOG" else np.concatenate([found, -found])


def error(name: str, x: Any, y: Any) -> tuple[float, int]:
    """Return the largest error in units in the last place, and how many results are not the nearest."""
    exact = TABLED[name].exact(x.astype(np.float64))
    nearest = exact.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(exact))
    regular = np.isfinite(nearest) & np.isfinite(exact)
    assert np.array_equal(y[~regular], nearest[~regular], equal_nan=True)
    y, exact, nearest = y[regular], exact[regular], nearest[regular]
    power = (np.abs(nearest).view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    unit = np.maximum(power.astype(np.float64), 2.0**-126) * 2.0**-23
    wrong = y != nearest
    return float((np.abs(y - exact) / unit).max(initial=0)), int(wrong.sum())


@pytest.mark.parametrize("name", TABLED)
def test_results_are_next_to_the_exact_value(name: str) -> None:
    x = everywhere(name)
    largest, wrong = error(name, x, TABLED[name](x))
    assert 0.4 < largest <= LARGEST[name]
    assert wrong <= len(x) / RARE[name]


#: The positive numbers for which a formula gives neither a constant nor nearly the operand.
RANGES = {
    "ERF": (2.0**-16, 4.5),
    "EXP": (2.0**-30, 110.0),
    "LOG": (0.0, np.inf),
    "SIGMOID": (2.0**-30, 110.0),
    "TANH": (2.0**-16, 11.0),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TABLED)
def test_results_of_one_in_17_numbers_are_next_to_the_exact_value(name: str) -> None:
    first, last = map(code, RANGES[name])
    wrong, count, step = 0, 0, 17 << 21
    for start in range(first, last, step):
        x = numbers(start, min(start + step, last), 17)
        for signed in (x, -x) if name in ("EXP", "SIGMOID") else (x,):
            largest, some = error(name, signed, TABLED[name](signed))
            assert largest <= LARGEST[name], start
            wrong, count = wrong + some, count + len(signed)
    print(name, f"one of {count / max(wrong, 1):.0f} is not the nearest")
    assert wrong <= count / RARE[name]


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("ERF", {np.inf: 1, -np.inf: -1, 3e38: 1, -2000.0: -1}),
        ("EXP", {np.inf: np.inf, -np.inf: 0, -0.0: 1, 3e38: np.inf, -7000.0: 0, -9000.0: 0}),
        ("LOG", {np.inf: np.inf, -0.0: -np.inf, 1: 0, -1: np.nan, -np.inf: np.nan}),
        ("SIGMOID", {np.inf: 1, -np.inf: 0, 0: 0.5, 3e38: 1, -3e38: 0, -7000.0: 0}),
        ("TANH", {np.inf: 1, -np.inf: -1, 1e-45: 1e-45, -3e38: -1, 2000.0: 1}),
    ],
)
def test_special_numbers(name: str, pairs: dict[float, float]) -> None:
    found = TABLED[name](np.array([*pairs, np.nan], np.float32))
    np.testing.assert_array_equal(found, np.array([*pairs.values(), np.nan], np.float32))
    # A number does not change those beside it.
    beside = TABLED[name](np.array([*pairs, np.nan, 0.7], np.float32))[-1]
    assert beside == TABLED[name](np.array([0.7], np.float32))[0]


def test_numpy_says_whether_its_functions_are_vectorised() -> None:
    assert {"ERF", "SIGMOID"} <= parts.LOOKED_UP_IN_FP32 <= set(TABLED)
