"""What is told of a TFLite model: what does not lower, its names, and what is computed otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, lowered
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_schema import ACTIVATIONS, ELEMENT_TYPES

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.tflite.read import read_tflite

Array = npt.NDArray[Any]

pytestmark = NEEDS_TFLITE
X, Y = TensorRow("x", "float32", (2, 5)), TensorRow("y", "float32", (2, 5))


def result(graph: tc.Graph, *inputs: Array) -> Array:
    outputs = tc.run(graph, dict(zip(graph.main.inputs, inputs, strict=True))).outputs
    (array,) = outputs.values()
    return np.asarray(array)


def values(seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-9, 9, (2, 5)).astype(np.float32)


def test_operators_that_do_not_lower_are_listed_with_their_index_and_advice(tmp_path: Path) -> None:
    tanh = {"activation": ACTIVATIONS["tanh"]}
    rows = [
        OperatorRow("GELU", (0,), (1,), {"approximate": True}),
        OperatorRow("ADD", (1, 1), (2,), tanh),
        OperatorRow("ADD", (2, 1), (3,), tanh),
        OperatorRow("MUL", (3, 3), (4,), tanh),
    ]
    tensors = [X, *(TensorRow(name, "float32", (2, 5)) for name in ("a", "b", "middle")), Y]
    with pytest.raises(tc.TosaConvertError) as caught:
        lowered(tmp_path, tensors, rows, [0], [4])
    found = [(row.code, row.where.partition(": ")[2]) for row in caught.value.findings]
    assert found == [
        ("not-lowered", 'operator 1, which makes "b"'),
        ("not-lowered", 'operator 2, which makes "middle"'),
        ("not-lowered", 'operator 3, which makes "y"'),
    ]
    first, *_ = caught.value.findings
    assert first.message.startswith("ADD has no lowering to TOSA, 2 times: TFLite does not have")
    assert "leave it to the caller" in first.hint
    assert "--partial" in first.hint


@pytest.mark.parametrize("is_option", [False, True])
def test_damage_of_an_operator_is_named(is_option: bool, tmp_path: Path) -> None:
    rows = [
        TensorRow(name, "int8", (2, 5), None, (scale,), (0,))
        for name, scale in (("x", 1), ("y", 1e-45))
    ]
    row = OperatorRow("RELU", (0,), (1,))
    if is_option:
        rows = [X, TensorRow("y", "float32", (5, 2))]
        row = OperatorRow("RESHAPE", (0,), (1,), {"new_shape": (3, 3)})
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, [row], [0], [1]))
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_tflite(path)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("unrecognised-input", str(path))
    of = "RESHAPE of float32" if is_option else "RELU of int8"
    expected = f'operator 0, which makes "y": {of} does not have the operands or options'
    assert finding.message.startswith(expected)


def test_elements_of_two_scales_are_not_joined(tmp_path: Path) -> None:
    scales = (("x", 0.1), ("y", 0.2), ("joined", 0.1))
    rows = [
        TensorRow(
            name, "int8", (2, 5 if name != "joined" else 10), scales=(scale,), zero_points=(0,)
        )
        for name, scale in scales
    ]
    joined = OperatorRow("CONCATENATION", (0, 1), (2,), {"axis": 1})
    with pytest.raises(tc.TosaConvertError, match="TFLite joins elements of one scale"):
        lowered(tmp_path, rows, [joined], [0, 1], [2])


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
        product = OperatorRow(operator, (0, 1, 0), (2,))
        said = convert._remarks(read_tflite(model(rows, [product, product], [0, 1], [2])))
        is_hybrid = rows[1].dtype in ("int8", "int4") and operator != "MUL"
        assert len(said) is int(is_hybrid and rows[0].dtype == "float32")
        expected = f'2 products of FP32, beginning with {operator} that makes "c": weights of'
        assert not said or said[0].startswith(expected)


@pytest.mark.parametrize(
    ("dtype", "sizes", "wanted", "is_told"),
    [
        # Of 12 fractions half are even; LiteRT rounds 89.5 to 89 here, and to 90 in two.
        ("uint8", (7, 5), (3, 4), True),
        ("uint8", (6, 4), (4, 4), False),
        ("uint8", (13, 13), (7, 7), False),
        ("int8", (7, 5), (3, 4), False),
    ],
)
def test_resized_bytes_whose_halves_tflite_does_not_hold_are_told_of(
    dtype: str, sizes: tuple[int, int], wanted: tuple[int, int], is_told: bool
) -> None:
    from tosa_convert.frontends.tflite import convert

    rows = [
        TensorRow("x", dtype, (1, *sizes, 2), None, (0.5,), (0,)),
        TensorRow("n", "int32", (2,), np.array(wanted, np.int32)),
        TensorRow("y", dtype, (1, *wanted, 2), None, (0.5,), (0,)),
    ]
    resized = OperatorRow("RESIZE_BILINEAR", (0, 1), (2,))
    said = convert._remarks(read_tflite(model(rows, [resized], [0], [2])))
    assert [text[:43] for text in said] == ['RESIZE_BILINEAR of uint8 that makes "y": TF'] * is_told


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
