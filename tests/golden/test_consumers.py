"""Test what consumers write, what they may leave out, and what counts as their refusal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder, dtype_of
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.backends import isolated
from tosa_convert.golden.backends.isolated import ProgramCommand, results_of
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import ADAPTERS, open_adapter

BACKEND = ProgramCommand(["x"], Machine(sys.executable, 60.0))
FINDINGS = Path(__file__).parents[2] / "findings"


def test_a_consumer_may_join_equal_operators_and_drop_unused_inputs() -> None:
    part, other, spoilt = Builder("main"), Builder("main"), Builder("main")
    part.input("unused", "INT8", (3,))
    x = part.input("x", "INT32", (2,))
    part.output(part.abs(x), name="one")
    part.output(part.abs(x), name="other")
    absolute = other.abs(other.input("y", "INT32", (2,)))
    other.output(absolute, name="both")
    joined = other.graph()
    joined.main.outputs.append("both")
    inputs: dict[str, Array] = {"unused": np.zeros(3, np.int8), "x": np.array([-1, 2], np.int32)}
    found = results_of(part.graph(), joined, inputs, BACKEND)
    assert {name: found[name].tolist() for name in found} == {"one": [1, 2], "other": [1, 2]}
    spoilt.output(spoilt.const([1, 2], "INT32"))
    with pytest.raises(TosaConvertError, match="0 inputs, the program 1"):
        results_of(part.graph(), spoilt.graph(), inputs, BACKEND)


def test_a_consumer_may_drop_inputs_that_no_result_follows_from() -> None:
    part, other = Builder("main"), Builder("main")
    x, dead = part.input("x", "INT8", (2,)), part.input("dead", "INT32", (3,))
    kept = part.input("kept", "INT8", (4,))
    part.abs(dead)
    part.output(part.reverse(x, axis=0), name="y")
    part.write(part.variable("state", "INT8", (4,)), kept)
    graph = part.graph()
    y, state = other.input("y", "INT8", (2,)), other.input("state", "INT8", (4,))
    other.output(other.reverse(y, axis=0), name="z")
    other.reverse(state, axis=0)
    inputs: dict[str, Array] = {
        "x": np.array([1, 2], np.int8),
        "dead": np.zeros(3, np.int32),
        "kept": np.zeros(4, np.int8),
    }
    assert results_of(graph, other.graph(), inputs, BACKEND)["y"].tolist() == [2, 1]
    alone = Builder("main")
    alone.output(alone.reverse(alone.input("y", "INT8", (2,)), axis=0), name="z")
    with pytest.raises(TosaConvertError, match="1 input, the program 3"):
        results_of(graph, alone.graph(), inputs, BACKEND)


def test_a_consumer_may_leave_out_inputs_of_folded_operators() -> None:
    part, other = Builder("main"), Builder("main")
    condition, x = part.input("condition", "BOOL", (2,)), part.input("x", "INT8", (2,))
    part.output(part.reverse(part.select(condition, x, x), axis=0), name="y")
    other.output(other.reverse(other.input("x", "INT8", (2,)), axis=0), name="y")
    inputs: dict[str, Array] = {
        "condition": np.zeros(2, np.bool_),
        "x": np.array([1, 2], np.int8),
    }
    assert results_of(part.graph(), other.graph(), inputs, BACKEND)["y"].tolist() == [2, 1]


@pytest.mark.parametrize("has_scales", [False, True])
def test_iree_takes_no_scales(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_scales: bool
) -> None:
    def fails(*_: Any) -> Any:
        raise fail("backend-failed", "iree", "input list and function mismatch; expected 1")

    monkeypatch.setattr(isolated, "run_worker", fails)
    b = Builder()
    b.output(b.identity(b.input("x", "FP8E5M2", (1, 32))))
    blocks = FINDINGS / "iree-crashes-on-reshape-of-blocks" / "model.tosa"
    graph = tc.load(blocks) if has_scales else b.graph()
    with pytest.raises(TosaConvertError) as caught:
        isolated.Iree(Machine(sys.executable, 60.0)).run(graph, {}, tmp_path)
    assert caught.value.code == ("backend-refused" if has_scales else "backend-failed")


def test_a_consumer_may_not_take_other_element_types() -> None:
    part, other = Builder("main"), Builder("main")
    for builder, element in ((part, "INT64"), (other, "INT32")):
        x = builder.input("x", dtype_of(element), (2, 3))
        builder.output(builder.logical_right_shift(x, x), name="y")
    inputs: dict[str, Array] = {"x": np.ones((2, 3), np.int64)}
    with pytest.raises(TosaConvertError, match="takes INT32 where the program takes INT64"):
        results_of(part.graph(), other.graph(), inputs, BACKEND)


def test_a_consumer_that_is_not_installed_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, row in ADAPTERS.items():
        if row.words:
            with pytest.raises(TosaConvertError, match=f"pip install {row.package}"):
                open_adapter(name, Machine(str(tmp_path / "python"), 1.0), None)


def test_an_engine_is_not_compared_with_itself() -> None:
    graph = golden.generate(seed=4, operators=1, kinds=["REVERSE"])
    with pytest.raises(TosaConvertError, match="nothing would be compared"):
        golden.check(graph, "reference-model", random=1, engine="reference-model")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["torch-mlir", "torch-mlir:canonicalize", "tosa-opt:serialize", "tosa-opt:deserialize"]
)
def test_a_consumer_computes_a_program(name: str) -> None:
    pytest.importorskip("torch_mlir" if name.startswith("torch") else "tosa_tools_cli")
    graph = golden.generate(seed=4, operators=2, kinds=["ADD", "TRANSPOSE"], types=["INT32"])
    assert golden.check(graph, name, random=1, engine="numpy").ok
