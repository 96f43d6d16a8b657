"""ONNX models with integers of 2 to 8 bits as inputs, outputs, weights and results of casts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)


@pytest.mark.usefixtures("refmodel")
def test_integers_of_few_bits_have_eight(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    types = {
        "x": TensorProto.FLOAT,
        "w": TensorProto.INT4,
        "scale": TensorProto.FLOAT,
        "wrapped": TensorProto.INT4,
        "unsigned": TensorProto.UINT4,
        "like": TensorProto.INT4,
        "real": TensorProto.FLOAT,
        "same": TensorProto.INT4,
        "quantised": TensorProto.INT4,
        "two": TensorProto.INT2,
    }
    infos = {
        name: helper.make_tensor_value_info(name, kind, [3] if name == "scale" else [3, 4])
        for name, kind in types.items()
    }
    nodes = [
        node("Cast", ["x"], ["wrapped"], to=TensorProto.INT4, name="a"),
        node("Cast", ["x"], ["unsigned"], to=TensorProto.UINT4, name="b"),
        node("CastLike", ["x", "w"], ["like"], name="c"),
        node("Cast", ["w"], ["real"], to=TensorProto.FLOAT, name="d"),
        node("Cast", ["x"], ["two"], to=TensorProto.INT2, name="f"),
        node("Identity", ["w"], ["same"], name="e"),
        node(
            "QuantizeLinear", ["x", "scale"], ["quantised"], axis=0, output_dtype=TensorProto.INT4
        ),
    ]
    inputs, outputs = list(infos.values())[:3], list(infos.values())[3:]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    path = tmp_path / "four.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]), path)

    program = tc.frontends.from_file(path)
    assert tc.validate(program) == []
    assert {program.main.tensors[name].dtype.name for name in ("w", "wrapped")} == {"INT8"}

    x = np.array([[-9, -8, -1, 0], [1, 7, 8, 9], [15, 16, 23, -17]], np.float32)
    w = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    scale = np.array([1, 2, 0.5], np.float32)
    found = tc.run(program, {"x": x, "w": w, "scale": scale}).outputs
    wrapped = (x.astype(np.int32) + 8) % 16 - 8
    expected = {
        "wrapped": wrapped,
        "unsigned": x.astype(np.int32) % 16,
        "like": wrapped,
        "real": w.astype(np.float32),
        "same": w,
        "two": (x.astype(np.int32) + 2) % 4 - 2,
        "quantised": np.clip(np.rint(x / scale[:, None]), -8, 7),
    }
    assert set(found) == set(expected)
    for name, numbers in expected.items():
        np.testing.assert_array_equal(found[name].astype(np.float32), numbers, err_msg=name)


def test_weights_that_are_dequantised_stay_integers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], name="a"),
        node("DequantizeLinear", ["q", "s", "z"], ["d"], name="b"),
        node("DequantizeLinear", ["w", "ws", "wz"], ["v"], name="c", axis=0),
        node("Conv", ["d", "v"], ["c"], name="d"),
        node("QuantizeLinear", ["c", "t", "z"], ["r"], name="e"),
        node("DequantizeLinear", ["r", "t", "z"], ["y"], name="f"),
    ]
    weights = {
        "w": random.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": random.uniform(0.001, 0.01, 4).astype(np.float32),
        "wz": np.zeros(4, np.int8),
        "s": np.float32(0.02),
        "t": np.float32(0.05),
        "z": np.int8(3),
    }
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, [1, 3, 6, 6])}, ["y"], arrays)
    for exact, element in ((False, "INT32"), (True, "FP32")):
        block = tc.frontends.from_onnx(path, exact=exact).main
        (sums,) = [op for op in block.operators if op.spec.name == "CONV2D"]
        assert block.tensors[sums.outputs[0]].dtype.name == element


def test_a_reshape_between_quantised_tensors_moves_integers(tmp_path: Path) -> None:
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["d"], name="a"),
        node("Reshape", ["d", "shape"], ["r"], name="b"),
        node("QuantizeLinear", ["r", "s", "z"], ["y"], name="c"),
    ]
    weights = {"s": np.float32(0.02), "z": np.int8(3), "shape": np.array([2, 12])}
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.int8, [4, 6])}, ["y"], arrays)
    kinds = [op.spec.name for op in tc.frontends.from_onnx(path).main.operators]
    assert kinds == ["CONST_SHAPE", "RESHAPE"]


@pytest.mark.parametrize("exact", [False, True])
def test_bytes_that_are_quantised_again_are_looked_up(tmp_path: Path, exact: bool) -> None:
    import onnxruntime

    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["d"], name="a"),
        node("QuantizeLinear", ["d", "t", "w"], ["y"], name="b"),
    ]
    weights = {"s": np.float32(0.05), "z": np.uint8(3), "t": np.float32(0.02), "w": np.int8(7)}
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.uint8, [256])}, ["y"], arrays)
    graph = tc.frontends.from_onnx(path, exact=exact)
    assert [op.spec.name for op in graph.main.operators] == ["CONST", "TABLE"]
    x = np.arange(256, dtype=np.uint8)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    found = tc.run(graph, {"x": x.view(np.int8)}, engine="numpy").outputs["y"]
    np.testing.assert_array_equal(found, expected)
