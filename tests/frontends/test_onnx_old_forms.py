"""Operators whose meaning changed with ONNX's operator sets, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.run_parts import run_parts

from tosa_convert.cli.main import run, verb

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")

#: The opset of Resize -> whether it has an input for regions of interest.
_HAS_ROI = {10: False, 13: True}


def resized(path: Path, kind: str, opset: int, mode: str, shape: Any, scales: Any) -> Path:
    """Write a model of one operator that resizes."""
    helper = onnx.helper
    given: dict[str, Any] = {"mode": mode}
    inputs, constants = ["x", "scales"], [np.array(scales, np.float32)]
    if opset < 9:
        given["scales"], inputs, constants = list(map(float, scales)), ["x"], []
    if _HAS_ROI.get(opset):
        inputs.insert(1, "")
    node = helper.make_node(kind, inputs, ["y"], name="resize", **given)
    return saved(path, opset, [node], shape, constants)


def saved(path: Path, opset: int, nodes: Sequence[Any], shape: Any, constants: Any) -> Path:
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.FLOAT, None)
    tensors = [onnx.numpy_helper.from_array(array, "scales") for array in constants]
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=5), path)
    return path


def by_runtime(path: Path, **inputs: Any) -> Any:
    (found,) = all_by_runtime(path, **inputs)
    return found


def all_by_runtime(path: Path, **inputs: Any) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def numbers(shape: Sequence[int]) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("scales", [(1, 1, 1.5, 2.3), (1, 1, 0.6, 0.7), (1, 1, 1.5, 0.7)])
def test_positions_survive_that_the_operators_of_a_model_are_converted_to_newer_ones(
    tmp_path: Path, scales: Any
) -> None:
    """RoiAlign does not lower, so that the model is converted before operators are cut out of it."""
    helper = onnx.helper
    region = onnx.numpy_helper.from_array(np.array([[0, 0, 5, 5]], np.float32))
    nodes = [
        helper.make_node("Constant", [], ["rois"], value=region),
        helper.make_node(
            "Constant", [], ["batch"], value=onnx.numpy_helper.from_array(np.zeros(1, np.int64))
        ),
        helper.make_node(
            "RoiAlign", ["x", "rois", "batch"], ["part"], output_height=4, output_width=10
        ),
        helper.make_node("Resize", ["part", "scales"], ["y"], mode="nearest"),
    ]
    path = saved(tmp_path / "m.onnx", 10, nodes, (1, 2, 6, 7), [np.array(scales, np.float32)])
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "m.tosa"), "--partial"]) == 0
    part = numbers((1, 2, 4, 10))
    alone = resized(tmp_path / "alone.onnx", "Resize", 10, "nearest", part.shape, scales)

    def operator(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
        if "RoiAlign" in name:
            return [part]
        if "Unsqueeze" in name:
            return [np.expand_dims(arguments[0], tuple(arguments[1]))]
        assert "Concat" in name
        return [np.concatenate(arguments, attributes["axis"])]

    (found,) = run_parts(tmp_path / "m.json", {"x": numbers((1, 2, 6, 7))}, operator)
    np.testing.assert_array_equal(found, by_runtime(alone, x=part))


# -- reductions ----------------------------------------------------------------------------------
