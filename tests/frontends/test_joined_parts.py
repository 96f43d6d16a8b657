"""Programs that a converter wrote in parts are one program, with a double in place of the converter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.partial import joined
from tosa_convert.frontends.process.request import (
    Cut,
    CutOperator,
    Interface,
    Operand,
    Part,
    State,
    Value,
    Whole,
)
from tosa_convert.frontends.quantisation_parameters import Scale, scales_of
from tosa_convert.io.options import ReadOptions

SHAPE = (2, 3)


def value(name: str, dtype: str = "float32", shape: tuple[int, ...] = SHAPE) -> Value:
    return Value(name=name, dtype=dtype, shape=shape)


def write_add(path: Path) -> None:
    """x + y and x, in an order of its own, with names that clash with others."""
    b = Builder("part")
    x, y = b.input("x", "fp32", SHAPE), b.input("y", "fp32", SHAPE)
    b.output(b.add(x, y), name="sum")
    b.output(b.mul(x, 2.0), name="a")
    tc.save(b.graph(), path)


def whole_of(folder: Path) -> Whole:
    """b + a, then its absolute value; the second part calls its values as the first does."""
    write_add(folder / "part0.tosa")
    b = Builder("part")
    b.output(b.abs(b.input("x", "fp32", SHAPE)), name="sum")
    tc.save(b.graph(), folder / "part1.tosa")
    return Whole(
        parts=[
            Part(file="part0.tosa", inputs=["b", "a"], outputs=["call.0", "call.1"]),
            Part(file="part1.tosa", inputs=["call.0"], outputs=["call_1.0"]),
        ],
        values=[value(name) for name in ("a", "b", "call.0", "call.1", "call_1.0")],
        inputs=["a", "b"],
        outputs=["call_1.0", "call.1"],
        constants={},
    )


def graph_of(whole: Whole, folder: Path) -> tc.Graph:
    return joined(whole, folder, ReadOptions(copy=True), "executorch")


def test_parts_are_connected_in_the_order_of_the_whole(tmp_path: Path) -> None:
    graph = graph_of(whole_of(tmp_path), tmp_path)
    assert tc.validate(graph) == []
    assert graph.main.inputs == ["a", "b"]
    pytest.importorskip("tosa_tools_cli")
    a, b = np.full(SHAPE, -5, np.float32), np.full(SHAPE, 2, np.float32)
    found = tc.run(graph, {"a": a, "b": b}).outputs
    results = [found[name] for name in graph.main.outputs]
    np.testing.assert_array_equal(results, [np.full(SHAPE, 3), np.full(SHAPE, 4)])


def test_a_part_of_another_form_is_refused(tmp_path: Path) -> None:
    whole = whole_of(tmp_path)
    whole.parts[1].inputs.append("a")
    with pytest.raises(tc.TosaConvertError, match=r"part1\.tosa has 1 inputs, expected 2"):
        graph_of(whole, tmp_path)


def test_a_part_that_takes_another_shape_is_refused(tmp_path: Path) -> None:
    whole = whole_of(tmp_path)
    whole.values[1].shape = (3, 2)
    with pytest.raises(tc.TosaConvertError, match=r"takes b as FP32 \[2, 3\], it is FP32 \[3, 2\]"):
        graph_of(whole, tmp_path)


def test_a_type_that_tosa_does_not_have_is_refused(tmp_path: Path) -> None:
    whole = whole_of(tmp_path)
    whole.values[0].dtype = "complex64"
    with pytest.raises(tc.TosaConvertError, match="complex64, which TOSA does not have"):
        graph_of(whole, tmp_path)


@pytest.mark.parametrize("missing", ["part0.tosa", "part1.tosa"])
def test_a_damaged_part_is_an_error(tmp_path: Path, missing: str) -> None:
    whole = whole_of(tmp_path)
    (tmp_path / missing).write_bytes(b"not a program \0")
    with pytest.raises(tc.TosaConvertError):
        graph_of(whole, tmp_path)


# -- by way of a converter -------------------------------------------------------------------------

#: Copies the files beside the model into the folder, as a converter would write them.
_COPIES = """
import json, os, pathlib, shutil, sys
folder = pathlib.Path(sys.argv[-1])
source = pathlib.Path(json.loads((folder / "request.json").read_text())["source"])
for path in source.parent.glob("made/*"):
    shutil.copy(path, folder)
