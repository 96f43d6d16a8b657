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
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.backends import isolated
from tosa_convert.golden.backends.isolated import ProgramCommand, results_of
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import ADAPTERS, open_adapter

BACKEND = ProgramCommand(["x"], Machine(sys.executable, 60.0))
FINDINGS = Path(__file__).parents[2] / "findings"


def test_an_assertion_is_no_refusal() -> None:
    command = ProgramCommand(["x"], Machine(sys.executable, 1.0), refusal="error: ")
    assert command.is_refusal("m.mlir:1:1: error: no")
    assert not command.is_refusal("m.mlir:1:1: error: no\nx: Assertion `a' failed.")


@pytest.mark.parametrize(
    ("said", "is_refusal"),
    [
        ("Validation error: 8K is exceeded", True),
        ("RuntimeError: Compilation failed: TOSA builder error: Failed to create ERF", True),
        ("RuntimeError: Compilation failed: TOSA FB Reader error: type", True),
        ("RuntimeError: Compilation failed: out of range", False),
    ],
)
def test_vela_refuses_what_it_does_not_read(said: str, is_refusal: bool) -> None:
    machine = Machine(sys.executable, 1.0)
    command = ProgramCommand(["x"], machine, refusal=ADAPTERS["vela:ethos-u55"].refusal)
    assert command.is_refusal(said) == is_refusal


@pytest.mark.parametrize(
    ("said", "is_refusal"),
    [
        ("ERROR: cannot retrieve the zero points from op\nFailed to compile network", True),
        ("ERROR: number of built mlir::Value is not matching\nFailed to compile network", False),
    ],
)
@pytest.mark.parametrize("name", ["model-converter", "tosa-opt:deserialize"])
def test_zero_points_that_are_inputs_may_be_refused(said: str, is_refusal: bool, name: str) -> None:
    machine = Machine(sys.executable, 1.0)
    command = ProgramCommand(["x"], machine, refusal=ADAPTERS[name].refusal)
    assert command.is_refusal(said) == is_refusal


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
    inputs: dict[str, Array] = {"condition": np.zeros(2, np.bool_), "x": np.array([1, 2], np.int8)}
    assert results_of(part.graph(), other.graph(), inputs, BACKEND)["y"].tolist() == [2, 1]


def test_a_consumer_may_leave_out_inputs_if_only_others_fit() -> None:
    """PAD and SLICE of all that was there need no element for the border."""
    part, other = Builder("main"), Builder("main")
    x, border = part.input("x", "INT8", (2, 3)), part.input("border", "INT8", (1,))
    whole = part.slice(part.pad(x, [0, 0, 1, 0], border), (0, 1), (2, 3))
    part.output(part.reverse(whole, axis=0), name="y")
    other.output(other.reverse(other.input("x", "INT8", (2, 3)), axis=0), name="y")
    inputs: dict[str, Array] = {
        "x": np.array([[1, 2, 3], [4, 5, 6]], np.int8),
        "border": np.zeros(1, np.int8),
    }
    found = results_of(part.graph(), other.graph(), inputs, BACKEND)
    assert found["y"].tolist() == [[4, 5, 6], [1, 2, 3]]


def test_inputs_of_model_converter_are_in_the_order_of_their_numbers() -> None:
    part, other = Builder("main"), Builder("main")
    x, y = part.input("x", "INT8", (2,)), part.input("y", "INT16", (2,))
    part.output(part.abs(part.cast(y, dtype="INT32")), name="b")
    part.output(part.reverse(x, axis=0), name="a")
    y, x = other.input("input_1", "INT16", (2,)), other.input("input_0", "INT8", (2,))
    other.output(other.abs(other.cast(y, dtype="INT32")), name="b")
    other.output(other.reverse(x, axis=0), name="a")
    inputs: dict[str, Array] = {"x": np.array([1, 2], np.int8), "y": np.array([3, -4], np.int16)}
    found = results_of(part.graph(), other.graph(), inputs, BACKEND)
    assert (found["a"].tolist(), found["b"].tolist()) == ([2, 1], [3, 4])


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


def test_iree_compiles_a_program_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = []

    def runs(machine: Any, software: str, model: str, inputs: Any, folder: Path) -> Any:
        compiled.append(not (folder / "module.vmfb").exists())
        (folder / "module.vmfb").write_bytes(b"module")
        return [lambda shape: inputs[0]], []

    monkeypatch.setattr(isolated, "run_worker", runs)
    backend, graphs = isolated.Iree(Machine(sys.executable, 60.0)), []
    for kind in ("abs", "negate"):
        b = Builder()
        b.output(getattr(b, kind)(b.input("x", "INT32", (2,))), name="y")
        graphs.append(b.graph())
    for number, graph in enumerate([graphs[0], graphs[0], graphs[1], graphs[0]]):
        (folder := tmp_path / str(number)).mkdir()
        x: Array = np.array([number, 1], np.int32)
        assert backend.compute(graph, ["y"], {"x": x}, [], folder)["y"].tolist() == x.tolist()
    assert compiled == [True, False, True, True]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["torch-mlir", "torch-mlir:canonicalize", "tosa-opt:serialize", "tosa-opt:deserialize"]
)
def test_a_consumer_computes_a_program(name: str) -> None:
    pytest.importorskip("torch_mlir" if name.startswith("torch") else "tosa_tools_cli")
    graph = golden.generate(seed=4, operators=2, kinds=["ADD", "TRANSPOSE"], types=["INT32"])
    assert golden.check(graph, name, random=1, engine="numpy").ok
