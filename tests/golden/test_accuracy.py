"""Test the bounds on errors in programs; test_compliance.py has those of the official verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden.conftest import MakeBuilder

from tosa_convert.builder import Builder as Blocks
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.accuracy.error_bounds import EXACT, Rule, rule_of, rules
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph import Graph, Operator, Region, dtype, operator
from tosa_convert.graph.dtypes import BlockSize, ResizeMode


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("engine", ["numpy", "reference-model"])
def test_an_inexact_rescale_may_err_as_far_as_the_reference_model_says(engine: Engine) -> None:
    b = Blocks("main")
    scale = b.const([(1 << 30) + 12345], "INT32"), b.const([30], "INT8")
    x = b.input("x", "INT32", (1000,))
    scaled = b.rescale(x, *scale, rounding_mode="INEXACT_ROUND", scale32=True, dtype="INT32")
    b.output(scaled, name="y")
    graph = b.graph()
    values = np.linspace(-(1 << 29), (1 << 29) - 1, 1000).astype(np.int32)
    model = run(graph, {"x": values}, RunOptions(engine="reference-model", bounds=True))
    for limit in (model.outputs["y"], model.bounds["y"]):
        assert np.abs(limit - run(graph, {"x": values}, engine=engine).outputs["y"]).max() > 100
        assert check(graph, {"y": limit}, {"x": values}, engine=engine).ok
        beyond = {"y": limit + np.where(limit > values, 300, -300).astype(np.int32)}
        result = check(graph, beyond, {"x": values}, engine=engine)
        assert not result.ok
        assert "steps 1 + 4.8e-07 of the value" in str(result)


@pytest.mark.parametrize(
    ("kinds", "result", "kernel", "depth", "amount"),
    [
        (("FP16", "FP8E5M2"), "FP16", (1, 3), 10, 2048),
        (("FP8E5M2", "FP8E4M3"), "FP16", (3, 3), 11, 4096),
        (("FP8E4M3", "BF16"), "BF16", (2, 2), 11, 2048),
        (("BF16", "BF16"), "BF16", (5, 5), 14, 4),
        (("FP16", "FP16"), "FP16", (1, 1), 4, 2),
    ],
)
def test_an_accumulator_with_more_bits_lowers_the_bound_by_a_root(
    builder: MakeBuilder,
    kinds: tuple[str, str],
    result: str,
    kernel: tuple[int, int],
    depth: int,
    amount: float,
) -> None:
    """The amounts are those of official descriptors of tests with these types and sizes."""
    b = builder()
    b.input("x", kinds[0], (1, 9, 9, depth))
    b.input("w", kinds[1], (3, *kernel, depth))
    b.const("b", result, np.zeros(3))
    acc = dtype("FP32")
    b.op("CONV2D", ["x", "w", "b"], "y", result, (1, 9, 9, 3), acc_type=acc)
    graph = b.graph("y")
    rule = rule_of(graph.main, graph.main.operators[-1], "y")
    assert rule == Rule("dot-product", amount)


def with_regions(builder: MakeBuilder, kind: str, *bodies: str, op: str) -> Graph:
    """Return a control-flow operator with a region for each body, which is one operator."""
    b = builder()
    b.input("c", "BOOL", (1,))
    b.input("x", "FP32", (4,))
    names = {"COND_IF": ("then_graph", "else_graph"), "WHILE_LOOP": ("cond_graph", "body_graph")}
    operands = ["c", "x"]
    regions = []
    for attribute, body in zip(names[op], bodies, strict=True):
        inner = builder()
        inner.block.name = attribute
        if op == "WHILE_LOOP":
            inner.input("g", "BOOL", (1,))
        inner.input("v", "FP32", (4,))
        inner.op(body, ["v"], "r", "FP32", (4,))
        outputs = {"COND_IF": ["r"], "WHILE_LOOP": ["g", "r"]}[op]
        inner.block.outputs = ["g"] if attribute == "cond_graph" else outputs
        regions.append(Region(attribute, [inner.block]))
    b.op(op, operands, "y", kind, (4,), **{name: name for name in names[op]})
    graph = b.graph("y")
    graph.regions += regions
    return graph


def test_the_rule_of_a_branch_is_the_rule_of_its_operators(builder: MakeBuilder) -> None:
    exp = Rule("abs-error", base=3.0)
    for bodies, rule in (
        (("ABS", "IDENTITY"), EXACT),
        (("EXP", "EXP"), exp),
        (("IDENTITY", "EXP"), exp),
        (("EXP", "TANH"), None),
    ):
        assert rules(with_regions(builder, "FP32", *bodies, op="COND_IF")).get("y") == rule, bodies


def test_a_loop_is_exact_or_has_no_rule(builder: MakeBuilder) -> None:
    exact = with_regions(builder, "FP32", "ABS", "IDENTITY", op="WHILE_LOOP")
    assert rules(exact)["y"] == EXACT
    assert "y" not in rules(with_regions(builder, "FP32", "ABS", "EXP", op="WHILE_LOOP"))


def off_by(array: np.ndarray[Any, Any], codes: int) -> np.ndarray[Any, Any]:
    """Return the array with its first element moved from zero by so many representable values."""
    moved = array.copy()
    flat = moved.view(f"u{array.dtype.itemsize}").reshape(-1)
    flat[0] = flat[0] + codes
    return moved


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("kind", ["FP8E4M3", "FP8E5M2", "FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"])
def test_block_scaled_data_is_judged_by_its_own_unit_and_scales_exactly(
    builder: MakeBuilder, kind: str
) -> None:
    b = builder()
    b.input("x", "FP32", (1, 32))
    b.tensor("d", kind, (1, 32))
    b.tensor("s", "FP8UE8M0", (1, 1))
    size: dict[str, Any] = {"block_size": BlockSize.BLOCK_SIZE_32}
    b.block.operators.append(Operator(operator("CAST_TO_BLOCK_SCALED"), ("x",), ("d", "s"), size))
    b.op("CAST_FROM_BLOCK_SCALED", ["d", "s"], "back", "FP32", (1, 32), **size)
    graph = b.graph("d", "s")
    x = np.full((1, 32), 3.0, np.float32)
    x[0, 0] = 1.01
    found = run(graph, {"x": x}).outputs
    assert check(graph, Record("left", found), {"x": x}).ok
    for codes, ok in ((1, True), (3, False)):
        left = Record("left", {**found, "d": off_by(found["d"], codes)})
        assert check(graph, left, {"x": x}).ok == ok, codes
    left = Record("left", {**found, "s": off_by(found["s"], 1)})
    result = check(graph, left, {"x": x})
    assert [tensor.name for tensor in result.failures] == ["s"]


@pytest.mark.usefixtures("refmodel")
def test_resize_is_judged_by_the_largest_operand(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "FP32", (1, 2, 2, 1))
    for name, sizes in (("scale", (2, 1, 2, 1)), ("offset", (0, 0)), ("border", (-1, -1))):
        b.shape(name, sizes)
    operands = ["x", "scale", "offset", "border"]
    b.op("RESIZE", operands, "y", "FP32", (1, 2, 2, 1), mode=ResizeMode.BILINEAR)
    graph = b.graph("y")
    x = np.array([[[[1.0], [1.0]], [[1.0], [1000.0]]]], np.float32)
    found = run(graph, {"x": x}).outputs["y"]
    assert found.max() < 500
    off = found.copy()
    off[0, 0, 0, 0] += 5.0  # less than 0.006 times 1000
    assert check(graph, Record("left", {"y": off}), {"x": x}).ok
    off[0, 0, 0, 0] += 5.0
    assert not check(graph, Record("left", {"y": off}), {"x": x}).ok


def test_the_nearest_element_is_itself_without_official(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "FP32", (1, 2, 2, 1))
    for name, sizes in (("scale", (2, 1, 2, 1)), ("offset", (0, 0)), ("border", (0, 0))):
        b.shape(name, sizes)
    operands = ["x", "scale", "offset", "border"]
    b.op("RESIZE", operands, "y", "FP32", (1, 3, 3, 1), mode=ResizeMode.NEAREST)
    graph = b.graph("y")
    x = np.array([[[[1.0], [1.0]], [[1.0], [1000.0]]]], np.float32)
    found = run(graph, {"x": x}, engine="numpy").outputs["y"]
    for off, ok, by_official in ((0.0, True, True), (5.0, False, True), (10.0, False, False)):
        left = Record("left", {"y": found + np.float32(off)})
        assert check(graph, left, {"x": x}, engine="numpy").ok is ok
        official = Tolerances(official=True)
        result = check(graph, left, {"x": x}, tolerances=official, engine="numpy")
        assert result.ok is by_official


@pytest.mark.parametrize(
    ("kind", "factors", "result", "ok"),
    [
        ("FP16", (0.001, 0.001, 100, 100), 0.010127, True),  # 0.001 * 0.001 has fewer bits
        ("FP16", (0.001, 0.001, 100, 100), 0.0, True),  # or is flushed
        ("FP16", (0.001, 0.001, 100, 100), 0.012, False),
        ("FP16", (300, 300, 0.01, 0.01), np.inf, True),  # 300 * 300 overflows
        ("FP32", (3e38, 3e38, 0), np.nan, True),
        ("FP16", (0.5, 0.25, 2, 4), 1.0127, False),
        ("FP16", (0.5, 0.25, 2, 4), 0.0, False),
        ("FP32", (1e-20, 1e-20, 0), 1e-40, False),
    ],
)
def test_products_on_the_way_may_be_subnormal_or_overflow(
    builder: MakeBuilder, kind: str, factors: tuple[float, ...], result: float, ok: bool
) -> None:
    b, number = builder(), dtype(kind).numpy
    b.input("x", kind, (len(factors),))
    b.op("REDUCE_PRODUCT", ["x"], "y", kind, (1,), axis=0)
    graph = b.graph("y", b.op("IDENTITY", ["y"], "z", kind, (1,)))
    record = Record("found", dict.fromkeys("yz", np.asarray([result], number)))
    assert check(graph, record, {"x": np.asarray(factors, number)}, engine="numpy").ok == ok
