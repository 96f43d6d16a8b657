"""Every official compliance mode, against the official verifier, at its bounds and beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden.drawn_elements import MODES, drawn
from golden.official_verifier import OfficialVerifier, find_library

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import dtype
from tosa_convert.qualify.suite.official_rules import parse_compliance

pytestmark = pytest.mark.oracle
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.5, -1.5, 3e38, -3e38)


@pytest.fixture(scope="module")
def verifier() -> OfficialVerifier:
    library = find_library()
    if library is None:
        pytest.skip("this system has no library of the official verifier")
    return OfficialVerifier(library)


def agreed(
    verifier: OfficialVerifier,
    row: dict[str, Any],
    reference: Array,
    bounds: Array | None,
    actual: Array,
) -> bool:
    """Our verdict, which must be the official one."""
    problem = parse_compliance(row).problem(reference, bounds, actual)
    assert (problem == "") == verifier.accepts(row, reference, bounds, actual), (row, problem)
    return problem == ""


def dot_product(kind: str, terms: int, data_set: int, **more: float) -> dict[str, Any]:
    info = {"s": data_set, "ksb": terms, **more}
    return {"mode": "DOT_PRODUCT", "data_type": kind, "dot_product_info": info}


@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("terms", [1, 9, 100])
@pytest.mark.parametrize("data_set", [-1, 0, 2, 3, 5])
@pytest.mark.parametrize("more", [{}, {"variance_error_bound": 3.0, "abs_bound": 40}])
def test_the_variance_and_the_sum_of_errors_are_limited(
    verifier: OfficialVerifier, kind: str, terms: int, data_set: int, more: dict[str, float]
) -> None:
    row = dot_product(kind, terms, data_set, **more)
    variance = more.get("variance_error_bound", 1.6 * terms)
    seen = set()
    for count in (1, 256):
        # Errors are powers of two of a unit around a result of 0, so that they are exact.
        bounds = np.full(count, 1024.0)
        unit = 1024.0 * 2.0 ** (-1 - FLOATS[kind][0])
        root, most = variance**0.5, (10 * variance / count) ** 0.5
        for size in {root, min(root, most)}:
            for signs in (np.ones(count), np.where(np.arange(count) % 2, 1.0, -1.0)):
                for fraction in (0.99, 1.0, 1.01):
                    wanted = signs * size * fraction * unit
                    actual = wanted.astype(dtype(kind).numpy)
                    reference = actual.astype(np.float64) - wanted
                    seen.add(agreed(verifier, row, reference, bounds, actual))
    assert seen == {True, False}


def test_an_error_as_large_as_the_limit_of_a_dot_product_is_accepted(
    verifier: OfficialVerifier,
) -> None:
    row = dot_product("FP32", 4, 0, abs_bound=2.0, variance_error_bound=100.0)
    unit = 1024.0 * 2.0 ** (-1 - FLOATS["FP32"][0])
    bounds, actual = np.array([1024.0]), np.array([2 * unit], np.float32)
    assert agreed(verifier, row, np.zeros(1), bounds, actual)
    assert not agreed(verifier, row, np.zeros(1), bounds, np.nextafter(actual, np.float32(1)))


@pytest.mark.parametrize("bound", [0.0, 1.0, np.inf, np.nan, 3.4e38, 1e39])
def test_special_values_of_a_dot_product_are_judged_as_the_verifier_does(
    verifier: OfficialVerifier, bound: float
) -> None:
    row = dot_product("FP32", 4, 0)
    for reference in (*SPECIAL, 1e39):
        for found in SPECIAL:
            actual = np.array([found], np.float32)
            agreed(verifier, row, np.array([reference]), np.array([bound]), actual)


@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16"])
def test_the_mode_of_special_values_compares_kinds_and_signs(
    verifier: OfficialVerifier, kind: str
) -> None:
    row = {"mode": "FP_SPECIAL", "data_type": kind}
    seen = set()
    for reference in (*SPECIAL, 1e39):
        for found in SPECIAL:
            for bound in (0.0, 1.0, np.inf, np.nan):
                with np.errstate(over="ignore"):
                    actual = np.array([1.0, found]).astype(dtype(kind).numpy)
                expected = np.array([1.0, reference])
                seen.add(agreed(verifier, row, expected, np.array([1.0, bound]), actual))
    assert seen == {True, False}


def test_exact_floats_and_integers_are_equal(verifier: OfficialVerifier) -> None:
    row = {"mode": "EXACT", "data_type": "FP32"}
    for reference in (*SPECIAL, 1 + 1e-9):
        for found in SPECIAL:
            actual = np.array([found], np.float32)
            agreed(verifier, row, np.array([reference]), None, actual)
    row = {"mode": "EXACT", "data_type": "INT8"}
    for number in (4, 5, 6):
        five, actual = np.array([5], np.int8), np.array([number], np.int8)
        assert agreed(verifier, row, five, None, actual) == (number == 5)


def test_the_nan_of_scales_equals_itself() -> None:
    kind = dtype("FP8UE8M0").numpy
    exact = parse_compliance({"mode": "EXACT", "data_type": "FP8UE8M0"})
    scales = np.array([1, 2, np.nan], kind)
    assert exact.problem(scales, None, scales.copy()) == ""
    for found in ([1, np.nan, np.nan], [1, 2, 4]):
        assert "1 of 3 elements are refused" in exact.problem(scales, None, np.array(found, kind))


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("kind", ["INT8", "INT16"])
def test_an_inexact_rescale_is_between_the_result_and_its_bound(
    verifier: OfficialVerifier, kind: str, unsigned: bool
) -> None:
    info = {"unsigned_data": unsigned}
    row = {"mode": "RESCALE_INEXACT", "data_type": kind, "rescale_inexact_info": info}
    number = dtype(kind).numpy
    seen = set()
    for low, high in ((5, 7), (5, 5), (-3, -2), (-1, 1), (127, -128), (100, -100), (7, 5)):
        for found in (low - 1, low, low + 1, high - 1, high, high + 1):
            arrays = [np.array([value]).astype(number) for value in (low, high, found)]
            seen.add(agreed(verifier, row, arrays[0], arrays[1], arrays[2]))
    assert seen == {True, False}


ELEMENT_MODES: dict[str, dict[str, Any]] = {
    "ulp": {"mode": "ULP", "ulp_info": {"ulp": 1.5}},
    "lower": {"mode": "ULP", "ulp_info": {"ulp": 0.5, "ulp_lower": 1.0}},
    "product": {"mode": "REDUCE_PRODUCT", "reduce_product_info": {"n": 5}},
    "plain": {"mode": "ABS_ERROR", "abs_error_info": {}},
    "exp": {"mode": "ABS_ERROR", "abs_error_info": {"base_bound": 3.0}},
    "log": {"mode": "ABS_ERROR", "abs_error_info": {"lower_bound": 0.5}},
    "tanh": {"mode": "ABS_ERROR", "abs_error_info": {"lower_bound": 0.5, "base_bound": 4.0}},
    "sin": {
        "mode": "ABS_ERROR",
        "abs_error_info": {
            "base_bound": 2.0,
            "bound_as_magnitude": True,
            "normal_divisor": 2,
            "max_compare": 1e-3,
        },
    },
    "cos": {
        "mode": "ABS_ERROR",
        "abs_error_info": {"base_bound": 1.0, "bound_as_magnitude": True, "normal_divisor": 2},
    },
    "resize": {
        "mode": "MAX_RELATIVE",
        "max_relative_info": {"max": 5.0, "scale": 0.006, "ulp_bound": 20.0},
    },
    "pow": {"mode": "PRECOMPUTED"},
}


@pytest.mark.parametrize("name", ELEMENT_MODES)
@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("value", [1.0, 0.7, -3.0, 1e-5])
def test_an_element_at_its_bound_is_accepted_and_the_next_one_is_refused(
    verifier: OfficialVerifier, name: str, kind: str, value: float
) -> None:
    row = {**ELEMENT_MODES[name], "data_type": kind}
    compliance = parse_compliance(row)
    assert compliance.rule is not None
    number = dtype(kind)
    reference = np.array([np.asarray(value).astype(number.numpy)], np.float64)
    bounds = np.abs(reference) * 1.25
    for limit in compliance.rule.limits(reference, bounds, number)[:2]:
        nearest = limit.astype(number.numpy)
        codes = nearest.view(f"i{nearest.dtype.itemsize}")
        seen = set()
        for steps in (-3, -2, -1, 0, 1, 2, 3):
            actual = (codes + steps).astype(codes.dtype).view(number.numpy)
            seen.add(agreed(verifier, row, reference, bounds, actual))
        assert seen == {True, False}


def differences(
    verifier: OfficialVerifier, row: dict[str, Any], count: int
) -> tuple[int, list[str]]:
    """Return how many drawn elements are accepted, and those on which the verdicts differ."""
    reference, bounds, actual = drawn(row, count, np.random.default_rng(1))
    compliance, accepted, different = parse_compliance(row), 0, []
    for number in range(count):
        part = slice(number, number + 1)
        bound = None if row["mode"] == "EXACT" else bounds[part]
        ours = not compliance.problem(reference[part], bound, actual[part])
        official = verifier.accepts(row, reference[part], bound, actual[part])
        accepted += official
        if ours != official:
            text = f"{reference[number]} bounds {bounds[number]} found {actual[number]}"
            different.append(f"{text}: {'accepted' if ours else 'refused'} here")
    return accepted, different


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16", "FP8E4M3", "FP8E5M2"])
@pytest.mark.parametrize("name", MODES)
def test_drawn_elements_have_the_verdict_of_the_official_verifier(
    verifier: OfficialVerifier, name: str, kind: str
) -> None:
    accepted, different = differences(verifier, {**MODES[name], "data_type": kind}, 600)
    assert 0 < accepted < 600
    assert different == []


@pytest.mark.parametrize("found", [0.0, 0.5, 1e-45, np.nan])
def test_sigmoid_of_minus_infinity_is_0(verifier: OfficialVerifier, found: float) -> None:
    row = {"mode": "ABS_ERROR", "data_type": "FP32", "abs_error_info": {}}
    arrays = np.array([0.0]), np.array([np.inf]), np.array([found], np.float32)
    assert agreed(verifier, row, *arrays) == (found == 0)


def test_an_unknown_mode_and_another_type_are_refused() -> None:
    with pytest.raises(TosaConvertError, match="NO_SUCH_MODE") as caught:
        parse_compliance({"mode": "NO_SUCH_MODE", "data_type": "FP32"})
    assert caught.value.code == "unsupported-operator"
    exact = parse_compliance({"mode": "EXACT", "data_type": "INT8"})
    one = np.array([1], np.int8)
    assert exact.problem(one, None, one.astype(np.uint8)) == "expected int8, found uint8"
    assert exact.problem(one, None, one.reshape(1, 1)) == "expected shape [1], found [1, 1]"


def test_moved_elements_of_mxint8_are_compared_as_numbers() -> None:
    rule = parse_compliance({"mode": "EXACT", "data_type": "MXINT8"})
    codes = np.array([4, -64, 0], dtype("MXINT8").numpy)
    assert rule.problem(np.array([0.0625, -1.0, 0.0]), None, codes) == ""
    assert "1 of 3" in rule.problem(np.array([0.0625, -1.0, 1.0]), None, codes)
