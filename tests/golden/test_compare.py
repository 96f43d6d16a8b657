from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy import comparison as module
from tosa_convert.golden.accuracy.comparison import (
    Comparison,
    TensorComparison,
    compare,
    count_text,
)
from tosa_convert.golden.accuracy.criteria import (
    NETWORK_LABEL,
    Criterion,
    NetworkCheck,
    Spread,
    ToleranceCheck,
    Tolerances,
    criterion_for,
)
from tosa_convert.golden.accuracy.error_bounds import EXACT, FLOATS, Rule
from tosa_convert.golden.running.programs import draw
from tosa_convert.graph import dtype
from tosa_convert.graph.dtypes import DTYPES, DType


def one(expected: Any, actual: Any, **more: Any) -> tuple[TensorComparison, Comparison]:
    result = compare({"t": np.asarray(expected)}, {"t": np.asarray(actual)}, **more)
    return result.tensors[0], result


def test_equal_arrays_agree() -> None:
    tensor, result = one(np.arange(4, dtype=np.int32), np.arange(4, dtype=np.int32))
    assert result.ok
    assert (tensor.rule, tensor.differing, tensor.worst) == ("exact", 0, None)


def test_integers_are_exact_and_the_worst_element_is_reported_with_its_index() -> None:
    expected = np.zeros((2, 3), np.int8)
    actual = expected.copy()
    actual[0, 1], actual[1, 2] = 1, -5
    tensor, result = one(expected, actual)
    assert not result.ok
    assert (tensor.worst, tensor.expected, tensor.found) == ((1, 2), 0, -5)
    assert (tensor.differing, tensor.failing, tensor.needed_atol) == (2, 2, 5.0)
    assert "2 of 6 elements differ, 2 too much; worst at [1, 2]: expected 0, found -5" in str(
        result
    )


def test_a_result_within_its_rule_reads_as_one() -> None:
    expected = np.array([1, 2, 4], np.float32)
    actual = np.array([1, 2, 4 + 2**-20], np.float32)
    tensor, result = one(expected, actual)
    assert (result.ok, tensor.differing, tensor.failing) == (True, 1, 0)
    assert ": all 3 elements within the rule, 2 equal; largest error at [2]: " in str(result)
    assert "needs atol=" in str(result)
    for word in ("differ", "too much", "worst", "would"):
        assert word not in str(result)


def test_the_distance_beside_an_element_is_its_own() -> None:
    """Show the element with the largest difference and count the ulp of that element."""
    expected = np.array([1024, 2**-20], np.float32)
    actual = np.array([1024 + 2**-13, 2**-20 + 2**-40], np.float32)
    tensor, result = one(expected, actual)
    assert (tensor.worst, tensor.worst_ulp, tensor.needed_ulp) == ((0,), 1.0, 8.0)
    assert (
        "largest error at [0]: expected 1024.0, found 1024.0001220703125 (1 ulp); "
        "over all elements: needs atol=0.0001221 or rtol=9.537e-07, at most 8 ulp"
    ) in str(result)


def test_errors_that_are_too_large_together_are_not_called_allowed() -> None:
    assert count_text(ok=False, elements=4, differing=3, failing=0) == (
        "3 of 4 elements differ, each within the rule, together too much"
    )


def test_the_reported_tolerance_is_the_smallest_that_passes() -> None:
    generator = np.random.default_rng(0)
    expected = generator.normal(size=100).astype(np.float32)
    actual = (expected * (1 + generator.normal(size=100) * 1e-2)).astype(np.float32)
    tensor, result = one(expected, actual)
    assert not result.ok
    for atol, rtol in ((tensor.needed_atol, 0.0), (0.0, tensor.needed_rtol)):
        enough = Tolerances((("t", atol),), (("t", rtol),))
        assert one(expected, actual, tolerances=enough)[1].ok
        less = Tolerances((("t", atol * 0.999),), (("t", rtol * 0.999),))
        assert not one(expected, actual, tolerances=less)[1].ok


def test_tolerances_apply_by_pattern_and_the_last_match_wins() -> None:
    limits = Tolerances((("*", 1.0), ("out*", 2.0)), ())
    assert limits.of("a", np.dtype(np.float32))[0] == 1.0
    assert limits.of("out0", np.dtype(np.float32))[0] == 2.0
    assert limits.of("out0", np.dtype(np.int8)) == (2.0, 0.0)
    assert Tolerances().of("x", np.dtype(np.int8)) == (0.0, 0.0)
    coarse = Tolerances().of("x", np.dtype(ml_dtypes.bfloat16))
    assert coarse[0] > Tolerances().of("x", np.dtype(np.float32))[0]


