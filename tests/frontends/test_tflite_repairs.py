"""What the converter lowers wrongly, or not at all, is corrected or named."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, lowered
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_schema import ELEMENT_TYPES

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.process.request import Request
from tosa_convert.frontends.tflite.read import read_tflite
from tosa_convert.io.flatbuffer_tables import FlatbufferError

Array = npt.NDArray[Any]

pytestmark = NEEDS_TFLITE
X, Y = TensorRow("x", "float32", (2, 5)), TensorRow("y", "float32", (2, 5))


def result(graph: tc.Graph, *inputs: Array) -> Array:
    outputs = tc.run(graph, dict(zip(graph.main.inputs, inputs, strict=True))).outputs
    (array,) = outputs.values()
    return np.asarray(array)


def values(seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-9, 9, (2, 5)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("divisor", [3, -3, 7, None])
def test_floor_mod_has_the_sign_of_the_divisor(
    tmp_path: Path, dtype: str, divisor: int | None
) -> None:
    data = None if divisor is None else np.array([divisor], dtype)
    rows = [
        TensorRow("x", dtype, (2, 5)),
        TensorRow("c", dtype, (2, 5) if data is None else (1,), data),
        TensorRow("y", dtype, (2, 5)),
    ]
    inputs = [0, 1] if data is None else [0]
    graph = lowered(tmp_path, rows, [OperatorRow("FLOOR_MOD", (0, 1), (2,))], inputs, [2])
    x = np.array([[-9, -7, -3, -1, 0], [1, 2, 3, 7, 100]], dtype)
    given = [x] if data is not None else [x, np.array([[2, -2, 5, -5, 3]] * 2, dtype)]
    expected = np.mod(x, data if data is not None else given[1])
    np.testing.assert_allclose(result(graph, *given), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "returned"),
    [((0.05, -3), (0.05, -128)), ((0.05, -3), (0.031, -128)), ((0.02, 127), (0.07, 5))],
)
def test_abs_of_int8_is_a_table_with_the_values_of_tflite(
    tmp_path: Path, given: tuple[float, int], returned: tuple[float, int]
) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    rows = [
        TensorRow(name, "int8", (2, 128), None, (scale,), (zero_point,))
        for name, (scale, zero_point) in (("x", given), ("y", returned))
    ]
    graph = lowered(tmp_path, rows, [OperatorRow("ABS", (0,), (1,))], [0], [1])
    every = {"x": np.arange(-128, 128).astype(np.int8).reshape(2, 128)}
    assert tc.check(graph, f"tflite:{tmp_path / 'm.tflite'}", every).ok
    found = np.asarray(tc.run(graph, every).outputs["y"])
    assert found.min() < found.max()


def test_what_the_converter_says_is_repeated_if_no_operator_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tosa_convert.frontends.tflite import convert

    calls = []

    def converted(path: Path, *more: object) -> None:
        calls.append(path)
        if len(calls) == 1:
            os.write(2, b"long" * 51 + b"\n" + b"".join(b"%d\n" % n for n in range(19)))
            raise RuntimeError("it fails")

    monkeypatch.setattr(convert, "_convert", converted)
    path = tmp_path / "m.tflite"
    path.write_bytes(model([X, Y], [OperatorRow("RELU", (0,), (1,))], [0], [1]))
    with pytest.raises(tc.TosaConvertError) as caught:
        convert.lower(Request(frontend="tflite", source=str(path)), tmp_path)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("frontend-failed", str(path))
    first, *lines = finding.message.splitlines()
    assert first == "TFLite's converter fails: it fails"
    assert lines == ["    " + "long" * 50, *(f"    {n}" for n in range(11))]
    assert len(capfd.readouterr().err.splitlines()) == 20
    assert [one.name for one in calls] == ["m.tflite", "m.tflite"]


@pytest.mark.parametrize("is_read_late", [False, True])
def test_damage_that_the_converter_does_not_see_is_named(
    is_read_late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.frontends.tflite import convert

    def damaged(model: Any) -> Any:
        raise FlatbufferError("it is so")

    monkeypatch.setattr(convert, "_convert", lambda *more: None)
    if is_read_late:
        monkeypatch.setattr(convert, "find_refused", damaged)
    rows = [
        TensorRow(name, "int8", (2, 5), None, (scale,), (0,))
        for name, scale in (("x", 1), ("y", 1e-45))
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, [OperatorRow("RELU", (0,), (1,))], [0], [1]))
    request = Request(frontend="tflite", source=str(path), shown="shown.tflite")
    with pytest.raises(tc.TosaConvertError) as caught:
        convert.lower(request, tmp_path)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("unrecognised-input", "shown.tflite")
    expected = 'operator 0, which makes "y": RELU does not have the operands or options'
    assert finding.message.startswith(
        "the TFLite file is damaged: it is so" if is_read_late else expected
    )


def test_names_come_from_the_signature(tmp_path: Path) -> None:
    gelu = [OperatorRow("GELU", (0,), (1,), {"approximate": True})]
    graph = lowered(tmp_path, [X, Y], gelu, [0], [1], signature=(["layer_3"], ["score"]))
    assert (graph.main.inputs, graph.main.outputs) == (["layer_3"], ["score"])


@pytest.mark.parametrize("kind", ["ethos-u", "my_operator"])
@pytest.mark.parametrize("words", [[], ["--partial"]])
def test_a_custom_operator_with_memory_that_nothing_makes_is_named(
    kind: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = [
        TensorRow("x", "int8", (1, 4)),
        TensorRow("scratch", "uint8", (32,)),
        TensorRow("y", "int8", (1, 4)),
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(tensors, [OperatorRow(kind, (0, 1), (2,))], [0], [2]))
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "m.tosa"), *words]) != 0
    said = capsys.readouterr().err
    assert f'{kind} has no lowering to TOSA: it takes "scratch"' in said
    assert "not-lowered" in said
    assert ("Vela" in said) is (kind == "ethos-u")


def test_convert_says_the_scales_that_the_program_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        TensorRow("x", "int8", (1, 5), None, (0.25,), (-128,)),
        TensorRow("y", "int8", (1, 5), None, (0.5,), (3,)),
    ]
    path = tmp_path / "q.tflite"
    path.write_bytes(model(rows, [OperatorRow("ABS", (0,), (1,))], [0], [1]))
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "q.tosa")]) == 0
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "input x: int8, scale 0.25 zero point -128; the program does not hold them",
        "output y: int8, scale 0.5 zero point 3; the program does not hold them",
    ]
    assert run(verb("convert"), ["-q", str(path), "-o", str(tmp_path / "q.tosa")]) == 0
    assert capsys.readouterr().err == ""
    rows = [TensorRow("x", "bool", (1, 5)), TensorRow("y", "uint8", (1, 5))]
    path.write_bytes(model(rows, [OperatorRow("CAST", (0,), (1,))], [0], [1]))
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "q.tosa")]) == 0
    assert "output y: uint8; the program has its bits as int8" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["int8", "int4", "int16"])
@pytest.mark.parametrize("operator", ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "MUL"])
def test_operators_that_have_hybrid_kernels_are_told_of(
    operator: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.frontends.tflite import convert

    monkeypatch.setitem(ELEMENT_TYPES, "int4", 17)
    weights = TensorRow("w", dtype, (2, 5))
    for rows in ([X, weights, Y], [weights, X, Y], [X, X, Y]):
        rows = [replace(row, name=name) for row, name in zip(rows, "abc", strict=True)]
        product = OperatorRow(operator, (0, 1), (2,))
        said = convert._remarks(read_tflite(model(rows, [product, product], [0, 1], [2])))
        is_hybrid = rows[1].dtype in ("int8", "int4") and operator != "MUL"
        assert len(said) is int(is_hybrid and rows[0].dtype == "float32")
        expected = f'2 products of FP32, beginning with {operator} that makes "c": weights of'
        assert not said or said[0].startswith(expected)


@pytest.mark.parametrize("inside", [False, True])
def test_products_of_floats_with_integer_weights_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, inside: bool
) -> None:
    weights = TensorRow("w", "int8", (5, 5), np.eye(5, dtype=np.int8), (0.5,), (0,))
    tensors, rows = [X, Y, weights], [OperatorRow("FULLY_CONNECTED", (0, 2, -1), (1,))]
    if inside:
        i, more = TensorRow("i", "int32", ()), TensorRow("more", "int32", ())
        one = TensorRow("one", "int32", (), np.array(1, np.int32))
        less = [OperatorRow("LESS", (0, 2), (3,))]
        condition = Subgraph([i, X, one, TensorRow("goes_on", "bool", ())], less, [0, 1], [3])
        add = OperatorRow("ADD", (3, 4), (5,))
        body = Subgraph([*tensors, i, one, more], [*rows, add], [3, 0], [5, 1])
        loop = OperatorRow(
            "WHILE", (0, 1), (2, 3), {"cond_subgraph_index": 1, "body_subgraph_index": 2}
        )
        data = model([i, X, more, Y], [loop], [0, 1], [2, 3], others=[condition, body])
    else:
        data = model(tensors, rows, [0], [1])
    (tmp_path / "m.tflite").write_bytes(data)
    tc.frontends.from_tflite(tmp_path / "m.tflite")
    assert '1 product of FP32, beginning with FULLY_CONNECTED that makes "y"' in caplog.text