"""


@pytest.fixture
def convert(tmp_path: Path, program: Callable[[str], str]) -> Callable[..., int]:
    """Runs `convert --via executorch` of a model for which a double writes the files of `made`."""
    (tmp_path / "net.py").write_text("import torch\n\n\ndef make(): ...\n", encoding="utf-8")
    python = program(_COPIES)

    def call(interface: Interface, *words: str) -> int:
        text = interface.to_json()
        assert Interface.from_json(text) == interface
        (tmp_path / "made" / "interface.json").write_text(text, encoding="utf-8")
        source, target = f"{tmp_path / 'net.py'}:make", str(tmp_path / "m.tosa")
        command = [source, "-o", target, "--via", "executorch", "--python", python, *words]
        return run(verb("convert"), command)

    (tmp_path / "made").mkdir()
    return call


def interface_of(folder: Path) -> Interface:
    return Interface(
        inputs=[Value(name="image", dtype="int8", shape=SHAPE, scale=0.5, zero_point=-3)],
        outputs=[Value(name="logits"), Value(name="more")],
        states=[State(name="n", argument=1, result=2, array="state0")],
        remarks=["the input image is int8: scale 0.5, zero point -3"],
        whole=_with_state(folder),
    )


def _with_state(folder: Path) -> Whole:
    whole = whole_of(folder)
    np.savez(folder / "state.npz", state0=np.ones(SHAPE, np.float32))
    whole.outputs = ["call_1.0", "call.1", "call.0"]
    return whole


def test_a_program_in_parts_has_the_names_and_the_states_of_the_framework(
    tmp_path: Path, convert: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    assert convert(interface_of(tmp_path / "made")) == 0
    assert "the input image is int8: scale 0.5, zero point -3" in caplog.messages
    graph = tc.load(tmp_path / "m.tosa")
    assert (graph.main.inputs, graph.main.outputs) == (["image"], ["logits", "more"])
    variables = [row for row in graph.main.tensors.values() if row.variable]
    assert [row.variable_name for row in variables] == ["n"]


def test_nothing_can_be_narrowed_in_parts(
    tmp_path: Path, convert: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert convert(interface_of(tmp_path / "made"), "--narrow", "i64") == 2
    assert "no types that can be narrowed" in capfd.readouterr().err
    assert not (tmp_path / "m.tosa").exists()


def test_an_operator_between_parts_is_left_to_the_caller(
    tmp_path: Path, convert: Callable[..., int]
) -> None:
    """The second part takes what an operator makes of the sum and of a constant."""
    made = tmp_path / "made"
    whole = whole_of(made)
    np.savez(made / "constants.npz", w=np.arange(6, dtype=np.int64).reshape(SHAPE))
    whole.constants = {"w": "w"}
    whole.values += [value("w", "int64"), value("det")]
    whole.parts[1].inputs = ["det"]
    whole.inputs, whole.outputs = ["a", "b", "det"], ["call_1.0", "call.0", "w"]
    row = CutOperator(
        operator="aten.det", operands=(Operand(place=1), Operand(place=2)), results=(2,)
    )
    interface = Interface(
        inputs=[Value(name="a"), Value(name="b"), Value(name="aten.det.0")],
        outputs=[Value(name="y"), Value(name="operand.0"), Value(name="operand.1")],
        cut=Cut(inputs=2, outputs=(0,), operators=(row,)),
        whole=whole,
    )
    assert convert(interface, "--partial") == 0
    rows: dict[str, Any] = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert (rows["inputs"], rows["outputs"]) == (["a", "b"], ["y"])
    kinds = ["program" if "program" in step else step["operator"] for step in rows["steps"]]
    assert kinds == ["program", "aten.det", "program"]
    assert [next(iter(one)) for one in rows["steps"][1]["arguments"]] == ["value", "constant"]
    with np.load(tmp_path / "m.constants.npz") as stored:
        (array,) = dict(stored).values()
    np.testing.assert_array_equal(array, np.arange(6).reshape(SHAPE))


# -- scales ----------------------------------------------------------------------------------------


def test_integers_stand_for_numbers_and_back() -> None:
    scale = Scale(0.02, 17)
    integers = np.arange(-128, 128, dtype=np.int8)
    again = scale.quantised(scale.numbers(integers), integers.dtype)
    np.testing.assert_array_equal(again, integers)
    assert scale.quantised(np.array([1e9, -1e9]), integers.dtype).tolist() == [127, -128]


def test_only_quantised_values_have_a_scale() -> None:
    rows = [Value(name="x", scale=0.5, zero_point=3), Value(name="y")]
    assert scales_of(rows, ["renamed", "y"]) == {"renamed": Scale(0.5, 3)}
    assert asdict(rows[1])["scale"] is None
