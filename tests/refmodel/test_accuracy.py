"""The bounds on errors, against the official verifier.

For each kind of rule an official-style descriptor is written, one element of a result is moved across
the bound in small steps, and our verdict must be the verifier's at each of them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.refmodel import process
from tosa_convert.refmodel.accuracy import EXACT, FLOATS, Rule, rule_of, rules
from tosa_convert.refmodel.arrays import Slot, save_npy


@pytest.fixture(scope="session")
def verifier() -> Path:
    try:
        program = process.locate().with_name("tosa_verify")
    except TosaConvertError as error:
        pytest.skip(f"no reference model: {error}")
    if not program.exists():
        pytest.skip("this tosa-tools has no tosa_verify")
    return program


def official(
    verifier: Path,
    folder: Path,
    kind: str,
    mode: dict,
    reference,
    bounds,
    actual,
) -> bool:
    """The official verdict on one element among exact ones."""
    shape = list(actual.shape)
    row = {"data_type": kind, "shape": shape, **mode}
    description = {
        "tosa_file": "test.tosa",
        "ifm_name": [],
        "ifm_file": [],
        "ofm_name": ["out"],
        "ofm_file": ["ref.npy"],
        "expected_failure": False,
        "meta": {"compliance": {"version": "1.2", "tensors": {"out": row}}},
    }
    (folder / "desc.json").write_text(json.dumps(description))
    np.save(folder / "ref.npy", reference)
    np.save(folder / "bnd.npy", bounds)
    save_npy(folder / "imp.npy", Slot("out", "out", dtype(kind), actual.shape), actual)
    command = [str(verifier), "--test_desc=desc.json", "--imp_result_file=imp.npy"]
    command += ["--ref_result_file=ref.npy", "--bnd_result_file=bnd.npy"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode in (0, 2), ended.stderr
    return ended.returncode == 0


MODES = {
    "ulp": (Rule("ulp", 2.0), {"mode": "ULP", "ulp_info": {"ulp": 2.0}}),
    "half": (Rule("ulp", 0.5), {"mode": "ULP", "ulp_info": {"ulp": 0.5}}),
    "cast": (
        Rule("ulp", 0.5, lower=1.0),
        {"mode": "ULP", "ulp_info": {"ulp": 0.5, "ulp_lower": 1.0}},
    ),
    "product": (
        Rule("reduce-product", 4),
        {"mode": "REDUCE_PRODUCT", "reduce_product_info": {"n": 4}},
    ),
    "exp": (
        Rule("abs-error", base=3.0),
        {"mode": "ABS_ERROR", "abs_error_info": {"base_bound": 3.0}},
    ),
    "log": (
        Rule("abs-error", lower=0.5),
        {"mode": "ABS_ERROR", "abs_error_info": {"lower_bound": 0.5}},
    ),
    "cos": (
        Rule("abs-error", base=1.0, divisor=2.0, magnitude=True),
        {
            "mode": "ABS_ERROR",
            "abs_error_info": {"base_bound": 1.0, "bound_as_magnitude": True, "normal_divisor": 2},
        },
    ),
    "dot": (
        Rule("dot-product", 24.0),
        {
            "mode": "DOT_PRODUCT",
            "dot_product_info": {
                "s": -1,
                "ksb": 4,
                "abs_bound": 24,
                "variance_error_bound": 1e30,
            },
        },
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("kind", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("value", [0.7, -3.0])
def test_a_bound_lies_where_the_official_verifier_has_it(
    verifier: Path, tmp_path: Path, name: str, kind: str, value: float
) -> None:
    rule, mode = MODES[name]
    row = dtype(kind)
    frac = FLOATS[kind][0]
    reference = np.full((4,), np.float64(np.asarray(value).astype(row.numpy)))
    bounds = np.abs(reference) * 1.25
    low, high, _ = rule.limits(reference, bounds, row)
    seen = set()
    ulp = 2.0 ** (np.floor(np.log2(abs(value))) - frac)
    for limit in (low[1], high[1]):
        for steps in (-1, -0.25, 0.25, 1):
            actual = reference.astype(row.numpy)
            actual[1] = np.asarray(limit + steps * ulp).astype(row.numpy)
            ours = bool(rule.accepts(actual, reference, bounds, row).all())
            assert ours == official(verifier, tmp_path, kind, mode, reference, bounds, actual), (
                f"limit {limit}, found {actual[1]}"
            )
            seen.add(ours)
    assert seen == {True, False}


@pytest.mark.oracle
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 1e-40, 3.4e38])
@pytest.mark.parametrize("found", [np.nan, np.inf, -np.inf, 0.0, 1e-40, 3.4e38])
def test_special_values_are_judged_as_the_official_verifier_does(
    verifier: Path, tmp_path: Path, value: float, found: float
) -> None:
    rule, mode = MODES["ulp"]
    row = dtype("FP32")
    reference = np.float64([1.0, value])
    actual = np.float32([1.0, found])
    ours = bool(rule.accepts(actual, reference, None, row).all())
    assert ours == official(verifier, tmp_path, "FP32", mode, reference, reference, actual)


def test_at_most_one_operator_on_the_way_may_err(builder) -> None:
    b = builder()
    b.input("x", "FP32", (4,))
    b.op("EXP", ["x"], "e", "FP32", (4,))
    b.op("REVERSE", ["e"], "r", "FP32", (4,), axis=0)
    b.op("ADD", ["r", "x"], "s", "FP32", (4,))
    b.op("ABS", ["x"], "a", "FP32", (4,))
    b.op("ADD", ["a", "x"], "p", "FP32", (4,))
    found = rules(b.graph("s"))
    assert found["e"] == found["r"] == Rule("abs-error", base=3.0)
    assert "s" not in found
    assert found["a"] == EXACT
    assert found["p"] == Rule("ulp", 0.5)


def test_integers_are_exact_but_for_an_inexact_rescale(builder) -> None:
    b = builder()
    b.input("x", "INT8", (4,))
    for mode in RoundingMode:
        b.op("RESCALE", ["x"], mode.name, "INT8", (4,), rounding_mode=mode)
    graph: Graph = b.graph("SINGLE_ROUND")
    judged = {op.outputs[0]: rule_of(graph.main, op, op.outputs[0]) for op in graph.main.operators}
    assert judged["SINGLE_ROUND"] == judged["DOUBLE_ROUND"] == EXACT
    assert judged["INEXACT_ROUND"] == Rule("steps", 1.0)


def test_a_sum_of_products_may_err_by_its_length_and_its_accumulator(builder) -> None:
    def amount(kind: str) -> float:
        b = builder()
        b.input("a", kind, (1, 2, 100))
        b.input("b", kind, (1, 100, 3))
        b.op("MATMUL", ["a", "b"], "c", "FP32" if kind == "FP32" else "FP16", (1, 2, 3))
        graph = b.graph("c")
        rule = rule_of(graph.main, graph.main.operators[0], "c")
        assert rule is not None
        assert rule.kind == "dot-product"
        return rule.amount

    assert amount("FP32") == 600
    assert amount("FP16") == 200