def test_integers_have_a_tolerance_only_if_one_is_given() -> None:
    assert one(
        np.array([1], np.int8), np.array([2], np.int8), tolerances=Tolerances((("t", 1.0),))
    )[1].ok


def test_nan_equals_nan_and_nothing_else() -> None:
    nan, inf = math.nan, math.inf
    assert one(np.array([nan, inf, -inf], np.float32), np.array([nan, inf, -inf], np.float32))[1].ok
    tensor, result = one(np.array([nan, 1], np.float32), np.array([0, 1], np.float32))
    assert not result.ok
    assert (tensor.worst, tensor.needed_atol) == ((0,), inf)
    assert not one(np.array([1], np.float32), np.array([nan], np.float32))[1].ok
    assert not one(np.array([inf], np.float32), np.array([1], np.float32))[1].ok
    assert not one(np.array([inf], np.float32), np.array([-inf], np.float32))[1].ok
    json.loads(result.to_json())


def test_the_distance_in_representable_values_is_reported() -> None:
    value = np.float32(1.5)
    tensor, _ = one([value], [np.nextafter(np.nextafter(value, np.float32(2)), np.float32(2))])
    assert tensor.needed_ulp == 2
    across = np.array([1e-45], np.float32), np.array([-1e-45], np.float32)
    assert one(*across)[0].needed_ulp == 2


def test_comparing_nothing_is_a_failure() -> None:
    assert not compare({}, {}).ok
    assert not compare({"a": np.zeros(1)}, {"b": np.zeros(1)}).ok
    assert not one(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))[1].ok
    assert "nothing was compared" in str(compare({}, {}))


def test_missing_tensors_fail_and_extra_tensors_are_noted() -> None:
    a = np.zeros(1, np.int8)
    result = compare({"a": a, "b": a}, {"a": a, "c": a})
    assert (result.ok, result.missing, result.extra) == (False, ("b",), ("c",))
    assert compare({"a": a}, {"a": a, "c": a}).ok


