"""ONNX models: names, sizes, external weights, decompositions, and what does not lower."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)


def test_names_of_inputs_outputs_and_nodes_are_those_of_the_model(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["y"], name="first"),
        node("Relu", ["y"], ["z.out"], name="second"),
    ]
    weights = {"w": np.ones((3, 2), np.float32)}
    path = saved(tmp_path / "m.bin", nodes, {"x": (np.float32, [4, 3])}, ["z.out"], weights)
    graph = tc.frontends.from_file(path)
    assert graph.main.inputs == ["x"]
    assert graph.main.outputs == ["z.out"]
    assert any("second" in operator.location for operator in graph.main.operators)
    found = tc.run(graph, {"x": np.ones((4, 3), np.float32)}).outputs["z.out"]
    assert found.tolist() == [[3, 3]] * 4


def test_functions_of_a_model_are_inlined(tmp_path: Path) -> None:
    import onnx

    path = saved(
        tmp_path / "m.onnx",
        [node("Twice", ["x"], ["y"], domain="own")],
        {"x": (np.float32, [2, 3])},
        ["y"],
        functions=[
            onnx.helper.make_function(
                *("own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])]),
                [onnx.helper.make_opsetid("", 21)],
            )
        ],
    )
    graph = tc.frontends.from_onnx(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert tc.run(graph, {"x": x}).outputs["y"].tolist() == (2 * x).tolist()


def test_external_weights_are_read_from_the_folder_of_the_model(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).random((32, 32)).astype(np.float32)
    path = saved(
        tmp_path / "m.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, [2, 32])},
        ["y"],
        {"w": weight},
        save_as_external_data=True,
        size_threshold=0,
        location="m.data",
    )
    assert (tmp_path / "m.data").exists()
    x = np.ones((2, 32), np.float32)
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5)


def test_a_dimension_of_one_name_gets_one_size_everywhere(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "y"], ["z"])]
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        "x": (np.float32, ["n", 2]),
        "y": (np.float32, ["n", 2]),
    }
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["z"])
    for name in ("x", "arg1"):
        graph = tc.frontends.from_onnx(path, input_shapes={name: (3, 2)})
        assert graph.main.tensors["y"].shape == (3, 2)
    for shapes, code in (
        ({"w": (3, 2)}, "unknown-argument"),
        ({"x": (3,)}, "option-conflict"),
        ({"x": (3, 4)}, "option-conflict"),
        ({"x": (3, 2), "y": (4, 2)}, "option-conflict"),
        ({"x": (3, 2), "arg0": (4, 2)}, "option-conflict"),
    ):
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.frontends.from_onnx(path, input_shapes=shapes)
        assert caught.value.findings[0].code == code


def test_every_operator_that_does_not_lower_is_named_with_its_node(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["a"], name="where"),
        node("Det", ["x"], ["b"], name="determinant"),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, [20, 20])}, ["a", "b"])
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_onnx(path)
    found = {finding.code for finding in caught.value.findings}
    assert found == {"not-lowered"}
    text = str(caught.value)
    assert "NonZero" in text
    assert "Det" in text


def one(tmp_path: Path, kind: str, x: Any, *constants: Any, **attributes: Any) -> Any:
    """Return what one operator gives on the reference model, for an input and constants."""
    weights = {f"c{index}": array for index, array in enumerate(constants) if array is not None}
    names = [f"c{index}" if array is not None else "" for index, array in enumerate(constants)]
    nodes = [node(kind, ["x", *names], ["y"], **attributes)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (x.dtype, list(x.shape))}, ["y"], weights)
    graph = tc.frontends.from_onnx(path, narrow=["i64", "f64"])
    wanted = graph.main.tensors["x"].dtype.numpy
    given = x.view(wanted) if x.dtype.itemsize == wanted.itemsize else x.astype(wanted)
    return tc.run(graph, {"x": given}).outputs["y"]


@pytest.mark.parametrize(
    ("kind", "tried"), [("Add", r"with the open sizes N=3, M=7"), ("Reshape", r"sizes N=3, M=7")]
)
def test_what_does_not_lower_says_which_open_sizes_were_tried(
    tmp_path: Path, kind: str, tried: str
) -> None:
    operands = {"Add": ["x", "z"], "Reshape": ["x", "s"]}[kind]
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        "x": (np.float32, ["N", 4]),
        "z": (np.float32, ["M", 4]),
    }
    nodes, sizes = [node(kind, operands, ["y"])], {"s": np.array([-1, 8])}
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["y"], sizes)
    with pytest.raises(tc.TosaConvertError, match=tried) as caught:
        tc.frontends.from_onnx(path)
    hint = "give equal sizes one name, or set them: --input-shape x=1x4 --input-shape z=1x4"
    assert caught.value.findings[0].hint == hint


def test_random_operators_are_refused(tmp_path: Path) -> None:
    x = np.full((2, 3), 0.5, np.float32)
    with pytest.raises(tc.TosaConvertError, match="it draws random numbers"):
        one(tmp_path, "Bernoulli", x)
    ratio, training = np.array(0.5, np.float32), np.array(True)
    with pytest.raises(tc.TosaConvertError, match=r"Dropout.*draws random numbers"):
        one(tmp_path, "Dropout", x, ratio, training)
    assert one(tmp_path, "Dropout", x, np.array(0, np.float32), training).tolist() == x.tolist()
    assert one(tmp_path, "Dropout", x).tolist() == x.tolist()


def test_scores_that_onnxruntime_returns_without_the_mask_are_refused(tmp_path: Path) -> None:
    x = np.zeros((1, 2, 3, 4), np.float32)
    results = ["y", "keys", "values", "scores"]
    attend = node("Attention", ["x"] * 3, results, qk_matmul_output_mode=1, is_causal=1)
    path = saved(tmp_path / "m.onnx", [attend], {"x": (x.dtype, [*x.shape])}, results, opset=23)
    with pytest.raises(tc.TosaConvertError, match="onnxruntime returns scores without the mask"):
        tc.frontends.from_onnx(path)


def test_corners_of_a_size_that_is_not_whole_are_refused(tmp_path: Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    whole = np.array([1, 1, 0.75, 0.75], np.float32)
    found = one(tmp_path, "Resize", x, None, whole, **corners)
    assert found[0, 0, -1, -1] == 15
    with pytest.raises(tc.TosaConvertError, match="give it sizes, not scales"):
        one(tmp_path, "Resize", x, None, whole + np.array([0, 0, 0.1, 0.1], np.float32), **corners)


def test_rows_are_gathered_as_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    nodes = [node("Gather", ["table", "tokens"], ["y"], name="embed", axis=0)]
    path = saved(
        tmp_path / "m.onnx", nodes, {"tokens": (np.int64, [1, 3])}, ["y"], {"table": table}
    )
    graph = tc.frontends.from_file(path, narrow=["i64"])
    assert "narrowed i64 to i32 in 1 tensor: tokens" in caplog.text
    (gather,) = [row for row in graph.main.operators if row.spec.name == "GATHER"]
    assert graph.main.tensors[gather.inputs[0]].shape == (1, 7, 2)
    found = tc.run(graph, {"tokens": np.array([[6, 0, -2]], np.int32)}).outputs["y"]
    assert found.tolist() == [[[12, 13], [0, 1], [10, 11]]]


def test_sizes_that_are_not_fixed_are_said_beside_what_does_not_lower(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    nodes += [node("Det", ["y"], ["z"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, ["batch", 20, 20])}, ["z"])
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(path)
    assert caught.value.code == "not-lowered"
    assert "more operators lower once they are: --input-shape x=1x20x20" in caplog.text
