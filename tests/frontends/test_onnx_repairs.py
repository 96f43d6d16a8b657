"""ONNX operators that torch-mlir lowers to wrong numbers or not at all, against onnxruntime."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.test_onnx import one

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("onnx", "onnxruntime", "torch_mlir")),
    reason="onnx, onnxruntime or torch-mlir is not installed",
)


def judge(folder: Path, kind: str, x: Any, *constants: Any, **attributes: Any) -> None:
    """Compare one operator with onnxruntime, which runs the file that `one` wrote."""
    import onnxruntime

    found = one(folder, kind, x, *constants, **attributes)
    session = onnxruntime.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    expected: Any = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, strict=True)


def values(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
@pytest.mark.parametrize(("shape", "size"), [((1, 18, 4, 5), 3), ((2, 8, 3, 3), 2)])
def test_channels_become_pixels(
    tmp_path: Path, mode: str, shape: tuple[int, ...], size: int
) -> None:
    judge(tmp_path, "DepthToSpace", values(*shape), mode=mode, blocksize=size)


@pytest.mark.parametrize("axes", [[0], [1, 2], [-1], None])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_norm_lowers_over_any_axes(tmp_path: Path, axes: list[int] | None, keepdims: int) -> None:
    given = [] if axes is None else [np.array(axes, np.int64)]
    judge(tmp_path, "ReduceL2", values(2, 3, 4), *given, keepdims=keepdims)


@pytest.mark.parametrize("positions", ["half_pixel", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("given", ["sizes", "scales"])
def test_a_linear_enlargement_lowers_by_sizes_and_by_scales(
    tmp_path: Path, positions: str, given: str
) -> None:
    scales = None if given == "sizes" else np.array([1, 1, 5, 3], np.float32)
    sizes = [np.array([1, 2, 15, 12], np.int64)] if given == "sizes" else []
    attributes = {"mode": "linear", "coordinate_transformation_mode": positions}
    judge(tmp_path, "Resize", values(1, 2, 3, 4), None, scales, *sizes, **attributes)


def test_a_loop_without_iterations_stays_if_its_rows_are_used(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    decompose = importlib.import_module("tosa_convert.frontends.onnx.decompose").decompose
    weights = importlib.import_module("tosa_convert.frontends.onnx.weights").Weights(tmp_path)
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    goes_on = helper.make_tensor_value_info("goes_on", TensorProto.BOOL, [])
    same = helper.make_tensor_value_info("same", TensorProto.BOOL, [])
    row = helper.make_tensor_value_info("row", TensorProto.INT64, [])
    nodes = [
        helper.make_node("Identity", ["goes_on"], ["same"]),
        helper.make_node("Identity", ["number"], ["row"]),
    ]
    body = helper.make_graph(nodes, "body", [number, goes_on], [same, row])
    loop = helper.make_node("Loop", ["count", ""], ["rows"], body=body)
    rows = helper.make_tensor_value_info("rows", TensorProto.INT64, None)
    count = numpy_helper.from_array(np.array(0, np.int64), "count")
    graph = helper.make_graph([loop], "main", [], [rows], initializer=[count])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    decomposed, _ = decompose(model, weights)
    assert [node.op_type for node in decomposed.graph.node] == ["Loop"]