def test_different_shapes_and_types_fail_and_are_not_broadcast() -> None:
    tensor, _ = one(np.zeros((2, 1), np.int8), np.zeros((2,), np.int8))
    assert "expected shape [2, 1], found [2]" in tensor.problem
    tensor, _ = one(np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert (tensor.ok, tensor.problem) == (False, "expected float32, found int32")


def test_a_tensor_that_was_not_compared_has_no_numbers() -> None:
    tensor, _ = one(np.zeros((2, 1), np.int8), np.zeros((2,), np.int8))
    numbers = dict.fromkeys(
        ("worst_ulp", "needed_atol", "needed_rtol", "needed_ulp", "differing", "failing"), 0
    )
    unknown = dict.fromkeys(
        ("worst", "expected", "found", "margin", "allowed_share", "statistics"), None
    )
    texts: dict[str, object] = dict.fromkeys(("note", "low_precision", "operator", "location"), "")
    texts["weak"] = False
    assert tensor.to_dict() == {
        "name": "t",
        "ok": False,
        "rule": "exact",
        "dtype": "int8",
        "shape": [2, 1],
        "elements": 2,
        "problem": "expected shape [2, 1], found [2]",
        **numbers,
        **unknown,
        **texts,
    }


def test_int64_differences_that_a_double_cannot_represent_are_found() -> None:
    tensor, result = one(np.array([2**62], np.int64), np.array([2**62 + 1], np.int64))
    assert not result.ok
    assert tensor.needed_atol == 1.0


def test_comparing_in_blocks_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    expected = generator.normal(size=(7, 9)).astype(np.float32)
    actual = expected + np.float32(1e-3) * generator.normal(size=(7, 9)).astype(np.float32)
    whole = one(expected, actual)[0]
    monkeypatch.setattr(module, "BLOCK", 5)
    parts = one(expected, actual)[0]
    assert parts.statistics is not None
    assert whole.statistics is not None
    assert parts.statistics.quantiles == whole.statistics.quantiles
    assert parts.statistics.snr == pytest.approx(whole.statistics.snr)
    assert replace(parts, statistics=None) == replace(whole, statistics=None)


def test_a_rule_compares_with_the_exact_result() -> None:
    exact = np.array([1 + 2.0**-24], np.float64)  # between two floats
    rule = ToleranceCheck(Rule("ulp", 0.5), dtype("FP32"), exact)
    low, high = np.array([1.0], np.float32), np.array([1 + 2.0**-23], np.float32)
    assert one(low, high, checks={"t": rule})[1].ok
    tensor, result = one(low, np.array([1 + 2.0**-22], np.float32), checks={"t": rule})
    assert not result.ok
    assert tensor.rule == "ulp 0.5"
    assert tensor.margin == pytest.approx(3.0)
    loose = Tolerances((("t", 1.0),))
    assert one(low, np.array([1.5], np.float32), checks={"t": rule}, tolerances=loose)[1].ok


def test_a_tensor_with_an_exact_rule_has_no_tolerance() -> None:
    checks = {"t": ToleranceCheck(Rule("exact"), dtype("FP32"))}
    assert not one(np.array([1], np.float32), np.array([1 + 2.0**-23], np.float32), checks=checks)[
        1
    ].ok
    assert one(np.array([1], np.float32), np.array([1 + 2.0**-23], np.float32))[1].ok


def test_an_inexact_rescale_may_be_off_by_one() -> None:
    checks = {"t": ToleranceCheck(Rule("steps", 1.0), dtype("INT8"))}
    assert one(np.array([5], np.int8), np.array([6], np.int8), checks=checks)[1].ok
    assert not one(np.array([5], np.int8), np.array([7], np.int8), checks=checks)[1].ok


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_element_type_is_compared(row: DType) -> None:
    expected = draw(np.random.default_rng(5), row, (64,))
    assert one(expected, expected.copy())[1].ok
    codes = expected.copy().view(f"u{expected.dtype.itemsize}")
    codes[:1] ^= 1  # of a slice: numpy 1 makes a signed number of a 64-bit element
    tensor, result = one(expected, codes.view(expected.dtype))
    assert tensor.differing == 1
    if expected.dtype.kind in "biu" or "int" in expected.dtype.name:
        assert not result.ok


def test_the_default_tolerances_of_short_types_detect_errors() -> None:
    for kind, rtol in ((np.float16, 0.004), (ml_dtypes.bfloat16, 0.0313)):
        limits = Tolerances().of("x", np.dtype(kind))
        assert limits[0] <= 0.008
        assert limits[1] <= rtol
        expected = np.array([1.0, -2.0]).astype(kind)
        assert not one(expected, np.array([1.1, -2.0]).astype(kind))[1].ok


def test_a_tolerance_that_names_a_tensor_comes_before_its_rule_and_its_type() -> None:
    row, exact = np.dtype(np.float32), np.array([1], np.float64)
    rule = ToleranceCheck(Rule("ulp", 0.5), dtype("FP32"), exact)
    named = Tolerances(atol=(("t", 2.0),))
    assert criterion_for("t", row, named, rule) == Criterion("atol 2 rtol 0.0001", 2.0, 1e-4)
    assert criterion_for("u", row, named, rule) == Criterion("ulp 0.5", check=rule)
    assert criterion_for("t", row, Tolerances()).label == "atol 1e-05 rtol 0.0001"
    assert criterion_for("t", np.dtype(np.int8), Tolerances()) == Criterion("exact")
    steps = ToleranceCheck(Rule("steps", 1.0), dtype("INT8"))
    assert criterion_for("t", np.dtype(np.int8), Tolerances(), steps).atol == 1.0


def test_a_tolerance_without_a_name_is_for_floating_point() -> None:
    every = Tolerances(atol=(("", 1.0),))
    assert one(np.array([1], np.float32), np.array([1.9], np.float32), tolerances=every)[1].ok
    assert not one(np.array([True]), np.array([False]), tolerances=every)[1].ok
    assert not one(np.array([1], np.int8), np.array([2], np.int8), tolerances=every)[1].ok
    assert one(
        np.array([1], np.int8), np.array([2], np.int8), tolerances=Tolerances(atol=(("*", 1.0),))
    )[1].ok


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="matches it") as caught:
        Tolerances(atol=(("logit", 1.0), ("lo*", 1.0))).refuse_unmatched(["logits"])
    assert caught.value.code == "option-conflict"
    assert len(caught.value.findings) == 1


def test_a_bool_has_the_bytes_0_and_1() -> None:
    wrong = np.array([1, 2, 0], np.uint8).view(np.bool_)
    tensor, result = one(np.array([True, True, False]), wrong)
    assert not result.ok
    assert "found 2" in tensor.problem


def test_integers_of_another_type_are_compared_if_their_values_fit() -> None:
    tensor, result = one(np.array([1, 2], np.int8), np.array([1, 2], np.uint8))
    assert result.ok
    assert tensor.note == "expected int8, found uint8; its values were converted"
    tensor, result = one(np.array([1, -1], np.int8), np.array([1, 255], np.uint8))
    assert (result.ok, tensor.problem) == (
        False,
        "expected int8, found uint8 with values from 1 to 255",
    )
    assert one(np.array([1, 2], np.int32), np.array([1, 2], np.int64))[1].ok
    assert not one(np.array([1, 2], np.int32), np.array([1, 2 + 2**32], np.int64))[1].ok
    assert one(np.array([True]), np.array([1], np.uint8))[1].ok
    assert one(np.array([0.1], np.float32), np.array([0.1], np.float64))[1].ok
    assert not one(np.array([0.5], np.float32), np.array([0.5], np.float16))[1].ok
    # Of as many bits, but not with the same numbers.
    assert not one(np.array([0.5], ml_dtypes.bfloat16), np.array([0.5], np.float16))[1].ok


