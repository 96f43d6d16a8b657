"""TOSA's rules by the numbers: each row has been computed by hand from the specification's formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    ROUNDED,
    Rule,
    accumulator,
    makers_of,
    products_on_the_way,
    rule_of,
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
    cast = Operator(operator("CAST"), ("x",), ("y",))
    assert rule_of(block, cast, "y", official=True) == rule
    assert rule_of(block, cast, "y") == (rule if scaled else ROUNDED)


def block_of(**tensors: tuple[str, tuple[int, ...] | None]) -> Block:
    block = Block("main")
    block.tensors = {
        name: Tensor(name, dtype(kind), shape) for name, (kind, shape) in tensors.items()
    }
    return block


def test_each_maker_of_a_tensor_counts_once() -> None:
    """Six tensors joined with themselves lead to the first on 64 ways."""
    block = block_of()
    block.operators = [Operator(operator("REDUCE_PRODUCT"), ("x",), ("x0",))]
    for step in range(6):
        operands = (f"x{step}", f"x{step}")
        block.operators.append(Operator(operator("CONCAT"), operands, (f"x{step + 1}",)))
    assert makers_of(block, "x6", ("reduce-product",)) == block.operators[:1]


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


@pytest.mark.parametrize("make", ["add", "sub", "mul", "cast"])
def test_one_rounding_is_to_nearest_unless_the_official_rule_decides(make: str) -> None:
    b = Builder()
    x = b.input("x", "fp32" if make == "cast" else "bf16", (64,))
    b.output(b.cast(x, dtype="bf16") if make == "cast" else getattr(b, make)(x, 0.7), name="y")
    graph, kind = b.graph(), dtype("BF16").numpy
    draw = np.random.default_rng(2).uniform(-3, 3, 64)
    given = {"x": draw.astype(graph.main.tensors["x"].dtype.numpy)}
    exact = golden.run(graph, given, engine="numpy", precise=True).outputs["y"]
    # Towards zero: what the upper 16 bits of FP32 hold.
    cut = (exact.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32).astype(kind)
    official = golden.Tolerances(official=True)
    for y, is_right in ((exact.astype(np.float32).astype(kind), True), (cut, False)):
        (row,) = golden.check(graph, {"y": y}, given, engine="numpy").tensors
        assert row.ok == is_right
        assert golden.check(graph, {"y": y}, given, tolerances=official, engine="numpy").ok
    assert row.exact is not None
    assert row.margin is not None
    assert row.found is not None
    unit = 2.0 ** (np.floor(np.log2(abs(row.exact))) - 7)
    assert row.margin == pytest.approx(abs(row.found - row.exact) / (0.5 * unit))
    assert f"in FP64 {row.exact:.12g}" in str(row)
