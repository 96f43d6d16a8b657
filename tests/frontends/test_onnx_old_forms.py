"""Operators whose meaning changed with ONNX's operator sets, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.run_parts import run_parts

import tosa_convert as tc
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


#: Growing by whole numbers and others, shrinking, and both. 10 * 2.3 is 23 in FP32 and less in FP64.
SIZES = [
    ((1, 2, 4, 5), (1, 1, 2, 3)),
    ((1, 2, 4, 10), (1, 1, 1.5, 2.3)),
    ((1, 2, 7, 10), (1, 1, 0.3, 0.7)),
    ((1, 2, 8, 9), (1, 1, 2, 0.7)),
    ((1, 1, 3, 3, 3), (1, 1, 2, 2, 2)),
]
FORMS = [("Resize", 10), ("Resize", 13), ("Upsample", 9), ("Upsample", 7)]


@pytest.mark.parametrize(("shape", "scales"), SIZES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("kind", "opset"), FORMS)
def test_each_form_has_the_positions_of_its_version(
    tmp_path: Path, kind: str, opset: int, mode: str, shape: Any, scales: Any
) -> None:
    if kind == "Upsample" and min(scales) < 1:
        pytest.skip("Upsample only grows")
    path = resized(tmp_path / "m.onnx", kind, opset, mode, shape, scales)
    x = numbers(shape)
    expected = by_runtime(path, x=x)
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


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

REDUCTIONS = [
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
]
#: Attributes and the operand with the axes; [] is a constant without elements, None leaves it out.
FORMS_OF_AXES = [
    ({}, None),
    ({"keepdims": 0}, []),
    ({"noop_with_empty_axes": 1}, None),
    ({"noop_with_empty_axes": 1, "keepdims": 0}, []),
    ({"noop_with_empty_axes": 0}, []),
    ({"noop_with_empty_axes": 1, "keepdims": 0}, [-1, 0]),
]


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("element", [np.float32, np.int32])
def test_a_reduction_without_axes_is_one_over_all_or_over_none(
    tmp_path: Path, kind: str, element: Any
) -> None:
    """All forms are nodes of one model, whose outputs are named after them."""
    if kind.startswith("ReduceLog") and element is np.int32:
        pytest.skip("onnxruntime has no such kernel")
    helper, since = onnx.helper, 13 if kind == "ReduceSum" else 18
    number = helper.np_dtype_to_tensor_dtype(np.dtype(element))
    nodes, axes = [], []
    for index, (attributes, given) in enumerate(FORMS_OF_AXES):
        inputs = ["x"] if given is None else ["x", f"axes{index}"]
        if given is not None:
            axes.append(onnx.numpy_helper.from_array(np.array(given, np.int64), inputs[1]))
        nodes.append(helper.make_node(kind, inputs, [f"y{index}"], **attributes))
    ports = [
        helper.make_tensor_value_info(name, number, (2, 3, 4) if name == "x" else None)
        for name in ("x", *(node.output[0] for node in nodes))
    ]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], axes)
    path = tmp_path / "m.onnx"
    opsets = [helper.make_opsetid("", since)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    x = np.random.default_rng(0).uniform(1, 3, (2, 3, 4)).astype(element)
    expected = all_by_runtime(path, x=x)
    if element is np.int32 and kind == "ReduceL2":
        with pytest.raises(tc.TosaConvertError, match=f"onnx.{kind} .*has no lowering"):
            tc.frontends.from_onnx(path)
        return
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs
    assert found.keys() == {f"y{index}" for index in range(len(nodes))}
    for want, got in zip(expected, found.values(), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4)