def test_a_golden_answer_that_says_little_is_noted() -> None:
    nan = np.full(3, np.nan, np.float32)
    assert "is NaN" in one(nan, nan.copy())[0].note
    assert "is 127" in str(one(np.full(3, 127, np.int8), np.full(3, 127, np.int8))[1])
    assert one(np.array([1, 2], np.float32), np.array([1, 2], np.float32))[0].note == ""


def test_a_name_with_a_line_break_does_not_forge_a_line() -> None:
    name = "x\nok   y float32[1] [exact]: all 1 elements equal"
    text = str(compare({name: np.array([1], np.int8)}, {name: np.array([2], np.int8)}))
    assert len([line for line in text.splitlines() if line.startswith("ok")]) == 0
    text = str(compare({name: np.array([1], np.int8)}, {}))
    assert len([line for line in text.splitlines() if line.startswith("ok")]) == 0


def test_the_statistics_of_errors_are_those_of_their_definitions() -> None:
    generator = np.random.default_rng(1)
    expected = generator.normal(size=20000).astype(np.float32)
    found = (expected + generator.normal(size=20000) * 1e-3).astype(np.float32)
    statistics = one(expected, found)[0].statistics
    assert statistics is not None
    wide, other = expected.astype(np.float64), found.astype(np.float64)
    error = np.abs(wide - other)
    assert statistics.mean == pytest.approx(error.mean())
    assert statistics.largest == error.max()
    for share, value in zip((0.5, 0.9, 0.99), statistics.quantiles, strict=True):
        assert value == pytest.approx(np.quantile(error, share), rel=0.02)
    assert statistics.snr == pytest.approx(10 * np.log10((wide @ wide) / (error @ error)))
    sizes = np.linalg.norm(wide) * np.linalg.norm(other)
    assert statistics.cosine == pytest.approx(wide @ other / sizes)


def test_a_network_may_err_a_multiple_of_its_spread() -> None:
    exact = np.linspace(1, 2, 64)
    right = exact.astype(np.float32)
    check = NetworkCheck(dtype("FP32"), Spread(exact, sigma=exact * 1e-6))
    for factor, ok in ((3, True), (5, False)):
        found = (exact * (1 + factor * 1e-6)).astype(np.float32)
        tensor, result = one(right, found, checks={"t": check})
        assert result.ok == ok
        assert tensor.rule == NETWORK_LABEL
    for factor, ok in ((5, True), (7, False)):
        found = right.copy()
        found[5] *= np.float32(1 + factor * 1e-6)
        assert one(right, found, checks={"t": check})[1].ok == ok
    zeros = np.zeros_like(right)
    assert not one(right, zeros, checks={"t": check})[1].ok
    infinite = right.copy()
    infinite[3] = np.inf
    assert not one(right, infinite, checks={"t": check})[1].ok


@pytest.mark.parametrize("exact", [-1.0, np.nan, -np.inf])
def test_where_an_overflow_led_the_reference_elsewhere_its_neighbours_are_right(
    exact: float,
) -> None:
    """FP64 has no overflow of FP16 before a TANH, whose sign may be that of the infinity."""
    wide = np.linspace(1, 2, 64)
    right = wide.astype(np.float32)
    wide[5], right[5] = exact, 1.0
    check = NetworkCheck(dtype("FP32"), Spread(wide, sigma=np.full(64, 1e-3)))
    near = right.copy()
    near[5] = 0.996
    assert one(right, near, checks={"t": check})[1].ok
    near[5] = 0.9
    # Nothing says how far a number may be off where there is none in FP64.
    assert one(right, near, checks={"t": check})[1].ok == (not np.isfinite(exact))
    near[5] = 0.996
    right[5] = wide[5] = 1.01
    assert not one(right, near, checks={"t": check})[1].ok


@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16", "FP8E5M2"])
def test_an_exact_operator_may_flush_subnormal_numbers_of_floating_point(kind: str) -> None:
    row = dtype(kind)
    least = FLOATS[kind][1]
    expected = (np.array([0.5, -0.75, 1.0, 2.0]) * least).astype(row.numpy)
    flushed = expected.copy()
    flushed[:2] = 0
    check = {"t": ToleranceCheck(EXACT, row)}
    assert one(expected, flushed, checks=check)[1].ok == (kind != "FP8E5M2")
    flushed[2] = 0
    assert not one(expected, flushed, checks=check)[1].ok
    negated = expected.copy()
    negated[0] = -negated[0]
    assert not one(expected, negated, checks=check)[1].ok
