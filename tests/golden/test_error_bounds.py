"""TOSA's rules by the numbers: each row has been computed by hand from the specification's formula."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tosa_convert.golden.accuracy.comparison import StatisticsBuilder, ulp_distance
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.accuracy.erring_runs import function_errors, late_bias_error, rounded
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    Rule,
    accumulator,
    has_narrow_units,
    is_subnormal,
    kinds_of,
    overflows,
    products_on_the_way,
    rule_of,
    terms_of_sum,
)
from tosa_convert.graph import Block, BlockScale, Operator, Tensor, dtype, operator
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockShape

INF, NAN = math.inf, math.nan
#: A unit of 1 in FP16, and its least normal number.
U, LEAST = 2.0**-10, 2.0**-14
#: The rule, an exact result and its bound; the error that it allows, and the limits of the result.
ROWS: list[tuple[Rule, float, float, float, float, float]] = [
    (EXACT, 1.5, NAN, 0, 1.5, 1.5),
    (EXACT, 65504.0, NAN, 0, 65504, 65504),
    (EXACT, -65504.0, NAN, 0, -65504, -65504),
    (EXACT, 1e5, NAN, 0, INF, INF),
    (EXACT, -1e5, NAN, 0, -INF, -INF),
    (Rule("ulp", 2.0), 1.0, NAN, 2 * U, 1 - 2 * U, 1 + 2 * U),
    (Rule("ulp", 2.0), 1.99, NAN, 2 * U, 1.99 - 2 * U, 1.99 + 2 * U),
    (Rule("ulp", 1.0), -2.0, NAN, 2 * U, -2 - 2 * U, -2 + 2 * U),
    (Rule("ulp", 2.0, lower=1.0), 1.0, NAN, 2 * U, 1 - U, 1 + 2 * U),
    (Rule("ulp", 2.0, lower=1.0), -1.0, NAN, 2 * U, -1 - 2 * U, -1 + U),
    (Rule("ulp", 2.0), 0.0, NAN, 0, 0, 0),
    (Rule("ulp", 1.0), LEAST / 4, NAN, LEAST * U, LEAST / 4 - LEAST * U, LEAST / 4 + LEAST * U),
    (Rule("ulp", 1.0), 65504.0, NAN, 32, 65472, INF),
    (Rule("ulp", 1.0), -65504.0, NAN, 32, -INF, -65472),
    (Rule("ulp", 1.0), 65600.0, NAN, 64, INF, INF),
    (Rule("ulp", 1.0), INF, NAN, 0, INF, INF),
    (Rule("ulp", 1.0), NAN, NAN, 0, NAN, NAN),
    # (1 + 2^-11)^2 - 1 of the result, and of the least normal number where it is smaller.
    (Rule("reduce-product", 2), 1.0, NAN, U + U * U / 4, 1 - U - U * U / 4, 1 + U + U * U / 4),
    (Rule("reduce-product", 2), 0.0, NAN, LEAST * (U + U * U / 4), NAN, NAN),
    (Rule("reduce-product", 2), 1.0, 0.5, U + U * U / 4, NAN, NAN),
    (Rule("reduce-product", 2, in_any_order=True), 1.0, 0.5, 0.5 + U + U * U / 4, NAN, NAN),
    (Rule("max-relative", 1.0, base=0.5, largest=4.0), 1.0, NAN, 2, -1, 3),
    (Rule("max-relative", 2.0, base=U, largest=4.0), 1.0, NAN, 8 * U, 1 - 8 * U, 1 + 8 * U),
    (Rule("dot-product", 3.0), 1.0, 2.0, 3 * U, 1 - 3 * U, 1 + 3 * U),
    (Rule("dot-product", 3.0), 1.0, 0.0, 0, 1, 1),
    (Rule("dot-product", 3.0), 0.0, U, 3 * LEAST, -3 * LEAST, 3 * LEAST),
    (Rule("dot-product", 3.0), 0.0, NAN, INF, -INF, INF),
    # 65424 (1 + 3 * 2^-11) is just below 65520, which is rounded to an infinity.
    (Rule("dot-product", 3.0), 0.0, 65408.0, 65408 * 3 * U / 2, NAN, NAN),
    (Rule("dot-product", 3.0), 0.0, 65440.0, INF, -INF, INF),
    (Rule("abs-error", base=3.0), 1.0, 2.0, 5 * U, 1 - 5 * U, 1 + 5 * U),
    (Rule("abs-error", base=3.0), -2.0, 1.0, 8 * U, -2 - 8 * U, -2 + 8 * U),
    (Rule("abs-error", base=3.0), 0.0, 2.0, 5 * U * LEAST, NAN, NAN),
    (Rule("abs-error", base=3.0), 0.0, INF, 0, 0, 0),
    (Rule("abs-error", base=3.0), 1.0, INF, INF, -INF, INF),
    (Rule("abs-error", base=3.0, divisor=2.0), 1.0, 1.0, 4 * 2.0**-5, NAN, NAN),
    (Rule("abs-error", base=3.0, magnitude=True), 1.0, -2.0, 6 * U, 1 - 6 * U, 1 + 6 * U),
    (Rule("abs-error", base=3.0, magnitude=True), 0.0, 0.0, 3 * U * LEAST, NAN, NAN),
    (Rule("abs-error", base=3.0, floor=0.5), 1.0, 2.0, 0.5, 0.5, 1.5),
    (Rule("abs-error", lower=0.5), 0.125, 2.0, 0.5 * U, NAN, NAN),
    (Rule("abs-error", lower=0.5), 1.0, 2.0, 2 * U, NAN, NAN),
    (Rule("from-block"), 1.0, 4.0, U, 1 - U, 1 + U),
    (Rule("from-block"), 1.0, 2.0**20, 2.0**-4, 1 - 2.0**-4, 1 + 2.0**-4),
    (Rule("from-block"), LEAST * 4, 1.0, LEAST, 3 * LEAST, 5 * LEAST),
    (Rule("from-block"), 0.0, 4.0, 0, 0, 0),
    (Rule("bounds"), 1.0, 0.25, 0.25, 0.75, 1.25),
    (Rule("bounds"), 1.0, NAN, NAN, NAN, NAN),
    (Rule("bounds"), INF, INF, INF, -INF, INF),
    (Rule("bounds"), -INF, INF, INF, -INF, INF),
    (Rule("bounds"), NAN, INF, INF, NAN, NAN),
    (Rule("steps", 2.0), 1.0, NAN, 0, 1, 1),
]


@pytest.mark.parametrize(
    ("rule", "exact", "bound", "error", "low", "high"), ROWS, ids=lambda value: str(value)
)
def test_a_rule_allows_what_its_formula_says(
    rule: Rule, exact: float, bound: float, error: float, low: float, high: float
) -> None:
    limits = rule.limits(np.array([exact]), np.array([bound]), dtype("FP16"))
    least, most, allowed = (float(value[0]) for value in limits)
    assert allowed == pytest.approx(error, rel=1e-12, abs=0, nan_ok=True)
    if math.isnan(low) and not math.isnan(error + exact):  # not worth a number of its own
        low, high = exact - error, exact + error
    assert (least, most) == pytest.approx((low, high), rel=1e-12, abs=0, nan_ok=True)


def test_the_largest_operand_is_that_of_the_result_if_none_is_given() -> None:
    exact = np.array([1.0, -3.0, INF, NAN])
    _, _, error = Rule("max-relative", 1.0, base=0.5).limits(exact, None, dtype("FP16"))
    assert error.tolist() == [1.5] * 4
    _, _, error = Rule("max-relative", 1.0).limits(np.zeros(0), None, dtype("FP16"))
    assert error.size == 0


@pytest.mark.parametrize(
    ("kind", "rule", "exact", "bound", "found", "is_right"),
    [
        ("FP16", Rule("ulp", 1.0), 1.0, NAN, 1 + U, True),
        ("FP16", Rule("ulp", 1.0), 1.0, NAN, 1 + 2 * U, False),
        ("FP16", Rule("ulp", 1.0), 1.0, NAN, 1 - U, True),
        ("FP16", Rule("ulp", 1.0), 1.0, NAN, 1 - 1.5 * U, False),
        ("FP16", Rule("ulp", 1.0), 1.0, NAN, NAN, False),
        ("FP16", Rule("ulp", 1.0), NAN, NAN, NAN, True),
        ("FP16", Rule("ulp", 1.0), NAN, NAN, 1.0, False),
        # What may be subnormal may be flushed, and nothing else.
        ("FP16", EXACT, LEAST / 2, NAN, 0.0, True),
        ("FP16", EXACT, -LEAST / 2, NAN, 0.0, True),
        ("FP16", EXACT, LEAST, NAN, 0.0, False),
        ("FP16", Rule("ulp", 0.5), LEAST, NAN, 0.0, True),
        ("FP16", Rule("ulp", 0.5), 2 * LEAST, NAN, 0.0, False),
        ("FP16", Rule("bounds"), 1.0, 2.0, 0.0, True),
        ("FP16", Rule("bounds"), LEAST / 2, NAN, 0.0, False),
        ("FP8E5M2", EXACT, LEAST / 2, NAN, 0.0, False),
        ("FP16", Rule("reduce-product", 2, in_any_order=True), 1.0, 0.5, 0.0, True),
        ("FP16", Rule("reduce-product", 2, in_any_order=True), 1.0, 0.0, 0.0, False),
        ("FP16", Rule("reduce-product", 2), 1.0, 0.5, 0.0, False),
        # Every result is right without a bound, and NaN is one in place of an infinity.
        ("FP16", Rule("bounds"), 1.0, INF, NAN, True),
        ("FP16", Rule("bounds"), 1.0, INF, -INF, True),
        ("FP16", Rule("ulp", 1.0), 65504.0, NAN, INF, True),
        ("FP16", Rule("ulp", 1.0), 65504.0, NAN, NAN, False),
        ("FP8E4M3", Rule("ulp", 1.0), 448.0, NAN, NAN, True),
        ("FP8E4M3", Rule("ulp", 1.0), -448.0, NAN, NAN, True),
        ("FP8E4M3", Rule("ulp", 1.0), 384.0, NAN, NAN, False),
        ("MXINT8", Rule("ulp", 1.0), 1.0, NAN, 65, True),
        ("MXINT8", Rule("ulp", 1.0), 1.0, NAN, 66, False),
    ],
)
def test_a_result_is_right_up_to_its_limits(
    kind: str, rule: Rule, exact: float, bound: float, found: float, is_right: bool
) -> None:
    row = dtype(kind)
    actual = np.array([found]).astype(row.numpy)
    assert bool(rule.accepts(actual, np.array([exact]), np.array([bound]), row)[0]) is is_right


@pytest.mark.parametrize(
    ("factors", "added"),
    [
        ((1.0, 2.0, 3.0), 0.0),
        ((LEAST, 1.0), 0.0),
        # 2^-25 for each product but the first, times the factors that are larger than 1; at most the
        # share of the smallest product.
        ((LEAST / 2, 4.0), 2.0 ** -(14 + 11) * 4 * (1 + U + U * U / 4)),
        ((LEAST / 2, 0.0), 0.0),
        ((60000.0, 2.0), INF),
        ((0.0, INF), 0.0),
        ((LEAST / 2, INF), INF),
        ((LEAST / 2, NAN), NAN),
    ],
)
def test_products_on_the_way_add_their_rounding(factors: tuple[float, ...], added: float) -> None:
    for row in (factors, factors[::-1]):
        found = products_on_the_way(np.array([row, (1.0,) * len(row)]), 1, dtype("FP16"))
        assert found.tolist() == [[pytest.approx(added, rel=1e-9, nan_ok=True)], [0.0]]


def test_subnormal_numbers_are_those_below_the_least_normal_one() -> None:
    values = np.array([0.0, LEAST / 2, -LEAST / 2, LEAST, -1.0, NAN])
    assert is_subnormal(values, dtype("FP16")).tolist() == [False, True, True, False, False, False]
    assert not is_subnormal(values, dtype("FP8E5M2")).any()
    assert not is_subnormal(np.array([LEAST, 1.0]), dtype("FP16")).any()
    assert is_subnormal(np.array(LEAST / 2), dtype("FP16")).all()


def test_numbers_overflow_where_they_are_rounded_to_an_infinity() -> None:
    values = np.array([65519.0, 65520.0, -65520.0, NAN])
    with np.errstate(over="ignore"):
        assert overflows(values, dtype("FP16")).tolist() == [False, True, True, False]
        assert not overflows(values, dtype("FP8E4M3")).any()


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("FP16", (70000.0, 1 + U / 4, -INF), (INF, 1.0, -INF)),
        # Types without infinity saturate.
        ("FP8E4M3", (1000.0, -1000.0, 1.06, NAN), (448.0, -448.0, 1.0, NAN)),
        ("FP8E5M2", (1e5, 57344.0, 1.1), (INF, 57344.0, 1.0)),
        ("FP6E2M3", (8.0, -8.0), (7.5, -7.5)),
        ("FP4E2M1", (7.0, 0.3), (6.0, 0.5)),
        ("MXINT8", (5.0, -5.0, 0.0079, 1.0), (127 / 64, -127 / 64, 1 / 64, 1.0)),
    ],
)
def test_numbers_are_rounded_to_a_type(
    kind: str, values: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    with np.errstate(all="ignore"):
        found = rounded(np.array(values), dtype(kind))
    np.testing.assert_array_equal(found, np.array(expected))


@pytest.mark.parametrize(
    ("kind", "exact", "bound", "down", "up"),
    [
        # What TOSA allows, as far as the function has such results.
        ("EXP", 1.0, 1.0, 4 * U, 4 * U),
        ("EXP", LEAST / 4, 1000.0, LEAST / 4, 1003 * U * LEAST),
        ("SIN", 0.5, 60.0, 1.5, 0.5),
        ("SIN", -1.0, 60.0, 0.0, 2.0),
        ("TANH", 0.25, 3.0, 3 * U / 4, 3 * U / 4),
        # Near 1 as much as where it becomes 1, which is at 12 log(2) / 2 for FP16.
        ("TANH", 0.9375, 60000.0, 0.9375 * 48 * math.log(2) * U, 0.9375 * 48 * math.log(2) * U),
        ("TANH", -1.0, 60000.0, 0.0, 48 * math.log(2) * U),
        ("SIGMOID", 1.0, 60000.0, (2 + 24 * math.log(2)) * U, 0.0),
        ("SIGMOID", 0.5, 8.0, 4 * U, 4 * U),
        ("EXP", INF, 1.0, NAN, NAN),
    ],
)
def test_a_function_may_err_within_its_range(
    kind: str, exact: float, bound: float, down: float, up: float
) -> None:
    rule = Rule("abs-error", base=3.0 if kind == "EXP" else 0.0)
    if kind == "SIN":
        rule = Rule("bounds")
    given = Operator(operator(kind), (), ()), rule, np.array([exact]), np.array([bound])
    found = [float(end[0]) for end in function_errors(*given, dtype("FP16"))]
    assert found == pytest.approx([down, up], rel=1e-9, abs=1e-12, nan_ok=True)


def test_a_bias_that_is_added_late_is_rounded_with_the_sum_before_it() -> None:
    names = ("input", "weight", "bias")
    row = Operator(operator("CONV2D"), names, ("y",))
    bias, exact = np.array([0.0, 1.0, -3.0]), np.array([2.0, 3.0, 1.0])
    operands = [np.zeros(1), np.zeros(1), bias]
    found = late_bias_error(row, operands, exact, dtype("FP16"))
    assert np.asarray(found).tolist() == [0.0, U, 2 * U]
    assert late_bias_error(row, operands, exact, dtype("FP32")) == 0.0
    assert (
        late_bias_error(Operator(operator("EXP"), ("x",), ("y",)), [bias], exact, dtype("FP16"))
        == 0
    )


SCALED = BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32)


@pytest.mark.parametrize(
    ("kinds", "scaled", "rule"),
    [
        (("FP32", "FP16"), "", Rule("ulp", 0.5, lower=1.0)),
        (("FP8E4M3", "FP32"), "x", Rule("ulp", 1.0)),
        (("FP32", "FP8E4M3"), "y", Rule("ulp", 2.0)),
    ],
)
def test_a_cast_may_err_by_its_types(kinds: tuple[str, str], scaled: str, rule: Rule) -> None:
    block = block_of(x=(kinds[0], (32,)), y=(kinds[1], (32,)))
    if scaled:
        block.tensors[scaled].scale = SCALED
    assert rule_of(block, Operator(operator("CAST"), ("x",), ("y",)), "y") == rule


def block_of(**tensors: tuple[str, tuple[int, ...] | None]) -> Block:
    block = Block("main")
    block.tensors = {
        name: Tensor(name, dtype(kind), shape) for name, (kind, shape) in tensors.items()
    }
    return block


@pytest.mark.parametrize(
    ("kind", "attributes", "shapes", "count"),
    [
        ("AVG_POOL2D", {"kernel": (3, 4)}, {"x": (1, 9, 9, 2)}, 12),
        ("FFT2D", {}, {"x": (2, 4, 8), "y": (2, 4, 8)}, 64),
        ("RFFT2D", {}, {"x": (2, 4, 8)}, 32),
        ("REDUCE_SUM", {"axis": 1}, {"x": (2, 5, 8)}, 5),
        ("MATMUL", {}, {"x": (2, 3, 7), "y": (2, 7, 4)}, 7),
        ("CONV2D", {}, {"x": (1, 9, 9, 5), "y": (4, 3, 2, 5)}, 30),
        ("CONV3D", {}, {"x": (1, 9, 9, 9, 5), "y": (4, 3, 2, 2, 5)}, 60),
        ("DEPTHWISE_CONV2D", {}, {"x": (1, 9, 9, 5), "y": (3, 2, 5, 4)}, 6),
        ("TRANSPOSE_CONV2D", {}, {"x": (1, 9, 9, 5), "y": (4, 3, 2, 5)}, 30),
    ],
)
def test_the_terms_of_a_sum_are_counted(
    kind: str, attributes: Any, shapes: dict[str, tuple[int, ...]], count: int
) -> None:
    block = block_of(**{name: ("FP16", shape) for name, shape in shapes.items()})
    assert terms_of_sum(block, Operator(operator(kind), tuple(shapes), ("z",), attributes)) == count


@pytest.mark.parametrize(
    ("kind", "chosen", "output", "expected"),
    [
        ("MATMUL", None, "FP16", "FP16"),
        ("MATMUL", None, "FP32", "FP32"),
        ("CONV2D", "FP32", "FP16", "FP32"),
        ("CONV2D", "FP16", "FP16", "FP16"),
        ("REDUCE_SUM", None, "BF16", "FP32"),
        ("REDUCE_SUM", None, "FP16", "FP16"),
        ("MATMUL", None, "BF16", "BF16"),
        ("MATMUL_T_BLOCK_SCALED", None, "FP32", "FP32"),
    ],
)
def test_sums_are_added_in_a_type(
    kind: str, chosen: str | None, output: str, expected: str
) -> None:
    attributes: Any = {} if chosen is None else {"acc_type": dtype(chosen)}
    assert accumulator(Operator(operator(kind), (), (), attributes), output) == expected


@pytest.mark.parametrize(
    ("left", "right", "output", "is_narrow"),
    [
        ("FP8E4M3", "FP8E5M2", "FP32", True),
        ("FP8E4M3", "FP8E5M2", "FP16", False),
        ("FP16", "FP8E5M2", "FP32", True),
        ("FP16", "FP16", "FP32", False),
    ],
)
def test_units_for_short_types_may_add_them(
    left: str, right: str, output: str, is_narrow: bool
) -> None:
    block = block_of(x=(left, (1, 2, 40)), y=(right, (1, 40, 3)), z=(output, (1, 2, 3)))
    row = Operator(operator("MATMUL"), ("x", "y"), ("z",))
    assert has_narrow_units(block, row, output) is is_narrow
    if is_narrow:
        assert rule_of(block, row, "z") == Rule("dot-product", 2048.0 * 40)
        longer = block_of(x=(left, (1, 2, 65)), y=(right, (1, 65, 3)), z=(output, (1, 2, 3)))
        assert rule_of(longer, row, "z") == Rule("dot-product", 131072.0)


def test_kinds_are_bits() -> None:
    values = np.array([0.0, -1.0, INF, -INF, NAN, -NAN])
    assert kinds_of(values).tolist() == [1, 1, 2, 4, 8, 8]


@pytest.mark.parametrize(
    ("kind", "one", "other", "distance"),
    [
        (np.float32, 1.0, 1.0, 0),
        (np.float32, 1.0, 1 + 2.0**-22, 2),
        (np.float32, -1.0, -1 - 2.0**-22, 2),
        (np.float32, 2.0**-149, -(2.0**-149), 2),
        (np.float32, 0.0, -0.0, 0),
        (np.float32, NAN, 1.0, INF),
        (np.float32, 1.0, NAN, INF),
        (np.float64, 1.0, 1 + 2.0**-50, 4),
        (np.float64, 5e-324, -5e-324, 2),
        (np.float16, 1.0, 2.0, 1024),
        (ml_dtypes.bfloat16, 1.0, 2.0, 128),
        (ml_dtypes.float8_e4m3fn, 1.0, 2.0, 8),
        (ml_dtypes.float4_e2m1fn, 1.0, 2.0, 0),
        (ml_dtypes.float6_e2m3fn, 1.0, 2.0, 0),
        (ml_dtypes.float8_e8m0fnu, 1.0, 2.0, 0),
        (np.int8, 1, 2, 0),
        (ml_dtypes.int4, 1, 2, 0),
    ],
)
def test_distances_count_representable_values(
    kind: Any, one: float, other: float, distance: float
) -> None:
    left, right = (np.array([1.0, value]).astype(kind) for value in (one, other))
    assert ulp_distance(left, right) == distance


def test_statistics_of_few_numbers_are_exact() -> None:
    builder = StatisticsBuilder()
    builder.add(np.array([3.0, 0.0]), np.array([3.0, 0.0]))
    builder.add(np.array([0.0, 4.0, NAN, INF]), np.array([0.5, 4.0, 1.0, 2.0]))
    found = builder.result()
    assert (found.mean, found.largest) == (0.125, 0.5)
    # Of four errors one is 0.5: 50 % are 0, and 90 % are not.
    assert found.quantiles == (0.0, 0.5, 0.5)
    assert found.snr == pytest.approx(20.0)
    assert found.cosine == pytest.approx(25 / math.sqrt(25 * 25.25))
    assert str(found).startswith(
        "error: mean 0.125, 50% up to 0, 90% up to 0.5, 99% up to 0.5; SNR 20.0"
    )


@pytest.mark.parametrize(
    ("expected", "found", "snr", "cosine"),
    [
        ((1.0, 2.0), (1.0, 2.0), INF, 1.0),
        ((0.0, 0.0), (0.0, 1.0), -INF, None),
        ((1.0, 1.0), (0.0, 0.0), 0.0, None),
        ((1e300, 1e300), (1e300, 1e300), INF, None),
        ((), (), INF, None),
    ],
)
def test_statistics_have_ends(
    expected: tuple[float, ...], found: tuple[float, ...], snr: float, cosine: float | None
) -> None:
    builder = StatisticsBuilder()
    builder.add(np.array(expected), np.array(found))
    result = builder.result()
    assert result.snr == snr
    assert result.cosine == (None if cosine is None else pytest.approx(cosine))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((NAN, NAN), "every element of the golden answer is NaN"),
        ((2.5, 2.5), "every element of the golden answer is 2.5"),
        ((INF, INF), "every element of the golden answer is inf"),
        ((2.5,), ""),
        ((2.5, 2.5, NAN), ""),
        ((2.5, 2.0), ""),
        ((), ""),
    ],
)
def test_an_answer_that_says_little_is_called_so(values: tuple[float, ...], said: str) -> None:
    builder = StatisticsBuilder()
    builder.add(np.array(values[:1]), np.array(values[:1]))
    builder.add(np.array(values[1:]), np.array(values[1:]))
    assert builder.vacuous() == said


@pytest.mark.parametrize(
    ("kind", "atol", "rtol"),
    [
        (np.float32, 1e-5, 1e-4),
        (np.float64, 1e-5, 1e-4),
        (np.float16, 2.0**-10, 2.0**-8),
        (ml_dtypes.bfloat16, 2.0**-7, 2.0**-5),
        (ml_dtypes.float8_e4m3fn, 2.0**-3, 2.0**-1),
        (np.int8, 0, 0),
        (np.bool_, 0, 0),
        (ml_dtypes.int4, 0, 0),
    ],
)
def test_default_tolerances_follow_the_precision(kind: Any, atol: float, rtol: float) -> None:
    assert Tolerances().of("x", np.dtype(kind)) == (atol, rtol)
